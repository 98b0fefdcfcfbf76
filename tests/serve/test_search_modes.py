"""A string, an expression and a filter find the same through every interface."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command import rag
from live_server import Served
from test_mcp import called, over_http

from rag.adapters.repository import RepositorySearch
from rag.component.rag import RAG
from rag.errors import ConfigError, QuestionTooLong, SearchInvalid
from rag.lines import ranges
from rag.schema import to_json
from rag.service import Engine
from rag.settings import Settings
from rag.types import MAX_QUESTION_CHARS, Hits, SearchFilter

SEARCHES: list[dict[str, Any]] = [
    {"question": "def sign", "mode": "exact"},
    {"question": "SESSION", "mode": "exact", "ignore_case": True, "paths": ["snip/"]},
    {"question": r"^def \w+\(", "mode": "regex", "languages": ["python"], "kinds": ["test"]},
    {"question": "How are session tokens signed?", "kinds": ["doc"]},
    {"question": "no such words anywhere", "mode": "exact"},
    {"question": "How are session tokens signed?", "paths": ["nowhere/"]},
]
_ADDED = {"url", "repository", "location"}


def plain(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hits without what an interface adds."""
    return [{name: value for name, value in hit.items() if name not in _ADDED} for hit in hits]


def by_cli(source: str, asked: dict[str, Any]) -> dict[str, Any]:
    flags = [f"--{asked['mode']}"] if "mode" in asked else []
    flags += ["--ignore-case"] if asked.get("ignore_case") else []
    for option, name in (("--path", "paths"), ("--lang", "languages"), ("--kind", "kinds")):
        flags += [part for value in asked.get(name, ()) for part in (option, value)]
    done = rag("search", source, asked["question"], "-k", 5, "--json", *flags)
    assert done.code == (0 if done.json["hits"] else 1)
    names = ("mode", "matches", "remarks", "confidence")
    return {"hits": plain(done.json["hits"]), **{n: done.json[n] for n in names}}


def by_mcp(served: Served, asked: dict[str, Any]) -> dict[str, Any]:
    names = {"paths": "path", "languages": "language", "kinds": "kind"}
    chosen = {name: asked[many][0] for many, name in names.items() if many in asked}
    options = {name: asked[name] for name in ("mode", "ignore_case") if name in asked}

    async def through(session: Any) -> Any:
        arguments = {"query": asked["question"], "limit": 5} | options | chosen
        return (await called(session, "search_code", **arguments))[1]

    found = over_http(served, through)
    return {"hits": found["places"], **{n: found.get(n) for n in ("mode", "matches", "remarks")}}


def by_file(lines: Iterable[tuple[str, int]]) -> list[str]:
    """Places of lines as MCP returns them."""
    files: dict[str, list[int]] = {}
    for path, line in lines:
        files.setdefault(path, []).append(line)
    return [f"{path}:{ranges(sorted(numbers))}" for path, numbers in files.items()]


@pytest.mark.parametrize("k", [None, 25])
def test_every_interface_gives_the_same_complete_list(served: Served, tmp_path: Path, k: int | None) -> None:
    """In one call without a number of lines, else page by page; the text and the counts are the same too."""
    source = served.service.registry.source("sample").location
    found = subprocess.run(["grep", "-rnF", "token", "."], cwd=source, capture_output=True, text=True).stdout
    wanted = [tuple(row.split(":", 2)[:2]) for row in found.splitlines() if not row.startswith("./.git/")]
    assert len(wanted) > 60
    listed: list[tuple[str, str]] = []
    page: int | None = 1
    while page is not None:
        asked = {"question": "token", "mode": "exact", "page": page} | ({"k": k} if k else {})
        api = served.post("/api/search", {**asked, "repositories": ["sample"]}).json
        flags = ["--exact", "--page", page, *(["-k", k] if k else [])]
        cli = rag("search", source, "token", *flags, "--json").json
        python = by_python(tmp_path, source, asked)
        assert plain(api["hits"]) == plain(cli["hits"]) == plain([to_json(hit) for hit in python])
        assert python.matches is not None
        for matches in (cli["matches"], to_json(python.matches)):
            assert matches | {"rest": plain(matches["rest"])} == api["matches"] | {
                "rest": plain(api["matches"]["rest"])
            }
        arguments = {"query": "token", "mode": "exact", "page": page} | ({"limit": k} if k else {})
        text, values, _ = over_http(
            served, lambda session, of=arguments: called(session, "search_code", **of)
        )
        assert values["places"] == by_file((hit["path"], hit["start_line"]) for hit in api["hits"])
        assert values["matches"] | {"rest": plain(values["matches"]["rest"])} == api["matches"] | {
            "rest": plain(api["matches"]["rest"])
        }
        next_page = api["matches"]["next_page"]
        shown = rag("search", source, "token", *flags).out.rstrip("\n")
        shown = shown.replace("Repeat the command with --page", "Pass page=").replace("page= ", "page=")
        assert text.startswith(shown) and ("Not shown" in text) == (next_page is not None)
        listed += [(f"./{hit['path']}", str(hit["start_line"])) for hit in api["hits"]]
        page = next_page
    assert sorted(listed) == sorted(wanted)


