"""Random sequences of calls on a memory store, compared with a model of plain lists.

The model is as simple as can be: a conversation is a list of items, a fork a copy of a part of the list,
and an item is there as long as one list holds it. A backend runs it so:

class MyStoreMachine(MemoryStoreMachine):
    def make_store(self) -> MemoryStore:
        return MyStore(..., clock=self.clock)  # empty; called again for the target of a restore

TestMyStoreIsLists = MyStoreMachine.TestCase
TestMyStoreIsLists.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rag.errors import ConversationMismatch, NotFound
from rag.ports import MemoryStore
from rag.types import DialogTurn, Message, Source
from tests.contracts import turn_values as values
from tests.contracts.clock import SteppedClock
from tests.contracts.turn_search import counted

_SOUGHT = ("token", "user", "getusername", "北京")
_NAMESPACES = ("", "ada")
numbers = st.integers(0, 7)
places = st.tuples(numbers, st.sampled_from([False, False, False, False, True]))
filters = st.none() | values.marks | st.lists(values.marks, max_size=2)


@dataclass(eq=False)
class ExpectedItem:
    """A turn with its versions, or a message."""

    versions: list[Any]

    @property
    def now(self) -> Any:
        """Return the current version."""
        return self.versions[-1]

    @property
    def is_turn(self) -> bool:
        """Whether it is a turn."""
        return isinstance(self.now, DialogTurn)

    def mark(self, marks: set[str]) -> None:
        """Set these marks on all versions."""
        self.versions = [replace(each, marks=tuple(sorted(marks))) for each in self.versions]


@dataclass(eq=False)
class Listed:
    """A conversation."""

    id: str
    namespace: str
    name: str
    sources: tuple[Source, ...]
    ttl_s: float | None
    keep_last: int | None
    updated: datetime
    said: list[ExpectedItem] = field(default_factory=list)
    given: int = 0  # orders given so far

    def of(self, kind: type) -> list[Any]:
        """Return the current turns, or messages."""
        return [item.now for item in self.said if isinstance(item.now, kind)]


class MemoryStoreMachine(RuleBasedStateMachine):
    """Calls in any order; after each, the store must contain what the lists contain."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.store = self.make_store()
        self.listed: list[Listed] = []  # the most recently written last
        self.begun: list[tuple[str, str]] = []  # conversations with namespace, including deleted ones
        self.ids: list[str] = ["nothing"]  # of turns and messages, including deleted ones
        self.records: dict[tuple[str, str], tuple[bytes, datetime | None]] = {}  # (namespace, key)

    def make_store(self) -> MemoryStore:
        """Return an empty store."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    # ---- the model

    def place(self, place: tuple[int, bool]) -> tuple[str, str]:
        """Return a conversation and a namespace, its own or another."""
        number, elsewhere = place
        conversation, namespace = self.begun[-1 - number % len(self.begun)]
        return conversation, ("" if namespace else "ada") if elsewhere else namespace

    def known(self, numbers: list[int]) -> list[str]:
        """Return ids of turns and messages."""
        return [self.ids[-1 - number % len(self.ids)] for number in numbers]

    def find(self, conversation: str, namespace: str) -> Listed | None:
        """Return the conversation with this id in this namespace."""
        for one in self.listed:
            if (one.id, one.namespace) == (conversation, namespace):
                return one
        return None

    def items(self, namespace: str) -> Iterator[ExpectedItem]:
        """Return all turns and messages of a namespace, each once."""
        seen = {item: None for one in self.listed if one.namespace == namespace for item in one.said}
        yield from seen

    def item(self, item_id: str, namespace: str, kind: type) -> ExpectedItem | None:
        """Return the turn or message with this id."""
        for item in self.items(namespace):
            if item.now.id == item_id and isinstance(item.now, kind):
                return item
        return None

    def forget(self, items: list[ExpectedItem]) -> None:
        """Delete turns and messages from all conversations."""
        for one in self.listed:
            one.said = [item for item in one.said if item not in items]

    def written(self, one: Listed) -> None:
        """Record that an item was added."""
        one.updated = self.clock.now
        self.listed.remove(one)
        self.listed.append(one)

    def free(self, name: str, namespace: str) -> bool:
        """Whether a name is free."""
        return not name or (namespace, name) not in {(one.namespace, one.name) for one in self.listed}

    # ---- conversations

    @initialize(
        turns=st.lists(values.dialog_turns, min_size=3, max_size=4),
        messages=st.lists(values.messages, min_size=2, max_size=2),
        keep_last=st.none() | st.integers(2, 3),
    )
    def begin(self, turns: list[DialogTurn], messages: list[Message], keep_last: int | None) -> None:
        """Create a conversation, and a fork of it that was continued."""
        self.create("", "", sources=[], ttl_s=None, keep_last=keep_last)
        self.put((0, False), turns[:3])
        self.put((0, False), messages[:1])
        self.fork((0, False), None, "")
        self.put((0, False), turns[3:] or messages[1:])

    @rule(
        namespace=values.namespaces,
        name=values.names,
        sources=values.sources,
        ttl_s=st.none() | st.sampled_from([600.0, 900.0]),
        keep_last=st.none() | st.integers(1, 3),
    )
    def create(self, namespace: str, name: str, **more: Any) -> None:
        """Create a conversation."""
        if not self.free(name, namespace):
            with pytest.raises(ConversationMismatch):
                self.store.create_conversation(namespace=namespace, name=name, **more)
            return
        made = self.store.create_conversation(namespace=namespace, name=name, **more)
        more["sources"] = tuple(more["sources"])
        self.listed.append(Listed(made.id, namespace, name, updated=self.clock.now, **more))
        self.begun.append((made.id, namespace))

    @rule(place=places, name=values.names)
    def rename(self, place: tuple[int, bool], name: str) -> None:
        """Rename a conversation."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        if one is None or (name != one.name and not self.free(name, namespace)):
            with pytest.raises((NotFound, ConversationMismatch)):
                self.store.rename(conversation, name, namespace=namespace)
            return
        assert self.store.rename(conversation, name, namespace=namespace).name == name
        one.name = name

    @rule(place=places, at=st.none() | st.integers(-2, 6), name=values.names)
    def fork(self, place: tuple[int, bool], at: int | None, name: str) -> None:
        """Fork at any order."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        orders = [-1, *(item.now.order for item in one.said)] if one else []
        if one is None or at not in (None, *orders) or not self.free(name, namespace):
            with pytest.raises((NotFound, ConversationMismatch)):
                self.store.fork(conversation, at=at, name=name, namespace=namespace)
            return
        made = self.store.fork(conversation, at=at, name=name, namespace=namespace)
        place_ = orders[-1] if at is None else at
        assert (made.parent, made.forked_at) == (conversation, place_)
        inherited = [item for item in one.said if item.now.order <= place_]
        forked = replace(one, id=made.id, name=name, said=inherited, given=place_ + 1)
        forked.updated = self.clock.now
        self.listed.append(forked)
        self.begun.append((made.id, namespace))

    @rule(place=places, to=st.integers(-1, 9))
    def rewind(self, place: tuple[int, bool], to: int) -> None:
        """Rewind a conversation."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        if one is None:
            with pytest.raises(NotFound):
                self.store.rewind(conversation, to=to, namespace=namespace)
            return
        gone = [item for item in one.said if item.now.order > to]
        one.said = [item for item in one.said if item not in gone]
        turns = sum(item.is_turn for item in gone)
        assert self.store.rewind(conversation, to=to, namespace=namespace) == turns

    @rule(place=places, delete=st.booleans())
    def clear_or_delete(self, place: tuple[int, bool], delete: bool) -> None:
        """Clear or delete a conversation."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        call = self.store.delete_conversation if delete else self.store.clear
        if one is None:
            with pytest.raises(NotFound):
                call(conversation, namespace=namespace)
            return
        gone = one.of(DialogTurn) if delete else one.said
        assert call(conversation, namespace=namespace) == len(gone)
        one.said = []
        if delete:
            self.listed.remove(one)

    # ---- turns and messages

    @rule(place=places, said=st.lists(values.dialog_turns, min_size=1, max_size=3))
    def add_turns(self, place: tuple[int, bool], said: list[DialogTurn]) -> None:
        """Add turns."""
        self.put(place, said)

    @rule(place=places, said=st.lists(values.messages, min_size=1, max_size=3))
    def add_messages(self, place: tuple[int, bool], said: list[Message]) -> None:
        """Add messages."""
        self.put(place, said)

    @rule(place=places, number=numbers, said=st.tuples(values.dialog_turns, values.dialog_turns))
    def add_known_turns(self, place: tuple[int, bool], number: int, said: tuple[DialogTurn, ...]) -> None:
        """Add an item with an existing or deleted id, twice in one call."""
        self.put(place, [said[0], *(replace(each, id=self.known([number])[0]) for each in said)])

    @rule(place=places, number=numbers, said=st.tuples(values.messages, values.messages))
    def add_known_messages(self, place: tuple[int, bool], number: int, said: tuple[Message, ...]) -> None:
        """Add an item with an existing or deleted id, twice in one call."""
        self.put(place, [said[0], *(replace(each, id=self.known([number])[0]) for each in said)])

    def put(self, place: tuple[int, bool], said: list[Any]) -> None:
        """Add items to the store and the list."""
        conversation, namespace = self.place(place)
        kind = type(said[0])
        call: Any = self.store.extend if kind is DialogTurn else self.store.add_messages
        one = self.find(conversation, namespace)
        if one is None:
            with pytest.raises(NotFound):
                call(said, conversation=conversation, namespace=namespace)
            return
        new: list[ExpectedItem] = []
        expected: list[Any] = []
        for each in said:
            item = self.item(each.id, namespace, kind)
            if item is None:
                item = next((item for item in new if item.now.id == each.id), None)
                if item is None:
                    placed = replace(each, order=one.given, conversation_id=conversation, namespace=namespace)
                    item = ExpectedItem([placed])
                    one.given += 1
                    new.append(item)
            expected.append(item.now)
        if kind is Message:
            expected = [item.now for item in new]
        assert call(said, conversation=conversation, namespace=namespace) == expected
        if new:
            self.ids += [item.now.id for item in new]
            one.said = self.trimmed([*one.said, *new], one.keep_last, new[0].is_turn)
            self.written(one)

    def trimmed(self, said: list[ExpectedItem], keep_last: int | None, turns: bool) -> list[ExpectedItem]:
        """Drop the oldest turns, or messages, beyond `keep_last`."""
        same = [item for item in said if item.is_turn is turns]
        gone = same[: -keep_last if keep_last else 0]
        return [item for item in said if item not in gone]

    @rule(number=numbers, namespace=values.namespaces, turn=values.dialog_turns)
    def edit(self, number: int, namespace: str, turn: DialogTurn) -> None:
        """Store another version of a turn."""
        (known,) = self.known([number])
        turn = replace(turn, id=known)
        item = self.item(known, namespace, DialogTurn)
        if item is None:
            with pytest.raises(NotFound):
                self.store.edit_turn(turn, namespace=namespace)
            return
        same = {name: getattr(item.now, name) for name in ("order", "conversation_id", "marks", "namespace")}
        item.versions.append(replace(turn, **same, version=len(item.versions) + 1))
        assert self.store.edit_turn(turn, namespace=namespace) == item.now

    @rule(number=numbers, namespace=values.namespaces)
    def delete_turn(self, number: int, namespace: str) -> None:
        """Delete a turn."""
        (known,) = self.known([number])
        item = self.item(known, namespace, DialogTurn)
        assert self.store.delete_turn(known, namespace=namespace) is (item is not None)
        self.forget([item] if item else [])

    @rule(place=places, chosen=st.lists(numbers, max_size=3))
    def delete_messages(self, place: tuple[int, bool], chosen: list[int]) -> None:
        """Delete messages."""
        (conversation, namespace), known = self.place(place), self.known(chosen)
        one = self.find(conversation, namespace)
        if one is not None:
            gone = [item for item in one.said if not item.is_turn and item.now.id in known]
            found = self.store.delete_messages(known, conversation=conversation, namespace=namespace)
            assert found == len(gone)
            self.forget(gone)

    # ---- marks

    @rule(
        place=places,
        new=st.none() | values.marks,
        old=st.none() | values.marks,
        chosen=st.none() | st.lists(numbers, max_size=3),
    )
    def update_marks(
        self, place: tuple[int, bool], new: str | None, old: str | None, chosen: list[int] | None
    ) -> None:
        """Change marks."""
        conversation, namespace = self.place(place)
        known = None if chosen is None else self.known(chosen)
        one = self.find(conversation, namespace)
        if one is None or new is old is None:
            with pytest.raises((NotFound, ValueError)):
                self.store.update_marks(conversation, new, old=old, ids=known, namespace=namespace)
            return
        changed = 0
        for item in one.said:
            before = set(item.now.marks)
            if (known is None or item.now.id in known) and (old is None or old in before):
                after = (before - {old}) | (set() if new is None else {new})
                changed += after != before
                item.mark(after)
        found = self.store.update_marks(conversation, new, old=old, ids=known, namespace=namespace)
        assert found == changed

    @rule(place=places, mark=filters)
    def delete_by_mark(self, place: tuple[int, bool], mark: Any) -> None:
        """Delete by mark."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        if one is not None and mark is not None:
            gone = [item for item in one.said if set(item.now.marks) & _marks(mark)]
            assert self.store.delete_by_mark(conversation, mark, namespace=namespace) == len(gone)
            self.forget(gone)

    @rule(
        place=places,
        mark=filters,
        exclude_mark=filters,
        last=st.none() | st.integers(0, 3),
        before=st.none() | st.integers(-1, 5),
        after=st.none() | st.integers(-1, 5),
    )
    def read(
        self, place: tuple[int, bool], mark: Any, exclude_mark: Any, last: int | None, **range_: Any
    ) -> None:
        """Read with filters."""
        conversation, namespace = self.place(place)
        one = self.find(conversation, namespace)
        if one is None:
            with pytest.raises(NotFound):
                self.store.turns(conversation, namespace=namespace, last=last)
            return

        def wanted(each: Any) -> bool:
            marks = set(each.marks)
            return (mark is None or bool(marks & _marks(mark))) and not marks & _marks(exclude_mark)

        def newest(found: list[Any]) -> list[Any]:
            return found if last is None else found[len(found) - min(last, len(found)) :]

        how: dict[str, Any] = {"mark": mark, "exclude_mark": exclude_mark, "last": last}
        how["namespace"] = namespace
        before, after = range_["before"], range_["after"]
        turns = [
            turn
            for turn in one.of(DialogTurn)
            if (before is None or turn.order < before) and (after is None or turn.order > after)
        ]
        assert self.store.turns(conversation, **how, **range_) == newest(list(filter(wanted, turns)))
        assert self.store.messages(conversation, **how) == newest(list(filter(wanted, one.of(Message))))

    # ---- records

    @rule(
        namespace=values.namespaces,
        key=values.texts,
        value=st.binary(max_size=9),
        ttl_s=st.none() | st.just(600),
    )
    def put_record(self, namespace: str, key: str, value: bytes, ttl_s: float | None) -> None:
        """Put a record."""
        self.store.put_records({key: value}, shelf="s", namespace=namespace, ttl_s=ttl_s)
        expires = None if ttl_s is None else self.clock.now + timedelta(seconds=ttl_s)
        self.records[namespace, key] = (value, expires)

    @rule(namespace=values.namespaces, keys=st.lists(values.texts, max_size=3))
    def delete_records(self, namespace: str, keys: list[str]) -> None:
        """Delete records."""
        there = {key for key in keys if (namespace, key) in self.records}
        assert self.store.delete_records(keys, shelf="s", namespace=namespace) == len(there)
        for key in there:
            del self.records[namespace, key]

    # ---- time, dump and restore

    @rule(seconds=st.sampled_from([1, 100, 300, 600]))
    def wait(self, seconds: int) -> None:
        """Advance the clock."""
        self.clock.advance(seconds)
        for one in list(self.listed):
            if one.ttl_s is not None and self.clock.now - one.updated >= timedelta(seconds=one.ttl_s):
                self.listed.remove(one)
        self.records = {
            place: record
            for place, record in self.records.items()
            if record[1] is None or record[1] > self.clock.now
        }

    @rule()
    def move(self) -> None:
        """Restore everything into another store and continue there."""
        other = self.make_store()
        for namespace in self.store.namespaces():
            lines = list(self.store.dump(namespace=namespace))
            other.restore(json.loads(json.dumps(lines)), namespace=namespace)
        self.store.close()
        self.store = other

    # ---- invariants after every call

    @invariant()
    def conversations_are_the_lists(self) -> None:
        """Conversations, turns and messages equal the lists."""
        for namespace in _NAMESPACES:
            expected = [one for one in reversed(self.listed) if one.namespace == namespace]
            found = self.store.conversations(namespace=namespace)
            assert [each.id for each in found] == [one.id for one in expected]
            for each, one in zip(found, expected, strict=True):
                assert (each.name, each.sources, each.updated) == (one.name, one.sources, one.updated)
                assert (each.ttl_s, each.keep_last) == (one.ttl_s, one.keep_last)
                turns, messages = one.of(DialogTurn), one.of(Message)
                assert (each.turn_count, each.message_count) == (len(turns), len(messages))
                assert self.store.turns(one.id, namespace=namespace) == turns
                assert self.store.messages(one.id, namespace=namespace) == messages

    @invariant()
    def words_versions_and_citations_are_those_of_the_lists(self) -> None:
        """A search finds the items of the lists."""
        for namespace in _NAMESPACES:
            items = list(self.items(namespace))
            every = [item.now for item in items]
            assert self.store.matching(_SOUGHT, namespace=namespace) == counted(every, _SOUGHT)
            assert self.store.matching(_SOUGHT, namespace=namespace, limit=2) == counted(every, _SOUGHT, 2)
            for one in self.listed:
                if one.namespace == namespace:
                    found = self.store.matching(_SOUGHT, namespace=namespace, conversation=one.id)
                    assert found == counted([item.now for item in one.said], _SOUGHT)
            turns = {item.now.id: item.now for item in items if item.is_turn}
            assert self.store.turns_by_id([*turns, "nowhere"], namespace=namespace) == turns
            citing = []
            for item in items:
                if item.is_turn:
                    assert self.store.versions(item.now.id, namespace=namespace) == item.versions
                    if any(cited.path == "a.py" for turn in item.versions for cited in turn.citations):
                        citing.append(item.now.id)
            assert self.store.citing(path="a.py", namespace=namespace) == sorted(citing)

    @invariant()
    def records_are_those_put(self) -> None:
        """Records equal those that were put."""
        for namespace in _NAMESPACES:
            expected = {key: value for (where, key), (value, _) in self.records.items() if where == namespace}
            found = self.store.scan_records(shelf="s", namespace=namespace)
            assert found == sorted(expected.items())
            assert self.store.count_records(shelf="s", namespace=namespace) == len(expected)


def _marks(mark: Any) -> set[str]:
    if mark is None:
        return set()
    return {mark} if isinstance(mark, str) else set(mark)
