"""The native routes, from a client's side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import git
from live_server import sample_copy

from rag.backends.memory.turns import MemoryTurnStore
from rag.service.checks.recall import recall
from rag.types import Source

QUESTION = "Where is a short code made?"


def ask(served, question=QUESTION, *, repositories=("sample",), **more):
    reply = served.post("/api/ask", {"question": question, "repositories": list(repositories), **more})
    assert reply.status == 200, reply.body
    return reply


def test_repositories_report_their_progress(served):
    served.wait_until(lambda: not served.get("/api/repositories/sample").json["job"]["running"])
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
        f"/api/repositories/sample/source?path={first['path']}&start_line={first['start_line']}&end_line={first['end_line']}"
    ).json
    assert lines["text"].rstrip("\n") == first["text"].rstrip("\n")
    assert f"view?path={first['path']}#L{first['start_line']}-L{first['end_line']}" in first["url"]


def test_an_answer_is_stored_and_its_conversation_goes_on(served):
    first = ask(served).json
    assert first["sources"]
    assert first["number"] == 1
    second = ask(served, "And who calls it?", conversation=first["conversation"]).json
    assert second["conversation"] == first["conversation"]
    assert second["number"] == 2
    kept = served.get(f"/api/conversations/{first['conversation']}").json
    assert [turn["question"] for turn in kept["all_turns"]] == [QUESTION, "And who calls it?"]
    assert kept["sources"][0]["name"] == "sample"


def test_a_conversation_knows_its_repositories(served):
    first = ask(served).json
    reply = served.post("/api/ask", {"question": "Why?", "conversation": first["conversation"]})
    assert reply.json["number"] == 2


def test_a_name_begins_a_conversation_and_finds_it_again(served):
    first = ask(served, conversation="by-name").json
    assert ask(served, "Why?", conversation="by-name").json["conversation"] == first["conversation"]
    reply = served.post(
        "/api/search", {"question": "x", "repositories": ["sample"], "conversation": "no such"}
    )
    assert reply.status == 404


def test_a_stream_has_the_same_content_as_the_whole_answer(served):
    whole = ask(served).json
    reply = ask(served, stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    sources, *pieces, last = reply.events
    assert [(one["n"], one["path"]) for one in sources["sources"]]
    assert "".join(piece.get("text", "") for piece in pieces) == whole["answer"] == last["answer"]
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


def test_what_was_kept_for_a_turn_goes_with_it(serve, provider):
    model = {"base_url": provider.base_url, "model": "test-model"}
    served = serve(engine={"memory": "memory:", **model}).ready()
    store = served.service.engine.turns

    def kept():
        return [key for shelf in ("prompt", "blob") for key, _ in store.scan_records(shelf=shelf)]

    before = kept()
    first = ask(served).json
    second = ask(served, "How is a password checked?", conversation=first["conversation"]).json
    assert {first["turn"], second["turn"]} <= set(kept())
    served.request("DELETE", f"/api/turns/{first['turn']}")
    assert first["turn"] not in kept()
    served.request("DELETE", f"/api/conversations/{first['conversation']}")
    assert kept() == before


@pytest.fixture
def in_memory(serve):
    return serve(engine={"memory": "memory:"}).ready()


def test_a_server_whose_keys_cannot_be_read_starts_and_lets_nobody_in(serve, caplog):
    pytest.importorskip("redis", reason="the redis extra is not installed")
    served = serve(engine={"memory": "redis://me:s3cret@127.0.0.1:1"}, keys=("x" * 40,)).ready()
    for headers in ({}, {"Authorization": f"Bearer {'x' * 40}"}, {"Authorization": "Bearer guess"}):
        refused = served.get("/api/repositories", headers=headers)
        assert (refused.status, refused.json["error"]["code"]) == (503, "memory_unreachable")
        assert "s3cret" not in str(refused.json)
    assert "no request is accepted until the keys are read" in caplog.text
    assert "s3cret" not in caplog.text


def test_turns_are_searched_and_forked(in_memory):
    first = ask(in_memory, "Which zebra checks a link?").json
    ask(in_memory, QUESTION, conversation=first["conversation"])
    found = in_memory.get("/api/turns?q=zebra").json
    assert [turn["id"] for turn in found] == [first["turn"]]
    both = in_memory.get("/api/turns?q=zebra+link").json
    assert [turn["id"] for turn in both] == [
        turn.id for turn in recall(in_memory.service.engine, "zebra link")
    ]
    fork = in_memory.post(f"/api/conversations/{first['conversation']}/fork", {"number": 1, "name": "other"})
    assert fork.status == 201
    assert fork.json["parent"] == first["conversation"]
    assert fork.json["turn_count"] == 1
    renamed = in_memory.request("PATCH", f"/api/conversations/{fork.json['id']}", {"name": "third"})
    assert renamed.json["name"] == "third"


def test_a_turn_is_put_right_and_the_version_before_is_kept(in_memory):
    turn = ask(in_memory).json["turn"]
    edited = in_memory.request("PATCH", f"/api/turns/{turn}", {"answer": "It is made by a zebra."}).json
    assert (edited["answer"], edited["question"], edited["version"]) == (
        "It is made by a zebra.",
        QUESTION,
        2,
    )
    again = in_memory.request("PATCH", f"/api/turns/{turn}", {"question": "Who makes it?", "answer": ""}).json
    assert (again["question"], again["answer"], again["version"]) == ("Who makes it?", "", 3)
    versions = in_memory.service.engine.turns.versions(turn)
    assert [one.question for one in versions] == [QUESTION, QUESTION, "Who makes it?"]
    for body, status in (({}, 422), ({"answer": None}, 422), ({"question": "x" * 16_001}, 413)):
        assert in_memory.request("PATCH", f"/api/turns/{turn}", body).status == status
    assert in_memory.request("PATCH", "/api/turns/nobody's", {"answer": "x"}).status == 404


def test_a_field_that_does_not_exist_is_named_with_those_that_do(in_memory):
    refused = in_memory.post("/api/ask", {"question": "x", "repository": "sample"})
    message = refused.json["error"]["message"]
    assert refused.status == 422
    assert "there is no field `repository`; did you mean `repositories`?" in message
    assert "conversation" in message


def test_a_query_parameter_that_no_route_takes_is_named_with_those_that_do(served):
    """Every route of /api that is read: a misspelt filter would otherwise be left out silently."""
    routes = [path for path, item in served.get("/openapi.json").json["paths"].items() if "get" in item]
    routes = [path for path in routes if path.startswith("/api/")]
    assert len(routes) > 20
    for path in routes:
        refused = served.get(re.sub(r"{[^}]*}", "x", path) + "?lmit=3")
        error = refused.json["error"]
        assert (refused.status, error["param"]) == (422, "lmit"), path
        assert error["message"].startswith("there is no parameter `lmit`")
    error = served.get("/api/conversations?lmit=3").json["error"]
    assert "did you mean `limit`? The parameters are: " in error["message"]


def test_a_conversation_that_goes_on_is_not_deleted(in_memory):
    first = ask(in_memory).json
    where = f"/api/conversations/{first['conversation']}"
    second = ask(in_memory, "Why?", conversation=first["conversation"]).json
    fork = in_memory.post(f"{where}/fork", {}).json["id"]
    assert in_memory.request("DELETE", f"{where}?last_turn={first['turn']}").status == 409
    assert in_memory.request("DELETE", f"{where}?last_turn={second['turn']}").json == {"turns": 2}
    inherited = in_memory.get(f"/api/conversations/{fork}").json["all_turns"]
    assert [turn["id"] for turn in inherited] == [first["turn"], second["turn"]]


def test_turns_are_found_by_the_lines_they_talk_about_wherever_those_went(serve, tmp_path):
    sample = sample_copy(tmp_path)
    running = serve(repositories=(("sample", sample),), engine={"memory": "memory:"}, refresh_s=0.05).ready()
    response = ask(running).json
    cited = response["sources"][0]
    where = f"/api/repositories/sample/turns?path={cited['path']}"
    (found,) = running.get(where).json
    assert found["turn"]["id"] == response["turn"]
    assert found["citations"][0]["freshness"]["state"] == "fresh"
    file = Path(sample.location) / cited["path"]
    file.write_text("# moved down\n\n" + file.read_text())
    lines = [(cited["start_line"] + 2, "moved"), (10_000, None)]
    for line, state in lines:
        about = running.get(f"{where}&line={line}").json
        assert [cited["freshness"]["state"] for one in about for cited in one["citations"]][:1] == (
            [state] if state else []
        )
    assert running.get("/api/repositories/sample/turns?path=no/such.py").json == []
    assert running.get("/api/repositories/other/turns?path=a.py").status == 404


def test_freshness_is_told_at_a_ref(serve, sample_repo):
    running = serve(repositories=(("links", Source(str(sample_repo.resolve()))),)).ready()
    response = ask(running, repositories=["links"]).json
    git(sample_repo, "tag", "v1")
    for file in {source["path"] for source in response["sources"]}:
        (sample_repo / file).unlink()
    where = f"/api/conversations/{response['conversation']}/freshness"

    def states():
        replies = [running.get(f"{where}{at}") for at in ("", "?ref=v1")]
        return all(reply.status == 200 for reply in replies) and [
            reply.json[0]["freshness"]["state"] for reply in replies
        ]

    assert running.wait_until(states) == ["gone", "fresh"]
    assert running.get(f"{where}?ref=no-such").status in (404, 424)


def test_old_and_new_lines_are_shown_but_no_secret(serve, sample_repo):
    running = serve(repositories=(("links", Source(str(sample_repo.resolve()))),)).ready()
    response = ask(running, repositories=["links"]).json
    where = f"/api/conversations/{response['conversation']}/freshness"
    assert all("diff" not in one for one in running.get(where).json[0]["citations"])
    assert {one["diff"] for one in running.get(f"{where}?diff=true").json[0]["citations"]} == {""}
    first = response["sources"][0]
    file = sample_repo / first["path"]
    lines = file.read_text().splitlines(keepends=True)
    secret = "ghp_" + "x7Kq2LmN9pRs4TvW6yZb8CdF1gHj3KlM5nPq"

    def changed(line):
        file.write_text("".join([*lines[: first["start_line"]], line, *lines[first["start_line"] + 1 :]]))
        (found,) = running.get(f"{where}?diff=true").json
        return next(one["diff"] for one in found["citations"] if one["n"] == first["n"])

    assert "\n+    tea = 1\n" in changed("    tea = 1\n")
    hidden = changed(f'    token = "{secret}"\n')
    assert secret not in hidden and "looks like a secret" in hidden


def test_an_answer_is_cached_if_the_server_is_configured_so(served, serve):
    caching = serve(engine={"cache": True}).ready()
    first = ask(caching).json
    again = ask(caching, " where is a short  code made").json
    assert again["answer"] == first["answer"]
    assert (again["notes"][0].split(",")[0], first["notes"]) == ("answered just now", [])
    assert again["turn"] != first["turn"]
    assert [ask(served).json["notes"] for _ in range(2)] == [[], []]


def test_the_specification_has_examples(served):
    specification = served.get("/openapi.json").json
    assert "/api/ask" in specification["paths"]
    assert specification["components"]["schemas"]["AskRequest"]["properties"]["question"]["examples"]


@pytest.mark.parametrize(
    ("remote", "shown"), [("https://forge.example/o/r", True), ("/srv/git/r.git", False)]
)
def test_a_remote_is_shown_unless_it_is_a_folder_of_the_server(serve, sample_repo, remote, shown):
    git(sample_repo, "remote", "add", "origin", remote)
    running = serve(repositories=(("links", Source(str(sample_repo.resolve()))),)).ready()
    assert running.get("/api/repositories/links").json["remote"] == (remote if shown else None)


def test_a_question_is_about_what_the_request_names(served):
    answer = ask(served, "who calls it?", about="Storage.user_by_token").json
    assert answer["subject"]["name"] == "Storage.user_by_token"
    follow_up = ask(served, "is it tested?", conversation=answer["conversation"]).json
    assert follow_up["subject"]["path"] == "snip/storage.py"
    wanted = {"question": "who calls it?", "repositories": ["sample"], "about": "user_by_token"}
    assert served.post("/api/search", wanted).json["subject"]["symbol"] == "user_by_token"
    reply = served.post("/api/ask", wanted | {"about": "user_by_tokn"})
    assert reply.status == 404
    assert "user_by_token" in reply.json["error"]["message"]


@pytest.mark.parametrize("path", ["/api/ask", "/v1/chat/completions", "/v1/responses"])
def test_a_body_that_is_not_json_is_named_so(served, path):
    reply = served.request("POST", path, b'{"question": ', {"Content-Type": "application/json"})
    error = reply.json["error"]
    assert (reply.status, error["param"]) == (400 if path.startswith("/v1") else 422, None)
    assert error["message"] == "the body is not JSON: Expecting value, at character 13"


def test_a_wrong_field_is_named_in_full(served):
    reply = served.post("/api/search", {"question": "x", "repositories": ["sample"], "paths": [5]})
    assert (reply.status, reply.json["error"]["param"]) == (422, "paths.0")


def test_a_fork_names_the_turn_that_is_not_there(served):
    asked = {"question": "How are session tokens signed?", "repositories": ["sample"]}
    conversation = served.post("/api/ask", asked).json["conversation"]
    reply = served.post(f"/api/conversations/{conversation}/fork", {"number": 99})
    assert reply.status == 404 and "has no turn 99 to fork from" in reply.json["error"]["message"]
