"""Facts, preferences and cached answers over HTTP."""

from __future__ import annotations

import pytest
from keys_given import add_key, memory_in, read_keys, with_keys
from test_native import ask

from rag.serve.access.keys import sharing


def test_a_fact_rests_on_what_its_turn_cites_and_is_forgotten(served):
    turn = ask(served).json["turn"]
    added = served.post("/api/facts", {"text": "Codes have seven signs.", "turn": turn})
    assert added.status == 201
    fact = added.json
    assert (fact["repository"], fact["turn"], fact["freshness"]) == ("sample", turn, None)
    assert fact["citations"][0]["path"] in [
        hit["path"] for hit in served.get(f"/api/turns/{turn}").json["citations"]
    ]
    own = served.post("/api/facts", {"text": "Releases are cut on Fridays", "repository": "sample"}).json
    listed = served.get("/api/facts?repository=sample&check=true").json
    states = [one["freshness"] and one["freshness"]["state"] for one in listed]
    assert [(one["id"], state) for one, state in zip(listed, states, strict=True)] == [
        (fact["id"], "fresh"),
        (own["id"], None),
    ]
    for one in (fact, own):
        assert served.request("DELETE", f"/api/facts/{one['id']}").json["id"] == one["id"]
    assert served.get("/api/facts").json == []
    assert served.request("DELETE", f"/api/facts/{own['id']}").status == 404


def test_a_fact_needs_words_and_something_that_is_served(served):
    for body, status in (
        ({"text": " ", "repository": "sample"}, 422),
        ({"text": "x"}, 422),
        ({"text": "x", "repository": "sample", "turn": "y"}, 422),
        ({"text": "x", "repository": "/etc"}, 404),
        ({"text": "x", "repository": "other"}, 404),
        ({"text": "x", "turn": "nobody's"}, 404),
    ):
        assert served.post("/api/facts", body).status == status, body


def test_preferences_are_kept_until_they_are_forgotten(served):
    assert served.get("/api/preferences").json == {}
    assert served.request("PUT", "/api/preferences/language", {"value": "zh-CN"}).json == {
        "language": "zh-CN"
    }
    served.request("PUT", "/api/preferences/style", {"value": {"length": "short"}})
    assert served.get("/api/preferences").json == {"language": "zh-CN", "style": {"length": "short"}}
    for bad in (b'{"value": NaN}', b'{"value": 1e999}', b'{"value": "' + b"x" * 10_001 + b'"}', b"{}"):
        assert (
            served.request("PUT", "/api/preferences/bad", bad, {"Content-Type": "application/json"}).status
            == 422
        )
    for key in ("language", "style"):
        assert served.request("DELETE", f"/api/preferences/{key}").status == 204
        assert served.request("DELETE", f"/api/preferences/{key}").status == 404
    assert served.get("/api/preferences").json == {}


def test_another_key_sees_none_of_it(serve, tmp_path):
    memory = memory_in(tmp_path)
    bearers = [f"Bearer {add_key(memory, name)}" for name in ("ada", "bob")]
    served = serve(engine={"cache": True, "memory": memory})
    served.headers["Authorization"] = bearers[0]
    served.ready()
    ask(served)
    fact = served.post("/api/facts", {"text": "Mine", "repository": "sample"}).json
    served.request("PUT", "/api/preferences/language", {"value": "de"})
    served.headers["Authorization"] = bearers[1]
    assert served.get("/api/facts").json == []
    assert served.request("DELETE", f"/api/facts/{fact['id']}").status == 404
    assert served.get("/api/preferences").json == {}
    assert served.request("DELETE", "/api/preferences/language").status == 404
    del served.headers["Authorization"]
    assert served.get("/api/facts").status == 401


