"""Contract tests of dump and restore in a `MemoryStore`; see `tests.contracts.memory_store`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rag.errors import ConversationMismatch, NotFound
from rag.ports import MemoryStore
from rag.settings import KEYS_NAMESPACE
from rag.types import Message, Source
from tests.contracts.clock import SteppedClock
from tests.contracts.sample_turns import (
    add_turns,
    contents,
    full_message,
    full_turn,
    new_turn,
    questions,
)

WRONG_CONVERSATIONS: list[dict[str, Any]] = [
    {"id": 7},
    {"parent": -1},
    {"forked_at": "0"},
    {"ttl_s": 1e18},
    {"keep_last": 0},
    {"created": "0001-01-01T00:00:00+14:00"},
    {"sources": [{"location": None}]},
]
WRONG_TURNS: list[dict[str, Any]] = [{"id": None}, {"order": None}, {"order": 2**64}, {"question": 7}]
WRONG_MESSAGES: list[dict[str, Any]] = [{"id": 7}, {"order": "0"}, {"conversation": ["a"]}, {"role": None}]
WRONG_RECORDS: list[dict[str, Any]] = [{"shelf": 7}, {"key": None}, {"value": "!"}, {"expires": []}]


def over_json(lines: Any) -> list[Any]:
    """Return the lines after a round trip through JSON."""
    return [json.loads(json.dumps(line)) for line in lines]


def filled(store: MemoryStore, clock: SteppedClock) -> list[str]:
    """Store an item of every kind; return the ids of the conversations."""
    main = store.create_conversation(name="main", sources=[Source("/r\udcff", "v1")], ttl_s=6000)
    turn = store.append(full_turn(), conversation=main.id)
    store.add_messages([full_message(), Message(b"\xff\0")], conversation=main.id)
    add_turns(store, main.id, "3", "4", "5")
    clock.advance(10)
    store.edit_turn(replace(turn, state="answered"))
    fork = store.fork(main.id, at=4, name="fork")
    store.rewind(main.id, to=3)
    add_turns(store, main.id, "6")
    add_turns(store, fork.id, "f5")
    short = store.create_conversation(keep_last=2)
    add_turns(store, short.id, "0", "1")
    shortened = store.fork(short.id)
    add_turns(store, shortened.id, "2", "3", "4")
    store.delete_turn(store.turns(shortened.id)[0].id)
    orphan = store.fork(main.id, at=0)
    store.delete_conversation(store.fork(orphan.id).id)
    store.put_records({"k": b"\0\xff", "\udcff": b""}, shelf="s")
    store.put_records({"soon": b"1"}, shelf="t", ttl_s=600)
    return [main.id, fork.id, short.id, shortened.id, orphan.id]


class StoreMovesContract:
    """The contract of every store for dump and restore."""

    @pytest.fixture
    def other_store(self, store: MemoryStore) -> MemoryStore:
        """A second, empty store of the same kind; without it, tests restore into the first one."""
        pytest.skip("this backend gives no second store to move to")

    def test_a_store_moves_without_loss(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        ids = filled(store, clock)
        lines = over_json(store.dump())
        assert other_store.restore(lines) == 5
        assert over_json(other_store.dump()) == lines
        assert other_store.conversations() == store.conversations()
        for each in ids:
            assert other_store.turns(each) == store.turns(each)
            assert other_store.messages(each) == store.messages(each)
            for turn in store.turns(each):
                assert other_store.versions(turn.id) == store.versions(turn.id)
        for sought in (["北京", "text"], []):
            assert other_store.matching(sought) == store.matching(sought)
        assert other_store.citing() == store.citing()

    def test_a_moved_store_goes_on_as_the_first_would(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        ids = filled(store, clock)
        other_store.restore(store.dump())
        for each in (store, other_store):
            clock_before = clock.now
            orders = [add_turns(each, conversation, "next")[0].order for conversation in ids]
            assert orders == [7, 6, 2, 5, 1]
            assert each.rewind(ids[1], to=1) == 4
            assert questions(each, ids[3]) == "4 next"
            clock.advance(600)
            assert each.count_records(shelf="t") == 0
            assert each.count_records(shelf="s") == 2
            clock.now = clock_before
        clock.advance(6000)
        assert len(other_store.conversations()) == len(store.conversations()) == 2

    def test_one_conversation_moves_with_what_it_inherited(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        ids = filled(store, clock)
        lines = over_json(store.dump(conversations=[ids[1]]))
        assert other_store.restore(lines, namespace="ada") == 1
        (there,) = other_store.conversations(namespace="ada")
        assert (there.id, there.name, there.namespace) == (ids[1], "fork", "ada")
        assert questions(other_store, ids[1], namespace="ada") == questions(store, ids[1])
        assert contents(other_store, ids[1], namespace="ada") == contents(store, ids[1])
        assert other_store.namespaces() == ["ada"]
        with pytest.raises(NotFound, match="nowhere"):
            store.dump(conversations=["nowhere"])

    def test_restoring_twice_changes_nothing(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        filled(store, clock)
        lines = over_json(store.dump())
        other_store.restore(lines)
        assert other_store.restore(lines) == 0
        assert over_json(other_store.dump()) == lines
        assert store.restore(lines) == 0
        assert over_json(store.dump()) == lines

    def test_what_expired_on_the_way_is_left_out(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        ids = filled(store, clock)
        lines = over_json(store.dump())
        clock.advance(6000)
        assert other_store.restore(lines) == 2
        assert {each.id for each in other_store.conversations()} == set(ids[2:4])
        assert other_store.count_records(shelf="t") == 0
        assert other_store.matching([]).items == store.matching([]).items

    def test_all_lines_are_restored_or_none(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        filled(store, clock)
        lines = over_json(store.dump())
        bad: Any
        for bad in ({}, {"turn": {}}, {"turn": None}, {"conversation": {"id": "x"}}, {"record": {}}, 7):
            with pytest.raises(ValueError, match="not a line of an export"):
                other_store.restore([*lines, bad])
        assert other_store.namespaces() == []
        taken = other_store.create_conversation(name="fork")
        with pytest.raises(ConversationMismatch, match="fork"):
            other_store.restore(lines)
        assert (other_store.conversations(), other_store.matching([]).items) == ([taken], 0)
        assert other_store.count_records(shelf="s") == 0

    def test_a_line_that_could_not_be_read_again_is_refused(
        self, store: MemoryStore, other_store: MemoryStore, clock: SteppedClock
    ) -> None:
        filled(store, clock)
        lines = over_json(store.dump())
        kinds = ("conversation", "turn", "message", "record")
        begun, turn, message, record = (next(line for line in lines if kind in line) for kind in kinds)
        (cited,) = (line for line in lines if line.get("turn", {}).get("citations"))
        wrong: list[Any] = [
            {**begun, "spans": []},
            {**begun, "spans": [["", 0, None]]},
            {**begun, "next_order": 1.5},
            *({**begun, "conversation": {**begun["conversation"], **bad}} for bad in WRONG_CONVERSATIONS),
            *({**turn, "turn": {**turn["turn"], **bad}} for bad in WRONG_TURNS),
            {**turn, "versions": [{**turn["turn"], "order": -1}]},
            {"turn": {**cited["turn"], "citations": [{**cited["turn"]["citations"][0], "blob": 7}]}},
            *({"message": {**message["message"], **bad}} for bad in WRONG_MESSAGES),
            *({"record": {**record["record"], **bad}} for bad in WRONG_RECORDS),
        ]
        for line in wrong:
            with pytest.raises(ValueError, match="not a line of an export"):
                other_store.restore([*lines, line])
        assert other_store.namespaces() == []

    @pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
    def test_a_source_that_could_not_be_read_again_is_refused(self, store: MemoryStore, bad: str) -> None:
        for source in (Source(bad), Source("/a", bad)):
            with pytest.raises(ValueError, match=r"NUL|surrogates"):
                store.create_conversation(sources=[source])
        assert store.conversations() == []

    def test_namespaces_are_those_that_hold_something(self, store: MemoryStore, clock: SteppedClock) -> None:
        assert store.namespaces() == []
        ada = store.create_conversation(namespace="ada")
        store.create_conversation(namespace="é", ttl_s=600)
        store.put_records({"k": b""}, shelf="s")
        store.put_records({"k": b""}, shelf="s", namespace="b*")
        store.put_records({"k": b""}, shelf="s", namespace=KEYS_NAMESPACE)  # never listed
        store.put_records({"k": b""}, shelf="s", namespace="short", ttl_s=600)
        assert store.namespaces() == ["", "ada", "b*", "short", "é"]
        store.delete_conversation(ada.id, namespace="ada")
        store.delete_records(shelf="s")
        clock.advance(600)
        assert store.namespaces() == ["b*"]

    def test_a_turn_that_is_there_is_left_as_it_is(
        self, store: MemoryStore, other_store: MemoryStore
    ) -> None:
        here = store.create_conversation()
        store.append(new_turn("theirs", id="same"), conversation=here.id)
        add_turns(store, here.id, "also")
        there = other_store.create_conversation()
        ours = other_store.append(new_turn("ours", id="same"), conversation=there.id)
        assert other_store.restore(store.dump()) == 1
        assert other_store.turn("same") == ours
        assert questions(other_store, here.id) == "also"
