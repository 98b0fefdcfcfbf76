"""The native routes, from a client's side."""

from __future__ import annotations

import json

import pytest

from rag.backends.memory_turns import MemoryTurnStore
from rag.service.recall import recall

QUESTION = "Where is a short code made?"


def ask(served, question=QUESTION, **more):
    reply = served.post("/api/ask", {"question": question, "repositories": ["sample"], **more})
    assert reply.status == 200, reply.body
    return reply


def test_repositories_tell_how_far_they_are(served):
    (state,) = served.get("/api/repositories").json
    assert state["name"] == "sample"
    assert state["state"] == "ready"
    assert state["files"] > 0
    assert served.get("/api/repositories/sample").json["chunks"] == state["chunks"]
    assert served.get("/api/repositories/other").status == 404


def test_a_job_is_followed_to_its_end(served):
    reply = served.post("/api/repositories/sample/index", {"rebuild": True})
    assert reply.status == 202
    assert reply.json["job"]["running"]
    assert served.get("/health").json["status"] == "ok"
    assert ask(served).json["found"], "the index before it answers meanwhile"
    states = served.get("/api/repositories/sample/index/events").events
    assert states[-1]["job"]["running"] is False
    assert states[-1]["state"] == "ready"


def test_search_is_retrieval_alone(served):
    reply = served.post("/api/search", {"question": QUESTION, "repositories": ["sample"], "k": 3})
    hits = reply.json["hits"]
    assert 0 < len(hits) <= 3
    assert hits == sorted(hits, key=lambda hit: -hit["score"])
    first = hits[0]
    lines = served.get(
        f"/api/repositories/sample/source?path={first['path']}&start={first['start']}&end={first['end']}"
    ).json
    assert lines["text"].rstrip("\n") == first["text"].rstrip("\n")
    assert f"view?path={first['path']}#L{first['start']}-L{first['end']}" in first["url"]


def test_an_answer_is_stored_and_its_conversation_goes_on(served):
    first = ask(served).json
    assert first["citations"]
    assert first["order"] == 0
    second = ask(served, "And who calls it?", conversation=first["conversation"]).json
    assert second["conversation"] == first["conversation"]
    assert second["order"] == 1
    kept = served.get(f"/api/conversations/{first['conversation']}").json
    assert [turn["question"] for turn in kept["all_turns"]] == [QUESTION, "And who calls it?"]
    assert kept["sources"][0]["name"] == "sample"


def test_a_conversation_knows_its_repositories(served):
    first = ask(served).json
    reply = served.post("/api/ask", {"question": "Why?", "conversation": first["conversation"]})
    assert reply.json["order"] == 1


def test_a_name_begins_a_conversation_and_finds_it_again(served):
    first = ask(served, conversation="by-name").json
    assert ask(served, "Why?", conversation="by-name").json["conversation"] == first["conversation"]
    reply = served.post(
        "/api/search", {"question": "x", "repositories": ["sample"], "conversation": "no such"}
    )
    assert reply.status == 404


