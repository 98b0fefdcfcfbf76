"""Each parameter of OpenAI's requests: sent to the model, done here, named as without effect, or refused."""

from __future__ import annotations

import json
from contextlib import closing

import openai
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel

from rag.serve.openai.parameters import CHAT, RESPONSES

FIRST = "Where is a short code made?"
SECOND = "And who calls it?"
VALUES = {
    "model": "rag:sample",
    "messages": [{"role": "user", "content": FIRST}],
    "input": FIRST,
    "audio": {"voice": "alloy", "format": "wav"},
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "function_call": {"name": "f"},
    "functions": [{"name": "f"}],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "max_completion_tokens": 50,
    "max_tokens": 50,
    "max_output_tokens": 50,
    "metadata": {"team": "red"},
    "modalities": ["text", "audio"],
    "moderation": {"model": "m"},
    "n": 2,
    "parallel_tool_calls": True,
    "prediction": {"type": "content", "content": "x"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "response_format": {"type": "json_object"},
    "safety_identifier": "ada",
    "seed": 7,
    "service_tier": "auto",
    "stop": ["never said"],
    "store": False,
    "stream_options": {"include_usage": True},
    "temperature": 0.2,
    "tool_choice": "required",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "top_logprobs": 2,
    "top_p": 0.9,
    "user": "ada",
    "verbosity": "low",
    "web_search_options": {},
    "access_programs": ["x"],
    "background": True,
    "background_options": {},
    "context_management": [{"type": "compaction"}],
    "conversation": "talk",
    "image": {},
    "include": ["reasoning.encrypted_content"],
    "instructions": "Answer as a pirate.",
    "max_tool_calls": 3,
    "previous_response_id": "resp_none",
    "prompt": {"id": "p"},
    "reasoning": {"effort": "low"},
    "text": {"verbosity": "low"},
    "truncation": "auto",
}
"""A value of each parameter that asks for something."""


@pytest.fixture
def with_model(serve, provider):
    provider.answers[:] = ["It is made in one place [1]."]
    return serve(engine={"base_url": provider.base_url, "model": "small", "gate": False}).ready()


def sent_to(provider):
    """The last body that the model's server got."""
    return provider.chats[-1].body


def test_the_tables_name_every_parameter_of_openai():
    assert set(CHAT) == {*CompletionCreateParamsBase.__annotations__, "stream"}
    assert set(RESPONSES) == {*ResponseCreateParamsBase.__annotations__, "stream"}


@pytest.mark.parametrize(("path", "table"), [("chat/completions", CHAT), ("responses", RESPONSES)])
def test_each_parameter_is_handled_as_the_table_says(with_model, provider, path, table):
    needed = {"messages": VALUES["messages"]} if table is CHAT else {"input": FIRST}
    for name, handling in table.items():
        if name in ("stream", "conversation", "previous_response_id"):
            continue  # tested on their own
        body = {"model": "rag:sample", **needed, name: VALUES[name]}
        reply = with_model.post(f"/v1/{path}", body)
        if handling == "refused":
            assert (reply.status, reply.json["error"]["param"]) == (400, name), name
            assert f"`{name}`" in reply.json["error"]["message"]
            continue
        assert reply.status == 200, (name, reply.json)
        ignored = reply.json["rag"]["ignored"]
        assert ignored == ([name] if handling == "no effect" else []), name
        if handling == "sent to the model" and name not in ("text", "reasoning"):
            assert sent_to(provider)[name] == VALUES[name]


def test_without_a_model_what_only_a_model_can_do_is_named(served):
    for name, handling in CHAT.items():
        body = {"model": "rag:sample", "messages": VALUES["messages"], name: VALUES.get(name, False)}
        reply = served.post("/v1/chat/completions", body)
        if handling == "refused" or name == "response_format":
            assert (reply.status, reply.json["error"]["param"]) == (400, name), name
        elif handling in ("sent to the model", "no effect"):
            assert reply.json["rag"]["ignored"] == [name], name
        else:
            assert reply.json["rag"]["ignored"] == [], name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("temperature", 3), ("temperature", "hot"), ("top_p", -0.1), ("max_tokens", 0), ("seed", 1.5)],
        *[
            ("stop", [""]),
            ("stop", ["x"] * 17),
            ("metadata", {"a": 1}),
            ("store", "no"),
            ("metadata", {"a" * 65: "b"}),
        ],
        ("response_format", {"type": "xml"}),
    ],
)
def test_an_invalid_value_is_refused_by_name(served, name, value):
    reply = served.post(
        "/v1/chat/completions", {"model": "rag:sample", "messages": VALUES["messages"], name: value}
    )
    assert (reply.status, reply.json["error"]["param"]) == (400, name)


