"""The client of the official MCP SDK 1.x, over stdio and HTTP."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager

import pytest
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import PromptReference
from serving import COMMAND, sample_copy, serving

TOOLS = {"explore", "read_span", "search_code", "find_symbol", "who_calls", "ask_question"}


@pytest.fixture(scope="module")
def over_http(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("http")) as url:
        yield lambda: streamable_http_client(f"{url}/mcp")


@pytest.fixture(scope="module")
def over_stdio(tmp_path_factory):
    home = tmp_path_factory.mktemp("stdio")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "RAG_HOME": str(home / "rag-home")}
    words = ["mcp", "--repo", f"sample={sample_copy(home)}"]
    return lambda: stdio_client(StdioServerParameters(command=COMMAND, args=words, env=environment))


@asynccontextmanager
async def session_of(door):
    async with door() as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        assert (hello.serverInfo.name, bool(hello.instructions)) == ("rag", True)
        yield session


async def told(session, tool, **arguments):
    """What a tool says."""
    said = []

    async def note(done, total, message):
        said.append(message)

    result = await session.call_tool(tool, arguments, progress_callback=note)
    assert not result.isError, result.content
    assert result.structuredContent["result"] == result.content[0].text
    return result.structuredContent | {"progress": said}


async def converse(session):
    """What an agent does with us, from the list of tools to a follow-up."""
    assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
    assert "sample (" in (await told(session, "list_available_repos"))["result"]
    values = await told(session, "ask_question", repoName="sample", question="Where is a token checked?")
    assert any(source["symbol"] == "authenticate" for source in values["sources"])
    goes_on = {"question": "And who calls it?", "conversation": values["conversation"]}
    second = await told(session, "ask_question", repoName=["sample"], **goes_on)
    assert second["conversation"] == values["conversation"]
    resource = await session.read_resource(f"turns://conversations/{values['conversation']}")
    turns = [turn["id"] for turn in json.loads(resource.contents[0].text)]
    assert turns == [values["turn"], second["turn"]]
    assert values["turn"] in (await told(session, "recall_turns", query="token"))["result"]
    (listed, *_) = (await session.list_resources()).resources
    assert str(listed.uri) == f"turns://conversations/{values['conversation']}"


async def choose(session):
    """What a client offers its user: prompts, and completions of their arguments."""
    prompts = {prompt.name for prompt in (await session.list_prompts()).prompts}
    assert prompts == {"explain", "overview"}
    shown = await session.get_prompt("explain", {"name": "authenticate"})
    assert "`authenticate`" in shown.messages[0].content.text
    ref = PromptReference(type="ref/prompt", name="overview")
    completed = await session.complete(ref, {"name": "repo", "value": "sa"})
    assert completed.completion.values == ["sample"]
    assert (await session.complete(ref, {"name": "name", "value": "a"})).completion.values == []


async def look_around(session):
    """The tools that need no question."""
    (place,) = (await told(session, "find_symbol", repoName="sample", name="authenticate"))["places"]
    read = await told(session, "read_span", repoName="sample", path=place)
    assert read["places"] == [place]
    explored = await told(session, "explore", question="Where is a token checked?", budget=400)
    assert "authenticate" in explored["result"] and explored["shown"]
    callers = await told(session, "who_calls", repoName="sample", symbol="authenticate")
    assert any(one.startswith("snip/app.py:") for one in callers["places"])
    found = await told(session, "search_code", query="revoke a token", limit=3)  # the only repository
    assert 0 < len(found["places"]) <= 3
    outline = await told(session, "read_wiki_structure", repoName="sample")
    assert outline["result"].startswith("Available pages for sample:")
    assert outline["progress"] == ["reading the structure"]
    part = await told(session, "read_wiki_contents", repoName="sample", page=1, maxChars=500)
    assert (len(part["pages"]), part["nextPage"]) == (1, 2)


async def be_mistaken(session):
    """A tool says what it could not do."""
    for tool, arguments, says in (
        ("ask_question", {"repoName": "nowhere", "question": "x"}, "no repository of that name"),
        ("read_span", {"repoName": "sample", "path": "../../etc/passwd"}, "no file"),
        ("find_symbol", {"repoName": "sample"}, "name"),
    ):
        result = await session.call_tool(tool, arguments)
        assert result.isError
        assert says in result.content[0].text
    with pytest.raises(McpError):
        await session.read_resource("turns://conversations/nobody")


@pytest.mark.parametrize("talk", [converse, choose, look_around, be_mistaken])
async def test_over_http(over_http, talk):
    async with session_of(over_http) as session:
        await talk(session)


async def test_over_stdio(over_stdio):
    async with session_of(over_stdio) as session:
        await converse(session)
        await choose(session)
        await look_around(session)
        await be_mistaken(session)
