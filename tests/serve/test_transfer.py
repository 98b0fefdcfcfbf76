"""Conversations as files over HTTP, what a turn was shown, summaries, and corrections at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest
from keys_given import add_key, memory_in
from live_server import sample_copy, serving

from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import NotFound
from rag.service.loop.corrections import correct_turn
from rag.types import AssistantResponse, DialogTurn, UserQuery

ASKED = {"question": "Where is a short code made?", "repositories": ["sample"]}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A server with keys, and two of its callers."""
    home = tmp_path_factory.mktemp("moving")
    memory = memory_in(home)
    headers = {name: {"Authorization": f"Bearer {add_key(memory, name)}"} for name in ("ann", "bob")}
    with serving(home, engine={"memory": memory}, repositories=(("sample", sample_copy(home)),)) as running:
        running.wait_until(lambda: running.get("/ready").status == 200)
        yield SimpleNamespace(server=running, home=home, **headers)


def exported(keyed, who, conversation):
    reply = keyed.server.get(f"/api/conversations/{conversation}/export", headers=who)
    assert reply.status == 200
    return reply.body


def imported(keyed, who, file):
    return keyed.server.post("/api/conversations/import", file, headers=who)


def conversations(keyed, who):
    return [one["id"] for one in keyed.server.get("/api/conversations", headers=who).json]


def said_in(keyed, who, conversation):
    kept = keyed.server.get(f"/api/conversations/{conversation}", headers=who).json
    return [(turn["question"], turn["answer"]) for turn in kept["all_turns"]]


def test_an_export_reveals_no_location_and_is_imported_unchanged(keyed):
    response = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json
    conversation, said = response["conversation"], said_in(keyed, keyed.ann, response["conversation"])
    file = exported(keyed, keyed.ann, conversation)
    assert str(keyed.home) not in file.decode()
    assert imported(keyed, keyed.ann, file).json == {"conversations": 0}  # all of it is there
    keyed.server.request("DELETE", f"/api/conversations/{conversation}", headers=keyed.ann)
    assert imported(keyed, keyed.ann, file).json == {"conversations": 1}
    assert imported(keyed, keyed.ann, file).json == {"conversations": 0}
    (back,) = conversations(keyed, keyed.ann)
    assert said_in(keyed, keyed.ann, back) == said
    # It is about the repository that is served here, and goes on.
    further = {"question": "And who calls it?", "conversation": back}
    assert keyed.server.post("/api/ask", further, headers=keyed.ann).json["number"] == 2
    fresh = keyed.server.get(f"/api/conversations/{back}/freshness", headers=keyed.ann).json
    assert [turn["freshness"]["state"] for turn in fresh] == ["fresh", "fresh"]


def test_a_file_shows_nobody_what_others_said(keyed):
    response = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json
    conversation, turn = response["conversation"], response["turn"]
    mine = keyed.server.post("/api/ask", ASKED, headers=keyed.bob).json["conversation"]
    lines = [json.loads(line) for line in exported(keyed, keyed.bob, mine).splitlines()]
    (head,) = [line for line in lines if "conversation" in line]

    def attempt(own, spans, deleted=False):
        record = {**head["conversation"], "id": own, "name": "", "parent": conversation}
        file = json.dumps({**head, "conversation": record, "spans": spans}).encode()
        before = conversations(keyed, keyed.bob)
        assert imported(keyed, keyed.bob, file).json == {"conversations": 1}
        (new,) = set(conversations(keyed, keyed.bob)) - set(before)
        assert said_in(keyed, keyed.bob, new) == []

    attempt("a", [[conversation, 0, 0], ["a", 1, None]])
    attempt(conversation, [[conversation, 0, None]])
    # Nor what they deleted, while a fork of theirs still has it.
    keyed.server.post(f"/api/conversations/{conversation}/fork", {}, headers=keyed.ann)
    keyed.server.request("DELETE", f"/api/conversations/{conversation}", headers=keyed.ann)
    attempt("b", [[conversation, 0, 0], ["b", 1, None]])
    assert keyed.server.get(f"/api/turns/{turn}", headers=keyed.bob).status == 404
    assert keyed.server.get(f"/api/turns/{turn}", headers=keyed.ann).status == 200


