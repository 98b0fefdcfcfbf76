"""A test for each promise of `TurnStore`: subclass it and give a `store` fixture.

class TestMyTurnStore(TurnStoreContract):
    @pytest.fixture
    def store(self) -> Iterator[TurnStore]:
        ...
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rag.errors import ConversationMismatch, NotFound
from rag.ports import TurnStore
from rag.types import AssistantResponse, Citation, DialogTurn, Filters, Source, Usage, UserQuery

SHELF = Source("/repositories/shelf")
LAMP = Source("https://example.org/lamp.git", "v2", Filters(include=("*.py", "docs/"), exclude=("old/",)))


def said(question: str, answer: str = "yes", **more: Any) -> DialogTurn:
    """A turn that is not stored yet."""
    return DialogTurn(user_query=UserQuery(question), assistant_response=AssistantResponse(answer), **more)


def full_turn() -> DialogTurn:
    """A turn that uses every field, with values that are easily lost."""
    cited = Citation(
        n=2,
        repo="shelf",
        path="src/naïve\udcff.py",
        start=3,
        end=9,
        commit="c" * 40,
        blob="b" * 40,
        symbol="Shelf.put",
        span_hash="a" * 64,
        dirty=True,
        score=0.1,
        used=False,
        location="/repositories/shelf",
    )
    paris = timezone(timedelta(hours=2))
    return DialogTurn(
        user_query=UserQuery(
            "北京 <|endoftext|> '; DROP TABLE turn\0\n", {"tags": ["a", {"b": None}], "n": 1.5}
        ),
        assistant_response=AssistantResponse("", {"steps": []}),
        parent_id="an earlier turn",
        standalone_question="where is 北京? 😀",
        citations=(cited, replace(cited, n=1, commit=None, dirty=False, used=True)),
        model="smollm2",
        prompt_hash="d" * 64,
        usage=Usage(prompt_tokens=12, answer_tokens=3, estimated=False, cost_usd=0.00123),
        complete=False,
        user_query_timestamp=datetime(2026, 3, 1, 0, 30, 0, 123456, tzinfo=paris),
        assistant_response_timestamp=None,
        user_id="ada",
        metadata={"": "", "Ключ": True},
    )


class TurnStoreContract:
    """What every turn store promises."""

    # ---- conversations

    def test_a_conversation_is_found_by_id_and_by_name(self, store: TurnStore) -> None:
        made = store.create_conversation(name="demo", sources=[SHELF, LAMP])
        assert made.sources == (SHELF, LAMP)
        assert (made.name, made.namespace, made.turn_count) == ("demo", "", 0)
        assert store.conversation(made.id) == store.conversation("demo") == made

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
            store.append(said("?"), conversation="nowhere")

    def test_the_conversation_last_written_to_comes_first(self, store: TurnStore) -> None:
        a, b, c = (store.create_conversation(name=name) for name in "abc")
        assert [each.name for each in store.conversations()] == ["c", "b", "a"]
        turn = store.append(said("?"), conversation=a.id)
        store.append(said("?"), conversation=b.id)
        store.append(turn, conversation=a.id)  # known already, so nothing is written
        assert [each.name for each in store.conversations()] == ["b", "a", "c"]
        store.delete_conversation(b.id)
        assert store.conversations() == [store.conversation(a.id), store.conversation(c.id)]

    def test_a_conversation_counts_its_turns_and_dates_the_last(self, store: TurnStore) -> None:
        made = store.create_conversation()
        turns = [store.append(said("?"), conversation=made.id) for _ in range(3)]
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
        clocks = [epoch + timedelta(days=day) for day in (3, 1, 2)]  # order is never by clock
        for n, time in enumerate(clocks):
            assert store.append(said(str(n), user_query_timestamp=time), conversation=here.id).order == n
        assert [(turn.order, turn.question) for turn in store.turns(here.id)] == [
            (0, "0"),
            (1, "1"),
            (2, "2"),
        ]

    def test_last_gives_the_newest_still_oldest_first(self, store: TurnStore) -> None:
        here = store.create_conversation()
        for n in range(5):
            store.append(said(str(n)), conversation=here.id)
        store.delete_turn(store.turns(here.id)[3].id)
        for last, expected in ((0, ""), (1, "4"), (2, "24"), (4, "0124"), (99, "0124")):
            assert "".join(turn.question for turn in store.turns(here.id, last=last)) == expected
        with pytest.raises(ValueError, match="-1"):
            store.turns(here.id, last=-1)

    def test_an_id_is_stored_once(self, store: TurnStore) -> None:
        here, there = store.create_conversation(), store.create_conversation()
        stored = store.append(said("first", id="same"), conversation=here.id)
        assert store.append(said("second", id="same"), conversation=here.id) == stored
        assert store.append(said("third", id="same"), conversation=there.id) == stored
        assert (store.turns(here.id), store.turns(there.id)) == ([stored], [])
        assert store.append(said("next"), conversation=here.id).order == 1

    def test_an_order_is_never_given_twice(self, store: TurnStore) -> None:
        here = store.create_conversation()
        first, second = (store.append(said(text), conversation=here.id) for text in "ab")
        assert store.delete_turn(second.id) is True
        assert store.delete_turn(second.id) is False
        third = store.append(said("c"), conversation=here.id)
        again = store.append(second, conversation=here.id)
        assert (
            [turn.order for turn in store.turns(here.id)]
            == [first.order, third.order, again.order]
            == [0, 2, 3]
        )

    def test_deleting_a_conversation_takes_its_turns(self, store: TurnStore) -> None:
        gone, kept = store.create_conversation(), store.create_conversation()
        turns = [store.append(full_turn(), conversation=gone.id) for _ in range(3)]
        other = store.append(said("?"), conversation=kept.id)
        assert store.delete_conversation(gone.id) == 3
        for turn in turns:
            with pytest.raises(NotFound):
                store.turn(turn.id)
        assert store.turns(kept.id) == [other]
        assert store.append(turns[0], conversation=kept.id).order == 1

    def test_an_unknown_turn_is_not_found(self, store: TurnStore) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            store.turn("nowhere")

    # ---- what is refused leaves nothing behind

    @pytest.mark.parametrize(
        ("bad", "error", "place"),
        [
            ({"metadata": {"f": {1, 2}}}, TypeError, "metadata.f"),
            ({"metadata": {"list": [0, {"x": (1,)}]}}, TypeError, r"metadata\.list\[1\]\.x"),
            ({"metadata": {1: "x"}}, TypeError, "key 1"),
            ({"metadata": {"x": float("nan")}}, ValueError, "nan"),
            ({"id": ""}, ValueError, "id"),
        ],
    )
    def test_what_json_cannot_hold_is_refused(
        self, store: TurnStore, bad: dict[str, Any], error: type[Exception], place: str
    ) -> None:
        here = store.create_conversation()
        with pytest.raises(error, match=place):
            store.append(said("?", **bad), conversation=here.id)
        assert store.turns(here.id) == []
        assert store.append(said("?"), conversation=here.id).order == 0

    # ---- namespaces, copies, threads

    def test_a_namespace_never_sees_another(self, store: TurnStore) -> None:
        ada = store.create_conversation(namespace="ada", name="demo")
        bob = store.create_conversation(namespace="bob", name="demo")
        turn = store.append(said("ada's", id="same"), conversation=ada.id, namespace="ada")
        assert (
            store.append(said("bob's", id="same"), conversation=bob.id, namespace="bob").question == "bob's"
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
                store.append(said("?"), conversation=ada.id, namespace=namespace)
            with pytest.raises(NotFound):
                store.delete_conversation(ada.id, namespace=namespace)
        assert store.delete_turn("same") is False
        assert store.turns(ada.id, namespace="ada") == [turn]

    def test_no_caller_holds_a_part_of_the_store(self, store: TurnStore) -> None:
        here = store.create_conversation()
        turn = said("as asked", metadata={"list": [1]})
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
            stored = store.append(said(str(n)), conversation=here.id)
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
