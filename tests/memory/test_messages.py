"""Messages as agents keep them: what AgentScope's memories promise, the same on every store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.adal import adalflow
from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.component.memory import Memory
from rag.errors import NotFound
from rag.memory.messages import MessageMemory
from rag.memory.state import Stateful
from rag.ports import MemoryStore
from rag.types import Message
from tests.contracts.clock import SteppedClock


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    store = MemoryTurnStore() if request.param == "memory" else SqliteTurnStore(tmp_path / "turns.db")
    yield store
    store.close()


@pytest.fixture
def memory(store: MemoryStore) -> MessageMemory:
    return MessageMemory(store, namespace="ada")


def contents(memory: MessageMemory | Memory, *filters: object, **more: object) -> list[object]:
    return [message.content for message in memory.get_memory(*filters, **more)]  # type: ignore[arg-type]


def test_nothing_is_there_before_the_first_message(memory: MessageMemory, store: MemoryStore) -> None:
    assert (memory.size(), memory.get_memory(), memory.clear(), memory.delete(["x"])) == (0, [], 0, 0)
    assert (memory.delete_by_mark("x"), memory.update_messages_mark("x")) == (0, 0)
    assert memory.add(None) == memory.add([]) == []
    memory.update_compressed_summary("")
    assert store.conversations(namespace="ada") == []


def test_a_mark_of_text_is_one_mark(memory: MessageMemory) -> None:
    memory.add(Message("one"), marks="HINT")
    memory.add([Message("two", marks=("own",)), Message("three")], marks=["a", "b"])
    assert [message.marks for message in memory.get_memory()] == [("HINT",), ("a", "b", "own"), ("a", "b")]
    assert contents(memory, "HINT") == ["one"]
    assert contents(memory, ["own", "HINT"], "a") == ["one"]
    assert contents(memory, []) == []
    for bad in (7, {"x": 1}, [1]):
        with pytest.raises(TypeError, match="marks"):
            memory.add(Message("four"), marks=bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="messages"):
        memory.add(["text"])  # type: ignore[list-item]
    assert memory.size() == 3


def test_a_known_id_is_left_out_unless_asked_for(memory: MessageMemory) -> None:
    message = Message("said")
    memory.add(message, marks="first")
    assert memory.add(message, marks="second") == []
    (again,) = memory.add(message, marks="second", allow_duplicates=True)
    assert again.id != message.id
    assert [each.marks for each in memory.get_memory()] == [("first",), ("second",)]


def test_one_id_may_be_given_alone(memory: MessageMemory, store: MemoryStore) -> None:
    one, other = memory.add([Message("one"), Message("other")])
    assert memory.update_messages_mark("x", msg_ids=one.id) == 1
    assert memory.delete(other.id) == 1
    assert contents(memory, "x") == ["one"]
    component = Memory(store)
    turn = component.add_dialog_turn("q", "a")
    assert (component.mark("y", turn.id), component.unmark("y", turn.id)) == (1, 1)


def test_the_summary_comes_first_until_it_is_cleared(memory: MessageMemory, store: MemoryStore) -> None:
    memory.add(Message("hello"))
    memory.update_compressed_summary("they greeted \udcff")
    first, second = memory.get_memory()
    assert (first.content, first.role, first.name) == ("they greeted \udcff", "user", "user")
    assert second.content == "hello"
    assert contents(memory, prepend_summary=False) == ["hello"]
    assert contents(memory, "nobody's") == ["they greeted \udcff"]
    assert memory.clear(keep_summary=True) == 1
    assert contents(memory) == ["they greeted \udcff"]
    memory.add(Message("again"))
    assert memory.clear() == 1
    assert (memory.get_memory(), memory.compressed_summary) == ([], "")


def test_a_summary_lives_as_long_as_messages_are_added() -> None:
    clock = SteppedClock()
    store = MemoryTurnStore(clock=clock)
    memory = MessageMemory(store, store.create_conversation(ttl_s=600))
    memory.update_compressed_summary("so far")
    for _ in range(3):
        clock.advance(500)
        memory.add(Message("more"))
    assert contents(memory) == ["so far", "more", "more", "more"]
    clock.advance(600)
    assert memory.compressed_summary == ""


def test_compression_as_agents_do_it(memory: MessageMemory) -> None:
    added = memory.add([Message(n) for n in range(5)])
    assert memory.update_messages_mark("COMPRESSED", msg_ids=[each.id for each in added[:3]]) == 3
    memory.update_compressed_summary("0 to 2")
    assert contents(memory, exclude_mark="COMPRESSED") == ["0 to 2", 3, 4]
    assert memory.update_messages_mark(None, "COMPRESSED", [added[0].id]) == 1
    assert memory.update_messages_mark("KEPT", "COMPRESSED") == 2
    assert memory.delete_by_mark(["KEPT", "COMPRESSED"]) == 2
    assert contents(memory, prepend_summary=False) == [0, 3, 4]
    assert memory.delete([added[0].id, "unknown"]) == 1
    with pytest.raises(ValueError, match="mark"):
        memory.update_messages_mark(None)


# ---------------------------------------------------------------- state


def filled(memory: MessageMemory) -> dict[str, object]:
    memory.add([Message("one"), Message(b"\xff", mime="image/png")], marks="x")
    memory.update_compressed_summary("so far")
    state: dict[str, object] = json.loads(json.dumps(memory.state_dict()))
    return state


def test_a_full_state_moves_to_another_machine(memory: MessageMemory) -> None:
    state = filled(memory)
    other = MessageMemory(MemoryTurnStore(), namespace="bob")
    other.load_state_dict(state)
    assert contents(other) == ["so far", "one", b"\xff"]
    assert [message.marks for message in other.get_memory("x", prepend_summary=False)] == [("x",), ("x",)]
    assert other.add(Message("next"))[0].order == 2


def test_a_full_state_takes_the_place_of_what_is_there(memory: MessageMemory) -> None:
    state = filled(memory)
    memory.add(Message("later"))
    memory.update_compressed_summary("otherwise")
    memory.load_state_dict(state)
    assert contents(memory) == ["so far", "one", b"\xff"]


def test_a_damaged_state_loses_nothing_that_is_there(memory: MessageMemory) -> None:
    memory.add(Message("one"))
    state = json.loads(json.dumps(memory.state_dict()))
    memory.add(Message("later"))
    with pytest.raises(ValueError, match="not a line of an export"):
        memory.load_state_dict({**state, "lines": [*state["lines"], {"message": {"id": 7}}]})
    assert contents(memory) == ["one", "later"]
    with pytest.raises(ValueError, match="nan"):
        memory.load_state_dict({"content": [{"role": "user", "content": [float("nan")]}]}, strict=False)
    assert contents(memory) == ["one", "later"]
    memory.load_state_dict(state)
    assert contents(memory) == ["one"]


def test_a_reference_is_enough_for_a_restart(memory: MessageMemory, store: MemoryStore) -> None:
    filled(memory)
    state = json.loads(json.dumps(memory.state_dict("reference")))
    assert len(json.dumps(state)) < 200
    again = MessageMemory(store, namespace="ada")
    again.load_state_dict(state)
    assert again.get_memory(prepend_summary=False) == memory.get_memory(prepend_summary=False)
    assert again.compressed_summary == "so far"
    with pytest.raises(NotFound):
        MessageMemory(MemoryTurnStore(), namespace="ada").load_state_dict(state)


def test_a_state_that_lacks_something_is_refused_when_strict(memory: MessageMemory) -> None:
    for state in ({}, {"lines": []}, {"mode": "reference"}, {"_compressed_summary": ""}):
        with pytest.raises(KeyError):
            memory.load_state_dict(state)
    memory.load_state_dict({}, strict=False)
    memory.add(Message("kept"))
    memory.load_state_dict({"_compressed_summary": "only this"}, strict=False)
    assert contents(memory) == ["only this", "kept"]


def test_states_of_agentscope_are_taken(memory: MessageMemory) -> None:
    message = {"id": "m1", "name": "Ada", "role": "user", "content": "hi", "metadata": None}
    dated = {**message, "id": "m2", "timestamp": "2026-01-01 12:00:00.123", "content": [{"type": "text"}]}
    memory.load_state_dict({"content": [message, [dated, ["x"]]], "_compressed_summary": ""})
    first, second = memory.get_memory()
    assert (first.id, first.name, first.content, first.marks) == ("m1", "Ada", "hi", ())
    assert (second.content, second.marks, second.created.year) == ([{"type": "text"}], ("x",), 2026)


def test_states_nest_and_take_attributes(store: MemoryStore) -> None:
    class Agent(Stateful):
        def __init__(self) -> None:
            self.memory = MessageMemory(store)
            self.tags = {"a"}
            self.turns = 1

    agent, other = Agent(), Agent()
    for each in (agent, other):
        each.register_state("tags", sorted, set)
        each.register_state("turns")
        with pytest.raises(TypeError, match="memory"):
            each.register_state("memory")
    agent.memory.add(Message("hi"))
    agent.tags, agent.turns = {"b", "c"}, 7
    state = json.loads(json.dumps(agent.state_dict()))
    other.load_state_dict(state)
    assert (other.tags, other.turns, contents(other.memory)) == ({"b", "c"}, 7, ["hi"])
    with pytest.raises(KeyError, match="tags"):
        other.load_state_dict({key: value for key, value in state.items() if key != "tags"})


# ---------------------------------------------------------------- the component


def questions(memory: Memory) -> list[str]:
    return [turn.question for turn in memory().values()]


def test_the_component_forks_rewinds_undoes_and_edits(store: MemoryStore) -> None:
    memory = Memory(store)
    with pytest.raises(NotFound, match="first turn"):
        memory.fork()
    assert memory.rewind(0) == memory.undo() == 0
    turns = [memory.add_dialog_turn(text, text) for text in "abc"]
    fork = memory.fork(at=1, name="try")
    fork.add_dialog_turn("d", "d")
    assert (questions(memory), questions(fork)) == (["a", "b", "c"], ["a", "b", "d"])
    with pytest.raises(NotFound, match="has no turn 4"):
        memory.rewind(3)
    assert memory.rewind(2) == 0
    assert memory.undo() == 1 and memory.rewind(0) == 1
    assert (questions(memory), questions(fork)) == (["a"], ["a", "b", "d"])
    assert fork.undo(2) == 2 and fork.undo(9) == 1
    turns[0].user_query.query_str = "A"
    assert memory.edit(turns[0]).version == 2
    assert [turn.question for turn in memory.versions(turns[0].id)] == ["a", "A"]
    with pytest.raises(ValueError, match="0"):
        memory.undo(0)


def test_the_component_keeps_turns_and_messages_under_marks(store: MemoryStore) -> None:
    memory = Memory(store)
    turn = memory.add_dialog_turn("a", "b", marks=("keep",))
    memory.add([Message("m")], marks="x")
    memory.update_compressed_summary("so far")
    assert (memory.size(), len(memory()), contents(memory)) == (1, 1, ["so far", "m"])
    assert memory.mark("x", [turn.id]) == 1
    assert memory.turns(mark="x") == memory.turns(exclude_mark="y") == list(memory().values())
    assert memory.unmark("keep") == 1
    assert memory.delete_by_mark("x") == 2
    assert (memory.size(), memory()) == (0, {})
    assert memory.clear() == 0 and memory.compressed_summary == ""


def test_the_state_of_a_component_is_part_of_a_larger_one(store: MemoryStore) -> None:
    class Pipeline(adalflow.Component):  # type: ignore[misc,name-defined]
        def __init__(self, store: MemoryStore | None = None) -> None:
            super().__init__()
            self.memory = Memory(store)

    pipeline = Pipeline(store)
    pipeline.memory.add_dialog_turn("a", "b")
    pipeline.memory.add(Message("m"))
    pipeline.memory.topic = "tokens"
    pipeline.memory.register_state("topic")
    state = json.loads(json.dumps(pipeline.state_dict()))
    again = Pipeline()
    again.memory.topic = ""
    again.memory.register_state("topic")
    again.load_state_dict(state)
    assert (questions(again.memory), contents(again.memory)) == (["a"], ["m"])
    assert again.memory.topic == "tokens"
    with pytest.raises(RuntimeError, match="memory"):
        again.load_state_dict({})
    with pytest.raises(KeyError):
        again.memory.load_state_dict({})
    again.memory.load_state_dict({}, strict=False)
    assert questions(again.memory) == ["a"]

    named = pipeline.memory.state_dict(mode="reference")
    other = Memory(store)
    other.load_state_dict(named, strict=False)
    assert questions(other) == ["a"]