def test_a_fork_comes_back_with_what_it_inherited(keyed):
    response = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json
    forked = keyed.server.post(
        f"/api/conversations/{response['conversation']}/fork", {"name": "other"}, headers=keyed.ann
    ).json["id"]
    keyed.server.post("/api/ask", {"question": "Why?", "conversation": forked}, headers=keyed.ann)
    said, file = said_in(keyed, keyed.ann, forked), exported(keyed, keyed.ann, forked)
    keyed.server.request("DELETE", f"/api/conversations/{forked}", headers=keyed.ann)
    assert imported(keyed, keyed.ann, file).json == {"conversations": 1}
    assert said_in(keyed, keyed.ann, "other") == said
    assert imported(keyed, keyed.bob, file).json == {"conversations": 1}
    assert said_in(keyed, keyed.bob, "other") == said


@pytest.mark.parametrize(
    "file",
    [
        b"\xff\xfe",
        b"{",
        b"[]",
        b"3",
        b"{}",
        b'{"conversation": 3}',
        b'{"conversation": {"id": 1, "sources": 7}, "spans": 3}',
        b'{"turn": null}',
        b'{"turn": {"id": [], "conversation": {}}}',
        b'{"turn": {"id": "x", "conversation": "x", "citations": [{"location": 3}]}}',
        b'{"record": {"shelf": "prompt", "key": "x", "value": "", "expires": null}}',
    ],
)
def test_what_is_no_export_is_refused_and_nothing_of_it_stored(keyed, file):
    before = conversations(keyed, keyed.bob)
    response = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["conversation"]
    good = exported(keyed, keyed.ann, response)
    reply = imported(keyed, keyed.bob, good + file)
    assert (reply.status, reply.json["error"]["code"]) == (400, "bad_request")
    assert conversations(keyed, keyed.bob) == before
    assert imported(keyed, keyed.bob, b"").status == 400


def test_an_export_that_is_nested_too_deeply_is_refused_and_nothing_of_it_stored(keyed):
    before = conversations(keyed, keyed.bob)
    response = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["conversation"]
    reply = imported(keyed, keyed.bob, exported(keyed, keyed.ann, response) + b"[" * 100_000)
    assert (reply.status, reply.json["error"]["code"]) == (413, "too_large")
    assert conversations(keyed, keyed.bob) == before


def test_the_prompt_of_a_turn_is_returned_to_its_owner_only(keyed):
    turn = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["turn"]
    reply = keyed.server.get(f"/api/turns/{turn}/prompt", headers=keyed.ann).json
    assert reply["turn"] == turn and ASKED["question"] in reply["prompt"]
    assert keyed.server.get(f"/api/turns/{turn}/prompt", headers=keyed.bob).status == 404


def test_a_conversation_is_consolidated_once(keyed):
    conversation = keyed.server.post("/api/ask", ASKED, headers=keyed.ann).json["conversation"]
    where = f"/api/conversations/{conversation}/consolidate"
    assert keyed.server.post(where, {"keep_recent": 1}, headers=keyed.ann).json["turns"] == 0
    done = keyed.server.post(where, headers=keyed.ann).json
    assert done["turns"] == 1 and ASKED["question"] in done["summary"] and done["facts"] == []
    assert keyed.server.post(where, headers=keyed.ann).json == {**done, "turns": 0}
    assert keyed.server.post(where, headers=keyed.bob).status == 404


def test_two_corrections_at_once_are_both_made(tmp_path):
    stores = [SqliteTurnStore(tmp_path / "turns.db") for _ in range(2)]
    conversation = stores[0].create_conversation(namespace="x").id
    turn = DialogTurn(user_query=UserQuery("?"), assistant_response=AssistantResponse("!"))
    stores[0].append(turn, conversation=conversation, namespace="x")
    with ThreadPoolExecutor(8) as pool:
        done = [
            pool.submit(correct_turn, stores[n % 2], turn.id, namespace="x", **{name: f"{name} {n}"})
            for n in range(10)
            for name in ("question", "answer")
        ]
        versions = sorted(each.result().version for each in done)
    assert versions == list(range(2, 22))
    kept = [(one.question, one.answer) for one in stores[0].versions(turn.id, namespace="x")]
    assert all((a == c) != (b == d) for (a, b), (c, d) in pairwise(kept))
    with pytest.raises(NotFound):
        correct_turn(stores[0], "nobody's", namespace="x", answer="x")
    for store in stores:
        store.close()