def test_a_proposed_fact_is_confirmed_or_rejected(served):
    served.post(
        "/api/ask",
        {
            "question": "Remember that codes must be short. Remember that links live long.",
            "repositories": ["sample"],
        },
    )
    first, second = served.get("/api/facts?state=proposed").json
    assert (first["text"], first["kind"], first["state"]) == (
        "Codes must be short.",
        "constraint",
        "proposed",
    )
    assert served.get("/api/facts").json == []
    confirmed = served.post(f"/api/facts/{first['id']}/confirm").json
    assert (confirmed["id"], confirmed["state"], confirmed["scope"]) == (first["id"], "confirmed", "user")
    assert served.post(f"/api/facts/{second['id']}/reject").json["state"] == "rejected"
    assert [fact["id"] for fact in served.get("/api/facts?state=rejected").json] == [second["id"]]
    newer = {"text": "Codes must be long", "repository": "sample", "supersedes": [first["id"]]}
    added = served.post("/api/facts", newer).json
    assert [fact["id"] for fact in served.get("/api/facts").json] == [added["id"]]
    assert [fact["superseded_by"] for fact in served.get("/api/facts?closed=true").json] == [added["id"], ""]
    assert served.get("/api/facts?at=v1").status == 400
    assert served.get("/api/facts?at=v1&repository=sample").status == 404
    assert served.post("/api/facts", newer | {"scope": "team"}).status == 400
    assert served.post("/api/facts", newer | {"scope": "moon"}).status == 422
    unknown = {"supersedes": ["nothing"]}
    for refused in (
        served.post("/api/facts", newer | unknown),
        served.post(f"/api/facts/{added['id']}/confirm", unknown),
    ):
        assert (refused.status, refused.json["error"]["param"]) == (400, "supersedes")
    for one in (first, second, added):
        assert served.request("DELETE", f"/api/facts/{one['id']}").status == 200


def test_a_conversation_is_searched_for_facts(served):
    asked = served.post(
        "/api/ask", {"question": "Remember that slugs are short words.", "repositories": ["sample"]}
    ).json
    (fact,) = served.get("/api/facts?state=proposed").json
    where = f"/api/conversations/{asked['conversation']}/facts"
    assert served.post(where).json == []
    served.request("DELETE", f"/api/facts/{fact['id']}")
    (again,) = served.post(where).json
    assert (again["id"], again["state"]) == (fact["id"], "proposed")
    served.request("DELETE", f"/api/facts/{fact['id']}")
    assert served.post("/api/conversations/nowhere/facts").status == 404


def test_a_key_reads_the_facts_of_its_team_and_adds_to_them(serve, tmp_path):
    memory = memory_in(tmp_path)
    team = sharing(team="backend")
    ada, bob = (f"Bearer {add_key(memory, name, shared=team)}" for name in ("ada", "bob"))
    eve = f"Bearer {add_key(memory, 'eve', shared=sharing(project='shop', team='web', writes='user'))}"
    served = serve(engine={"memory": memory})
    served.headers["Authorization"] = ada
    served.ready()
    shared = served.post("/api/facts", {"text": "For us", "repository": "sample"}).json
    own = {"text": "For me", "repository": "sample", "scope": "user"}
    assert (shared["scope"], served.post("/api/facts", own).json["scope"]) == ("team", "user")
    served.headers["Authorization"] = bob
    assert [fact["text"] for fact in served.get("/api/facts").json] == ["For us"]
    served.headers["Authorization"] = eve
    assert served.get("/api/facts").json == []
    assert served.request("DELETE", f"/api/facts/{shared['id']}").status == 404
    assert served.post("/api/facts", {"text": "Hers", "repository": "sample"}).json["scope"] == "user"


def test_what_a_key_may_share_is_checked(tmp_path):
    assert sharing("shop").writes == "project"
    for wrong in ({"team": "a/b"}, {"writes": "team"}, {"project": "shop", "writes": "all"}):
        with pytest.raises(ValueError, match=r"valid name|writes is one of"):
            sharing(**wrong)
    memory = memory_in(tmp_path)
    stored = {"name": "a", "team": "t", "sha256": "0" * 64}
    with_keys(memory, lambda keys: keys.swap("a", None, stored))
    assert read_keys(memory)[0].sharing == sharing(team="t")
    with_keys(
        memory, lambda keys: keys.swap("a", stored, {"name": "a", "writes": "team", "sha256": "0" * 64})
    )
    (damage,) = with_keys(memory, lambda keys: keys.read()).damaged
    assert "the stored key a is damaged: writes is one of user" in damage
