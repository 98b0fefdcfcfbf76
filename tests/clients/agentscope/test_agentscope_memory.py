"""Our memory in AgentScope 1.0: as its own in-process memory does, and as ours where its three disagree."""

from __future__ import annotations

import importlib
import json

import pytest
from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.module import StateModule
from agentscope.pipeline import MsgHub
from agentscope.token import CharTokenCounter
from docstring_examples import run_example

import rag.adapters.agentscope
from rag.adapters.agentscope import RagMemory
from rag.backends.memory.turns import MemoryTurnStore
from rag.errors import BackendMissing
from rag.service import Engine
from rag.settings import Settings
from tests.contracts.clock import SteppedClock


class SayingModel(ChatModelBase):
    """Answers with texts in turn; asked for structure, fills every field with "so far"."""

    def __init__(self, *texts: str) -> None:
        super().__init__("saying", stream=False)
        self.texts, self.asked = list(texts), []

    async def __call__(self, messages, *args, structured_model=None, **kwargs):
        self.asked.append(messages)
        if structured_model is not None:
            filled = dict.fromkeys(structured_model.model_fields, "so far")
            return ChatResponse(content=[], metadata=filled)
        return ChatResponse(content=[TextBlock(type="text", text=self.texts.pop(0))])


@pytest.fixture(params=["memory:", "sqlite:///agents.db"])
def url(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.fixture
def memory(url):
    return RagMemory("ours", memory=url)


def said(text: str, *, id: str | None = None, role: str = "user") -> Msg:
    msg = Msg(role, text, role)
    msg.id = id or msg.id
    return msg


def texts(msgs: list[Msg]) -> list[str]:
    return [msg.get_text_content() for msg in msgs]


async def filled(memory):
    """Three messages: a has x and y, b has x, c has none."""
    await memory.add(said("a", id="a"), marks=["x", "y"])
    await memory.add(said("b", id="b"), marks="x")
    await memory.add(said("c", id="c"))
    return memory


async def test_the_time_to_live_reaches_the_store():
    clock = SteppedClock()
    memory = RagMemory("ours", memory=MemoryTurnStore(clock=clock), ttl_s=3_600)
    await memory.add(said("a"))
    clock.advance(3_599)
    assert await memory.size() == 1
    clock.advance(1)
    assert await memory.size() == 0


# ---- the eleven cases on which AgentScope's own memories disagree


async def test_before_the_first_message_the_size_is_0(memory):
    assert await memory.size() == 0
    await memory.clear()
    assert await memory.get_memory() == []


async def test_an_id_twice_in_one_call_is_kept_once(memory):
    await memory.add([said("a", id="a"), said("again", id="a")])
    assert texts(await memory.get_memory()) == ["a"]


async def test_deleting_counts_what_was_there(memory):
    await filled(memory)
    assert await memory.delete(["nope"]) == 0
    assert await memory.delete([]) == 0
    assert await memory.delete(["a", "c", "nope"]) == 2
    assert await memory.delete("b") == 1


async def test_a_message_with_two_of_the_marks_counts_once(memory):
    await filled(memory)
    assert await memory.delete_by_mark(["x", "y"]) == 2
    assert texts(await memory.get_memory()) == ["c"]


async def test_a_mark_that_is_there_already_changes_nothing(memory):
    await filled(memory)
    assert await memory.update_messages_mark("x", msg_ids=["a"]) == 0
    assert await memory.update_messages_mark("x") == 1


async def test_the_order_is_that_of_adding_whatever_was_marked_when(memory):
    await filled(memory)
    await memory.update_messages_mark("late", msg_ids=["c"])
    await memory.update_messages_mark("late", msg_ids=["a"])
    assert texts(await memory.get_memory(mark="late")) == ["a", "c"]


async def test_a_mark_put_in_its_own_place_is_kept(memory):
    await filled(memory)
    assert await memory.update_messages_mark("x", "x") == 0
    assert texts(await memory.get_memory(mark="x")) == ["a", "b"]


async def test_replacing_a_mark_by_one_that_is_there_counts(memory):
    await filled(memory)
    assert await memory.update_messages_mark("y", "x", ["a"]) == 1
    assert texts(await memory.get_memory(mark="x")) == ["b"]
    assert texts(await memory.get_memory(mark="y")) == ["a"]


async def test_neither_mark_is_an_error_and_drops_none(memory):
    with pytest.raises(ValueError, match="mark"):
        await memory.update_messages_mark(None, None)
    await filled(memory)
    with pytest.raises(ValueError, match="mark"):
        await memory.update_messages_mark(None, None)
    assert texts(await memory.get_memory(mark="x")) == ["a", "b"]


async def test_clear_takes_the_summary_unless_told_otherwise(memory):
    await filled(memory)
    await memory.update_compressed_summary("so far")
    await memory.clear(keep_summary=True)
    assert texts(await memory.get_memory()) == ["so far"]
    await memory.clear()
    assert await memory.get_memory() == []


async def test_users_of_the_same_session_are_apart(url):
    store = Engine(Settings(memory=url)).turns
    alice, bob = (RagMemory("session", memory=store, namespace=name) for name in ("alice", "bob"))
    await alice.add(said("secret"))
    assert await bob.get_memory() == []
    await bob.clear()
    assert await alice.size() == 1


# ---- as InMemoryMemory does


async def test_it_answers_as_the_in_process_memory_of_agentscope(memory):
    theirs = InMemoryMemory()
    tools = [
        ToolUseBlock(type="tool_use", id="1", name="look", input={"path": "a.py", "deep": [None, 1.5]}),
        ToolResultBlock(
            type="tool_result", id="1", name="look", output=[TextBlock(type="text", text="北京")]
        ),
    ]
    given = [
        said("first"),
        Msg("helper", [TextBlock(type="text", text="thinking"), tools[0]], "assistant", metadata={"n": 1}),
        Msg("system", [tools[1]], "system", timestamp="2026-01-02 03:04:05.678"),
    ]
    for kept in (memory, theirs):
        await kept.add(None)
        await kept.add(given[:2], marks=["m"])
        await kept.add(given, marks="late")
        await kept.add([])
        assert await kept.update_messages_mark("n", "m", [given[0].id]) == 1
        assert await kept.update_messages_mark("all") == 3
        assert await kept.update_messages_mark(None, "late") == 1
        assert await kept.update_messages_mark("z", "nowhere") == 0
    for filters in ({}, {"mark": "m"}, {"mark": "all", "exclude_mark": "n"}, {"exclude_mark": "all"}):
        ours_found, theirs_found = await memory.get_memory(**filters), await theirs.get_memory(**filters)
        assert [msg.to_dict() for msg in ours_found] == [msg.to_dict() for msg in theirs_found], filters
    assert [(m.id, sorted(marks)) for m, marks in memory.content] == [
        (m.id, sorted(marks)) for m, marks in theirs.content
    ]
    await memory.add(given[0], allow_duplicates=True)
    await theirs.add(given[0], allow_duplicates=True)
    assert [m.id for m in await memory.get_memory()] == [m.id for m in await theirs.get_memory()]
    assert await memory.delete([given[0].id]) == await theirs.delete([given[0].id]) == 2


async def test_marks_are_a_text_or_a_list_of_texts(memory):
    await filled(memory)
    assert texts(await memory.get_memory(mark=["x", "nope"], exclude_mark=["y"])) == ["b"]
    assert await memory.get_memory(mark=[]) == []
    assert len(await memory.get_memory(exclude_mark=[])) == 3
    for wrong in (7, [7], {"x": 1}):
        with pytest.raises(TypeError):
            await memory.get_memory(mark=wrong)
        with pytest.raises(TypeError):
            await memory.add(said("d"), marks=wrong)
        with pytest.raises(TypeError):
            await memory.delete_by_mark(wrong)


async def test_what_is_no_message_is_refused(memory):
    for wrong in ("text", [said("a"), "text"], [{"content": "a"}]):
        with pytest.raises(TypeError, match="Msg"):
            await memory.add(wrong)
    assert await memory.size() == 0


async def test_what_is_stored_is_a_copy(memory):
    msg = Msg("user", [TextBlock(type="text", text="as it was")], "user")
    await memory.add(msg)
    msg.content[0]["text"] = "changed"
    (found,) = await memory.get_memory()
    found.content[0]["text"] = "changed"
    assert texts(await memory.get_memory()) == ["as it was"]


async def test_searching_splits_names_and_pairs_of_characters(memory):
    await memory.add(
        [said("北京天气晴朗"), said("getUserName is slow"), said('say "hi"'), said("北京空气质量良好")]
    )
    assert set(texts(await memory.search("北京"))) == {"北京天气晴朗", "北京空气质量良好"}
    assert texts(await memory.search("user name")) == ["getUserName is slow"]
    assert texts(await memory.search('say "hi"')) == ['say "hi"']
    assert len(await memory.search("北京", limit=1)) == 1
    assert await RagMemory().search("北京") == []


async def test_a_message_told_to_several_agents_is_kept_for_each(url):
    store = Engine(Settings(memory=url)).turns
    models = {name: SayingModel(f"{name} agrees.") for name in ("ann", "bob")}
    agents = [
        ReActAgent(name, "Help.", model, OpenAIChatFormatter(), memory=RagMemory(name, memory=store))
        for name, model in models.items()
    ]
    for agent in agents:
        agent.set_console_output_enabled(False)
    async with MsgHub(agents, announcement=said("Tabs or spaces?", role="assistant")):
        await agents[0]()
        await agents[1]()
    for agent in agents:
        assert texts(await agent.memory.get_memory()) == ["Tabs or spaces?", "ann agrees.", "bob agrees."]


# ---- state


async def test_a_full_state_moves_to_another_store_and_to_agentscopes_own_memory(memory, tmp_path):
    await filled(memory)
    await memory.add(said("again", id="c"), allow_duplicates=True)
    await memory.update_compressed_summary("so far")
    state = json.loads(json.dumps(memory.state_dict()))
    other = RagMemory("other", memory=f"sqlite:///{tmp_path}/other.db")
    await other.add(said("gone", id="a"))
    theirs = InMemoryMemory()
    for loaded in (other, theirs):
        loaded.load_state_dict(state)
        assert texts(await loaded.get_memory()) == ["so far", "a", "b", "c", "again"]
        assert texts(await loaded.get_memory(mark="y", prepend_summary=False)) == ["a"]
        assert (await loaded.get_memory())[1].id == "a"
    other.load_state_dict(theirs.state_dict())
    assert other.state_dict() == state


async def test_a_state_with_something_missing_is_an_error_when_strict(memory):
    with pytest.raises(KeyError, match="content"):
        memory.load_state_dict({"_compressed_summary": ""})
    with pytest.raises(KeyError, match="_compressed_summary"):
        memory.load_state_dict({"content": []})
    memory.load_state_dict({"content": [said("old", id="o").to_dict()]}, strict=False)
    assert [msg.id for msg in await memory.get_memory()] == ["o"]
    with pytest.raises(ValueError, match="a message and its marks"):
        memory.load_state_dict({"content": [7]}, strict=False)


async def test_a_reference_names_the_conversation_of_the_same_store(url):
    store = Engine(Settings(memory=url)).turns
    memory = await filled(RagMemory(memory=store, mode="reference"))
    await memory.update_compressed_summary("so far")
    state = json.loads(json.dumps(memory.state_dict()))
    assert "content" not in state
    again = RagMemory(memory=store)
    again.load_state_dict(state)
    assert texts(await again.get_memory()) == ["so far", "a", "b", "c"]


async def test_registered_attributes_and_modules_are_part_of_the_state(url):
    class Counting(RagMemory):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.count, self.part = 1, InMemoryMemory()
            self.register_state("count", str, int)

    memory = Counting("counting", memory=url)
    memory.count = 7
    await memory.part.add(said("within"))
    state = json.loads(json.dumps(memory.state_dict()))
    assert state["count"] == "7"
    again = Counting("again", memory=url)
    again.load_state_dict(state)
    assert again.count == 7
    assert texts(await again.part.get_memory()) == ["within"]
    assert isinstance(again, StateModule)


# ---- in an agent


async def test_an_agent_compresses_and_goes_on_after_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path}/agents.db"

    def agent(*texts: str) -> ReActAgent:
        made = ReActAgent(
            "helper",
            "Help.",
            SayingModel(*texts),
            OpenAIChatFormatter(),
            memory=RagMemory("helper", memory=url),
            compression_config=ReActAgent.CompressionConfig(
                enable=True, agent_token_counter=CharTokenCounter(), trigger_threshold=400, keep_recent=2
            ),
        )
        made.set_console_output_enabled(False)
        return made

    first = agent("one " * 50, "two", "three")
    for question in ("First?", "Second?", "Third?"):
        await first(said(question))
    summary, *rest = await first.memory.get_memory(exclude_mark="compressed")
    assert "so far" in summary.get_text_content()
    assert len(rest) < 6 == await first.memory.size()
    assert texts(await first.memory.get_memory(mark="compressed", prepend_summary=False))[0] == "First?"

    second = agent("four")
    await second(said("Fourth?"))
    told = json.dumps(second.model.asked[-1])
    assert "so far" in told
    assert "three" in told
    assert "First?" not in told
    state = json.loads(json.dumps(second.state_dict()))
    third = agent("five")
    third.memory = RagMemory()
    third.load_state_dict(state)
    assert await third.memory.size() == 8