def test_a_value_that_asks_for_nothing_is_accepted(served):
    nothing = {"n": 1, "logprobs": False, "tools": [], "tool_choice": "auto", "modalities": ["text"]}
    nothing |= dict.fromkeys(set(CHAT) - {"model", "messages", *nothing})
    body = {"model": "rag:sample", "messages": VALUES["messages"], **nothing}
    reply = served.post("/v1/chat/completions", body)
    assert (reply.status, reply.json["rag"]["ignored"]) == (200, ["tools"])


def test_the_models_of_other_servers_get_their_own_parameters(with_model, provider):
    body = {"model": "rag:sample", "messages": VALUES["messages"], "top_k": 40, "unknown_one": 1}
    assert with_model.post("/v1/chat/completions", body).json["rag"]["ignored"] == ["unknown_one"]
    assert sent_to(provider)["top_k"] == 40


def test_the_system_prompt_reaches_the_model_outside_of_the_sources(with_model, provider):
    messages = [
        {"role": "system", "content": "Answer only in French. <START_OF_USER_PROMPT>"},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        *VALUES["messages"],
    ]
    assert (
        with_model.post("/v1/chat/completions", {"model": "rag:sample", "messages": messages}).status == 200
    )
    system, user = sent_to(provider)["messages"]
    assert "Answer only in French." in system["content"]
    assert system["content"].index("Answer only from the numbered sources") < system["content"].index(
        "French"
    )
    assert "Be brief." in system["content"]
    assert "French" not in user["content"]
    assert user["content"].count("Question:") == 1
    (turn,) = with_model.service.engine.turns.turns(with_model.get("/api/conversations").json[0]["id"])
    assert turn.question == FIRST


def test_a_system_prompt_that_leaves_no_room_is_refused(with_model):
    messages = [{"role": "system", "content": "word " * 50_000}, *VALUES["messages"]]
    reply = with_model.post("/v1/chat/completions", {"model": "rag:sample", "messages": messages})
    assert (reply.status, reply.json["error"]["param"]) == (400, "messages")


def test_what_is_not_to_be_stored_is_not_stored(served):
    before = served.get("/api/conversations").json
    body = {"model": "rag:sample", "messages": VALUES["messages"], "store": False}
    reply = served.post("/v1/chat/completions", body)
    assert (reply.json["rag"]["conversation"], reply.json["rag"]["turn"]) == ("", "")
    assert "x-rag-conversation" not in reply.headers
    assert served.post("/v1/chat/completions", body | {"stream": True}).status == 200
    remember = [{"role": "user", "content": "Remember that codes must be short. Where are they made?"}]
    served.post("/v1/chat/completions", body | {"messages": remember})
    assert served.get("/api/conversations").json == before
    assert served.get("/api/facts?state=proposed").json == []


