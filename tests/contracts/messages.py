"""Contract tests of messages in a `TurnStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from rag.errors import NotFound
from rag.ports import TurnStore
from rag.types import Message
from tests.contracts.sample_turns import add_turns, contents, full_message, new_turn, questions

CONTENTS = [
    "",
    "text with \0 and \udcff and 😀",
    b"",
    bytes(range(256)),
    [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}, {"type": "text", "text": "北京"}],
    {"role": "tool", "n": 2**53, "f": 0.1, "none": None, "yes": True},
    [],
    {},
    None,
    7,
    False,
]


class MessagesContract:
    """The contract of every store for messages."""

    def test_a_message_comes_back_as_it_went_in(self, store: TurnStore) -> None:
        here = store.create_conversation(namespace="ada")
        message = full_message()
        (stored,) = store.add_messages([message], conversation=here.id, namespace="ada")
        assert stored == replace(message, order=0, conversation_id=here.id, namespace="ada")
        assert store.messages(here.id, namespace="ada") == [stored]
        assert stored.created.tzinfo is UTC

    def test_text_bytes_and_json_come_back_as_they_are(self, store: TurnStore) -> None:
        here = store.create_conversation()
        store.add_messages([Message(content) for content in CONTENTS], conversation=here.id)
        found = contents(store, here.id)
        assert found == CONTENTS and [type(one) for one in found] == [type(one) for one in CONTENTS]

    def test_a_large_message_comes_back_whole(self, store: TurnStore) -> None:
        here = store.create_conversation()
        large = bytes(range(256)) * 4096
        store.add_messages([Message(large), Message([large.decode("latin-1")])], conversation=here.id)
        assert contents(store, here.id) == [large, [large.decode("latin-1")]]

    def test_messages_and_turns_share_one_order(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "0")
        added = store.add_messages([Message("1"), Message("2")], conversation=here.id)
        add_turns(store, here.id, "3")
        assert [message.order for message in added] == [1, 2]
        assert [turn.order for turn in store.turns(here.id)] == [0, 3]
        counted = store.conversation(here.id)
        assert (counted.turn_count, counted.message_count) == (2, 2)

    def test_an_id_is_stored_once_as_it_came_first(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        first = Message("first", id="same", marks=("a",))
        twice = [first, Message("twice", id="same", marks=("b",)), Message("other")]
        assert [each.content for each in store.add_messages(twice, conversation=here.id)] == [
            "first",
            "other",
        ]
        assert store.add_messages([replace(first, marks=("c",))], conversation=here.id) == []
        assert store.add_messages([first], conversation=there.id) == []
        assert [(each.content, each.marks) for each in store.messages(here.id)] == [
            ("first", ("a",)),
            ("other", ()),
        ]
        assert store.add_messages([Message("next")], conversation=here.id)[0].order == 2

    def test_a_turn_and_a_message_may_have_the_same_id(self, store: TurnStore) -> None:
        here = store.create_conversation()
        store.append(new_turn("turn", id="same"), conversation=here.id)
        assert len(store.add_messages([Message("message", id="same")], conversation=here.id)) == 1
        assert store.update_marks(here.id, "x", ids=["same"]) == 2
        assert store.delete_messages(["same"], conversation=here.id) == 1
        assert (questions(store, here.id), contents(store, here.id)) == ("turn", [])

    def test_nothing_added_is_nothing_written(self, store: TurnStore) -> None:
        first, second = store.create_conversation(), store.create_conversation()
        assert store.add_messages([], conversation=first.id) == []
        assert store.conversations() == [second, first]
        (message,) = store.add_messages([Message("?")], conversation=first.id)
        store.add_messages([Message("?")], conversation=second.id)
        store.add_messages([message], conversation=first.id)
        assert [each.id for each in store.conversations()] == [second.id, first.id]
        with pytest.raises(NotFound, match="nowhere"):
            store.add_messages([Message("?")], conversation="nowhere")
        with pytest.raises(NotFound, match="nowhere"):
            store.messages("nowhere")

    def test_all_messages_of_a_call_are_stored_or_none(self, store: TurnStore) -> None:
        here = store.create_conversation()
        for bad, error in (((1,), TypeError), ({"x": {1}}, TypeError), ([float("inf")], ValueError)):
            with pytest.raises(error, match="content"):
                store.add_messages([Message("good"), Message(bad)], conversation=here.id)
        with pytest.raises(ValueError, match="id"):
            store.add_messages([Message("good"), Message("bad", id="")], conversation=here.id)
        with pytest.raises(TypeError, match="marks"):
            store.add_messages([Message("bad", marks="HINT")], conversation=here.id)  # type: ignore[arg-type]
        assert store.messages(here.id) == []
        assert store.add_messages([Message("?")], conversation=here.id)[0].order == 0

    def test_filters_keep_the_order(self, store: TurnStore) -> None:
        here = store.create_conversation()
        marks: list[tuple[str, ...]] = [(), ("x",), ("x", "y"), ("y",)]
        store.add_messages([Message(n, marks=each) for n, each in enumerate(marks)], conversation=here.id)
        wanted: list[tuple[dict[str, Any], list[int]]] = [
            ({}, [0, 1, 2, 3]),
            ({"last": 2}, [2, 3]),
            ({"last": 0}, []),
            ({"last": sys.maxsize}, [0, 1, 2, 3]),
            ({"mark": "x"}, [1, 2]),
            ({"mark": ["x", "y"], "last": 2}, [2, 3]),
            ({"mark": "x", "exclude_mark": "y"}, [1]),
            ({"exclude_mark": ["x", "y"]}, [0]),
            ({"mark": []}, []),
        ]
        for filters, expected in wanted:
            assert contents(store, here.id, **filters) == expected, filters
        with pytest.raises(ValueError, match="-1"):
            store.messages(here.id, last=-1)

    def test_deleting_counts_what_was_there(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        ids = [each.id for each in store.add_messages([Message(n) for n in range(4)], conversation=here.id)]
        (other,) = store.add_messages([Message("other")], conversation=there.id)
        assert store.delete_messages([], conversation=here.id) == 0
        assert store.delete_messages([ids[1], ids[1], ids[3], "unknown", other.id], conversation=here.id) == 2
        assert store.delete_messages(ids, conversation=here.id) == 2
        assert contents(store, there.id) == ["other"]
        assert store.add_messages([Message("next")], conversation=here.id)[0].order == 4
        with pytest.raises(NotFound, match="nowhere"):
            store.delete_messages(ids, conversation="nowhere")

    def test_a_conversation_keeps_its_last_messages_and_turns_apart(self, store: TurnStore) -> None:
        here = store.create_conversation(keep_last=2)
        add_turns(store, here.id, "t0")
        store.add_messages([Message(n) for n in range(5)], conversation=here.id)
        assert (questions(store, here.id), contents(store, here.id)) == ("t0", [3, 4])
        add_turns(store, here.id, "t6", "t7")
        assert (questions(store, here.id), contents(store, here.id)) == ("t6 t7", [3, 4])

    def test_no_caller_holds_a_part_of_a_stored_message(self, store: TurnStore) -> None:
        here = store.create_conversation()
        message = Message([{"text": "as said"}], metadata={"list": [1]})
        (stored,) = store.add_messages([message], conversation=here.id)
        for held in (message, stored, *store.messages(here.id)):
            assert held.metadata is not None
            held.content[0]["text"] = "changed"
            held.metadata["list"].append(2)
        (kept,) = store.messages(here.id)
        assert (kept.content, kept.metadata) == ([{"text": "as said"}], {"list": [1]})

    def test_threads_add_messages_without_a_gap(self, store: TurnStore) -> None:
        here = store.create_conversation()

        def add(n: int) -> list[Message]:
            return store.add_messages([Message(n), Message(n)], conversation=here.id)

        with ThreadPoolExecutor(8) as pool:
            acknowledged = [message for pair in pool.map(add, range(50)) for message in pair]
        found = store.messages(here.id)
        assert [message.order for message in found] == list(range(100))
        assert sorted(acknowledged, key=lambda message: message.order or 0) == found
        assert all(one.content == two.content for one, two in zip(found[::2], found[1::2], strict=True))
