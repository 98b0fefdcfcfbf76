"""The MCP door through the official client that is installed, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from live_server import SAMPLE, Served, sample_copy, serving

pytest.importorskip("mcp", reason="the client of the protocol is not installed")

from rag.backends.tiktoken_counter import open_counter
from rag.mcp.arguments import lines_seen
from rag.mcp.catalog import listed_tools
from rag.retrieval.uses import uses_of_name
from rag.types import Source

TOOLS = {
    "explore",
    "list_available_repos",
    "read_wiki_structure",
    "read_wiki_contents",
    "ask_question",
    "recall_turns",
    "search_code",
    "read_span",
    "find_symbol",
    "who_calls",
    "remember",
    "forget",
    "facts",
    "check_turns",
    "turns_about",
    "review",
    "check",
}
WRITING = {"ask_question", "remember", "forget"}


@asynccontextmanager
async def connected(target: Any) -> AsyncIterator[Any]:
    """A session with a server, through 2.x's client or 1.x's: `target` is a URL or a command."""
    try:
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client
    except ImportError:
        async with _connected_v1(target) as session:
            yield session
        return
    if not isinstance(target, str):
        env = {"RAG_HOME": os.environ["RAG_HOME"], "PATH": os.environ["PATH"]}
        target = stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=env))
    async with Client(target) as client:
        yield client


@asynccontextmanager
async def _connected_v1(target: Any) -> AsyncIterator[Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if isinstance(target, str):
        opened: Any = streamable_http_client(target)
    else:
        env = {"RAG_HOME": os.environ["RAG_HOME"], "PATH": os.environ["PATH"]}
        opened = stdio_client(StdioServerParameters(command=target[0], args=target[1:], env=env))
    async with opened as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def called(session: Any, tool: str, **arguments: Any) -> tuple[str, dict[str, Any], bool]:
    result = await session.call_tool(tool, arguments)
    dumped = result.model_dump(by_alias=True)
    return result.content[0].text, dumped.get("structuredContent") or {}, bool(dumped.get("isError"))


def over_http(served: Served, talk: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with connected(f"{served.url}/mcp") as session:
            return await talk(session)

    return asyncio.run(run())


def test_the_tools_are_deepwikis_and_our_own(serve: Callable[..., Served]) -> None:
    served = serve(mcp_tools="all").ready()

    async def talk(session: Any) -> Any:
        return (await session.list_tools()).tools

    tools = {tool.name: tool.model_dump(by_alias=True) for tool in over_http(served, talk)}
    assert tools.keys() == TOOLS
    ask = tools["ask_question"]["inputSchema"]
    assert ask["required"] == ["question"]
    assert {each["type"] for each in ask["properties"]["repoName"]["anyOf"]} == {"string", "array"}
    for name in ("read_wiki_structure", "read_wiki_contents"):
        assert "required" not in tools[name]["inputSchema"]
    for name, needed in (("search_code", "query"), ("read_span", "path"), ("find_symbol", "name")):
        assert tools[name]["inputSchema"]["required"] == [needed]
    assert all(tool["annotations"]["readOnlyHint"] == (name not in WRITING) for name, tool in tools.items())


def test_each_server_of_a_process_answers_for_itself(serve: Callable[..., Served]) -> None:
    source = serve().ready().settings.repositories[0][1]
    for name in ("one", "two"):
        served = serve(repositories=((name, source),)).ready()
        text, *_ = over_http(served, lambda session: called(session, "list_available_repos"))
        assert f"- {name} (" in text and len(text.splitlines()) == 3, text


def test_the_server_says_which_version_it_is(served: Served) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    response = served.post("/mcp", asked, headers={"Accept": "application/json, text/event-stream"})
    assert f'"version":"{version("rag-turns")}"' in response.body.decode()
    assert 'route="/mcp"' in served.get("/metrics").body.decode()


def test_text_and_structured_result_are_one(served: Served) -> None:
    async def talk(session: Any) -> None:
        for tool in ("read_wiki_structure", "read_wiki_contents"):
            text, values, failed = await called(session, tool, repoName="sample")
            assert (values["result"], failed) == (text, False)
        assert text.startswith("# Page: ")
        _, values, _ = await called(session, "ask_question", question="How are session tokens signed?")
        assert {name: values[name] for name in ("subject", "code_facts", "support")} == dict.fromkeys(
            ("subject", "code_facts", "support")
        )
        text, _, _ = await called(session, "read_wiki_structure", repoName="sample")
        assert text.startswith("Available pages for sample:\n\n- 1 ")

    over_http(served, talk)


def test_pages_put_together_are_the_contents(served: Served) -> None:
    async def talk(session: Any) -> None:
        whole, values, _ = await called(session, "read_wiki_contents", maxChars=1_000_000)
        titles, read, page = values["pages"], [], 1
        texts = []
        while page:
            text, part, _ = await called(
                session, "read_wiki_contents", repoName="sample", page=page, maxChars=4000
            )
            texts.append(text.partition("\n(Page ")[0])
            read += part["pages"]
            page = part.get("nextPage")
        assert read == titles
        assert len(texts) > 1
        assert "\n".join(texts) == whole

    over_http(served, talk)


def test_an_answer_that_is_probably_not_there_is_warned_of(served: Served) -> None:
    async def talk(session: Any) -> None:
        text, asked, _ = await called(
            session, "ask_question", repoName="sample", question="Where are Kafka messages consumed?"
        )
        warning = "`Kafka` occurs nowhere in this repository. What you ask for may have another name."
        assert text.startswith(warning)
        assert (asked["found"], asked["warning"], asked["missing_words"]) == (True, warning, ["Kafka"])

    over_http(served, talk)


def test_a_follow_up_goes_on_with_its_conversation(served: Served) -> None:
    async def talk(session: Any) -> None:
        text, first, _ = await called(
            session, "ask_question", repoName="sample", question="Where is a token checked?"
        )
        assert first["found"] and any(each["symbol"] == "authenticate" for each in first["sources"])
        source = first["sources"][0]
        assert f"(`{source['path']}:{source['start_line']}`) [1]" in text
        _, second, _ = await called(
            session,
            "ask_question",
            repoName=["sample"],
            question="And who calls it?",
            conversation=first["conversation"],
        )
        assert second["conversation"] == first["conversation"]
        assert any(each["path"] == "snip/app.py" for each in second["sources"])
        turns = await session.read_resource(f"turns://conversations/{first['conversation']}")
        stored = json.loads(turns.contents[0].text)
        assert [turn["id"] for turn in stored] == [first["turn"], second["turn"]]

    over_http(served, talk)


def test_symbols_callers_and_lines_are_those_of_the_files(served: Served) -> None:
    async def talk(session: Any) -> None:
        text, found, _ = await called(session, "find_symbol", repoName="sample", name="authenticate")
        (place,) = found["places"]
        path, start, end = re.fullmatch(r"(.+):(\d+)-(\d+)", place).groups()  # type: ignore[union-attr]
        shown, read, _ = await called(session, "read_span", path=place)
        assert read["places"] == [place]
        lines = (SAMPLE / path).read_text().splitlines()[int(start) - 1 : int(end)]
        numbered = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(lines, int(start)))
        assert numbered in shown and numbered in text
        for names in (("start_line", "end_line"), ("start", "end"), ("startLine", "endLine")):
            bounds = dict(zip(names, (int(start), int(end)), strict=True))
            assert await called(session, "read_span", path=path, **bounds) == (shown, read, False)
        text, users, _ = await called(session, "who_calls", repoName="sample", symbol="authenticate")
        assert text.splitlines()[2].startswith("- snip/app.py:")
        assert all(each.partition(":")[0] in text for each in users["places"])
        text, hits, _ = await called(
            session, "search_code", repoName="sample", query="revoke an API token", limit=3
        )
        assert 0 < len(hits["places"]) <= 3

    over_http(served, talk)


def test_a_path_of_a_file_may_be_written_as_agents_write_it(served: Served) -> None:
    root = served.settings.repositories[0][1].location
    places = ("./snip/auth.py#L2-L3", f"{root}/snip/auth.py:2-3", f"file://{root}/snip/../snip/auth.py#L2-L3")

    async def talk(session: Any) -> None:
        first, *_ = await called(session, "read_span", path="snip/auth.py", start_line=2, end_line=3)
        expected = await called(session, "read_span", path="snip/auth.py", start_line=2, end_line=3)
        assert first.partition("\n\n(Searched: ")[0] == expected[0] != first
        assert expected[1]["places"] == ["snip/auth.py:2-3"] and not expected[2]
        for place in places:
            assert await called(session, "read_span", path=place) == expected
        outside, _, failed = await called(session, "read_span", path=f"{root}/../auth.py")
        assert failed and "no file" in outside

    over_http(served, talk)


def test_a_span_without_an_end_is_cut_and_says_where_it_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "long"
    root.mkdir()
    lines = [f"VALUE_{number} = {number}  # {'x' * 60}" for number in range(1, 1_501)]
    (root / "values.py").write_text("\n".join(lines))
    with serving(tmp_path, repositories=(("long", Source(str(root))),)) as running:
        running.ready()

        async def talk(session: Any) -> None:
            text, read, failed = await called(session, "read_span", path="values.py", start_line=11)
            assert not failed and len(text) < 20_000
            (place,) = read["places"]
            stop = int(place.partition("-")[2])
            assert 100 < stop < 1_500 and place == f"values.py:11-{stop}"
            assert lines[10] in text and lines[stop - 1] in text and lines[stop] not in text
            assert f"start_line={stop + 1}" in text
            whole, _, _ = await called(session, "read_span", path="values.py", start_line=11, end_line=1_500)
            assert lines[-1] in whole and "Go on" not in whole

        over_http(running, talk)


def test_definitions_and_callers_that_are_not_shown_are_listed_by_their_lines(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.mcp.toolbox.MAX_RESULTS", 1)
    monkeypatch.setattr("rag.retrieval.uses.MAX_SHOWN", 1)

    def lines(places: Sequence[str]) -> set[tuple[str, int]]:
        return {(path, n) for path, numbers in lines_seen(places).items() for n in numbers}

    async def talk(session: Any) -> None:
        text, found, _ = await called(session, "find_symbol", name="__init__")
        assert len(found["places"]) == 1
        count = re.search(r"The first 1 of (\d+) definitions; .* Also: (.*)\.", text)
        assert count and len(lines(count[2].split("; "))) == int(count[1]) - 1 > 0
        text, found, _ = await called(session, "who_calls", symbol="Storage")
        assert "; the first 1:" in text and "\n- also: " in text
        listed = [
            place for row in re.findall(r"(?m)^- (?:.*: )?(\S+:\d.*)$", text) for place in row.split("; ")
        ]
        every = uses_of_name(
            served.service.engine.stored(dict(served.settings.repositories)["sample"]).store, "Storage"
        )
        wanted = {(use.path, use.line) for use in (*every.found, *every.shown)}
        assert lines([place.split(" in ")[0] for place in listed]) == lines(found["places"]) == wanted

    over_http(served, talk)
    monkeypatch.setattr("rag.mcp.toolbox._MAX_FURTHER", 1)
    text, _, _ = over_http(served, lambda session: called(session, "who_calls", symbol="Storage"))
    assert re.search(r"(?m)^- \d+ more, and other lines with `Storage`: search_code, exact$", text)


def test_callers_that_are_cut_at_a_limit_say_so(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.retrieval.uses.MAX_FILES", 1)
    text, _, _ = over_http(served, lambda session: called(session, "who_calls", symbol="authenticate"))
    assert "may be incomplete: only 1 files with the name were read" in text


LOOKING: list[tuple[str, dict[str, Any]]] = [
    ("explore", {"question": "revoke an API token", "seen": ["nothing.py:1"]}),
    ("search_code", {"query": "revoke an API token"}),
    ("read_span", {"path": "snip/auth.py", "startLine": 27, "endLine": 41}),
    ("find_symbol", {"name": "authenticate"}),
    ("who_calls", {"symbol": "authenticate"}),
]


EXPLORED = {"question": "Where is a token checked, and who calls authenticate?", "budget": 300}


def lines_of_replies(replies: list[tuple[str, dict[str, Any], bool]]) -> list[tuple[str, int]]:
    assert not any(failed for _, _, failed in replies)
    shown = [lines_seen(values["shown"]) for _, values, _ in replies]
    return [(path, line) for one in shown for path, lines in one.items() for line in lines]


def test_over_stdio_exploring_sends_no_line_twice(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-P", "-m", "rag", "mcp", "--repo", f"sample={sample_copy(tmp_path).location}"]

    async def run() -> list[tuple[str, dict[str, Any], bool]]:
        async with connected(command) as session:
            return [await called(session, "explore", **EXPLORED) for _ in range(3)]

    replies = asyncio.run(run())
    assert "authenticate" in replies[0][0] and replies[0][1]["more"] > 0
    assert "ask the same question again for them" in replies[0][0]
    assert "sent before" in replies[1][0]
    sent = lines_of_replies(replies)
    assert len(sent) == len(set(sent))
    text = (SAMPLE / "snip/auth.py").read_text().splitlines()
    rows = replies[0][0].partition("snip/auth.py\n")[2].splitlines()
    number, _, shown = next(row for row in rows if row[0].isdigit()).partition(" ")
    assert text[int(number) - 1].strip() == shown.strip()


def test_over_http_a_client_may_say_what_it_has_seen(served: Served) -> None:
    counter = served.service.engine_for(served.service.keyring.anonymous).counter
    first = over_http(served, lambda session: called(session, "explore", **EXPLORED))
    assert over_http(served, lambda session: called(session, "explore", **EXPLORED)) == first
    seen = {"seen": first[1]["shown"]}
    second = over_http(served, lambda session: called(session, "explore", **EXPLORED, **seen))
    sent = lines_of_replies([first, second])
    assert len(sent) == len(set(sent)) and second[1]["shown"]
    assert max(counter.count(text) for text, _, _ in (first, second)) <= 300


def test_a_whole_turn_is_read_by_its_id(served: Served) -> None:
    async def talk(session: Any) -> None:
        _, asked, _ = await called(session, "ask_question", question="Where is a token checked?")
        whole, _, failed = await called(session, "recall_turns", turn=asked["turn"])
        stored = json.loads(
            (await session.read_resource(f"turns://conversations/{asked['conversation']}")).contents[0].text
        )
        assert not failed and stored[-1]["answer"] in whole
        short, _, _ = await called(session, "recall_turns", query="token checked")
        assert asked["turn"] in short and "(cut: recall_turns with `turn`)" in short
        assert " [fresh]" in short and " [fresh]" in whole

    over_http(served, talk)


def test_the_list_of_tools_is_short() -> None:
    counter = open_counter("gpt-4")  # counts exactly, in cl100k_base
    given, basic = (
        [
            {name: tool[name] for name in ("name", "description", "inputSchema")}
            for tool in listed_tools(tools)
        ]
        for tools in ("all", "basic")
    )
    plain = {"list_available_repos", "forget"}
    assert all("Use it" in tool["description"] for tool in given if tool["name"] not in plain)
    assert counter.count(json.dumps(given, separators=(",", ":"))) <= 1_920
    assert counter.count(json.dumps(basic, separators=(",", ":"))) <= 950


def test_the_only_repository_need_not_be_named(served: Served) -> None:
    async def talk(session: Any) -> None:
        for tool, arguments in LOOKING:
            if tool != "explore":  # what was searched is said once a session
                await called(session, tool, **arguments)
            named = await called(session, tool, repoName="sample", **arguments)
            assert not named[2] and (named[1].get("places") or named[1]["shown"]), tool
            again = await called(session, tool, **arguments)
            assert not again[2] and (tool == "explore" or again == named)

    over_http(served, talk)


def test_among_several_repositories_one_has_to_be_named(several: Served) -> None:
    async def talk(session: Any) -> None:
        for tool, arguments in LOOKING:
            text, _, failed = await called(session, tool, **arguments)
            assert failed
            assert "no repository is named; name one of: one, two" in text
            _, values, failed = await called(session, tool, repoName="two", **arguments)
            assert not failed and (values.get("places") or values["shown"])

    over_http(several, talk)
    for asked in ({"question": "x"}, {"model": "rag", "input": "x"}):
        reply = several.post("/v1/responses" if "input" in asked else "/api/ask", asked)
        message = "no repository is named; name one of: one, two"
        assert (reply.status, reply.json["error"]["message"]) == (404, message)


def test_the_server_says_at_once_which_repositories_there_are(several: Served) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    response = several.post("/mcp", asked, headers={"Accept": "application/json, text/event-stream"})
    assert "Repositories: one, two." in response.body.decode()


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    homes = {name: tmp_path_factory.mktemp(name) for name in ("one", "two")}
    repositories = tuple((name, sample_copy(home)) for name, home in homes.items())
    with serving(homes["one"] / "server", repositories=repositories) as running:
        yield running.ready()


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("ask_question", {"repoName": "nowhere", "question": "x"}, "no repository of that name"),
        ("ask_question", {"repoName": "/etc", "question": "x"}, "no repository of that name"),
        (
            "ask_question",
            {"repoName": ["sample"] * 3 + [str(n) for n in range(10)], "question": "x"},
            "the limit is 10",
        ),
        ("ask_question", {"repoName": "sample", "question": " "}, "empty"),
        ("ask_question", {"repoName": "sample", "question": "x" * 20_000}, "characters"),
        ("read_span", {"repoName": "sample", "path": "../../../etc/passwd"}, "no file"),
        ("read_span", {"repoName": "sample", "path": "snip/auth.py", "start_line": 9999}, "no line 9999"),
        ("read_span", {"repoName": "sample", "path": "snip/auth.py", "start_line": 5, "end_line": 2}, "5-2"),
        ("read_wiki_contents", {"repoName": "sample", "page": 999}, "numbered from 1"),
        ("read_span", {"path": "a.py", "startt": 3}, "no argument `startt`; did you mean `start_line`?"),
        ("read_span", {"path": "a.py:3-4", "start_line": 9}, "disagree"),
        ("read_span", {"path": "a.py", "start": 3, "start_line": 9}, "given twice"),
        ("explore", {"questions": "x"}, "no argument `questions`; did you mean `question`?"),
        ("explore", {"question": "x", "zz": 1}, "no argument `zz`. Its arguments: question, "),
        ("explore", {}, "explore needs `question`"),
        ("explore", {"question": "x", "budget": 5}, "`budget` of explore"),
        ("explore", {"question": "x", "seen": ["a.py"]}, "not a place"),
        ("explore", {"question": "x", "seen": ["a.py:1-99999999"]}, "more than 50,000 lines"),
        ("explore", {"question": "x", "seen": ["b.py:1", "a.py:4,9-3"]}, "`a.py:4,9-3`: 9-3 is not a range"),
        ("explore", {"question": "x", "seen": ["a.py:0"]}, "`a.py:0`: 0 is not a range of lines"),
        ("read_span", {"path": "snip/auth.py:9-3"}, "`snip/auth.py:9-3`: 9-3 is not a range of lines"),
        ("read_span", {"path": "snip/auth.py:0-3"}, "`snip/auth.py:0-3`: 0-3 is not a range of lines"),
        ("ask_question", {"question": "x", "conversation": "nonsense"}, "nonsense"),
        ("ask_question", {"question": "x", "conversationId": "nonsense"}, "nonsense"),
        ("recall_turns", {}, "either `query` or the id"),
        ("check_turns", {"conversation": "nonsense"}, "'nonsense'; recall_turns finds earlier turns"),
    ],
)
def test_what_cannot_be_done_is_said(served: Served, tool: str, arguments: Any, says: str) -> None:
    text, _, failed = over_http(served, lambda session: called(session, tool, **arguments))
    assert failed
    assert says in text and "pydantic" not in text


_FAILING: dict[str, dict[str, Any]] = {
    "explore": {"repoName": "nowhere", "question": "x"},
    "list_available_repos": {"limit": 0},
    "read_wiki_structure": {"repoName": "nowhere"},
    "read_wiki_contents": {"repoName": "nowhere"},
    "ask_question": {"repoName": "nowhere", "question": "x"},
    "recall_turns": {"turn": "nothing"},
    "search_code": {"query": "(", "mode": "regex"},
    "read_span": {"path": "nothing.py"},
    "find_symbol": {"repoName": "nowhere", "name": "x"},
    "who_calls": {"ref": "nothing", "symbol": "x"},
    "remember": {"fact": "nothing"},
    "forget": {"fact": "nothing"},
    "facts": {"repoName": "nowhere"},
    "check_turns": {"conversation": "nothing"},
    "turns_about": {"path": "x", "symbol": "x"},
    "review": {"range": "nothing..HEAD"},
    "check": {"repoName": "nowhere", "text": "x"},
}


def test_a_failed_tool_says_what_is_wrong_first(served: Served) -> None:
    async def talk(session: Any) -> dict[str, tuple[str, bool]]:
        replies = {tool: await called(session, tool, **arguments) for tool, arguments in _FAILING.items()}
        return {tool: (text, failed) for tool, (text, _, failed) in replies.items()}

    assert _FAILING.keys() == TOOLS
    said = over_http(served, talk)
    assert [tool for tool, (text, failed) in said.items() if not failed or "rror executing" in text] == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_wiki_structure", {}),
        ("read_wiki_contents", {}),
        ("search_code", {"query": "x"}),
        ("find_symbol", {"name": "authenticate"}),
        ("who_calls", {"symbol": "authenticate"}),
        ("read_span", {"path": "snip/auth.py"}),
        ("ask_question", {"question": "x"}),
    ],
)
def test_without_a_free_slot_a_tool_asks_to_retry(without_slots: Served, tool: str, arguments: Any) -> None:
    said, _, failed = over_http(
        without_slots, lambda session: called(session, tool, repoName="sample", **arguments)
    )
    assert failed
    assert "retry in a moment" in said


@pytest.fixture(scope="module")
def without_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("without-seats")
    with serving(home, repositories=(("sample", sample_copy(home)),), concurrent=0, waiting=0) as running:
        yield running.ready()


def test_over_stdio_the_first_answer_after_an_edit_knows_it_or_names_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    root = sample_copy(tmp_path).location
    command = [sys.executable, "-P", "-m", "rag", "mcp", "--repo", root]

    async def run() -> None:
        async with connected(command) as session:
            text, values, _ = await called(session, "find_symbol", name="paint_zebra")
            assert text.startswith("paint_zebra is not defined in the ")
            assert values["places"] == []
            assert values["coverage"][0]["not_indexed_count"] == 0
            with open(os.path.join(root, "zebra.py"), "w") as file:  # noqa: PTH118, PTH123
                file.write("def paint_zebra():\n    return 1\n")
            text, values, _ = await called(session, "find_symbol", name="paint_zebra")
            known = {place.partition(":")[0] for place in values["places"]}
            (coverage,) = values["coverage"]
            assert "zebra.py" in known or "zebra.py" in coverage["not_indexed"]
            assert "zebra.py" in text

    asyncio.run(run())


def test_over_stdio_the_same_tools_answer(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))

    async def run() -> None:
        command = [sys.executable, "-m", "rag", "mcp", "--repo", f"sample={SAMPLE}", "--tools", "all"]
        async with connected(command) as session:
            assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
            _, asked, failed = await called(
                session, "ask_question", repoName="sample", question="Where is a token checked?"
            )
            assert not failed and asked["sources"]

    asyncio.run(run())


def test_turns_reveal_no_folder_of_the_server_to_remote_callers(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    sample = sample_copy(tmp_path)
    running = serve(repositories=(("sample", sample),), public_hosts=("rag.example",)).ready()

    async def talk(session: Any) -> str:
        _, asked, _ = await called(
            session, "ask_question", repoName="sample", question="Where is a token checked?"
        )
        turns = await session.read_resource(f"turns://conversations/{asked['conversation']}")
        return str(turns.contents[0].text)

    text = over_http(running, talk)
    assert {cited["location"] for cited in json.loads(text)[0]["citations"]} == {"sample"}
    assert str(tmp_path) not in text


def test_an_agent_remembers_and_forgets_facts(served: Served) -> None:
    async def talk(session: Any) -> None:
        text, asked, _ = await called(
            session,
            "ask_question",
            repoName="sample",
            question="How are codes made? Remember that codes must be unique.",
        )
        _, proposed, _ = await called(session, "facts", state="proposed")
        (waiting,) = proposed["facts"]
        assert (waiting["text"], waiting["repository"]) == ("Codes must be unique.", "sample")
        text, one, failed = await called(session, "remember", fact=waiting["id"])
        assert not failed and text.startswith(f"Remembered:\n\n- {waiting['id']}  Codes must be unique.")
        assert one["fact"]["state"] == "confirmed"
        text, newer, _ = await called(
            session,
            "remember",
            text="Codes need not be unique",
            turn=asked["turn"],
            supersedes=[waiting["id"]],
        )
        assert newer["fact"]["citations"] and newer["fact"]["citations"][0]["path"] in text
        text, found, _ = await called(session, "facts", repoName="sample")
        assert (found["total"], found["facts"][0]["id"]) == (1, newer["fact"]["id"])
        assert found["facts"][0]["freshness"]["state"] == "fresh" and "[fresh]" in text
        text, gone, _ = await called(session, "forget", fact=newer["fact"]["id"])
        assert (text, gone["fact"]["id"]) == ("Forgot: Codes need not be unique", newer["fact"]["id"])
        assert (await called(session, "facts", check=False))[1]["facts"][0]["id"] == waiting["id"]
        await called(session, "forget", fact=waiting["id"])
        assert (await called(session, "facts"))[0] == "There are no confirmed facts."
        for wrong in (
            {},
            {"text": "a", "fact": "b"},
            {"fact": "b", "turn": "c"},
            {"text": "It has no scope", "scope": "team"},
            {"text": "It replaces nothing", "supersedes": ["ffff"]},
        ):
            assert (await called(session, "remember", **wrong))[2], wrong
        assert (await called(session, "forget", fact="ffff"))[2]
        assert (await called(session, "facts", at="no-such-ref"))[2]

    over_http(served, talk)


def test_an_agent_checks_turns_and_finds_those_about_code(served: Served) -> None:
    async def talk(session: Any) -> None:
        question = "How are session tokens signed?"
        _, asked, _ = await called(session, "ask_question", repoName="sample", question=question)
        text, found, _ = await called(session, "check_turns", conversation=asked["conversation"])
        (turn,) = found["turns"]
        assert (turn["turn"], turn["number"], turn["freshness"]["state"]) == (asked["turn"], 1, "fresh")
        assert {one["freshness"]["state"] for one in turn["citations"]} == {"fresh"}
        assert text.startswith(f"{question}  [fresh]\n   turn {asked['turn']} of ")
        cited = asked["sources"][0]
        for about in (
            {"path": cited["path"]},
            {"path": cited["path"], "line": cited["start_line"]},
            {"symbol": cited["symbol"]},
        ):
            _, found, _ = await called(session, "turns_about", **about)
            assert asked["turn"] in [one["turn"] for one in found["turns"]], about
        assert (await called(session, "turns_about", path="no/such.py"))[0] == "No answer cites no/such.py."
        for wrong in (
            {},
            {"path": "a", "symbol": "b"},
            {"symbol": "b", "line": 1},
            {"symbol": "no_such_name"},
        ):
            assert (await called(session, "turns_about", **wrong))[2], wrong
        assert (await called(session, "check_turns", conversation="nowhere"))[2]
        assert (await called(session, "check_turns", conversation=asked["conversation"], ref="no-such-ref"))[
            2
        ]

    over_http(served, talk)


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("basic", {"explain", "overview"}),
        ("all", {"explain", "overview", "review_change", "still_true"}),
    ],
)
def test_prompts_are_listed_and_name_tools_that_are(
    serve: Callable[..., Served], listed: str, names: set[str]
) -> None:
    async def talk(session: Any) -> Any:
        tools = {tool.name for tool in (await session.list_tools()).tools}
        prompts = (await session.list_prompts()).prompts
        texts = [
            (await session.get_prompt("explain", {"name": "authenticate", "repo": "sample"})),
            *[await session.get_prompt(name, {}) for name in sorted(names - {"explain"})],
        ]
        return tools, prompts, [one.messages[0].content.text for one in texts]

    tools, prompts, texts = over_http(serve(mcp_tools=listed), talk)
    assert {one.name for one in prompts} == names
    assert all(one.description and len(one.description) < 120 for one in prompts)
    assert "`authenticate` in the repository sample" in texts[0]
    named = {word for text in texts for word in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text)}
    assert len(named) > 3 and named <= tools


def test_conversations_are_listed_page_by_page_and_can_be_read(served: Served) -> None:
    async def talk(session: Any) -> Any:
        _, values, _ = await called(session, "ask_question", question="Where is a token checked?")
        first = await session.list_resources()
        read = await session.read_resource(first.resources[0].uri)
        beyond = await listed_from(session, "999999")
        return values["conversation"], first, read.contents[0].text, beyond

    conversation, first, text, beyond = over_http(served, talk)
    assert str(first.resources[0].uri) == f"turns://conversations/{conversation}"
    assert json.loads(text)[0]["answer"]
    assert beyond.resources == []


async def listed_from(session: Any, cursor: str) -> Any:
    try:
        return await session.list_resources(cursor=cursor)
    except TypeError:
        from mcp.types import PaginatedRequestParams

        return await session.list_resources(params=PaginatedRequestParams(cursor=cursor))


def test_known_arguments_are_completed(served: Served) -> None:
    async def talk(session: Any) -> Any:
        from mcp.types import PromptReference

        _, asked, _ = await called(session, "ask_question", question="Where is a token checked?")
        ref = PromptReference(type="ref/prompt", name="overview")
        of = [("repo", "sam"), ("repo", "nothing"), ("name", "a"), ("conversation", "")]
        return asked["conversation"], [
            (await session.complete(ref=ref, argument={"name": name, "value": typed})).completion.values
            for name, typed in of
        ]

    conversation, (repos, none, unknown, conversations) = over_http(served, talk)
    assert (repos, none, unknown) == (["sample"], [], [])
    assert conversation in conversations and len(set(conversations)) == len(conversations) <= 50


def test_an_answer_names_its_repository_as_it_is_served(several: Served) -> None:
    """Both folders have the same name."""
    asked = {"question": "Who calls authenticate?", "repositories": ["two"]}
    api = several.post("/api/ask", asked).json
    body = {"model": "rag:two", "messages": [{"role": "user", "content": asked["question"]}]}
    completion = several.post("/v1/chat/completions", body).json
    response = several.post("/v1/responses", {"model": "rag:two", "input": asked["question"]}).json
    arguments = {"repoName": "two", "question": asked["question"]}
    mcp = over_http(several, lambda session: called(session, "ask_question", **arguments))[1]
    found = several.post("/api/search", asked).json
    for reply in (api, completion["rag"], response["rag"], mcp, found):
        assert [one["repository"] for one in reply["coverage"]] == ["two"]
        items = reply["code_facts"]["items"]
        assert items and {one["repository"] for one in items} == {"two"}
        assert all("url" in one for one in items)
    assert all(one["url"].startswith("http") for one in completion["rag"]["code_facts"]["items"])
