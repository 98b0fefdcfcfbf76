"""Contract tests of marks in a `TurnStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

from typing import Any

import pytest

from rag.errors import NotFound
from rag.ports import TurnStore
from rag.types import Message
from tests.contracts.sample_turns import add_turns, contents, new_turn, questions


class TurnMarksContract:
    """The contract of every store for marks on turns and messages."""

    def test_marks_are_ascending_each_once(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = store.append(new_turn("?", marks=("b", "é", "a", "b", "B")), conversation=here.id)
        assert turn.marks == ("B", "a", "b", "é")
        (message,) = store.add_messages([Message("m", marks=("b", "a", "b"))], conversation=here.id)
        assert message.marks == ("a", "b")
        store.update_marks(here.id, "aa")
        assert store.turns(here.id)[0].marks == ("B", "a", "aa", "b", "é")

    def test_marks_filter_turns_in_their_order(self, store: TurnStore) -> None:
        here = store.create_conversation()
        for question, marks in (("0", ()), ("1", ("x",)), ("2", ("x", "y")), ("3", ("y",)), ("4", ("z",))):
            store.append(new_turn(question, marks=marks), conversation=here.id)
        for filters, expected in (
            ({"mark": "x"}, "1 2"),
            ({"mark": ["x", "z"]}, "1 2 4"),
            ({"mark": ("y", "x")}, "1 2 3"),
            ({"mark": []}, ""),
            ({"mark": "nobody's"}, ""),
            ({"exclude_mark": "x"}, "0 3 4"),
            ({"exclude_mark": ["y", "z"]}, "0 1"),
            ({"exclude_mark": []}, "0 1 2 3 4"),
            ({"mark": "x", "exclude_mark": "y"}, "1"),
            ({"mark": ["x", "y"], "last": 2}, "2 3"),
            ({"exclude_mark": "y", "after": 0, "before": 4}, "1"),
        ):
            assert questions(store, here.id, **filters) == expected, filters

    def test_marking_counts_what_changed(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "0", "1")
        store.add_messages([Message("2"), Message("3")], conversation=here.id)
        one = store.turns(here.id)[1].id
        two = store.messages(here.id)[0].id
        assert store.update_marks(here.id, "x", ids=[one, two, one, "unknown"]) == 2
        assert store.update_marks(here.id, "x") == 2
        assert store.update_marks(here.id, "x") == 0
        assert store.update_marks(here.id, "y", old="x", ids=[one]) == 1
        assert store.update_marks(here.id, "y", old="nobody's") == 0
        assert (questions(store, here.id, mark="y"), questions(store, here.id, mark="x")) == (
            "1",
            "0",
        )
        assert store.update_marks(here.id, None, old="x") == 3
        assert store.update_marks(here.id, None, old="x") == 0
        assert store.update_marks(here.id, "x", ids=[]) == 0
        assert (
            questions(store, here.id, mark="y"),
            contents(store, here.id, mark=["x", "y"]),
        ) == ("1", [])
        with pytest.raises(NotFound, match="nowhere"):
            store.update_marks("nowhere", "x")

    def test_replacing_a_mark_where_both_stand_leaves_the_new_one(self, store: TurnStore) -> None:
        here = store.create_conversation()
        store.append(new_turn("both", marks=("a", "b", "c")), conversation=here.id)
        store.append(new_turn("new", marks=("b",)), conversation=here.id)
        assert store.update_marks(here.id, "b", old="a") == 1
        assert [turn.marks for turn in store.turns(here.id)] == [("b", "c"), ("b",)]
        assert store.update_marks(here.id, "b", old="b") == 0
        assert [turn.marks for turn in store.turns(here.id)] == [("b", "c"), ("b",)]

    def test_a_change_of_nothing_is_refused(self, store: TurnStore) -> None:
        here = store.create_conversation()
        store.append(new_turn("?", marks=("a",)), conversation=here.id)
        with pytest.raises(ValueError, match="mark"):
            store.update_marks(here.id, None)
        assert store.turns(here.id)[0].marks == ("a",)

    def test_a_mark_that_is_no_text_is_refused(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "?")
        wrong: Any = 7
        for call in (
            lambda: store.update_marks(here.id, wrong),
            lambda: store.update_marks(here.id, "x", old=wrong),
            lambda: store.delete_by_mark(here.id, [wrong]),
            lambda: store.turns(here.id, mark=[wrong]),
            lambda: store.messages(here.id, exclude_mark=[wrong]),
        ):
            with pytest.raises(TypeError, match="7"):
                call()
        assert store.turns(here.id)[0].marks == ()

    def test_marks_do_not_date_a_conversation(self, store: TurnStore) -> None:
        first, second = store.create_conversation(), store.create_conversation()
        add_turns(store, first.id, "?")
        add_turns(store, second.id, "?")
        store.update_marks(first.id, "x")
        assert [each.id for each in store.conversations()] == [second.id, first.id]

    def test_deleting_by_mark_takes_each_once(self, store: TurnStore) -> None:
        here = store.create_conversation()
        for question, marks in (("0", ("x", "y")), ("1", ("y",)), ("2", ("z",)), ("3", ())):
            store.append(new_turn(question, marks=marks), conversation=here.id)
        store.add_messages([Message("4", marks=("x",)), Message("5", marks=("z",))], conversation=here.id)
        assert store.delete_by_mark(here.id, []) == 0
        assert store.delete_by_mark(here.id, "nobody's") == 0
        assert store.delete_by_mark(here.id, ["x", "y"]) == 3
        assert (questions(store, here.id), contents(store, here.id)) == ("2 3", ["5"])
        assert store.delete_by_mark(here.id, "z") == 2
        assert (questions(store, here.id), contents(store, here.id)) == ("3", [])
        with pytest.raises(NotFound, match="nowhere"):
            store.delete_by_mark("nowhere", "x")

    def test_a_mark_given_in_one_conversation_is_not_in_another(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        ours, theirs = add_turns(store, here.id, "ours")[0], add_turns(store, there.id, "theirs")[0]
        assert store.update_marks(here.id, "x", ids=[ours.id, theirs.id]) == 1
        assert store.update_marks(there.id, "x") == 1
        assert store.delete_by_mark(here.id, "x") == 1
        assert questions(store, there.id, mark="x") == "theirs"

    def test_marks_go_with_what_they_were_on(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = store.append(new_turn("?", marks=("x",)), conversation=here.id)
        store.delete_turn(turn.id)
        store.append(new_turn("!", id=turn.id), conversation=here.id)
        assert questions(store, here.id, mark="x") == "" and store.turn(turn.id).marks == ()

    def test_any_number_of_ids_is_taken(self, store: TurnStore) -> None:
        here = store.create_conversation()
        messages = store.add_messages([Message(str(n)) for n in range(40)], conversation=here.id)
        many = [f"unknown {n}" for n in range(33_000)] + [message.id for message in messages]
        assert store.update_marks(here.id, "x", ids=many) == 40
        assert len(store.messages(here.id, mark=[*many, "x"])) == 40
        assert store.delete_messages(many, conversation=here.id) == 40