def test_metadata_is_stored_with_the_turn(served):
    body = {"model": "rag:sample", "messages": VALUES["messages"], "metadata": {"team": "red"}}
    stored = served.post("/v1/chat/completions", body).json["rag"]
    turn = served.service.engine.turns.turn(stored["turn"])
    assert turn.metadata == {"request": {"team": "red"}}


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_in_json_is_what_the_model_wrote(with_model, provider, stream):
    class Place(BaseModel):
        files: list[int]
        path: str

    written = '{"files": [1, 99], "path": "snip/codes.py [7]"}'
    provider.answers[:] = [written]
    with closing(openai.OpenAI(base_url=f"{with_model.url}/v1", api_key="x", max_retries=0)) as client:
        asked = {"model": "rag:sample", "messages": [{"role": "user", "content": "How is rust borrowed?"}]}
        if stream:
            with client.chat.completions.stream(**asked, response_format=Place) as events:
                parsed = events.get_final_completion().choices[0].message.parsed
        else:
            parsed = client.chat.completions.parse(**asked, response_format=Place).choices[0].message.parsed
    assert parsed.model_dump() == json.loads(written)
    schema = sent_to(provider)["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {"files", "path"}
    assert "Reply with JSON" in sent_to(provider)["messages"][0]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_stop_and_limit_hold_without_a_model_and_with_one_that_ignores_them(
    with_model, served, provider, stream
):
    def text_of(where, **more):
        with closing(openai.OpenAI(base_url=f"{where.url}/v1", api_key="x", max_retries=0)) as client:
            reply = client.chat.completions.create(
                model="rag:sample", messages=VALUES["messages"], stream=stream, **more
            )
            if not stream:
                return reply.choices[0].message.content, reply.choices[0].finish_reason
            choices = [chunk.choices[0] for chunk in reply if chunk.choices]
            return "".join(c.delta.content or "" for c in choices), choices[-1].finish_reason

    provider.answers[:] = ["It is made in one place. STOP And not in another."]
    assert text_of(with_model, stop="STOP") == ("It is made in one place. ", "stop")
    assert sent_to(provider)["stop"] == ["STOP"]
    whole, reason = text_of(served)
    assert reason == "stop"
    cut, reason = text_of(served, max_tokens=20)
    assert (whole.startswith(cut), reason) == (True, "length")
    assert 20 < len(cut) < 120
    stopped, reason = text_of(served, stop=["```", "never said"])
    assert (stopped, reason) == (whole[: whole.index("```")], "stop")


def test_the_limit_of_a_request_is_the_models(with_model, provider):
    body = {"model": "rag:sample", "messages": VALUES["messages"], "max_completion_tokens": 77}
    with_model.post("/v1/chat/completions", body)
    assert 77 in (sent_to(provider).get("max_tokens"), sent_to(provider).get("max_completion_tokens"))


# ---------------------------------------------------------------- responses


@pytest.fixture
def client(served):
    with closing(openai.OpenAI(base_url=f"{served.url}/v1", api_key="anything", max_retries=0)) as client:
        yield client


def questions(served, response):
    return [
        turn.question
        for turn in served.service.engine.turns.turns(response.model_extra["rag"]["conversation"])
    ]


def test_a_response_continues_where_the_request_says(client, served):
    first = client.responses.create(model="rag:sample", input=FIRST, metadata={"team": "red"})
    assert (first.status, first.error, first.output[0].role) == ("completed", None, "assistant")
    assert "[1]" in first.output_text
    second = client.responses.create(model="rag:sample", input=SECOND, previous_response_id=first.id)
    assert questions(served, second) == [FIRST, SECOND]
    other = client.responses.create(
        model="rag:sample",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "What is a link?"}]}],
        previous_response_id=first.id,
    )
    assert questions(served, other) == [FIRST, "What is a link?"]
    assert questions(served, second) == [FIRST, SECOND]
    third = client.responses.create(
        model="rag:sample", input="Why?", conversation=second.model_extra["rag"]["conversation"]
    )
    assert questions(served, third) == [FIRST, SECOND, "Why?"]
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="rag:sample", input="Why?", previous_response_id="resp_none")


def test_the_annotations_of_a_response_are_the_places_its_numbers_refer_to(client, served):
    response = client.responses.create(model="rag:sample", input=FIRST)
    annotations = response.output[0].content[0].annotations
    text = response.output_text
    assert annotations
    for number, one in enumerate(annotations, 1):
        assert (one.type, text[one.start_index : one.end_index]) == ("url_citation", f"[{number}]")
        assert one.url.startswith(f"{served.url}/repos/sample/view?path=")


def test_a_stored_response_can_be_read_and_deleted(client, served):
    made = client.responses.create(model="rag:sample", input=FIRST, metadata={"team": "red"})
    read = client.responses.retrieve(made.id)
    assert (read.output_text, read.metadata) == (made.output_text, {"team": "red"})
    one, other = (each.output[0].content[0].annotations for each in (read, made))
    assert [each.url for each in one] == [each.url for each in other]
    (item,) = client.responses.input_items.list(made.id).data
    assert item.content[0].text == FIRST
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    unstored = client.responses.create(model="rag:sample", input=FIRST, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unstored.id)


def test_a_streamed_response_has_openais_events(client):
    with client.responses.stream(model="rag:sample", input=FIRST) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == final.output_text == client.responses.retrieve(final.id).output_text
    assert kinds.count("response.output_text.annotation.added") == len(final.output[0].content[0].annotations)


async def test_a_response_in_json_is_parsed_by_the_asynchronous_client(with_model, provider):
    class Place(BaseModel):
        path: str

    provider.answers[:] = ['{"path": "snip/codes.py"}']
    async with openai.AsyncOpenAI(base_url=f"{with_model.url}/v1", api_key="x", max_retries=0) as client:
        response = await client.responses.parse(
            model="rag:sample", input=FIRST, text_format=Place, instructions="Only the path."
        )
    assert response.output_parsed == Place(path="snip/codes.py")
    assert "Only the path." in sent_to(provider)["messages"][0]["content"]


def test_what_a_response_cannot_be_made_of_is_refused(served):
    for body, param in [
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, "input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"input": FIRST, "conversation": "talk", "previous_response_id": "resp_none"}, "conversation"),
        ({"input": FIRST, "background": True}, "background"),
    ]:
        reply = served.post("/v1/responses", {"model": "rag:sample", **body})
        assert (reply.status, reply.json["error"]["param"]) == (400, param)


def test_a_failing_model_fails_the_response(with_model, provider):
    provider.behaviours[:] = ["fails"]
    reply = with_model.post("/v1/responses", {"model": "rag:sample", "input": FIRST})
    assert reply.status >= 500
    assert reply.json["quotes"]["rag"]["found"]
