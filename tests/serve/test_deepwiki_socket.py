"""deepwiki-open's socket: one request in, text frames out, and an end however that comes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from live_server import serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "deepwiki"
FIRST = "Where is a short code made?"
ANSWER = "A short code is made in `encode_id` [1]."


@pytest.fixture(scope="module")
def deepwiki(tmp_path_factory, indexed_sample):
    home = tmp_path_factory.mktemp("deepwiki-socket")
    with serving(home, repositories=(("sample", indexed_sample.put_into(home)),), deepwiki=True) as running:
        yield running.ready()


@pytest.fixture
def modelled(serve, provider):
    """A server that answers with a model's service."""
    provider.answers[:] = [ANSWER]
    engine = {"base_url": provider.base_url, "model": "m", "api_key": "k"}
    return serve(engine=engine, deepwiki=True, grace_s=0.2).ready()


@contextmanager
def opened(served, **more):
    """A connection to the socket of a server."""
    url = f"ws://localhost:{served.port}/ws/chat"
    with connect(url, open_timeout=120, max_size=None, **more) as connection:
        yield connection


def root_of(served):
    return served.settings.repositories[0][1].location


def question(served, *said, **more):
    messages = [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(said)]
    return {"repo_url": root_of(served), "type": "local", "messages": messages, **more}


def answer(served, body):
    """All that is said."""
    with opened(served) as connection:
        connection.send(body if isinstance(body, str | bytes) else json.dumps(body))
        said = "".join(connection)
        assert connection.close_code == 1000
        assert "set-cookie" not in connection.response.headers
        return said


def recorded(served, name):
    text = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text.replace("{ROOT}", root_of(served)))


def asked_page(served, title, *files):
    body = recorded(served, "page")
    content = body["messages"][0]["content"].replace("{TITLE}", title)
    body["messages"][0]["content"] = content.replace("{FILES}", "\n".join(f"- [{p}]({p})" for p in files))
    return body


def turns(served):
    """The questions of each conversation."""
    store = served.service.engine.turns
    return sorted([turn.question for turn in store.turns(c.id)] for c in store.conversations())


# ---------------------------------------------------------------- what is said


def test_the_socket_says_what_the_stream_says(deepwiki):
    for name in ("plan", "question"):
        body = recorded(deepwiki, name)
        said = answer(deepwiki, body)
        assert said.replace("localhost", "127.0.0.1") == (
            deepwiki.post("/chat/completions/stream", body).body.decode()
        )


def test_an_answer_comes_in_pieces_of_text(deepwiki):
    with opened(deepwiki) as connection:
        connection.send(json.dumps(question(deepwiki, FIRST)))
        pieces = list(connection)
    assert len(pieces) > 2
    assert all(isinstance(piece, str) for piece in pieces)


def test_a_question_without_a_history_begins_a_conversation(deepwiki):
    """The frontend sends the same after "Clear conversation" as before: it keeps what was said to itself."""
    answer(deepwiki, recorded(deepwiki, "question"))
    before = turns(deepwiki)
    said = answer(deepwiki, recorded(deepwiki, "follow_up"))
    assert sorted(turns(deepwiki)) == sorted([*before, ["And who calls it?"]])
    store = deepwiki.service.engine.turns
    (turn,) = store.turns(store.conversations()[0].id)
    assert turn.subject is None
    assert "sign" not in said.split("\n")[0]


def test_a_question_with_its_history_goes_on(deepwiki):
    first = answer(deepwiki, question(deepwiki, "What is a click?"))
    answer(deepwiki, question(deepwiki, "What is a click?", first, "And who calls it?"))
    assert ["What is a click?", "And who calls it?"] in turns(deepwiki)


# ---------------------------------------------------------------- with a model


