"""Contract tests of conversations and turns in a `TurnStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unicodedata import normalize

import pytest

from rag.errors import ConversationMismatch, NotFound
from rag.ports import TurnStore
from rag.types import AssistantResponse, DialogTurn, Filters, Message, Source
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import add_turns, full_turn, new_turn, questions

__all__ = ["TurnStoreContract", "full_turn", "new_turn"]

SHELF = Source("/repositories/shelf")
LAMP = Source("https://example.org/lamp.git", "v2", Filters(include=("*.py", "docs/"), exclude=("old/",)))
BAD_BOUNDS: list[dict[str, Any]] = [
    *({"ttl_s": bad} for bad in (0, -1.5, 1e18, float("inf"), float("nan"))),
    *({"keep_last": bad} for bad in (0, -1, 1.5, 2**64)),
]


class TurnStoreContract:
    """The contract of every store for conversations and turns."""

    @pytest.fixture
    def clock(self) -> SteppedClock:
        """The clock of the store, which only moves when a test advances it."""
        return SteppedClock()

    # ---- conversations

    def test_a_conversation_is_found_by_id_and_by_name(self, store: TurnStore) -> None:
        made = store.create_conversation(name="demo", sources=[SHELF, LAMP])
        assert made.sources == (SHELF, LAMP)
        assert (made.name, made.namespace, made.turn_count) == ("demo", "", 0)
        assert store.conversation(made.id) == store.conversation("demo") == made

    def test_a_name_is_one_in_either_form(self, store: TurnStore) -> None:
        made = store.create_conversation(name=normalize("NFD", "Gespräch"))
        assert store.conversation(normalize("NFC", "Gespräch")) == made
        assert store.conversation(normalize("NFD", "Gespräch")) == made
        with pytest.raises(ConversationMismatch):
            store.create_conversation(name="Gespräch")
        other = store.create_conversation()
        store.rename(other.id, normalize("NFD", "Übung"))
        assert store.conversation("Übung").id == other.id

    def test_conversations_without_a_name_are_apart(self, store: TurnStore) -> None:
        first, second = store.create_conversation(), store.create_conversation()
        assert first.id != second.id
        with pytest.raises(NotFound):
            store.conversation("")

    def test_a_name_is_given_once(self, store: TurnStore) -> None:
        store.create_conversation(name="demo", sources=[SHELF])
        with pytest.raises(ConversationMismatch, match=r"shelf.*lamp"):
            store.create_conversation(name="demo", sources=[LAMP])
        assert len(store.conversations()) == 1

    def test_a_deleted_name_is_free_again(self, store: TurnStore) -> None:
        store.delete_conversation(store.create_conversation(name="demo").id)
        store.create_conversation(name="demo")

    def test_an_id_wins_over_a_name(self, store: TurnStore) -> None:
        first = store.create_conversation()
        store.create_conversation(name=first.id)
        assert store.conversation(first.id) == first

    def test_an_unknown_conversation_is_not_found(self, store: TurnStore) -> None:
        for call in (store.conversation, store.turns, store.delete_conversation):
            with pytest.raises(NotFound, match="nowhere"):
                call("nowhere")
        with pytest.raises(NotFound, match="nowhere"):
            store.append(new_turn("?"), conversation="nowhere")

    def test_the_conversation_last_written_to_comes_first(self, store: TurnStore) -> None:
        a, b, c = (store.create_conversation(name=name) for name in "abc")
        assert [each.name for each in store.conversations()] == ["c", "b", "a"]
        turn = store.append(new_turn("?"), conversation=a.id)
        store.append(new_turn("?"), conversation=b.id)
        store.append(turn, conversation=a.id)  # already stored, so nothing is written
        assert [each.name for each in store.conversations()] == ["b", "a", "c"]
        store.delete_conversation(b.id)
        assert store.conversations() == [store.conversation(a.id), store.conversation(c.id)]

    def test_a_conversation_counts_its_turns_and_dates_the_last(self, store: TurnStore) -> None:
        made = store.create_conversation()
        turns = [store.append(new_turn("?"), conversation=made.id) for _ in range(3)]
        store.delete_turn(turns[0].id)
        now = store.conversation(made.id)
        assert now.turn_count == 2
        assert made.created == now.created <= made.updated <= now.updated
        assert now.updated.utcoffset() == timedelta(0)

    # ---- turns

    def test_a_turn_comes_back_as_it_went_in(self, store: TurnStore) -> None:
        here = store.create_conversation(namespace="ada")
        turn = full_turn()
        stored = store.append(turn, conversation=here.id, namespace="ada")
        assert stored == replace(turn, order=0, conversation_id=here.id, namespace="ada")
        assert store.turn(turn.id, namespace="ada") == stored
        assert store.turns(here.id, namespace="ada") == [stored]
        asked = stored.user_query_timestamp
        assert asked is not None and asked.tzinfo is UTC

    def test_a_turn_that_says_nothing_comes_back_as_nothing(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = DialogTurn(user_query_timestamp=None, assistant_response_timestamp=None)
        stored = store.append(turn, conversation=here.id)
        assert stored == store.turn(turn.id) == replace(turn, order=0, conversation_id=here.id)

    def test_turns_come_oldest_first_numbered_from_0(self, store: TurnStore) -> None:
        here = store.create_conversation()
        epoch = datetime(2000, 1, 1, tzinfo=UTC)
        clocks = [epoch + timedelta(days=day) for day in (3, 1, 2)]  # the order is independent of the clock
        for n, time in enumerate(clocks):
            assert store.append(new_turn(str(n), user_query_timestamp=time), conversation=here.id).order == n
        assert [(turn.order, turn.question) for turn in store.turns(here.id)] == [
            (0, "0"),
            (1, "1"),
            (2, "2"),
        ]

    def test_last_gives_the_newest_still_oldest_first(self, store: TurnStore) -> None:
        here = store.create_conversation()
        for n in range(5):
            store.append(new_turn(str(n)), conversation=here.id)
        store.delete_turn(store.turns(here.id)[3].id)
        for last, expected in ((0, ""), (1, "4"), (2, "24"), (4, "0124"), (99, "0124")):
            assert "".join(turn.question for turn in store.turns(here.id, last=last)) == expected
        with pytest.raises(ValueError, match="-1"):
            store.turns(here.id, last=-1)

    def test_an_id_is_stored_once(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        stored = store.append(new_turn("first", id="same"), conversation=here.id)
        assert store.append(new_turn("second", id="same"), conversation=here.id) == stored
        assert store.append(new_turn("third", id="same"), conversation=there.id) == stored
        assert (store.turns(here.id), store.turns(there.id)) == ([stored], [])
        assert store.append(new_turn("next"), conversation=here.id).order == 1

    def test_an_order_is_never_given_twice(self, store: TurnStore) -> None:
        here = store.create_conversation()
        first, second = (store.append(new_turn(text), conversation=here.id) for text in "ab")
        assert store.delete_turn(second.id) is True
        assert store.delete_turn(second.id) is False
        third = store.append(new_turn("c"), conversation=here.id)
        again = store.append(second, conversation=here.id)
        assert (
            [turn.order for turn in store.turns(here.id)]
            == [first.order, third.order, again.order]
            == [0, 2, 3]
        )

    def test_deleting_a_conversation_takes_its_turns(self, store: TurnStore) -> None:
        gone, kept = store.create_conversation(), store.create_conversation()
        turns = [store.append(full_turn(), conversation=gone.id) for _ in range(3)]
        other = store.append(new_turn("?"), conversation=kept.id)
        assert store.delete_conversation(gone.id) == 3
        for turn in turns:
            with pytest.raises(NotFound):
                store.turn(turn.id)
        assert store.turns(kept.id) == [other]
        assert store.append(turns[0], conversation=kept.id).order == 1

    def test_an_unknown_turn_is_not_found(self, store: TurnStore) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            store.turn("nowhere")

    def test_turns_are_read_by_their_ids_in_the_order_asked(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation(namespace="ada")
        first, second = (store.append(new_turn(text), conversation=here.id) for text in "ab")
        odd = store.append(new_turn("c", id="x\0\ud800 北 "), conversation=here.id)
        (message,) = store.add_messages([Message("d")], conversation=here.id)
        other = store.append(new_turn("e"), conversation=there.id, namespace="ada")
        edited = store.edit_turn(replace(first, assistant_response=AssistantResponse("edited")))
        store.update_marks(here.id, "kept", ids=[second.id])
        ids = [odd.id, "nowhere", second.id, message.id, other.id, edited.id, odd.id]
        found = store.turns_by_id(ids)
        assert list(found.items()) == [
            (odd.id, odd),
            (second.id, replace(second, marks=("kept",))),
            (edited.id, edited),
        ]
        assert store.turns_by_id([second.id, other.id], namespace="ada") == {other.id: other}
        assert store.turns_by_id([]) == store.turns_by_id(["nowhere"], namespace="eve") == {}

    def test_before_and_after_give_the_turns_between(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, *"01234")
        for filters, expected in (
            ({"before": 2}, "0 1"),
            ({"after": 2}, "3 4"),
            ({"before": 4, "after": 0}, "1 2 3"),
            ({"before": 4, "last": 2}, "2 3"),
            ({"before": 2, "after": 2}, ""),
            ({"before": -5}, ""),
            ({"after": -5}, "0 1 2 3 4"),
        ):
            assert questions(store, here.id, **filters) == expected

    def test_many_turns_are_stored_at_once_all_or_none(self, store: TurnStore) -> None:
        here = store.create_conversation()
        old = store.append(new_turn("old", id="known"), conversation=here.id)
        more = [
            new_turn("a", id="a"),
            new_turn("again", id="known"),
            new_turn("b"),
            new_turn("a twice", id="a"),
        ]
        stored = store.extend(more, conversation=here.id)
        assert [(turn.question, turn.order) for turn in stored] == [("a", 1), ("old", 0), ("b", 2), ("a", 1)]
        assert store.turns(here.id) == [old, stored[0], stored[2]]
        with pytest.raises(TypeError):
            store.extend([new_turn("c"), new_turn("d", metadata={"x": {1}})], conversation=here.id)
        assert questions(store, here.id) == "old a b"
        assert store.extend([], conversation=here.id) == []
        assert add_turns(store, here.id, "e")[0].order == 3

    def test_what_the_store_gives_is_not_taken_from_the_turn(self, store: TurnStore) -> None:
        here = store.create_conversation()
        claimed = new_turn("?", order=7, version=9, conversation_id="another", namespace="bob")
        stored = store.append(claimed, conversation=here.id)
        assert (stored.order, stored.version, stored.conversation_id, stored.namespace) == (0, 1, here.id, "")

    def test_a_large_turn_comes_back_whole(self, store: TurnStore) -> None:
        here = store.create_conversation()
        large = "".join(chr(0x4E00 + n % 5000) for n in range(350_000))  # a megabyte in UTF-8
        stored = store.append(new_turn(large, large), conversation=here.id)
        assert store.turns(here.id) == [stored]
        assert stored.question == stored.answer == large

    def test_a_conversation_is_renamed(self, store: TurnStore) -> None:
        one, two = (store.create_conversation(name=name) for name in ("one", "two"))
        renamed = store.rename(one.id, "three")
        assert renamed == replace(one, name="three") == store.conversation("three")
        with pytest.raises(ConversationMismatch):
            store.rename(two.id, "three")
        assert store.rename(two.id, "two") == two
        store.rename(one.id, "")
        store.rename(two.id, "")
        assert [each.name for each in store.conversations()] == ["", ""]
        for name in ("one", "three"):
            with pytest.raises(NotFound):
                store.conversation(name)
        with pytest.raises(NotFound):
            store.rename("nowhere", "x")

    # ---- versions

    def test_an_edit_is_a_new_version_and_the_old_one_is_kept(self, store: TurnStore) -> None:
        here = store.create_conversation()
        first = store.append(replace(full_turn(), marks=("kept",)), conversation=here.id)
        add_turns(store, here.id, "next")
        changed = new_turn("changed", id=first.id, order=99, conversation_id="x", marks=("lost",), version=50)
        second = store.edit_turn(changed)
        assert second == replace(changed, order=0, conversation_id=here.id, marks=("kept",), version=2)
        third = store.edit_turn(replace(second, state="failed"))
        assert third == replace(second, state="failed", version=3) == store.turn(first.id)
        assert store.versions(first.id) == [first, second, third]
        assert questions(store, here.id) == "changed next"
        store.update_marks(here.id, "late", ids=[first.id])
        assert [turn.marks for turn in store.versions(first.id)] == [("kept", "late")] * 3

    def test_versions_go_with_their_turn(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = store.edit_turn(store.append(new_turn("?"), conversation=here.id))
        assert store.delete_turn(turn.id) is True
        for call in (store.versions, store.turn):
            with pytest.raises(NotFound):
                call(turn.id)
        with pytest.raises(NotFound):
            store.edit_turn(turn)
        again = store.append(turn, conversation=here.id)
        assert (again.order, store.versions(turn.id)) == (1, [again])

    # ---- a question before its answer

    def test_a_question_is_finished_once(self, store: TurnStore) -> None:
        here = store.create_conversation()
        add_turns(store, here.id, "before")
        asked = replace(new_turn("where is the kettle?"), assistant_response=None, state="asked")
        asked = store.append(replace(asked, marks=("kept",)), conversation=here.id)
        add_turns(store, here.id, "after")
        assert store.turn(asked.id).state == "asked"
        with pytest.raises(ValueError, match="asked"):
            store.finish_turn(asked)
        answer = replace(full_turn(), id=asked.id, state="failed", error="no answer", order=99, version=7)
        finished = store.finish_turn(answer)
        kept = replace(answer, order=1, conversation_id=here.id, marks=("kept",), version=1)
        assert finished == kept == store.turn(asked.id)
        assert store.versions(asked.id) == [finished]
        assert questions(store, here.id) == f"before {answer.question} after"
        assert store.matching(["kettle"]).holders == (0,)
        assert store.citing(path=answer.citations[0].path) == [asked.id]
        assert store.conversation(here.id).turn_count == 3
        for again in (finished, replace(finished, state="answered")):
            with pytest.raises(NotFound, match="failed already"):
                store.finish_turn(again)
        with pytest.raises(NotFound):
            store.finish_turn(replace(finished, id="nowhere"))
        assert store.turn(asked.id) == finished

    def test_a_fork_sees_the_answer_of_a_question_that_it_inherited(self, store: TurnStore) -> None:
        here = store.create_conversation()
        asked = store.append(replace(new_turn("?"), state="asked"), conversation=here.id)
        fork = store.fork(here.id)
        store.delete_conversation(here.id)
        store.finish_turn(replace(asked, state="answered"))
        assert [turn.state for turn in store.turns(fork.id)] == ["answered"]
        assert store.append(new_turn("next"), conversation=fork.id).order == 1

    # ---- expiry and keep_last

    def test_a_conversation_expires_when_nothing_is_added(
        self, store: TurnStore, clock: SteppedClock
    ) -> None:
        gone = store.create_conversation(name="demo", ttl_s=600)
        kept = store.create_conversation()
        turn = add_turns(store, gone.id, "?")[0]
        clock.advance(599)
        assert store.conversation("demo").ttl_s == 600
        add_turns(store, gone.id, "still there")
        store.edit_turn(turn)  # nothing is added, so the expiry does not change
        clock.advance(599)
        assert len(store.conversations()) == 2
        clock.advance(1)
        assert store.conversations() == [kept]
        for call in (store.conversation, store.turns, store.messages, store.delete_conversation):
            with pytest.raises(NotFound):
                call(gone.id)
        with pytest.raises(NotFound):
            add_turns(store, gone.id, "too late")
        with pytest.raises(NotFound):
            store.turn(turn.id)
        assert store.citing() == [] and store.matching(["still"]).items == 0
        assert store.create_conversation(name="demo").turn_count == 0
        assert store.append(turn, conversation=kept.id).order == 0

    def test_the_time_to_live_is_dated_by_the_clock(self, store: TurnStore, clock: SteppedClock) -> None:
        here = store.create_conversation()
        assert here.created == here.updated == clock.now
        clock.advance(5)
        add_turns(store, here.id, "?")
        assert store.conversation(here.id).updated == clock.now

    def test_a_conversation_keeps_its_last_turns(self, store: TurnStore) -> None:
        here = store.create_conversation(keep_last=2)
        assert store.conversation(here.id).keep_last == 2
        first = add_turns(store, here.id, "0")[0]
        assert len(add_turns(store, here.id, "1", "2", "3")) == 3
        add_turns(store, here.id, "4")
        assert [(turn.order, turn.question) for turn in store.turns(here.id)] == [(3, "3"), (4, "4")]
        assert store.conversation(here.id).turn_count == 2
        with pytest.raises(NotFound):
            store.turn(first.id)
        assert store.append(first, conversation=here.id).order == 5

    @pytest.mark.parametrize("bad", BAD_BOUNDS)
    def test_what_would_keep_nothing_is_refused(self, store: TurnStore, bad: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=re.escape(str(next(iter(bad.values()))))):
            store.create_conversation(**bad)
        assert store.conversations() == []

    # ---- rejected calls change nothing

    @pytest.mark.parametrize(
        ("bad", "error", "place"),
        [
            ({"metadata": {"f": {1, 2}}}, TypeError, "metadata.f"),
            ({"metadata": {"list": [0, {"x": (1,)}]}}, TypeError, r"metadata\.list\[1\]\.x"),
            ({"metadata": {1: "x"}}, TypeError, "key 1"),
            ({"metadata": {"x": float("nan")}}, ValueError, "nan"),
            ({"id": ""}, ValueError, "id"),
            ({"marks": "HINT"}, TypeError, "marks"),
            ({"standalone_question": 5}, TypeError, "standalone is 5|expected str"),
        ],
    )
    def test_what_json_cannot_hold_is_refused(
        self, store: TurnStore, bad: dict[str, Any], error: type[Exception], place: str
    ) -> None:
        here = store.create_conversation()
        with pytest.raises(error, match=place):
            store.append(new_turn("?", **bad), conversation=here.id)
        assert store.turns(here.id) == []
        assert store.append(new_turn("?"), conversation=here.id).order == 0

    # ---- namespaces, copies, threads

    def test_a_namespace_never_sees_another(self, store: TurnStore) -> None:
        ada = store.create_conversation(namespace="ada", name="demo")
        bob = store.create_conversation(namespace="bob", name="demo")
        turn = store.append(new_turn("ada's", id="same"), conversation=ada.id, namespace="ada")
        assert (
            store.append(new_turn("bob's", id="same"), conversation=bob.id, namespace="bob").question
            == "bob's"
        )
        assert store.turn("same", namespace="ada") == turn
        assert [each.id for each in store.conversations(namespace="bob")] == [bob.id]
        assert store.conversations() == []
        for namespace in ("bob", ""):
            with pytest.raises(NotFound):
                store.conversation(ada.id, namespace=namespace)
            with pytest.raises(NotFound):
                store.turns(ada.id, namespace=namespace)
            with pytest.raises(NotFound):
                store.append(new_turn("?"), conversation=ada.id, namespace=namespace)
            with pytest.raises(NotFound):
                store.delete_conversation(ada.id, namespace=namespace)
        assert store.delete_turn("same") is False
        assert store.turns(ada.id, namespace="ada") == [turn]

    def test_no_caller_holds_a_part_of_the_store(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = new_turn("as asked", metadata={"list": [1]})
        stored = store.append(turn, conversation=here.id)
        assert turn.order is None
        for held in (turn, stored, *store.turns(here.id)):
            assert held.user_query is not None and held.metadata is not None
            held.user_query.query_str = "changed"
            held.metadata["list"].append(2)
        kept = store.turn(turn.id)
        assert (kept.question, kept.metadata) == ("as asked", {"list": [1]})

    def test_threads_lose_nothing_and_leave_no_gap(self, store: TurnStore) -> None:
        here = store.create_conversation()

        def append(n: int) -> DialogTurn:
            stored = store.append(new_turn(str(n)), conversation=here.id)
            assert stored in store.turns(here.id)
            return stored

        with ThreadPoolExecutor(8) as pool:
            acknowledged = list(pool.map(append, range(100)))
        turns = store.turns(here.id)
        assert [turn.order for turn in turns] == list(range(100))
        assert sorted(acknowledged, key=lambda turn: turn.order or 0) == turns

    def test_threads_create_a_name_once(self, store: TurnStore) -> None:
        def create(_: int) -> str | None:
            try:
                return store.create_conversation(name="demo").id
            except ConversationMismatch:
                return None

        with ThreadPoolExecutor(8) as pool:
            made = [each for each in pool.map(create, range(16)) if each]
        assert made == [store.conversation("demo").id]

    def test_closing_twice_is_fine(self, store: TurnStore) -> None:
        store.close()
        store.close()