@pytest.mark.parametrize("asked", SEARCHES, ids=lambda asked: asked["question"][:20])
def test_every_interface_finds_the_same(served: Served, asked: dict[str, Any]) -> None:
    source = served.service.registry.source("sample").location
    body = served.post("/api/search", {**asked, "repositories": ["sample"], "k": 5}).json
    api = {"hits": plain(body["hits"]), **{n: body[n] for n in ("mode", "matches", "remarks")}}
    # A server says that it evaluates no expression on what is not indexed.
    own = [one for one in api["remarks"] if "not searched for an expression" in one]
    remarks = [one for one in api["remarks"] if one not in own]
    assert api | {"confidence": body["confidence"], "remarks": remarks} == by_cli(source, asked)
    assert bool(own) == (asked.get("mode") == "regex" and not api["hits"])
    assert (body["confidence"] is None) == ("mode" in asked)
    whole = [f"{hit['path']}:{hit['start_line']}-{hit['end_line']}" for hit in api["hits"]]
    lines = by_file((hit["path"], hit["start_line"]) for hit in api["hits"])
    assert by_mcp(served, asked) == api | {"hits": lines if "mode" in asked else whole}
    hits = by_python(served.home / "python", source, asked | {"k": 5})
    assert plain([to_json(hit) for hit in hits]) == api["hits"]
    assert (api["matches"] is None) == ("mode" not in asked)
    assert bool(remarks) == (asked.get("paths") == ["nowhere/"])


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


def by_batch(source: str, asked: dict[str, Any], *flags: object) -> dict[str, Any]:
    """What `rag search --batch` replies to a question."""
    request = {"id": 1, "query": asked["question"]} | ({"k": asked["k"]} if "k" in asked else {})
    done = rag("search", source, "--batch", *flags, stdin=json.dumps(request) + "\n")
    reply: dict[str, Any] = json.loads(done.out.splitlines()[1])
    return reply


def by_python(home: Path, source: str, asked: dict[str, Any]) -> Hits:
    only = SearchFilter(*(tuple(asked.get(name, ())) for name in ("paths", "languages", "kinds")))
    options = {name: asked[name] for name in ("mode", "ignore_case", "k", "page") if name in asked}
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        component = RAG(engine=engine)
        component.prepare_retriever(source)
        return component.retrieve(asked["question"], only=only, **options)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"question": ""}, "the question is empty"),
        ({"question": " \n"}, "the question is empty"),
        ({"question": "", "mode": "exact"}, "the question is empty"),
        ({"question": "sign", "ignore_case": True}, "a question ignores case anyway"),
        ({"question": "sign", "page": 2}, "there is no page 2; the lines of exact and regex have pages"),
        ({"question": "sign", "languages": ["pyton"]}, "did you mean python"),
        ({"question": "sign", "languages": [" "]}, "a filter is empty"),
        ({"question": "sign", "paths": [" "]}, "a filter is empty"),
        ({"question": "(", "mode": "regex"}, "invalid regular expression"),
    ],
)
def test_every_interface_refuses_the_same_in_the_same_words(
    served: Served, tmp_path: Path, asked: dict[str, Any], said: str
) -> None:
    source = served.service.registry.source("sample").location
    reply = served.post("/api/search", {**asked, "repositories": ["sample"]})
    assert (reply.status, said in reply.json["error"]["message"]) == (400, True)
    flags = [f"--{asked['mode']}"] if "mode" in asked else []
    flags += ["--ignore-case"] if "ignore_case" in asked else []
    flags += ["--page", asked["page"]] if "page" in asked else []
    flags += [part for one in asked.get("languages", ()) for part in ("--lang", one)]
    flags += [part for one in asked.get("paths", ()) for part in ("--path", one)]
    done = rag("search", source, asked["question"], *flags)
    assert (done.code, said in done.err) == (2, True)
    names = {"paths": "path", "languages": "language"}
    chosen = {name: asked[many][0] for many, name in names.items() if many in asked}
    options = {name: asked[name] for name in ("mode", "ignore_case", "page") if name in asked} | chosen
    text, _, failed = over_http(
        served, lambda session: called(session, "search_code", query=asked["question"], **options)
    )
    assert (failed, said in text) == (True, True)
    with pytest.raises(ConfigError, match=said):
        by_python(tmp_path, source, asked)
    if not {"mode", "ignore_case", "page"} & asked.keys():
        assert said in by_batch(source, asked, *flags)["error"]
        answer = served.post("/api/ask", {**asked, "repositories": ["sample"]})
        assert (answer.status, said in answer.json["error"]["message"]) == (400, True)


