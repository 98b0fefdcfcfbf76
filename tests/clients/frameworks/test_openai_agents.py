"""Our memory as a session of the OpenAI Agents SDK: as its own SQLite session does."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.items import ModelResponse
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from agents.usage import Usage
from docstring_examples import run_example
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import rag.adapters.openai_agents
from rag.adapters.openai_agents import RagSession

ITEMS = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "北京"}]},
    {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "found"},
]


def test_an_unknown_attribute_is_refused():
    session = RagSession("ann")
    session.session_settings = SessionSettings(limit=2)
    with pytest.raises(AttributeError, match="ttl"):
        session.ttl = 2


class SayingModel(Model):
    """Answers with these outputs in turn, and remembers what it was asked."""

    def __init__(self, *outputs):
        self.outputs, self.asked = list(outputs), []

    async def get_response(self, system_instructions, input, *args, **kwargs):
        self.asked.append(input)
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def saying(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


@pytest.mark.parametrize("url", ["memory:", "sqlite:///sessions.db"])
async def test_it_answers_as_the_sdks_own_session(url, tmp_path):
    ours, theirs = RagSession("ann", memory=url), SQLiteSession("ann", tmp_path / "theirs.db")
    for session in (ours, theirs):
        assert isinstance(session, Session)
        assert session.session_id == "ann"
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([])
        await session.add_items(ITEMS)
        await session.add_items(ITEMS[:1])
        assert await session.get_items() == [*ITEMS, ITEMS[0]]
        assert await session.get_items(limit=2) == [ITEMS[3], ITEMS[0]]
        assert await session.get_items(limit=0) == []
        assert await session.pop_item() == ITEMS[0]
        assert await session.pop_item() == ITEMS[3]
        assert await session.get_items() == ITEMS[:3]
        await session.clear_session()
        assert await session.get_items() == []
    theirs.close()


async def test_the_limit_of_the_settings_holds_where_nothing_else_is_said():
    session = RagSession(session_settings=SessionSettings(limit=1))
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[3:]
    assert await session.get_items(limit=2) == ITEMS[2:]


async def test_an_item_is_popped_once_whoever_else_pops():
    session = RagSession("ann", memory="sqlite:///sessions.db")
    await session.add_items([{"role": "user", "content": str(n)} for n in range(20)])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(25)))
    assert sorted(int(item["content"]) for item in popped if item) == list(range(20))


async def test_a_runner_goes_on_with_a_session_after_a_restart():
    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    call = ResponseFunctionToolCall(type="function_call", call_id="1", name="look", arguments="{}")
    config = RunConfig(tracing_disabled=True)

    async def run(question, *outputs):
        model = SayingModel(*outputs)
        session = RagSession("ann", memory="sqlite:///sessions.db")
        agent = Agent(name="helper", instructions="Help.", model=model, tools=[look])
        result = await Runner.run(agent, question, session=session, run_config=config)
        return result.final_output, model.asked[-1]

    assert (await run("I am Ann", call, saying("Hello Ann")))[0] == "Hello Ann"
    answer, asked = await run("Who am I?", saying("Ann"))
    assert answer == "Ann"
    kinds = [item.get("type") or item["role"] for item in asked]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
    assert asked[0]["content"] == "I am Ann"


async def test_the_example_runs(capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    await run_example(rag.adapters.openai_agents, model=SayingModel(saying("Hello Ann")))
    assert capsys.readouterr().out.strip() == "2"


async def test_settings_may_be_a_dict_as_for_the_sdks_own_session(tmp_path):
    for kind, more in ((RagSession, {}), (SQLiteSession, {"db_path": tmp_path / "theirs.db"})):
        session = kind("ann", session_settings={"limit": 1}, **more)
        assert session.session_settings == SessionSettings(limit=1)
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS[-1:]
        with pytest.raises((TypeError, ValueError), match="most"):
            kind("ann", session_settings={"most": 1}, **more)


async def test_items_of_a_call_that_is_cancelled_are_stored_when_the_caller_knows(tmp_path):
    session = RagSession("ann", memory=f"sqlite:///{tmp_path}/ours.db")
    await session.add_items(ITEMS[:1])
    with closing(sqlite3.connect(tmp_path / "ours.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        adding = asyncio.create_task(session.add_items(ITEMS[1:2]))
        await asyncio.sleep(0)  # it begins
        assert await session.get_items() == ITEMS[:1]
        adding.cancel()
        other.execute("ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert await session.get_items() == ITEMS[:2]
