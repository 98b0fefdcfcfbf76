"""The data model of turn stores: items by their original conversation, conversations as views of items.

    added to "a":  0 1 2 3 4 5 6 7
    "a" shows      [a 0 –)                        its own items, with no end
    "b" shows      [a 0 3] [b 4 –)                a fork of "a" at 3: one more span, for any length of "a"
    "a" shows      [a 0 1] [a 8 –)                after a rewind to 1; 2 and 3 are kept for "b", 4 to 7
    deleted

An item that no conversation shows is deleted. Every backend can store this model, and dumps contain it (see
`MemoryStore`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from rag.analysis import terms
from rag.errors import StoreCorrupt
from rag.schema import Record, message_from_record, message_record, turn_from_record, turn_record
from rag.searchable import searchable, term_counts
from rag.turns.values import MAX_ORDER, message_of, turn_of, valid_order
from rag.types import Conversation, DialogTurn, Message

Kind = Literal["turn", "message"]
Cited = tuple[str, str, str]
"""A cited file: path, location, blob."""
_MAX_SHOWN = 200
_MAX_TOTAL = 2**53
_P = ParamSpec("_P")
_R = TypeVar("_R")


class RecordCorrupt(StoreCorrupt):
    """A record of a turn store that rag did not write, or that was damaged."""

    def __init__(self, why: str) -> None:
        fix = "restore a backup, or move it away to start an empty one"
        super().__init__(path="of turns", why=f"its contents are invalid ({why})", fix=fix)


def reads_stored(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Raise RecordCorrupt for stored values that cannot be read, whatever that raises."""

    @wraps(call)
    def read(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise RecordCorrupt(f"{type(error).__name__}: {str(error)[:_MAX_SHOWN]}") from error

    return read


class TurnSpan(NamedTuple):
    """The items of a conversation between two orders, both included; `last` None is no end."""

    origin: str
    first: int
    last: int | None

    def holds(self, order: int) -> bool:
        """Whether an order is in this span."""
        return self.first <= order and (self.last is None or order <= self.last)

    def until(self, order: int) -> TurnSpan:
        """Return the part up to this order."""
        return TurnSpan(self.origin, self.first, order if self.last is None else min(self.last, order))


def spans_until(spans: Sequence[TurnSpan], order: int) -> list[TurnSpan]:
    """Return the part of ascending spans up to an order."""
    return [span.until(order) for span in spans if span.first <= order]


class StoredItem(NamedTuple):
    """A turn or message as it is stored: the JSON text of its current version, and its marks, sorted.

    `key` orders the items of an origin: see `item_key`.
    """

    key: int
    kind: Kind
    id: str
    origin: str
    order: int
    length: int
    text: str
    marks: tuple[str, ...] = ()

    @reads_stored
    def record(self, text: str | None = None) -> Record:
        """Return the current version, or that of another text, as JSON values."""
        return {**json.loads(self.text if text is None else text), "marks": list(self.marks)}

    @reads_stored
    def turn(self) -> DialogTurn:
        """Return the current version as a turn that the caller may modify."""
        kept = _decoded(self.text, self.marks)
        asked, said = kept.user_query, kept.assistant_response
        return replace(
            kept,
            user_query=asked and replace(asked, metadata=deepcopy(asked.metadata)),
            assistant_response=said and replace(said, metadata=deepcopy(said.metadata)),
            metadata=deepcopy(kept.metadata),
        )

    def message(self) -> Message:
        """Return the message."""
        return stored_message(self.record())

    def counts(self) -> dict[str, int]:
        """Return how often each term occurs in it."""
        return term_counts(self.turn() if self.kind == "turn" else self.message())

    def passes(self, mark: tuple[str, ...] | None, exclude_mark: tuple[str, ...] | None) -> bool:
        """Whether its marks match the filters."""
        held = set(self.marks)
        return (mark is None or not held.isdisjoint(mark)) and (
            exclude_mark is None or held.isdisjoint(exclude_mark)
        )


@lru_cache(maxsize=256)
def _decoded(text: str, marks: tuple[str, ...]) -> DialogTurn:
    """Return the turn of a text; cached, as every question reads the last turns of its conversation."""
    return turn_of({**json.loads(text), "marks": list(marks)})


def item_key(number: int, kind: Kind, order: int) -> int:
    """Return the key of an item: the number of its origin (31 bits), its kind (1 bit) and order (31 bits)."""
    return number << 32 | (kind == "message") << 31 | order


class StoredRecord(NamedTuple):
    """The value and the expiry of a record."""

    value: bytes
    expires: datetime | None = None


class Item:
    """A turn with its versions, or a message, as JSON text, so that callers cannot modify it.

    Args:
        marks: its marks, in any order.
        counts, length: how often each term occurs, and the sum; if missing, counted in `searched` when they
            are first asked for.
        cited: the files that any version cites.
    """

    def __init__(
        self,
        *,
        kind: Kind,
        id: str,
        namespace: str,
        origin: str,
        order: int,
        versions: list[str],
        marks: set[str],
        counts: dict[str, int] | None = None,
        length: int | None = None,
        cited: frozenset[Cited] = frozenset(),
        searched: str = "",
    ) -> None:
        self.kind: Kind = kind
        self.id, self.namespace = id, namespace
        self.origin, self.order = origin, order
        self.versions, self.marks, self.cited = versions, marks, cited
        self._counts, self._length, self._searched = counts, length, searched

    @classmethod
    def of(cls, value: DialogTurn | Message) -> Item:
        """Return the item of a turn or message with an order."""
        return cls.recorded(value)[0]

    @classmethod
    def recorded(cls, value: DialogTurn | Message, **place: Any) -> tuple[Item, Record]:
        """Return the item and the record of a turn or message with an order; they share no objects.

        `place` are fields of the record that replace those of the value.
        """
        is_turn = isinstance(value, DialogTurn)
        record = turn_record(value) if isinstance(value, DialogTurn) else message_record(value)
        record.update(place)
        (turn_of if is_turn else message_of)(record)  # what could not be read again is not stored
        item = cls(
            kind="turn" if is_turn else "message",
            id=value.id,
            namespace=record["namespace"],
            origin=record["conversation"],
            order=record["order"],
            versions=[json.dumps({name: value for name, value in record.items() if name != "marks"})],
            marks=set(record["marks"]),
            searched=searchable(value),
            cited=cited_in(record),
        )
        return item, record

    @property
    def counts(self) -> dict[str, int]:
        """Return how often each term occurs."""
        if self._counts is None:
            self._counts = Counter(terms(self._searched))
        return self._counts

    @property
    def length(self) -> int:
        """Return the number of terms."""
        if self._length is None:
            self._length = sum(self.counts.values())
        return self._length

    def record(self, version: int = -1) -> Record:
        """Return the current version, or another one by its index, as JSON values."""
        return {**json.loads(self.versions[version]), "marks": sorted(self.marks)}

    def turn(self, version: int = -1) -> DialogTurn:
        """Return the turn in one of its versions."""
        return turn_from_record(self.record(version))

    def message(self) -> Message:
        """Return the message."""
        return message_from_record(self.record())

    def passes(self, mark: tuple[str, ...] | None, exclude_mark: tuple[str, ...] | None) -> bool:
        """Whether its marks match the filters."""
        return (mark is None or not self.marks.isdisjoint(mark)) and (
            exclude_mark is None or self.marks.isdisjoint(exclude_mark)
        )


def valid_conversation(kept: ConversationRecord) -> ConversationRecord:
    """Return a stored conversation. Raises ValueError and others: a number of it is none, or too large."""
    ends = (span.last for span in kept.spans if span.last is not None)
    whole = [kept.next_order, *kept.numbers.values(), *ends, *(span.first for span in kept.spans)]
    whole += [kept.first[kind] for kind in KINDS]
    if not all(type(number) is int and abs(number) <= MAX_ORDER for number in whole):
        raise ValueError("a number of the conversation is none, or too large")
    if sum(map(abs, kept.totals)) > _MAX_TOTAL:
        raise ValueError("a total of the conversation is too large")
    if kept.spans[-1].origin != kept.conversation.id:
        raise ValueError("the last span of the conversation is not its own")
    return kept


def valid_item(item: StoredItem) -> StoredItem:
    """Return a stored item. Raises ValueError, TypeError: its length or a mark is invalid."""
    valid_order(item.length, least=-1)
    if not all(isinstance(mark, str) for mark in item.marks):
        raise ValueError("a mark is not text")
    return item


stored_turn = reads_stored(turn_of)
stored_message = reads_stored(message_of)


def cited_in(record: Record) -> frozenset[Cited]:
    """Return the files that a record cites."""
    return frozenset((each["path"], each["location"], each["blob"]) for each in record.get("citations", ()))


class Range(NamedTuple):
    """The items of a kind of an origin between two orders, both included."""

    origin: str
    number: int
    kind: Kind
    first: int
    last: int

    @property
    def keys(self) -> tuple[int, int]:
        """The first and last key."""
        return item_key(self.number, self.kind, self.first), item_key(self.number, self.kind, self.last)


KINDS: tuple[Kind, ...] = ("turn", "message")


@dataclass(slots=True)
class ConversationRecord:
    """A conversation and what it shows: ascending spans, and the first order of each kind.

    A storage fills `numbers`, the number of each origin in `spans`, and `totals`: the turns and messages that
    were added to this conversation and still exist, and the number of their terms.
    """

    conversation: Conversation
    spans: list[TurnSpan]
    next_order: int = 0
    first: dict[Kind, int] = field(default_factory=lambda: {"turn": 0, "message": 0})
    expires: datetime | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    totals: tuple[int, int, int] = (0, 0, 0)

    def shows(self, item: Item | StoredItem) -> bool:
        """Whether this conversation shows an item."""
        return item.order >= self.first[item.kind] and any(
            span.origin == item.origin and span.holds(item.order) for span in self.spans
        )

    @property
    def is_whole(self) -> bool:
        """Whether it shows exactly its own items."""
        return len(self.spans) == 1 and not (self.spans[0].first or any(self.first.values()))

    def ranges(self, kind: Kind, after: int = -1, before: int = MAX_ORDER) -> list[Range]:
        """Return the ranges of the items of a kind that it shows, ascending."""
        floor = max(self.first[kind], after + 1)
        found = []
        for span in self.spans:
            first, last = (
                max(span.first, floor),
                before - 1 if span.last is None else min(span.last, before - 1),
            )
            if first <= last:
                found.append(Range(span.origin, self.numbers[span.origin], kind, first, last))
        return found

    def line(self) -> dict[str, Any]:
        """Return the fields of a dump line in addition to the conversation itself."""
        spans = [list(span) for span in self.spans]
        return {"next_order": self.next_order, "first": dict(self.first), "spans": spans}