def test_every_interface_has_the_same_limit_of_a_question(served: Served, tmp_path: Path) -> None:
    source = served.service.registry.source("sample").location
    long, said = "x" * (MAX_QUESTION_CHARS + 1), "the question has 16,001 characters, the limit is 16,000"
    for route in ("/api/search", "/api/ask"):
        reply = served.post(route, {"question": long, "repositories": ["sample"]})
        assert (reply.status, said in reply.json["error"]["message"]) == (413, True)
    for verb in ("search", "ask"):
        done = rag(verb, source, long)
        assert (done.code, said in done.err) == (2, True)
    assert said in by_batch(source, {"question": long})["error"]
    for tool, name in (("search_code", "query"), ("explore", "question")):
        text, _, failed = over_http(
            served, lambda session, tool=tool, name=name: called(session, tool, **{name: long})
        )
        assert (failed, said in text) == (True, True)
    with pytest.raises(QuestionTooLong, match=said):
        by_python(tmp_path, source, {"question": long})
    with closing(Engine(Settings(home=tmp_path, memory="memory:"))) as engine:
        component = RAG(engine=engine)
        component.prepare_retriever(source)
        with pytest.raises(QuestionTooLong, match=said):
            component(long)
        assert "Not found" in component(long[1:]).answer


def test_exploring_needs_a_question(served: Served) -> None:
    text, _, failed = over_http(served, lambda session: called(session, "explore", question=" "))
    assert failed and "the question is empty" in text


@pytest.mark.parametrize("k", [-1, 0, 1_001])
def test_no_interface_searches_for_no_hits_or_too_many(served: Served, tmp_path: Path, k: int) -> None:
    asked, said = {"question": "sign", "k": k}, f"the number of hits is {k:,}; ask for 1 to 1,000"
    source = served.service.registry.source("sample").location
    reply = served.post("/api/search", {**asked, "repositories": ["sample"]})
    assert (reply.status, reply.json["error"]["message"]) == (400, said)
    done = rag("search", source, "sign", "-k", k)
    assert (done.code, done.err) == (2, f"rag: {said}\n")
    assert by_batch(source, asked)["error"] == said
    assert over_http(served, lambda session: called(session, "search_code", query="sign", limit=k))[2]
    with pytest.raises(SearchInvalid, match=said):
        by_python(tmp_path, source, asked)
    adapter = RepositorySearch(source, settings=Settings(home=tmp_path, memory="memory:"))
    with pytest.raises(SearchInvalid, match=said):
        adapter.search("sign", k=k)


def test_every_interface_searches_for_many_hits(served: Served, tmp_path: Path) -> None:
    asked = {"question": "sign", "k": 1_000}
    source = served.service.registry.source("sample").location
    hits = served.post("/api/search", {**asked, "repositories": ["sample"]}).json["hits"]
    found = rag("search", source, "sign", "-k", 1_000, "--json").json["hits"]
    assert len(hits) == len(found) == len(by_python(tmp_path, source, asked)) > 10


def test_an_unknown_mode_is_refused_in_python(served: Served, tmp_path: Path) -> None:
    source = served.service.registry.source("sample").location
    with pytest.raises(SearchInvalid, match="unknown mode 'fuzzy'; use question, exact, regex"):
        by_python(tmp_path, source, {"question": "sign", "mode": "fuzzy"})


@pytest.mark.parametrize("question", ["How are session tokens signed?", "Who last changed check_token?"])
def test_a_batch_and_an_adapter_find_what_a_search_finds(
    served: Served, tmp_path: Path, question: str
) -> None:
    source = served.service.registry.source("sample").location
    hits = served.post("/api/search", {"question": question, "repositories": ["sample"], "k": 4}).json["hits"]
    places = [(hit["path"], hit["start_line"], round(hit["score"], 6)) for hit in hits]
    batch = by_batch(source, {"question": question}, "-k", 4)["results"]
    assert [(hit["path"], hit["start_line"], hit["score"]) for hit in batch] == places
    adapter = RepositorySearch(source, k=4, settings=Settings(home=tmp_path, memory="memory:"))
    assert [(hit.path, hit.start, round(hit.score, 6)) for hit in adapter.search(question)] == places


def test_the_filter_of_a_batch_selects_its_files(served: Served) -> None:
    source = served.service.registry.source("sample").location
    asked = {"question": "How are session tokens signed?"}
    found = by_batch(source, asked, "--path", "docs/")
    assert found["results"] and all(hit["path"].startswith("docs/") for hit in found["results"])
    assert not found["remarks"]
    nothing = by_batch(source, asked, "--path", "nowhere/")
    assert nothing["results"] == [] and "no indexed file matches" in nothing["remarks"][0]


def test_an_optional_argument_of_a_tool_that_is_empty_is_omitted(served: Served) -> None:
    arguments = {"query": "How are session tokens signed?"}
    empty = dict.fromkeys(("repoName", "ref", "path", "language", "kind"), "")

    async def through(session: Any) -> Any:
        tool = "search_code"
        await called(session, tool, **arguments)  # what was searched is said once a session
        return await called(session, tool, **arguments), await called(session, tool, **arguments, **empty)

    plain, given = over_http(served, through)
    assert plain == given and not plain[2]
