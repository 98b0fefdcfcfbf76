"""The storage of turns in memory, see `rag.turns.storage`. A transaction is a lock."""

from __future__ import annotations

import copy
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from rag.turns.model import Cited, ConversationRecord, Item, Kind, Range, StoredItem, StoredRecord, item_key
from rag.turns.storage import Keys, Postings, Scope, Shelf

_NO_SUMS = (0, 0, 0)


class MemoryStorage:
    """Dictionaries. Storage and transaction in one, as nothing has to be undone: see `rag.turns.storage`."""

    is_swept = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: dict[str, ConversationRecord] = {}  # by id, the most recently written last
        self._names: dict[tuple[str, str], str] = {}  # (namespace, name) → id
        self._numbers: dict[str, int] = {}  # origin → number
        self._origins: dict[int, str] = {}
        self._viewers: dict[int, set[str]] = {}  # number → conversations that have a span of it
        self._sums: dict[int, tuple[int, int, int]] = {}
        self._items: dict[int, StoredItem] = {}  # by key
        self._keys: dict[int, list[int]] = {}  # number → keys, ascending
        self._by_id: dict[tuple[str, Kind, str], int] = {}
        self._versions: dict[int, list[str]] = {}
        self._cited: dict[int, frozenset[Cited]] = {}
        self._counts: dict[int, tuple[str, dict[str, int]]] = {}  # key → namespace, terms
        self._totals: dict[str, tuple[int, int]] = {}  # namespace → items, terms
        self._holders: dict[tuple[str, str], dict[int, int]] = {}  # (namespace, term) → key → count
        self._shelves: dict[Shelf, dict[str, StoredRecord]] = {}
        self._soonest: datetime | None = None  # nothing expires before

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[MemoryStorage]:
        """Hold the lock."""
        with self._lock:
            yield self

    writing = reading

    def close(self) -> None:
        """Do nothing."""

    # ---- conversations

    def conversation(self, conversation: str) -> ConversationRecord | None:
        """Return a conversation by its id."""
        kept = self._kept.get(conversation)
        return None if kept is None else self._copied(kept)

    def named(self, namespace: str, name: str) -> ConversationRecord | None:
        """Return the conversation of this name, which is not ""."""
        return self.conversation(self._names.get((namespace, name), ""))

    def conversations(self, namespace: str) -> list[ConversationRecord]:
        """Return the conversations of a namespace, the most recently written last."""
        kept = self._kept.values()
        return [self._copied(each) for each in kept if each.conversation.namespace == namespace]

    def viewers(self, number: int) -> list[ConversationRecord]:
        """Return the conversations that have a span of this origin."""
        return [self._kept[each] for each in self._viewers.get(number, ())]

    def put_conversation(self, kept: ConversationRecord) -> None:
        """Store a conversation; a new one is the most recently written."""
        here = kept.conversation
        if here.id in self._kept:
            self._forget(self._kept[here.id])
        for span in kept.spans:
            if span.origin not in self._numbers:
                number = max(self._origins, default=0) + 1
                self._numbers[span.origin], self._origins[number] = number, span.origin
        kept.numbers = {span.origin: self._numbers[span.origin] for span in kept.spans}
        for number in kept.numbers.values():
            self._viewers.setdefault(number, set()).add(here.id)
        if here.name:
            self._names[here.namespace, here.name] = here.id
        self._kept[here.id] = self._copied(kept)
        self._will_expire(kept.expires)

    def delete_conversation(self, kept: ConversationRecord) -> None:
        """Delete a conversation; it remains an origin while it has items."""
        stored = self._kept.pop(kept.conversation.id)
        self._forget(stored)
        for number in stored.numbers.values():
            self._forget_origin(number)

    def has_expired(self, now: datetime) -> bool:
        """Whether a conversation or record has expired."""
        return self._soonest is not None and self._soonest <= now

    def expired(self, now: datetime) -> list[ConversationRecord]:
        """Return the conversations that have expired."""
        return [self._copied(kept) for kept in self._kept.values() if kept.expires and kept.expires <= now]

    def settle(self) -> None:
        """Do nothing: changes are visible at once."""

    # ---- items

    def items(self, kind: Kind, ids: Iterable[str], namespace: str) -> dict[str, StoredItem]:
        """Return the items with these ids, by id, in their order."""
        keys = ((each, self._by_id.get((namespace, kind, each))) for each in ids)
        return {each: self._items[key] for each, key in keys if key is not None}

    def scan(
        self, range_: Range, *, newest_first: bool = False, limit: int = -1, marked: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the items in a range; at most `limit` (-1: all), or only those with a mark."""
        keys = self._within(range_)
        chosen = (self._items[key] for key in (reversed(keys) if newest_first else keys))
        for n, item in enumerate(item for item in chosen if item.marks or not marked):
            if n == limit:
                return
            yield item

    def count(self, range_: Range) -> tuple[int, int]:
        """Return the number of items in a range, and of their terms."""
        keys = self._within(range_)
        return len(keys), sum(self._items[key].length for key in keys)

    def append(self, kept: ConversationRecord, items: Sequence[Item]) -> None:
        """Add items to a conversation, which becomes the most recently written."""
        stored = self._kept.pop(kept.conversation.id)
        stored.next_order, stored.expires = kept.next_order, kept.expires
        stored.conversation = replace(stored.conversation, updated=kept.conversation.updated)
        self._kept[kept.conversation.id] = stored
        self._will_expire(kept.expires)
        self.add(items, kept.numbers)

    def add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Add items to origins with these numbers."""
        for item in items:
            number = numbers[item.origin]
            key = item_key(number, item.kind, item.order)
            marks = tuple(sorted(item.marks))
            text = item.versions[-1]
            self._items[key] = StoredItem(
                key, item.kind, item.id, item.origin, item.order, item.length, text, marks
            )
            insort(self._keys.setdefault(number, []), key)
            self._by_id[item.namespace, item.kind, item.id] = key
            if item.versions[:-1]:
                self._versions[key] = item.versions[:-1]
            self._cited[key] = item.cited
            self._index(key, item.namespace, item.counts)
            self._sum(key, 1, item.length)
            if item.origin in self._kept:
                kept = self._kept[item.origin]
                kept.next_order = max(kept.next_order, item.order + 1)

    def edit(self, item: StoredItem, edited: Item) -> None:
        """Add a version to an item."""
        self._versions.setdefault(item.key, []).append(item.text)
        self._items[item.key] = item._replace(text=edited.versions[-1], length=edited.length)
        self._cited[item.key] |= edited.cited
        self._sum(item.key, 0, edited.length - item.length)
        self._unindex(item.key)
        self._index(item.key, edited.namespace, edited.counts)

    def mark(self, items: Iterable[StoredItem]) -> None:
        """Store the marks of these items."""
        self._items.update((item.key, item) for item in items)

    def delete(self, items: Sequence[StoredItem]) -> None:
        """Delete items with all their versions, citations and terms."""
        for item in items:
            namespace = self._unindex(item.key)
            del self._items[item.key], self._by_id[namespace, item.kind, item.id], self._cited[item.key]
            self._versions.pop(item.key, None)
            number = item.key >> 32
            keys = self._keys[number]
            del keys[bisect_left(keys, item.key)]
            self._sum(item.key, -1, -item.length)
            self._forget_origin(number)

    def versions(self, item: StoredItem) -> list[str]:
        """Return the texts of the earlier versions of an item, oldest first."""
        return self._versions.get(item.key, [])

    def citing(self, namespace: str, path: str | None, location: str | None, blob: str | None) -> list[str]:
        """Return the ids of the turns that cite a file, ascending; None matches everything."""

        def is_meant(cited: Cited) -> bool:
            return path in (None, cited[0]) and location in (None, cited[1]) and blob in (None, cited[2])

        found = (key for key, cited in self._cited.items() if any(map(is_meant, cited)))
        return sorted(self._items[key].id for key in found if self._counts[key][0] == namespace)

    # ---- search

    def totals(self, namespace: str) -> tuple[int, int]:
        """Return the number of items of a namespace, and of their terms."""
        items, length = self._totals.get(namespace, (0, 0))
        return items, length

    def match(self, namespace: str, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term in a namespace."""
        held = (self._holders.get((namespace, term), {}) for term in terms)
        return [
            (np.fromiter(each, np.int64, len(each)), np.fromiter(each.values(), np.int64, len(each)))
            for each in held
        ]

    def ids(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of the items with these keys."""
        return [self._items[key].id for key in keys]

    def lengths(self, keys: Sequence[int]) -> Keys:
        """Return the number of terms of the items with these keys, shape (keys,)."""
        return np.fromiter((self._items[key].length for key in keys), np.int64, len(keys))

    def origins(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of the origins with these numbers."""
        return {number: self._origins[number] for number in numbers}

    # ---- records

    def records(self, shelf: Shelf, keys: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records with these keys, in their order."""
        here = self._shelves.get(shelf, {})
        return {key: here[key] for key in keys if key in here}

    def record_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a record."""
        return set(self.records(shelf, keys))

    def scan_records(self, shelf: Shelf, prefix: str) -> list[tuple[str, bytes]]:
        """Return the records whose key starts with a prefix, by key."""
        here = self._shelves.get(shelf, {})
        return [(key, here[key].value) for key in sorted(here) if key.startswith(prefix)]

    def count_records(self, shelf: Shelf) -> int:
        """Return the number of records on a shelf."""
        return len(self._shelves.get(shelf, {}))

    def put_records(self, shelf: Shelf, records: Mapping[str, StoredRecord]) -> None:
        """Store records."""
        self._shelves.setdefault(shelf, {}).update(records)
        for record in records.values():
            self._will_expire(record.expires)

    def delete_records(self, shelf: Shelf, keys: Sequence[str] | None) -> int:
        """Delete these records, or all for None; return how many existed."""
        here = self._shelves.get(shelf, {})
        gone = list(here) if keys is None else [key for key in keys if key in here]
        for key in gone:
            del here[key]
        return len(gone)

    def expire_records(self, now: datetime) -> None:
        """Delete the records that have expired."""
        times = [kept.expires for kept in self._kept.values() if kept.expires]
        for here in self._shelves.values():
            for key in [key for key, record in here.items() if record.expires and record.expires <= now]:
                del here[key]
            times += [record.expires for record in here.values() if record.expires]
        self._soonest = min(times, default=None)

    def shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the shelves of a namespace and the keys of their records, both ascending."""
        held = ((shelf, here) for (where, shelf), here in self._shelves.items() if where == namespace)
        return sorted((shelf, sorted(here)) for shelf, here in held)

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record, ascending."""
        found = {kept.conversation.namespace for kept in self._kept.values()}
        return sorted(found | {namespace for (namespace, _), here in self._shelves.items() if here})

    # ---- internal

    def _copied(self, kept: ConversationRecord) -> ConversationRecord:
        totals = self._sums.get(kept.numbers[kept.conversation.id], _NO_SUMS)
        return replace(kept, spans=list(kept.spans), first=dict(kept.first), totals=totals)

    def _forget(self, kept: ConversationRecord) -> None:
        """Remove a conversation from the indexes."""
        for number in kept.numbers.values():
            self._viewers[number].discard(kept.conversation.id)
        if kept.conversation.name:
            del self._names[kept.conversation.namespace, kept.conversation.name]

    def _forget_origin(self, number: int) -> None:
        """Remove an origin without items and conversations."""
        if not self._keys.get(number) and not self._viewers.get(number):
            self._keys.pop(number, None)
            self._viewers.pop(number, None)
            self._sums.pop(number, None)
            if number in self._origins:
                del self._numbers[self._origins.pop(number)]

    def _within(self, range_: Range) -> list[int]:
        keys = self._keys.get(range_.number, [])
        first, last = range_.keys
        return keys[bisect_left(keys, first) : bisect_right(keys, last)]

    def _will_expire(self, expires: datetime | None) -> None:
        if expires is not None and (self._soonest is None or expires < self._soonest):
            self._soonest = expires

    def _sum(self, key: int, items: int, length: int) -> None:
        turns, messages, terms = self._sums.get(key >> 32, _NO_SUMS)
        is_message = key >> 31 & 1
        self._sums[key >> 32] = (
            turns + items * (1 - is_message),
            messages + items * is_message,
            terms + length,
        )

    def _total(self, namespace: str, items: int, length: int) -> None:
        before = self._totals.get(namespace, (0, 0))
        self._totals[namespace] = before[0] + items, before[1] + length

    def _index(self, key: int, namespace: str, counts: dict[str, int]) -> None:
        self._counts[key] = (namespace, counts)
        self._total(namespace, 1, sum(counts.values()))
        for term, count in counts.items():
            self._holders.setdefault((namespace, term), {})[key] = count

    def _unindex(self, key: int) -> str:
        """Remove an item from the index; return its namespace."""
        namespace, counts = self._counts.pop(key)
        self._total(namespace, -1, -sum(counts.values()))
        for term in counts:
            holders = self._holders[namespace, term]
            del holders[key]
            if not holders:
                del self._holders[namespace, term]
        return namespace