def test_a_research_goes_through_its_stages(modelled, provider):
    provider.answers[:] = [f"Finding {n} [1]." for n in range(1, 12)]
    said = ["[DEEP RESEARCH] How are codes made?"]
    headings = []
    for _ in range(5):
        text = answer(modelled, question(modelled, *said))
        headings.append(text.split("\n")[0])
        assert "**Sources**" in text
        said += [text, "[DEEP RESEARCH] Continue the research"]
    assert headings == [
        "## Research Plan",
        "## Research Update 2",
        "## Research Update 3",
        "## Research Update 4",
        "## Final Conclusion",
    ]
    (conversation,) = turns(modelled)
    assert len(conversation) == 5
    assert conversation[0] == "How are codes made?"
    assert all("How are codes made?" in asked for asked in conversation)


def test_a_model_writes_the_prose_of_a_page_once(modelled, provider):
    provider.answers[:] = ["It shortens <b>links</b> ![x](https://e.org/p) [1]. It flies [99]."]
    page = answer(modelled, asked_page(modelled, "Overview"))
    prose = page.partition("## From the code")[0]
    assert "It shortens &#60;b>links" in prose
    assert "[99]" not in prose
    assert f"(http://localhost:{modelled.port}/repos/sample/view?path=" in prose
    asked = len(provider.chats)
    again = answer(modelled, asked_page(modelled, "Overview"))
    assert (again, len(provider.chats)) == (page, asked)


def test_an_answer_in_another_language_is_asked_for(modelled, provider):
    answer(modelled, question(modelled, FIRST, language="kr"))
    assert '"ko"' in provider.chats[-1].prompt
    answer(modelled, question(modelled, FIRST, language="xx"))
    assert '"xx"' not in provider.chats[-1].prompt


def test_html_of_a_model_is_only_shown(modelled, provider):
    provider.answers[:] = [
        "<img src=x onerror=alert(1)> ![p](https://e.org/p)\n```mermaid\nclick A\n```\n[1]"
    ]
    said = answer(modelled, question(modelled, FIRST))
    assert "<img" not in said
    assert "![" not in said
    assert "mermaid" not in said


def test_slides_are_made_by_the_model_alone(modelled, provider):
    provider.answers[:] = ["<div>slide</div>"]
    prompt = "Create a single HTML slide about the local/sample repository. " + "x" * 50_000
    assert answer(modelled, question(modelled, prompt)) == "<div>slide</div>"
    assert turns(modelled) == []


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "{nope",
        "[]",
        "null",
        '"text"',
        "{}",
        '{"repo_url": "x"}',
        '{"repo_url": "x", "messages": "y"}',
        '{"repo_url": "x", "messages": [{"content": "no role"}]}',
        '{"repo_url": "x", "messages": [], "language": 3}',
        "[" * 100_000,
        b"\xff\xfe\x00",
        b"{}",
    ],
)
def test_what_is_no_request_is_a_frame_that_says_so(deepwiki, request_text):
    said = answer(deepwiki, request_text)
    assert said.startswith("Error: ")
    assert "\n" not in said


def test_what_is_refused_is_a_frame_that_says_so(deepwiki):
    for body in (
        {**question(deepwiki, FIRST), "repo_url": "/etc"},
        {**question(deepwiki, FIRST), "repo_url": "http://169.254.169.254/a/b"},
        question(deepwiki, FIRST, filePath="../../../etc/passwd"),
        question(deepwiki),
        question(deepwiki, FIRST, "An answer already."),
        question(deepwiki, *["x"] * 10_001),
        question(deepwiki, "x" * 20_000),
    ):
        said = answer(deepwiki, body)
        assert said.startswith("Error: ")


def test_a_token_of_a_request_is_never_returned(deepwiki):
    body = question(deepwiki, FIRST, token="ghp_verysecret")
    assert "ghp_verysecret" not in answer(deepwiki, {**body, "repo_url": "/etc"})
    assert "ghp_verysecret" not in answer(deepwiki, {**body, "messages": 3})


def test_a_request_that_is_too_large_closes_the_connection(serve):
    served = serve(deepwiki=True, max_body_bytes=10_000).ready()
    with opened(served) as connection, pytest.raises(ConnectionClosed) as caught:
        connection.send("x" * 20_000)
        connection.recv(timeout=120)
    assert caught.value.rcvd.code == 1009
    assert served.get("/health").status == 200