def test_a_stream_tells_the_same_as_the_whole(served):
    whole = ask(served).json
    reply = ask(served, stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *pieces, last = reply.events
    assert "".join(piece["text"] for piece in pieces) == whole["answer"] == last["answer"]
    assert last["turn"] != whole["turn"]


def test_turns_are_found_exported_and_deleted(served):
    asked = ask(served, "Which zebra checks a link?").json
    conversation, turn = asked["conversation"], asked["turn"]
    export = served.get(f"/api/conversations/{conversation}/export")
    elsewhere = MemoryTurnStore()
    assert elsewhere.restore(json.loads(line) for line in export.body.splitlines()) == 1
    assert [turn.question for turn in elsewhere.turns(conversation)] == ["Which zebra checks a link?"]
    assert served.get(f"/api/turns/{turn}").json["question"] == "Which zebra checks a link?"
    assert served.request("DELETE", f"/api/turns/{turn}").json == {"turns": 1}
    assert served.get(f"/api/turns/{turn}").status == 404
    assert served.request("DELETE", f"/api/conversations/{conversation}").json == {"turns": 0}
    assert served.get(f"/api/conversations/{conversation}").status == 404


def test_what_was_kept_for_a_turn_goes_with_it(in_memory):
    store = in_memory.service.engine.turns

    def kept():
        return [key for shelf in ("prompt", "blob") for key, _ in store.scan_records(shelf=shelf)]

    before = kept()
    first = ask(in_memory).json
    second = ask(in_memory, "How is a password checked?", conversation=first["conversation"]).json
    assert {first["turn"], second["turn"]} <= set(kept())
    in_memory.request("DELETE", f"/api/turns/{first['turn']}")
    assert first["turn"] not in kept()
    in_memory.request("DELETE", f"/api/conversations/{first['conversation']}")
    assert kept() == before


@pytest.fixture
def in_memory(serve):
    return serve(engine={"memory": "memory:"}).ready()


def test_while_the_memory_is_away_the_client_is_told_to_come_again(serve):
    pytest.importorskip("redis", reason="the redis extra is not installed")
    running = serve(engine={"memory": "redis://me:s3cret@127.0.0.1:1"}).ready()
    for reply in (
        running.post("/api/ask", {"question": QUESTION, "repositories": ["sample"]}),
        running.get("/api/conversations"),
    ):
        assert (reply.status, reply.json["error"]["code"]) == (503, "memory_unreachable")
        assert int(reply.headers["retry-after"]) > 0
        assert b"s3cret" not in reply.body


def test_turns_are_searched_marked_and_forked(in_memory):
    first = ask(in_memory, "Which zebra checks a link?").json
    ask(in_memory, QUESTION, conversation=first["conversation"])
    found = in_memory.get("/api/turns?q=zebra").json
    assert [turn["id"] for turn in found] == [first["turn"]]
    both = in_memory.get("/api/turns?q=zebra+link").json
    assert [turn["id"] for turn in both] == [
        turn.id for turn in recall(in_memory.service.engine, "zebra link")
    ]
    marked = in_memory.post(f"/api/turns/{first['turn']}/marks", {"add": ["useful"]}).json
    assert marked["marks"] == ["useful"]
    assert in_memory.post(f"/api/turns/{first['turn']}/marks", {"remove": ["useful"]}).json["marks"] == []
    fork = in_memory.post(f"/api/conversations/{first['conversation']}/fork", {"at": 0, "name": "other"})
    assert fork.status == 201
    assert fork.json["parent"] == first["conversation"]
    assert fork.json["turns"] == 1
    renamed = in_memory.request("PATCH", f"/api/conversations/{fork.json['id']}", {"name": "third"})
    assert renamed.json["name"] == "third"


def test_an_answer_is_given_again_where_the_server_is_told_to(served, serve):
    caching = serve(engine={"cache": True}).ready()
    first = ask(caching).json
    again = ask(caching, "Show me where a short code gets made").json
    assert again["answer"] == first["answer"]
    assert (again["notes"][0].split(",")[0], first["notes"]) == ("answered just now", [])
    assert again["turn"] != first["turn"]
    assert [ask(served).json["notes"] for _ in range(2)] == [[], []]


def test_questions_with_answers_measure_retrieval(served):
    hit = served.post("/api/search", {"question": QUESTION, "repositories": ["sample"]}).json["hits"][0]
    asked = [
        {"question": QUESTION, "answers": [{"path": hit["path"], "start": hit["start"], "end": hit["end"]}]}
    ]
    result = served.post("/api/eval", {"repository": "sample", "questions": asked}).json
    assert result["mrr"] == 1.0
    assert result["each"][0]["lines"] == 1.0


def test_the_specification_has_examples(served):
    specification = served.get("/openapi.json").json
    assert "/api/ask" in specification["paths"]
    assert specification["components"]["schemas"]["AskRequest"]["properties"]["question"]["examples"]
