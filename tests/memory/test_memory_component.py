"""`Memory`: what code written for DeepWiki and AdalFlow does with it, and that it all reaches the store."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.component.memory import CustomConversation, Memory
from rag.errors import NotFound, StoreUnwritable
from rag.ports import TurnStore
from rag.types import AssistantResponse, Citation, DialogTurn, Source, Span, UserQuery


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TurnStore]:
    store = MemoryTurnStore() if request.param == "memory" else SqliteTurnStore(tmp_path / "turns.db")
    yield store
    store.close()


def questions(memory: Memory) -> list[str]:
    return [turn.user_query.query_str for turn in memory().values()]


# ---------------------------------------------------------------- as DeepWiki writes it


def test_turns_come_back_by_id_in_order(store: TurnStore) -> None:
    memory = Memory(store)
    assert memory() == {}
    first = memory.add_dialog_turn(user_query="How are sessions signed?", assistant_response="By HMAC.")
    second = memory.add_dialog_turn(
        user_query="And when do they expire?", assistant_response="After 14 days."
    )
    assert first and second
    assert memory() == memory.call() == {first.id: first, second.id: second}
    assert [(turn.order, turn.assistant_response.response_str) for turn in memory().values()] == [
        (0, "By HMAC."),
        (1, "After 14 days."),
    ]


def test_text_of_a_class_derived_from_str_is_text(store: TurnStore) -> None:
    class Text(str):
        """As the text of a LangChain message is."""

    memory = Memory(store)
    turn = memory.add_dialog_turn(Text("Where is it?"), Text("Here."))
    assert (turn.user_query.query_str, turn.assistant_response.response_str) == ("Where is it?", "Here.")
    assert next(iter(memory().values())) == turn


def test_the_spellings_of_the_founding_document_work() -> None:
    memory = Memory()
    turn = DialogTurn(
        id=str(uuid4()),
        user_query=UserQuery(query_str="q"),
        assistant_response=AssistantResponse(response_str="a"),
    )
    memory.current_conversation.append_dialog_turn(turn)
    memory.current_conversation.dialog_turns.append(
        DialogTurn(user_query=UserQuery("q2"), assistant_response=AssistantResponse("a2"))
    )
    assert hasattr(memory.current_conversation, "dialog_turns")
    assert len(memory.current_conversation.dialog_turns) == 2
    assert Memory()() == {}
    assert list(memory()) == [turn.id, memory.current_conversation.dialog_turns[-1].id]
    memory.current_conversation = CustomConversation()
    assert memory() == {}


def test_many_turns_are_stored_in_batches_in_their_order() -> None:
    store = CountingStore()
    elsewhere = CustomConversation([DialogTurn(user_query=UserQuery("elsewhere"))], store=store)
    turns = [DialogTurn(user_query=UserQuery(f"q{n}")) for n in range(1_200)]
    turns[700:700] = elsewhere.turns()
    here = CustomConversation(turns[:1], store=store)
    store.calls = 0
    here.dialog_turns.extend(iter(turns))
    assert store.calls == 3
    assert [turn.question for turn in here.turns()] == [turn.question for turn in turns]
    assert here.turns()[700].id != elsewhere.turns()[0].id and len(elsewhere.turns()) == 1
    here.dialog_turns.extend([turn for turn in turns if turn.question != "elsewhere"])
    assert len(here.turns()) == len(turns), "what is here is not stored again"


class CountingStore(MemoryTurnStore):
    """Counts the calls that store turns."""

    calls = 0

    def extend(self, *args: Any, **more: Any) -> list[DialogTurn]:
        self.calls += 1
        return super().extend(*args, **more)


def test_turns_of_adalflow_and_of_deepwiki_are_taken() -> None:
    from rag.adal import adalflow

    theirs = adalflow.core.types

    @dataclass
    class DeepWikiTurn:
        id: str
        user_query: UserQuery
        assistant_response: AssistantResponse

    memory = Memory()
    memory.current_conversation.append_dialog_turn(
        theirs.DialogTurn(
            user_query=theirs.UserQuery("from adalflow", {"files": ["a.py"]}),
            assistant_response=theirs.AssistantResponse("yes"),
            user_id="ada",
        )
    )
    memory.current_conversation.append_dialog_turn(
        DeepWikiTurn("7", UserQuery("from deepwiki"), AssistantResponse("no"))
    )
    first, second = memory().values()
    assert isinstance(first, DialogTurn)
    assert (first.question, first.answer, first.user_id) == ("from adalflow", "yes", "ada")
    assert first.user_query is not None and first.user_query.metadata == {"files": ["a.py"]}
    assert (second.id, second.question, second.answer) == ("7", "from deepwiki", "no")

    other = theirs.Conversation()
    other.append_dialog_turn(theirs.DialogTurn(user_query=theirs.UserQuery("elsewhere")))
    memory.current_conversation = other
    assert questions(memory) == ["elsewhere"]


# ---------------------------------------------------------------- it all reaches the store


def test_another_memory_goes_on_where_the_first_stopped(store: TurnStore) -> None:
    before = Memory(store, namespace="ada")
    before.add_dialog_turn("one", "1")
    before.current_conversation.dialog_turns.append(DialogTurn(user_query=UserQuery("two")))
    begun = before.conversation
    assert begun is not None and begun.turn_count == 2
    for known in (begun, begun.id):
        assert Memory(store, known, "ada")() == before()
    with pytest.raises(NotFound):
        Memory(store, begun.id, "bob")


def test_an_unused_memory_leaves_nothing(store: TurnStore) -> None:
    memory = Memory(store)
    assert memory() == {} and memory.conversation is None and memory.clear() == 0
    assert list(memory.current_conversation.dialog_turns) == []
    assert store.conversations() == []


def test_a_conversation_begins_once_and_knows_its_repositories(store: TurnStore) -> None:
    memory = Memory(store)
    begun = memory.begin([Source("/repositories/shelf")])
    assert memory.begin([Source("/elsewhere")]) == memory.conversation == begun
    assert memory.add_dialog_turn("q", "a").conversation_id == begun.id
    assert store.conversation(begun.id).sources == (Source("/repositories/shelf"),)


def test_a_new_conversation_leaves_the_old_one_in_the_store(store: TurnStore) -> None:
    memory = Memory(store)
    memory.add_dialog_turn("one", "1")
    first = memory.conversation
    memory.current_conversation = CustomConversation([DialogTurn(user_query=UserQuery("brought along"))])
    memory.add_dialog_turn("two", "2")
    assert questions(memory) == ["brought along", "two"]
    second = memory.conversation
    assert first is not None and second is not None and first.id != second.id
    assert [each.id for each in store.conversations()] == [second.id, first.id]
    memory.conversation = first
    assert questions(memory) == ["one"]


def test_turns_of_another_conversation_are_copied_not_moved(store: TurnStore) -> None:
    memory = Memory(store)
    for text in "abc":
        memory.add_dialog_turn(text, text)
    first = memory.conversation
    memory.current_conversation.dialog_turns = memory.current_conversation.dialog_turns[:2]
    memory.add_dialog_turn("d", "d")
    assert questions(memory) == ["a", "b", "d"]
    assert first is not None
    assert [turn.question for turn in store.turns(first.id)] == ["a", "b", "c"]


def test_a_turn_after_a_deleted_one_overwrites_none() -> None:
    memory = Memory()
    for text in ("one", "two", "three"):
        memory.add_dialog_turn(text, text)
    del memory.current_conversation.dialog_turns[0]
    memory.add_dialog_turn("four", "four")
    assert questions(memory) == ["two", "three", "four"]
    assert [turn.order for turn in memory().values()] == [1, 2, 3]


def test_clear_deletes_the_conversation(store: TurnStore) -> None:
    memory = Memory(store)
    memory.add_dialog_turn("one", "1")
    memory.add_dialog_turn("two", "2")
    assert memory.clear() == 2
    assert store.conversations() == [] and memory() == {}
    assert memory.add_dialog_turn("three", "3").order == 0


def test_the_list_of_turns_reads_like_a_list(store: TurnStore) -> None:
    memory = Memory(store)
    turns = memory.current_conversation.dialog_turns
    added = [memory.add_dialog_turn(text, text) for text in "abcd"]
    assert turns == added and turns[1:3] == added[1:3] and turns[-1] in turns
    assert (list(reversed(turns)), turns.index(added[2]), repr(turns)) == (added[::-1], 2, repr(added))
    del turns[1:3]
    assert turns == [added[0], added[3]]
    turns.clear()
    assert not turns
    with pytest.raises(IndexError):
        turns[0]


def test_more_is_kept_of_a_turn_than_its_words() -> None:
    memory = Memory()
    cited = Citation(1, Span("snip", "snip/auth.py", 27, 40))
    turn = memory.add_dialog_turn("q", "a", citations=(cited,), model="m", metadata={"k": 1})
    assert memory()[turn.id] == turn
    assert (turn.citations, turn.model, turn.metadata) == ((cited,), "m", {"k": 1})
    with pytest.raises(TypeError, match="unknown"):
        memory.add_dialog_turn("q", "a", unknown=1)


def test_a_turn_that_cannot_be_stored_is_an_error_and_no_conversation_is_lost() -> None:
    class Full(MemoryTurnStore):
        def extend(self, *arguments: object, **named: object) -> list[DialogTurn]:
            raise StoreUnwritable(path="turns.db", why="the disk is full")

    memory = Memory(Full())
    conversation = memory.current_conversation
    with pytest.raises(StoreUnwritable):
        memory.add_dialog_turn("q", "a")
    assert memory.current_conversation is conversation


# ---------------------------------------------------------------- as an AdalFlow component


def test_it_is_a_component_that_prints_pickles_and_serialises(store: TurnStore) -> None:
    from rag.adal import adalflow

    memory = Memory(store, namespace="ada")
    assert repr(memory) == f"Memory(conversation=None, store={store!r})"
    memory.add_dialog_turn("one", "1")
    assert memory.current_conversation.conversation is not None
    assert memory.current_conversation.conversation.id in repr(memory)
    assert isinstance(memory, adalflow.DataComponent) and memory.is_picklable()

    record = memory.to_dict()
    assert record["type"] == "Memory"
    again = Memory.from_dict(json.loads(json.dumps(record)))
    assert [turn.answer for turn in again().values()] == ["1"]

    copied = pickle.loads(pickle.dumps(memory))
    assert copied() == memory()
    copied.store.close()


def test_a_copy_goes_its_own_way() -> None:
    memory = Memory()
    memory.add_dialog_turn("one", "1")
    other = copy.deepcopy(memory)
    other.add_dialog_turn("two", "2")
    assert (questions(memory), questions(other)) == (["one"], ["one", "two"])


def test_it_is_part_of_a_larger_component() -> None:
    from rag.adal import adalflow

    class Pipeline(adalflow.Component):
        def __init__(self) -> None:
            super().__init__()
            self.memory = Memory()

    pipeline = Pipeline()
    pipeline.memory.add_dialog_turn("one", "1")
    assert "(memory): Memory(" in repr(pipeline)
    assert [name for name, _ in pipeline.named_components()] == ["", "memory"]
    again = Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict())))
    assert questions(again.memory) == ["one"]


async def test_it_can_be_awaited() -> None:
    memory = Memory()
    memory.add_dialog_turn("one", "1")
    assert await memory.acall() == memory()