def test_the_middleware_of_agentscope_2_says_which_version_has_them():
    with pytest.raises(BackendMissing, match=r"agentscope 2 .*'\.\[agentscope2\]'"):
        importlib.import_module("rag.adapters.agentscope2")


async def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = SayingModel("In `auth.py`.")
    await run_example(rag.adapters.agentscope, model=model, formatter=OpenAIChatFormatter())
    assert "['Where is a token checked?']" in capsys.readouterr().out
    assert (tmp_path / "agents.db").is_file()


async def test_a_time_to_live_is_set_as_in_their_redis_memory():
    clock = SteppedClock()
    memory = RagMemory("ours", memory=MemoryTurnStore(clock=clock))
    memory.key_ttl = 2
    await memory.add(said("Hello"))
    assert memory.key_ttl == 2
    clock.advance(3)
    assert await memory.get_memory() == []
    await memory.add(said("again"))
    memory.key_ttl = 2
    with pytest.raises(ValueError, match="before the first message"):
        memory.key_ttl = 5
    with pytest.raises(AttributeError, match="no attribute 'ttl'"):
        memory.ttl = 2


async def test_unknown_options_are_refused():
    memory = RagMemory()
    for call, option in ((memory.add, "mark"), (memory.delete, "ids"), (memory.get_memory, "recent_n")):
        with pytest.raises(TypeError, match=option):
            await call("1", **{option: 1})
