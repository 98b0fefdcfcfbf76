"""Facts, preferences and cached answers over HTTP."""

from __future__ import annotations

from test_native import ask

from rag.serve.access.keys import add_key


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


def test_cached_answers_are_counted_and_cleared(serve):
    served = serve(engine={"cache": True}).ready()
    first, again = ask(served).json, ask(served).json
    assert again["answer"] == first["answer"]
    assert served.get("/api/cache").json == {
        "entries": 1,
        "hits": 1,
        "misses": 1,
        "stale": 0,
        "hit_rate": 0.5,
    }
    assert served.request("DELETE", "/api/cache").json == {"cleared": 1}
    assert served.get("/api/cache").json["entries"] == 0


def test_another_key_sees_none_of_it(serve, tmp_path):
    file = tmp_path / "keys.toml"
    bearers = [f"Bearer {add_key(file, name)}" for name in ("ada", "bob")]
    served = serve(keys_file=file, engine={"cache": True})
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
    assert served.get("/api/cache").json["entries"] == 0
    assert served.request("DELETE", "/api/cache").json == {"cleared": 0}
    del served.headers["Authorization"]
    assert served.get("/api/facts").status == 401
