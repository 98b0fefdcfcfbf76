"""The values that backends keep: items by where they were said, conversations as views of them.

    said in "a":  0 1 2 3 4 5 6 7
    "a" shows     [a 0 –)                        its own, with no end
    "b" shows     [a 0 3] [b 4 –)                a fork of "a" at 3: one more span, however long "a" is
    "a" shows     [a 0 1] [a 8 –)                after a rewind to 1; 2 and 3 stay for "b", 4 to 7 are gone

An item that no conversation shows is removed. Every backend can keep this picture, and a dump says it (see
`MemoryStore`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rag.schema import Record, message_from_record, message_record, turn_from_record, turn_record
from rag.searchable import term_counts
from rag.types import Conversation, DialogTurn, Message

Kind = Literal["turn", "message"]
Cited = tuple[str, str, str]
"""A file that a turn cites: path, location, blob."""


class TurnSpan(NamedTuple):
    """What was said in a conversation between two orders, both included; `last` None is no end."""

    origin: str
    first: int
    last: int | None

    def holds(self, order: int) -> bool:
        """Whether an order lies in it."""
        return self.first <= order and (self.last is None or order <= self.last)

    def until(self, order: int) -> TurnSpan:
        """The part up to this order."""
        return TurnSpan(self.origin, self.first, order if self.last is None else min(self.last, order))


def spans_until(spans: Sequence[TurnSpan], order: int) -> list[TurnSpan]:
    """The part of ascending spans up to an order."""
    return [span.until(order) for span in spans if span.first <= order]


class StoredRecord(NamedTuple):
    """A record's value and when it expires."""

    value: bytes
    expires: datetime | None = None


@dataclass(slots=True, eq=False)
class Item:
    """A turn or a message as JSON text, so that no caller holds a part of it; all versions of a turn."""

    kind: Kind
    id: str
    namespace: str
    origin: str
    order: int
    versions: list[str]
    marks: set[str]
    counts: dict[str, int]
    length: int
    cited: frozenset[Cited] = frozenset()  # by any version

    @classmethod
    def of(cls, said: DialogTurn | Message) -> Item:
        """The item for a turn or message that knows its place."""
        return cls.recorded(said)[0]

    @classmethod
    def recorded(cls, said: DialogTurn | Message) -> tuple[Item, Record]:
        """The item for a turn or message that knows its place, and its record, which holds nothing of it."""
        is_turn = isinstance(said, DialogTurn)
        record = turn_record(said) if isinstance(said, DialogTurn) else message_record(said)
        counts = term_counts(said)
        item = cls(
            kind="turn" if is_turn else "message",
            id=said.id,
            namespace=said.namespace,
            origin=record["conversation"],
            order=record["order"],
            versions=[json.dumps({name: value for name, value in record.items() if name != "marks"})],
            marks=set(record["marks"]),
            counts=counts,
            length=sum(counts.values()),
            cited=cited_in(record),
        )
        return item, record

    def record(self, version: int = -1) -> Record:
        """The present version, or another by its index, as JSON values."""
        return {**json.loads(self.versions[version]), "marks": sorted(self.marks)}

    def turn(self, version: int = -1) -> DialogTurn:
        """The turn in one of its versions."""
        return turn_from_record(self.record(version))

    def message(self) -> Message:
        """The message."""
        return message_from_record(self.record())

    def passes(self, mark: tuple[str, ...] | None, exclude_mark: tuple[str, ...] | None) -> bool:
        """Whether its marks are those sought."""
        return (mark is None or not self.marks.isdisjoint(mark)) and (
            exclude_mark is None or self.marks.isdisjoint(exclude_mark)
        )


def cited_in(record: Record) -> frozenset[Cited]:
    """The files that a record cites."""
    return frozenset((each["path"], each["location"], each["blob"]) for each in record.get("citations", ()))


@dataclass(slots=True)
class ConversationRecord:
    """A conversation and what it shows: spans, ascending, and the first order of each kind."""

    conversation: Conversation
    spans: list[TurnSpan]
    next_order: int = 0
    first: dict[Kind, int] = field(default_factory=lambda: {"turn": 0, "message": 0})
    expires: datetime | None = None

    def shows(self, item: Item) -> bool:
        """Whether an item stands in this conversation."""
        return item.order >= self.first[item.kind] and any(
            span.origin == item.origin and span.holds(item.order) for span in self.spans
        )

    def line(self) -> dict[str, Any]:
        """What a dump says of it beyond the conversation itself."""
        spans = [list(span) for span in self.spans]
        return {"next_order": self.next_order, "first": dict(self.first), "spans": spans}
