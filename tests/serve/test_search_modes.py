"""A string, an expression and a filter find the same through every interface."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from command import rag
from live_server import Served
from test_mcp import called, over_http

from rag.component.rag import RAG
from rag.schema import OLD_OUTPUT, to_json
from rag.service import Engine
from rag.settings import Settings
from rag.types import SearchFilter

SEARCHES: list[dict[str, Any]] = [
    {"question": "def sign", "mode": "exact"},
    {"question": "SESSION", "mode": "exact", "ignore_case": True, "paths": ["snip/"]},
    {"question": r"^def \w+\(", "mode": "regex", "languages": ["python"], "kinds": ["test"]},
    {"question": "How are session tokens signed?", "kinds": ["doc"]},
    {"question": "no such words anywhere", "mode": "exact"},
    {"question": "How are session tokens signed?", "paths": ["nowhere/"]},
]
_OLD = {name for names in OLD_OUTPUT.values() for name in names} | {"url", "repository", "location"}


def plain(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hits without what an interface adds."""
    return [{name: value for name, value in hit.items() if name not in _OLD} for hit in hits]


def by_cli(source: str, asked: dict[str, Any]) -> dict[str, Any]:
    flags = [f"--{asked['mode']}"] if "mode" in asked else []
    flags += ["--ignore-case"] if asked.get("ignore_case") else []
    for option, name in (("--path", "paths"), ("--lang", "languages"), ("--kind", "kinds")):
        flags += [part for value in asked.get(name, ()) for part in (option, value)]
    done = rag("search", source, asked["question"], "-k", 5, "--json", *flags)
    assert done.code == (0 if done.json["results"] else 1)
    return {"hits": plain(done.json["results"]), **{n: done.json[n] for n in ("mode", "matches", "remarks")}}


def by_mcp(served: Served, asked: dict[str, Any]) -> dict[str, Any]:
    names = {"paths": "path", "languages": "language", "kinds": "kind"}
    chosen = {name: asked[many][0] for many, name in names.items() if many in asked}
    options = {name: asked[name] for name in ("mode", "ignore_case") if name in asked}

    async def through(session: Any) -> Any:
        arguments = {"query": asked["question"], "limit": 5} | options | chosen
        return (await called(session, "search_code", **arguments))[1]

    found = over_http(served, through)
    return {"hits": found["places"], **{n: found.get(n) for n in ("mode", "matches", "remarks")}}


@pytest.mark.parametrize("asked", SEARCHES, ids=lambda asked: asked["question"][:20])
def test_every_interface_finds_the_same(served: Served, asked: dict[str, Any]) -> None:
    source = served.service.registry.source("sample").location
    body = served.post("/api/search", {**asked, "repositories": ["sample"], "k": 5}).json
    api = {"hits": plain(body["hits"]), **{n: body[n] for n in ("mode", "matches", "remarks")}}
    assert api == by_cli(source, asked)
    places = [f"{hit['path']}:{hit['start_line']}-{hit['end_line']}" for hit in api["hits"]]
    assert by_mcp(served, asked) == api | {"hits": places}
    only = SearchFilter(*(tuple(asked.get(name, ())) for name in ("paths", "languages", "kinds")))
    with closing(Engine(Settings(home=served.home / "python", memory="memory:"))) as engine:
        component = RAG(engine=engine)
        component.prepare_retriever(source)
        options = {name: asked[name] for name in ("mode", "ignore_case") if name in asked}
        hits = component.retrieve(asked["question"], 5, only=only, **options)
    assert plain([to_json(hit) for hit in hits]) == api["hits"]
    assert (api["matches"] is None) == ("mode" not in asked)
    assert bool(api["remarks"]) == (asked.get("paths") == ["nowhere/"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"question": "(", "mode": "regex"}, "invalid regular expression"),
        ({"question": "x", "languages": ["pyton"]}, "did you mean python"),
        ({"question": "x", "paths": ["[z-a]"]}, "invalid pattern"),
        ({"question": "x", "kinds": ["tests"]}, "kinds"),
        ({"question": "x", "mode": "fuzzy"}, "mode"),
    ],
)
def test_an_invalid_search_is_refused(served: Served, body: dict[str, Any], said: str) -> None:
    reply = served.post("/api/search", {**body, "repositories": ["sample"]})
    assert reply.status in (400, 422) and said in reply.body.decode()


def test_a_question_is_answered_from_the_chosen_files(served: Served) -> None:
    asked = {"question": "How are session tokens signed?", "repositories": ["sample"], "paths": ["docs/"]}
    answer = served.post("/api/ask", asked).json
    assert answer["sources"] and all(one["path"].startswith("docs/") for one in answer["sources"])
    assert any("only files that match the filter (path docs/)" in note for note in answer["notes"])
    nothing = served.post("/api/ask", {**asked, "paths": ["nowhere/"]})
    assert nothing.status == 404 and "no indexed file matches" in nothing.body.decode()