def test_a_client_that_asks_nothing_is_not_waited_for(serve):
    served = serve(deepwiki=True, body_timeout_s=0.2).ready()
    with opened(served) as connection:
        assert "".join(connection).startswith("Error: no request arrived")


def test_a_page_of_another_origin_may_not_connect(deepwiki):
    with pytest.raises(InvalidStatus) as caught, opened(deepwiki, origin="http://evil.example"):
        pass
    assert caught.value.response.status_code == 403


def test_the_frontends_own_page_may_connect(serve):
    served = serve(deepwiki=True, origins=("http://localhost:3000",)).ready()
    with opened(served, origin="http://localhost:3000") as connection:
        connection.send(json.dumps(question(served, FIRST)))
        assert "[1]" in "".join(connection)


def test_without_its_key_nobody_connects(serve):
    served = serve(deepwiki=True, keys=("geheim",))
    with pytest.raises(InvalidStatus) as caught, opened(served):
        pass
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize("make", ["question", "page"])
def test_when_the_client_goes_the_model_stops_and_what_came_is_kept(modelled, provider, make):
    provider.behaviours[:] = ["endless"]
    body = question(modelled, FIRST) if make == "question" else asked_page(modelled, "Overview")
    with opened(modelled) as connection:
        connection.send(json.dumps(body))
        modelled.wait_until(lambda: provider.chats)
        if make == "question":
            assert connection.recv(timeout=120)
        connection.socket.close()
    assert provider.client_left.wait(25)
    modelled.wait_until(lambda: modelled.service.limiter.asking == 0)
    assert turns(modelled) == ([[FIRST]] if make == "question" else [])


@pytest.mark.parametrize("behaviour", ["cut", "error_in_stream"])
def test_a_model_that_fails_in_the_middle_ends_with_an_error(modelled, provider, behaviour):
    provider.behaviours[:] = [behaviour]
    # Long enough to be shown while tools may be called.
    provider.answers[:] = ["It is made in a place that has many words before it breaks off somewhere. " * 8]
    said = answer(modelled, question(modelled, FIRST))
    assert said.startswith("It is made")
    assert said.rpartition("\n\n")[2].startswith("Error: ")
    streamed = modelled.post("/chat/completions/stream", question(modelled, FIRST)).body.decode()
    assert streamed.rpartition("\n\n")[2].startswith("Error: ")
    assert turns(modelled) == []


@pytest.mark.parametrize("behaviour", ["unauthorized", "not_json"])
def test_a_model_that_fails_at_once_is_an_error_without_the_key(modelled, provider, behaviour):
    provider.behaviours[:] = [behaviour]
    for body in (question(modelled, FIRST), asked_page(modelled, "Overview")):
        said = answer(modelled, body)
        assert said.startswith("Error: ")
        assert modelled.post("/chat/completions/stream", body).status == 502
    assert turns(modelled) == []


def test_a_server_that_stops_ends_its_answers(modelled, provider):
    provider.behaviours[:] = ["endless"]
    with opened(modelled) as connection:
        connection.send(json.dumps(question(modelled, FIRST)))
        assert connection.recv(timeout=120)
        modelled.server.stop()
        rest = "".join(connection)
    assert rest.rpartition("\n\n")[2].startswith("Error: the server is shutting down")
    store = modelled.service.engine.turns
    (conversation,) = store.conversations()
    (turn,) = store.turns(conversation.id)
    assert (turn.question, turn.state) == (FIRST, "partial")
    assert turn.answer.startswith("and on")


def test_conversations_about_what_is_not_served_are_not_listed(deepwiki):
    service = deepwiki.service
    store = service.engine.turns
    here = service.settings.repositories[0][1]
    kept = [
        store.create_conversation(sources=sources)
        for sources in (
            (),
            (here,),
            (replace(here, ref="main"),),
            (replace(here, location="/elsewhere"), here),
        )
    ]
    store.create_conversation(sources=(replace(here, location="/elsewhere"),))
    listed = service.registry.about_served(store.conversations())
    assert {one.id for one in kept} <= {one.id for one in listed}
    assert len(store.conversations()) == len(listed) + 1
