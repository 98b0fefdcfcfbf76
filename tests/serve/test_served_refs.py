"""`NAME@REF` gives branches, tags and the commits they reach, at every interface; the rest is not there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from conftest import SAMPLE_REPO, git
from live_server import Served, serving

from rag.errors import SettingsError
from rag.serve.app import create_app
from rag.serve.settings import ServerSettings
from rag.service import Engine
from rag.settings import Settings
from rag.types import Source

SECRET = "embargoed_fix"
QUESTION = "Where is the embargoed fix?"


@dataclass
class Home:
    served: Served
    refs: dict[str, str]
    """Unpublished refs, by what they are."""
    conversation: str
    turn: str


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("refs")
    root = folder / "links"
    root.mkdir()
    (root / "sessions.py").write_bytes((SAMPLE_REPO / "snip" / "sessions.py").read_bytes())
    git(root, "init", "--quiet", "--template=")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin")
    (root / "sessions.py").write_text(f"def {SECRET}():\n    return 'not published'\n")
    git(root, "stash", "--quiet")
    git(root, "update-ref", "refs/pull/7/head", "refs/stash")
    oid = git(root, "rev-parse", "refs/stash")
    refs = {"the stash": "refs/stash", "its short name": "stash", "its id": oid, "part of it": oid[:9]}
    refs["a pull request"] = "refs/pull/7/head"
    with serving(folder, repositories=(("links", Source(str(root.resolve()))),), deepwiki=True) as served:
        asked = served.ready().post(
            "/api/ask", {"question": "How is a code made?", "repositories": ["links"]}
        )
        yield Home(served, refs, asked.json["conversation"], asked.json["turn"])


def _mcp(tool: str, arguments: Callable[[str], dict[str, str]]) -> Callable[[Home, str], str]:
    def call(home: Home, ref: str) -> str:
        from test_mcp import called, connected

        async def run() -> str:
            async with connected(f"{home.served.url}/mcp") as session:
                text, values, failed = await called(session, tool, **arguments(ref))
                assert failed, text
                return f"{text} {values}"

        return asyncio.run(run())

    return call


def _http(method: str, path: str, body: Callable[[str], object] | None = None) -> Callable[[Home, str], str]:
    def call(home: Home, ref: str) -> str:
        where = path.format(ref=ref, conversation=home.conversation, turn=home.turn)
        reply = home.served.request(method, where, body(ref) if body else None)
        assert reply.status in (403, 404), reply.body
        return reply.body.decode()

    return call


_INTERFACES = {
    "ask": _http("POST", "/api/ask", lambda ref: {"question": QUESTION, "repositories": [f"links@{ref}"]}),
    "search": _http(
        "POST", "/api/search", lambda ref: {"question": QUESTION, "repositories": [f"links@{ref}"]}
    ),
    "source": _http("GET", "/api/repositories/links@{ref}/source?path=sessions.py"),
    "calls": _http("GET", f"/api/repositories/links@{{ref}}/calls?symbol={SECRET}"),
    "wiki": _http("GET", "/api/repositories/links@{ref}/wiki"),
    "wiki page": _http("GET", "/api/repositories/links@{ref}/wiki/page?page=glossary"),
    "turns": _http("GET", "/api/repositories/links@{ref}/turns?path=sessions.py"),
    "review": _http("GET", "/api/repositories/links/review?range=main..{ref}"),
    "review at a ref": _http("GET", "/api/repositories/links@{ref}/review?range=main"),
    "review by MCP": _mcp("review", lambda ref: {"repoName": "links", "range": f"main..{ref}"}),
    "chat": _http(
        "POST",
        "/v1/chat/completions",
        lambda ref: {"model": f"rag:links@{ref}", "messages": [{"role": "user", "content": QUESTION}]},
    ),
    "freshness": _http("GET", "/api/conversations/{conversation}/freshness?ref={ref}"),
    "deepwiki": _http(
        "POST",
        "/chat/completions/stream",
        lambda ref: {"repo_url": f"links@{ref}", "messages": [{"role": "user", "content": QUESTION}]},
    ),
    "mcp search": _mcp("search_code", lambda ref: {"query": SECRET, "repoName": "links", "ref": ref}),
    "mcp name": _mcp("search_code", lambda ref: {"query": SECRET, "repoName": f"links@{ref}"}),
    "mcp span": _mcp("read_span", lambda ref: {"path": "sessions.py", "repoName": "links", "ref": ref}),
    "mcp ask": _mcp("ask_question", lambda ref: {"question": QUESTION, "repoName": "links", "ref": ref}),
    "mcp wiki": _mcp("read_wiki_contents", lambda ref: {"repoName": "links", "ref": ref}),
}


@pytest.mark.parametrize("interface", _INTERFACES)
def test_what_is_not_published_is_not_there(home: Home, interface: str) -> None:
    for what, ref in home.refs.items():
        assert SECRET not in _INTERFACES[interface](home, ref), what
    held = [
        file for file in (home.served.home / "rag-home").rglob("*.py*") if SECRET in file.read_text("latin-1")
    ]
    assert held == []


@pytest.mark.parametrize(
    ("interface", "length"), [("ask", 290), ("search", 290), ("source", 400), ("chat", 400)]
)
@pytest.mark.parametrize("part", ["a", "a/"], ids=["one name", "many folders"])
def test_a_ref_that_no_file_can_hold_is_not_there(home: Home, interface: str, length: int, part: str) -> None:
    ref = (part * length)[: length - 1] + "b"
    said = json.loads(_INTERFACES[interface](home, ref))["error"]
    assert "Errno" not in said["message"] and "rag-home" not in said["message"]


def test_the_operator_may_serve_more(home: Home, tmp_path) -> None:
    root = home.served.settings.repositories[0][1]
    more = ("refs/heads", "refs/pull")
    with serving(tmp_path, repositories=(("links", root),), refs=more) as served:
        asked = {"question": SECRET, "repositories": ["links@refs/pull/7/head"]}
        served.wait_until(lambda: served.post("/api/search", asked).status == 200)
        assert SECRET in served.post("/api/search", asked).body.decode()
        assert served.post("/api/search", {**asked, "repositories": ["links@refs/stash"]}).status == 404


def test_what_the_command_line_indexed_is_not_served(home: Home, tmp_path) -> None:
    (_, listed) = home.served.settings.repositories[0]
    engine = Engine(Settings(home=tmp_path / "rag-home"))
    for ref in home.refs.values():
        assert engine.repository(Source(listed.location, ref)).store.file_text("sessions.py")
    with serving(tmp_path, repositories=(("links", listed),)) as served:
        served.ready()
        for ref in home.refs.values():
            for _ in range(2):
                asked = {"question": SECRET, "repositories": [f"links@{ref}"]}
                reply = served.post("/api/search", asked)
                assert reply.status in (404, 503), reply.body
                served.wait_until(lambda asked=asked: served.post("/api/search", asked).status == 404)
            source = served.get(f"/api/repositories/links@{ref}/source?path=sessions.py")
            assert source.status == 404
            assert SECRET not in reply.body.decode() + source.body.decode()


def test_what_refs_take_on_disk_is_bounded_and_what_was_cited_can_be_checked(tmp_path, sample_repo) -> None:
    tags = [f"v{number}" for number in range(4)]
    for tag in tags:
        git(sample_repo, "commit", "--quiet", "--allow-empty", "--message", tag)
        git(sample_repo, "tag", tag)
    rag_home = tmp_path / "rag-home"
    with serving(
        tmp_path, repositories=(("sample", Source(str(sample_repo.resolve()))),), max_refs=2
    ) as served:
        served.ready()
        retention, said = served.service.registry._retention, []
        for hours, tag in enumerate(tags):
            retention._clock = lambda hours=hours: 3_600.0 * hours
            asked = {"question": "How are sessions signed?", "repositories": [f"sample@{tag}"]}
            served.wait_until(lambda asked=asked: served.post("/api/search", asked).status == 200)
            said.append(served.post("/api/ask", asked).json["conversation"])
            clones = [path for path in (rag_home / "repos").glob("*") if path.is_dir()]
            stores = [path for path in (rag_home / "stores").glob("*.pkl") if ".part." not in path.name]
            assert (len(clones), len(stores)) == (min(hours + 1, 2), min(hours + 1, 2) + 1)
        refused = served.post("/api/search", {**asked, "repositories": ["sample@v0"]})
        for later, conversation in enumerate(said):
            retention._clock = lambda later=later: 3_600.0 * (100 + later)
            where = f"/api/conversations/{conversation}/freshness"
            served.wait_until(lambda where=where: served.get(where).status == 200)
            assert {turn["freshness"]["state"] for turn in served.get(where).json} == {"fresh"}
            after = {"question": "And when do they expire?", "conversation": conversation}
            served.wait_until(lambda after=after: served.post("/api/ask", after).status == 200)
        assert refused.status in (200, 429, 503)


@pytest.mark.parametrize("pattern", ["heads", "refs/", "refs/heads main", "refs/heads~1", ""])
def test_what_is_no_pattern_of_refs_stops_the_server(tmp_path, pattern) -> None:
    with pytest.raises(SettingsError, match="pattern for refs"):
        create_app(ServerSettings(engine=Settings(home=tmp_path), refs=(pattern,)))


def test_a_conversation_about_a_ref_goes_on_after_a_restart(tmp_path, sample_repo) -> None:
    settings = {"repositories": (("sample", Source(str(sample_repo.resolve()))),)}
    asked = {"question": "How are sessions signed?", "repositories": ["sample@main"]}
    with serving(tmp_path, **settings) as served:
        served.wait_until(lambda: served.post("/api/search", asked).status == 200)
        response = served.post("/api/ask", asked).json
    with serving(tmp_path, **settings) as served:
        after = {"question": "And when do they expire?", "conversation": response["conversation"]}
        served.wait_until(lambda: served.post("/api/ask", after).status == 200)
        (first, _) = served.get(f"/api/conversations/{response['conversation']}/freshness").json
        assert first["freshness"]["state"] == "fresh"
