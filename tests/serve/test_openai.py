"""/v1 as the official client sees it."""

from __future__ import annotations

import re
import time
import uuid
from contextlib import closing

import openai
import pytest

from rag.serve.openai.messages import done_without_model, read_messages
from rag.serve.openai.thread_matching import chain
from rag.types import Source

FIRST = "Where is a short code made?"
SECOND = "And who calls it?"


@pytest.fixture
def client(served):
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        yield client


def ask(client, *said, **more):
    """Ask with a history of alternating questions and answers."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(said)]
    return client.chat.completions.create(model="rag:sample", messages=messages, **more)


def turns_of(served, answer):
    more = answer.model_extra["rag"]
    return [turn.question for turn in served.service.engine.turns.turns(more["conversation"])]


def test_models_are_the_repositories(client):
    assert [model.id for model in client.models.list()] == ["rag:sample"]
    assert client.models.retrieve("rag:sample").owned_by == "rag"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("rag:other")
    assert caught.value.body["code"] == "repository_not_found"


def test_a_thousand_models_are_listed_at_once_or_in_pages(serve, tmp_path):
    named = tuple((f"r{number:04}", Source(str(tmp_path / f"r{number}"))) for number in range(1_000))
    running = serve(repositories=named)
    ids = [*(f"rag:{name}" for name, _ in named), "rag:@all"]
    began = time.process_time()  # the server is in this process
    reply = running.get("/v1/models").json
    assert time.process_time() - began < 2
    assert [model["id"] for model in reply["data"]] == ids
    assert (reply["has_more"], reply["first_id"], reply["last_id"]) == (False, ids[0], ids[-1])
    after, seen = "", []
    while True:
        reply = running.get(f"/v1/models?limit=150{after}").json
        assert len(reply["data"]) <= 150
        seen += [model["id"] for model in reply["data"]]
        if not reply["has_more"]:
            break
        after = f"&after={reply['last_id']}"
    assert seen == ids
    reply = running.get(f"/v1/models?after={ids[-1]}").json
    assert (reply["data"], reply["has_more"], reply["last_id"]) == ([], False, None)
    wrong = ("limit=0", "limit=201", "after=rag:no")
    assert [running.get(f"/v1/models?{one}").status for one in wrong] == [400] * 3


def test_an_answer_cites_lines_by_url(client, served):
    answer = ask(client, FIRST)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion"
    assert "[1]" in message.content
    cited = message.annotations[0].url_citation
    assert message.content[cited.start_index : cited.end_index] == "[1]"
    path, _, lines = cited.title.partition(":")
    start, _, end = lines.partition("-")
    assert cited.url == f"{served.url}/repos/sample/view?path={path}#L{start}-L{end}"
    assert turns_of(served, answer) == [FIRST]


def test_a_stream_comes_in_the_order_clients_expect(client):
    chunks = list(ask(client, FIRST, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks[:-1]]
    assert choices[0].delta.role == "assistant"
    assert all(choice.delta.content for choice in choices[1:-2])
    assert choices[-2].delta.model_extra["annotations"][0]["type"] == "url_citation"
    assert choices[-1].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    whole = ask(client, FIRST)
    assert "".join(c.delta.content or "" for c in choices) == whole.choices[0].message.content


def test_a_stream_without_usage_has_no_chunk_of_it(client, served):
    chunks = list(ask(client, FIRST, stream=True))
    assert all(chunk.choices for chunk in chunks)
    raw = served.post(
        "/v1/chat/completions",
        {"model": "rag:sample", "stream": True, "messages": [{"role": "user", "content": FIRST}]},
    )
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.events[-1] == "[DONE]"


async def test_the_asynchronous_client_streams(served):
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="x", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="rag:sample", messages=[{"role": "user", "content": FIRST}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        answer = await client.chat.completions.create(
            model="rag:sample", messages=[{"role": "user", "content": FIRST}]
        )
    assert text == answer.choices[0].message.content


def test_parts_and_unknown_fields_are_accepted(client):
    answer = client.chat.completions.create(
        model="rag:sample",
        messages=[
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": FIRST}]},
        ],
        temperature=0.3,
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        metadata={"a": "b"},
        extra_body={"chat_template_kwargs": {"x": 1}},
    )
    assert "[1]" in answer.choices[0].message.content
    ignored = ["chat_template_kwargs", "instructions", "temperature", "tools"]  # there is no model
    assert answer.model_extra["rag"]["ignored"] == ignored


def test_the_history_goes_on_with_the_conversation(client, served):
    first = ask(client, FIRST)
    heard = first.choices[0].message.content
    second = ask(client, FIRST, heard, SECOND)
    assert second.model_extra["rag"]["conversation"] == first.model_extra["rag"]["conversation"]
    assert turns_of(served, second) == [FIRST, SECOND]
    third = ask(client, FIRST, f"  {heard}\n", SECOND, second.choices[0].message.content, "Why?")
    assert turns_of(served, third) == [FIRST, SECOND, "Why?"]


def test_a_first_question_always_begins_a_conversation(client):
    again = [ask(client, FIRST).model_extra["rag"]["conversation"] for _ in range(2)]
    assert again[0] != again[1]


def test_a_turn_is_never_stored_twice(client, served):
    heard = ask(client, FIRST).choices[0].message.content
    once = ask(client, FIRST, heard, SECOND)
    again = ask(client, FIRST, heard, SECOND)
    assert again.model_extra["rag"]["turn"] == once.model_extra["rag"]["turn"]
    assert turns_of(served, once) == [FIRST, SECOND]


def test_an_edited_history_is_a_fork(client, served):
    first = ask(client, FIRST)
    heard = first.choices[0].message.content
    second = ask(client, FIRST, heard, SECOND)
    other = ask(client, FIRST, heard, "What is a link?")
    assert turns_of(served, other) == [FIRST, "What is a link?"]
    assert turns_of(served, second) == [FIRST, SECOND]
    edited = ask(client, FIRST, heard, "Another word?", "An answer from elsewhere", "Why?")
    assert turns_of(served, edited) == [FIRST, "Why?"]
    assert turns_of(served, second) == [FIRST, SECOND]


def test_questions_that_differ_in_a_sign_are_two_conversations(serve, provider):
    provider.answers[:] = ["It is done there [1]."]
    served = serve(engine={"base_url": provider.base_url, "model": "small", "gate": False}).ready()
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        questions = ["Where is a count > 0 checked?", "Where is a count < 0 checked?"]
        heard = [ask(client, question).choices[0].message.content for question in questions]
        assert heard[0] == heard[1]
        for question in questions:
            assert turns_of(served, ask(client, question, heard[0], SECOND)) == [question, SECOND]
        edited = ask(client, questions[0], heard[0].replace(".", "!"), "Why?")
        assert turns_of(served, edited) == ["Why?"]
        assert len(served.service.engine.turns.conversations()) == 3


def test_blanks_do_not_make_another_history():
    said = [("Where is é\tchecked?\n", "Here:\r\n\r\n    x = 1  \n")]
    alike = [("  Where is e\u0301 checked?", "Here:\n\nx\u00a0= 1\ufeff\u200b")]
    assert chain("s", said) == chain("s", alike)
    for other in ([("Where is é checked", said[0][1])], [(said[0][0], "Here: x == 1")], [("a", "b")]):
        assert chain("s", said)[1] != chain("s", other)[1]
    assert chain("s", [("a\0b", "c")])[1] != chain("s", [("a", "b\0c")])[1]
    assert chain("s", [("a", "b"), ("c", "d")])[1] == chain("s", [("a", "b")])[1]
    assert chain("s", said)[0] != chain("t", said)[0]


def test_exchanges_of_the_client_alone_are_context_and_no_turns(client, served):
    examples = ("Where is `authenticate`?", "In auth.py.")
    answer = ask(client, *examples, "And who calls it?")
    assert turns_of(served, answer) == ["And who calls it?"]
    more = answer.model_extra["rag"]
    (turn,) = served.service.engine.turns.turns(more["conversation"])
    assert "authenticate" in turn.standalone_question
    heard = answer.choices[0].message.content
    second = ask(client, *examples, "And who calls it?", heard, FIRST)
    assert turns_of(served, second) == ["And who calls it?", FIRST]


def test_a_header_names_the_conversation(client, served):
    name = f"talk-{uuid.uuid4()}"
    headers = {"X-Rag-Conversation": name}
    first = ask(client, FIRST, extra_headers=headers)
    second = ask(client, SECOND, extra_headers=headers)
    assert turns_of(served, second) == [FIRST, SECOND]
    heard = [answer.choices[0].message.content for answer in (first, second)]
    third = ask(client, FIRST, heard[0], SECOND, heard[1], "Why?", extra_headers=headers)
    assert turns_of(served, third) == [FIRST, SECOND, "Why?"]
    assert served.service.engine.turns.conversation(name).turn_count == 3


def test_a_chat_pages_id_names_the_conversation_and_an_edit_in_it_forks(client, served):
    headers = {"X-OpenWebUI-Chat-Id": f"chat-{uuid.uuid4()}"}
    first = ask(client, FIRST, extra_headers=headers)
    heard = first.choices[0].message.content
    second = ask(client, FIRST, heard, SECOND, extra_headers=headers)
    assert turns_of(served, second) == [FIRST, SECOND]
    changed = ask(client, "What is a link?", extra_headers=headers)
    assert turns_of(served, changed) == ["What is a link?"]
    after = ask(
        client,
        "What is a link?",
        changed.choices[0].message.content,
        SECOND,
        extra_headers=headers,
    )
    assert turns_of(served, after) == ["What is a link?", SECOND]
    assert turns_of(served, second) == [FIRST, SECOND]


def test_a_task_of_the_page_is_no_turn(client, served):
    before = len(served.service.engine.turns.conversations())
    task = '### Task:\nGenerate a title.\nJSON: { "title": "…" }\n<chat_history>\nUSER: Where is it made?\n'
    answer = ask(client, task)
    assert answer.choices[0].message.content == '{"title": "Where is it made?"}'
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, task, stream=True))
    assert streamed == answer.choices[0].message.content
    assert len(served.service.engine.turns.conversations()) == before


def test_embeddings_are_the_embedders(client, served):
    reply = client.embeddings.create(model="rag", input=["a short link", "token"])
    wanted = served.service.engine.embedder.embed(["a short link", "token"], role="passage")
    assert [row.embedding for row in reply.data] == [pytest.approx(row.tolist()) for row in wanted]
    floats = client.embeddings.create(model="rag", input="token", encoding_format="float")
    assert floats.data[0].embedding == pytest.approx(wanted[1].tolist())
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="rag", input="token", dimensions=7)


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], 400),
        ([{"role": "user", "content": ""}], 400),
        ([{"role": "user", "content": None}], 400),
        ([{"role": "system", "content": "x"}], 400),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], 400),
        ("no list", 400),
        ([{"role": "user", "content": "x" * 20_000}], 413),
    ],
)
def test_what_means_nothing_is_an_error_in_openais_shape(served, messages, status):
    reply = served.post("/v1/chat/completions", {"model": "rag:sample", "messages": messages})
    assert reply.status == status
    assert set(reply.json["error"]) == {"message", "type", "code", "param", "request_id"}


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError, match="no repository of that name"):
        client.chat.completions.create(model="rag:nothing", messages=[{"role": "user", "content": "x"}])


# ---------------------------------------------------------------- reading messages


@pytest.mark.parametrize(
    "tail",
    [
        [("system", "Remember to be brief.")],
        [("user", "<system-reminder>You have 3 tools.</system-reminder>")],
        [("developer", "x"), ("user", "<system-reminder>a</system-reminder>\n")],
        [],
    ],
)
def test_what_frameworks_put_behind_is_not_the_question(tail):
    asked = read_messages([("user", "One?"), ("assistant", "Yes."), ("user", FIRST), *tail])
    assert asked.question == FIRST
    assert asked.history == (("One?", "Yes."),)


def test_a_reminder_inside_the_question_is_left_out():
    asked = read_messages([("user", f"{FIRST}\n<system-reminder>tools</system-reminder>")])
    assert asked.question == FIRST


def test_what_a_page_wants_without_a_model_is_json_it_can_read():
    assert done_without_model('### Task: … { "tags": ["a"] }') == '{"tags": []}'
    assert done_without_model("### Task: sing") == ""


# ---------------------------------------------------------------- links


def test_a_commit_that_holds_the_lines_is_linked_at_its_forge(serve, sample_repo, tmp_path):
    from conftest import git

    git(sample_repo, "remote", "add", "origin", "git@github.com:team/links.git")
    running = serve(repositories=(("links", Source(str(sample_repo.resolve()))),)).ready()
    commit = git(sample_repo, "rev-parse", "HEAD")
    body = {"model": "rag:links", "messages": [{"role": "user", "content": FIRST}]}
    cited = running.post("/v1/chat/completions", body).json["choices"][0]["message"]["annotations"][0]
    assert cited["url_citation"]["url"].startswith(f"https://github.com/team/links/blob/{commit}/")


def test_an_answer_that_the_model_cut_ends_by_length(serve, provider):
    provider.answers[:] = ["A short code is made by [1]"]
    provider.behaviours[:] = ["length"]
    served = serve(engine={"base_url": provider.base_url, "model": "small"}).ready()
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        assert ask(client, FIRST).choices[0].finish_reason == "length"
        reasons = [c.choices[0].finish_reason for c in ask(client, FIRST, stream=True) if c.choices]
        assert [reason for reason in reasons if reason] == ["length"]


def test_an_answer_cut_by_the_model_is_continued_as_it_was_streamed(serve, provider):
    provider.answers[:] = ["A short code is made by the store [1]. And it is th"]
    provider.behaviours[:] = ["length"]
    served = serve(engine={"base_url": provider.base_url, "model": "small"}).ready()
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        chunks = [c.choices[0].delta.content or "" for c in ask(client, FIRST, stream=True) if c.choices]
        second = ask(client, FIRST, "".join(chunks), SECOND)
    assert turns_of(served, second) == [FIRST, SECOND]


SAID = [
    (
        "Made in one place [3], checked in another [5][2].\n\n    x[3] = 1\n\n`b[4]` and [2-4], not [99].",
        [3, 5, 2, 4],
    ),
    ("See【6】 and [^1], [6, 1], then `` x[2] `` [3].", [6, 1, 3]),
    ("Nothing is numbered.", []),
]


@pytest.mark.parametrize(("said", "meant"), SAID)
@pytest.mark.parametrize("streamed", [False, True])
def test_the_nth_annotation_is_the_place_that_the_number_n_refers_to(serve, provider, said, meant, streamed):
    provider.answers[:] = [said]
    served = serve(engine={"base_url": provider.base_url, "model": "small", "steps": 0}).ready()
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        answer = ask(client, FIRST, stream=streamed)
        if streamed:
            deltas = [chunk.choices[0].delta for chunk in answer if chunk.choices]
            text = "".join(delta.content or "" for delta in deltas)
            (annotations,) = [m for d in deltas if (m := (d.model_extra or {}).get("annotations"))] or [[]]
        else:
            message = answer.choices[0].message
            text, annotations = message.content, [a.model_dump() for a in message.annotations]
    shown = placed_in_prompt(provider.requests[-1].prompt)
    cited = [a["url_citation"] for a in annotations]
    assert [c["title"] for c in cited] == [shown[n] for n in meant]
    for n, c in enumerate(cited, 1):
        assert str(n) in text[c["start_index"] : c["end_index"]].strip("[]").split(", ")
    # The stored turn, and so every other interface, says the same.
    (conversation,) = served.get("/api/conversations").json
    (turn,) = served.service.engine.turns.turns(conversation["id"])
    assert turn.answer == text
    assert [c.place for c in turn.citations if c.used] == [c["title"] for c in cited]
    assert [c.n for c in turn.citations] == list(range(1, len(turn.citations) + 1))


def placed_in_prompt(prompt):
    """The places of the sources by their numbers in a prompt."""
    return {int(n): place for n, place in re.findall(r"\[(\d+)\] `?([\w./-]+:\d+-\d+)", prompt)}


def test_a_question_is_about_what_the_request_names(client):
    answer = ask(client, "who calls it?", extra_body={"about": "Storage.user_by_token"})
    assert answer.model_extra["rag"]["subject"]["name"] == "Storage.user_by_token"
    with pytest.raises(openai.NotFoundError, match=r"similar names: .*user_by_token"):
        ask(client, "who calls it?", extra_body={"about": "user_by_tokn"})
