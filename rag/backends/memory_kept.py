"""What the in-process store keeps: items by where they were said, conversations as views of them.

    said in "a":  0 1 2 3 4 5 6 7
    "a" shows     [a 0 –)                        its own, with no end
    "b" shows     [a 0 3] [b 4 –)                a fork of "a" at 3: one more span, however long "a" is
    "a" shows     [a 0 1] [a 8 –)                after a rewind to 1; 2 and 3 stay for "b", 4 to 7 are gone

An item that no conversation shows is removed. Every backend can keep the same picture: it is also what a
dump says (`MemoryStore`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rag.records import (
    Record,
    message_from_record,
    message_record,
    term_counts,
    turn_from_record,
    turn_record,
)
from rag.types import Conversation, DialogTurn, Message

Kind = Literal["turn", "message"]


class Span(NamedTuple):
    """What was said in a conversation between two orders, both included; `last` None is no end."""

    origin: str
    first: int
    last: int | None

    def holds(self, order: int) -> bool:
        """Whether an order lies in it."""
        return self.first <= order and (self.last is None or order <= self.last)

    def until(self, order: int) -> Span:
        """The part up to this order."""
        return Span(self.origin, self.first, order if self.last is None else min(self.last, order))


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

    @classmethod
    def of(cls, said: DialogTurn | Message) -> Item:
        """The item for a turn or message that knows its place."""
        is_turn = isinstance(said, DialogTurn)
        record = turn_record(said) if isinstance(said, DialogTurn) else message_record(said)
        marks = set(record.pop("marks"))
        counts = term_counts(said)
        return cls(
            kind="turn" if is_turn else "message",
            id=said.id,
            namespace=said.namespace,
            origin=record["conversation"],
            order=record["order"],
            versions=[json.dumps(record)],
            marks=marks,
            counts=counts,
            length=sum(counts.values()),
        )

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


@dataclass(slots=True)
class Kept:
    """A conversation and what it shows: spans, ascending, and the first order of each kind."""

    conversation: Conversation
    spans: list[Span]
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


class Items:
    """Turns and messages of all namespaces: by id, by place, and by the terms they hold."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, Kind, str], Item] = {}
        self._said: dict[str, dict[int, Item]] = {}  # origin → order → item, ascending
        self._counts: dict[str, Counter[Kind]] = {}  # origin → how many of each kind
        self._holders: dict[tuple[str, str], dict[Item, int]] = {}  # (namespace, term) → count

    def find(self, namespace: str, kind: Kind, item_id: str) -> Item | None:
        """The item of this id, None when there is none."""
        return self._by_id.get((namespace, kind, item_id))

    def at(self, origin: str, order: int) -> Item | None:
        """The item at this place, None when there is none."""
        return self._said.get(origin, {}).get(order)

    def add(self, item: Item) -> None:
        """Keep an item; at the end of its origin, or (restored) wherever it belongs."""
        self._by_id[item.namespace, item.kind, item.id] = item
        said = self._said.setdefault(item.origin, {})
        out_of_order = bool(said) and next(reversed(said)) > item.order
        said[item.order] = item
        self._counts.setdefault(item.origin, Counter())[item.kind] += 1
        if out_of_order:
            self._said[item.origin] = dict(sorted(said.items()))
        self._index(item)

    def edit(self, item: Item, edited: Item) -> None:
        """Give an item another version."""
        self._unindex(item)
        item.versions += edited.versions
        item.counts, item.length = edited.counts, edited.length
        self._index(item)

    def remove(self, item: Item) -> None:
        """Forget an item."""
        self._unindex(item)
        del self._by_id[item.namespace, item.kind, item.id]
        said = self._said[item.origin]
        del said[item.order]
        self._counts[item.origin][item.kind] -= 1
        if not said:
            del self._said[item.origin], self._counts[item.origin]

    def of(self, namespace: str) -> Iterator[Item]:
        """All items of a namespace."""
        return (item for (where, _, _), item in self._by_id.items() if where == namespace)

    def shown(self, kept: Kept, *, newest_first: bool = False) -> Iterator[Item]:
        """The items a conversation shows, oldest first unless told otherwise."""
        for span in reversed(kept.spans) if newest_first else kept.spans:
            said = self._said.get(span.origin, {})
            for item in reversed(said.values()) if newest_first else said.values():
                if span.holds(item.order) and item.order >= kept.first[item.kind]:
                    yield item

    def count(self, kept: Kept) -> Counter[Kind]:
        """How many of each kind a conversation shows."""
        own = kept.spans[-1]
        if len(kept.spans) == 1 and own.first == 0 and not any(kept.first.values()):
            return self._counts.get(own.origin, Counter())
        return Counter(item.kind for item in self.shown(kept))

    def holding(self, namespace: str, term: str) -> Iterable[tuple[Item, int]]:
        """The items of a namespace that hold a term, with how often."""
        return self._holders.get((namespace, term), {}).items()

    def _index(self, item: Item) -> None:
        for term, count in item.counts.items():
            self._holders.setdefault((item.namespace, term), {})[item] = count

    def _unindex(self, item: Item) -> None:
        for term in item.counts:
            holders = self._holders[item.namespace, term]
            del holders[item]
            if not holders:
                del self._holders[item.namespace, term]
