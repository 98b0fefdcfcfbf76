"""A transaction on a server: reads are remembered, changes are collected; `script` says how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from rag.backends.redis import values
from rag.backends.redis.script import BUCKET, NAMESPACE_KEYS
from rag.backends.redis.server import coded, decoded
from rag.backends.redis.values import LETTERS, Brief, Reply, coded_key, micros, moment_of
from rag.turns.model import (
    KINDS,
    Cited,
    ConversationRecord,
    Item,
    Kind,
    Range,
    StoredItem,
    StoredRecord,
    cited_in,
    item_key,
)
from rag.turns.storage import Conflict, Keys, Postings, Scope, Shelf
from rag.turns.values import MAX_ORDER

Call = tuple[Any, ...]
"""A read: its name in the script, and its arguments."""
_ENTRY = np.dtype([("key", ">i8"), ("count", ">u4")])
_NOT_CHECKED = ("briefs", "match", "origins", "totals")
"""Reads of what is indexed, which `briefs` checks."""


class RedisReads(Protocol):
    """What a transaction asks of its storage."""

    def ask(self, scope: Scope, calls: Sequence[Call]) -> dict[Call, Reply]:
        """Read, all at once."""
        ...

    def commit(self, tx: RedisTransaction) -> None:
        """End a transaction that writes, and begin it again."""
        ...

    def all_shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the keys of each shelf."""
        ...

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record."""
        ...


class RedisTransaction:
    """A transaction in a scope. Before it begins, `known` has the replies that were read or are expected."""

    def __init__(self, server: RedisReads, scope: Scope, known: dict[Call, Reply]) -> None:
        self._server, self.scope = server, scope
        self.begin(known)

    def begin(self, known: dict[Call, Reply]) -> None:
        """Begin with what is known."""
        self._known = known
        self.used: dict[Call, Reply] = {}  # what has to be still so at the end
        self.trips = 0  # how often it has asked the server
        self.writes: list[Any] = []
        self.shelf_writes: dict[Shelf, list[Any]] = {}
        self.is_new = False  # whether it creates a conversation
        self.after: dict[Call, Reply] = {}  # what would be read after the transaction, if that is known
        self._kept: dict[str, ConversationRecord] = {}  # as stored, or as put
        self._lasting: dict[str, bytes] = {}  # as stored
        self._names: dict[str, tuple[str, frozenset[int]]] = {}  # name and origins, as stored
        self._briefs: dict[int, Brief] = {}
        self._indexed: dict[int, tuple[str, int]] = {}
        self._numbers: dict[str, int] = {}  # of origins that it creates
        self._touched: dict[int, None] = {}  # origins that may be unused at the end

    # ---- conversations

    def conversation(self, conversation: str) -> ConversationRecord | None:
        """Return a conversation by its id."""
        word = "conversation" if self.scope.terms is None else "long"
        return next(self._conversations((word, conversation)), None)

    def named(self, namespace: str, name: str) -> ConversationRecord | None:
        """Return the conversation of this name, which is not ""."""
        return next(self._conversations(("named", name)), None)

    def conversations(self, namespace: str) -> list[ConversationRecord]:
        """Return the conversations of a namespace, the most recently written last."""
        return list(self._conversations(("conversations",)))

    def viewers(self, number: int) -> list[ConversationRecord]:
        """Return the conversations that have a span of this origin."""
        return list(self._conversations(("viewers", number.to_bytes(4, "big"))))

    def put_conversation(self, kept: ConversationRecord) -> None:
        """Store a conversation; a new one is the most recently written."""
        here, self.after = kept.conversation, {}
        self._number([span.origin for span in kept.spans], kept)
        self._kept[here.id] = kept
        name, before = self._names.get(here.id, ("", frozenset[int]()))
        numbers = frozenset(kept.numbers.values())
        self._write("HSET", "C", here.id, values.stored_conversation(kept))
        if name and name != here.name:
            self._write("HDEL", "N", name)
        if here.name and name != here.name:
            self._write("HSET", "N", here.name, here.id)
        for number in numbers - before:
            self._write("ZADD", "Y", "0", number.to_bytes(4, "big") + coded(here.id))
        for number in before - numbers:
            self._write("ZREM", "Y", number.to_bytes(4, "big") + coded(here.id))
        self._touched |= dict.fromkeys(before - numbers)
        if here.id not in self._names:
            self.is_new = True
            self.writes.append(["written", [here.id]])
            self._expire(kept)
        self._names[here.id] = here.name, numbers

    def delete_conversation(self, kept: ConversationRecord) -> None:
        """Delete a conversation; it remains an origin while it has items."""
        here = kept.conversation
        self._write("HDEL", "C", here.id)
        for key in "LE":
            self._write("ZREM", key, here.id)
        if here.name:
            self._write("HDEL", "N", here.name)
        for number in kept.numbers.values():
            self._write("ZREM", "Y", number.to_bytes(4, "big") + coded(here.id))
        self._touched |= dict.fromkeys(kept.numbers.values())

    def has_expired(self, now: datetime) -> bool:
        """Whether a conversation or record of the scope has expired."""
        (soonest,) = self._read(("soonest",))
        return bool(soonest) and int(soonest or 0) <= micros(now)

    def expired(self, now: datetime) -> list[ConversationRecord]:
        """Return the conversations of the scope that have expired."""
        return [] if self.scope.shelf is not None else list(self._conversations(("late", str(micros(now)))))

    def settle(self) -> None:
        """Make what was changed so far visible to what the transaction reads from now on."""
        self._server.commit(self)

    # ---- items

    def items(self, kind: Kind, ids: Iterable[str], namespace: str) -> dict[str, StoredItem]:
        """Return the items with these ids, by id, in their order."""
        wanted = tuple(ids)
        reply = self._read(("items", LETTERS[kind], wanted)) if wanted else []
        found = {}
        for key, brief, text, marks, origin in values.pairs(reply, 5):
            item = self._item(key, brief, text, marks, decoded(origin or b""))
            found[item.id] = item
        return found

    def scan(
        self, range_: Range, *, newest_first: bool = False, limit: int = -1, marked: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the items in a range; at most `limit` (-1: all), or only those with a mark."""
        scope, is_whole = self.scope, (range_.first, range_.last) == (0, MAX_ORDER - 1)
        if (range_.origin, range_.kind, limit) == (scope.conversation, scope.kind, scope.last) and (
            is_whole and newest_first and not marked
        ):
            call: Call = ("newest", range_.origin, LETTERS[range_.kind], str(limit))
        else:
            low, high = map(coded_key, range_.keys)
            call = ("scan", low, high, str(int(newest_first)), str(limit), str(int(marked)))
        for n, (key, brief, text, marks) in enumerate(values.pairs(self._read(call), 4)):
            if n == limit:
                return
            yield self._item(key, brief, text, marks, range_.origin)

    def count(self, range_: Range) -> tuple[int, int]:
        """Return the number of items in a range, and of their terms (0 if the scope is not a search)."""
        if range_.number in self._numbers.values():
            return 0, 0
        is_long = str(int(self.scope.terms is not None))
        count, length = self._read(("count", *map(coded_key, range_.keys), is_long))
        return int(count or 0), int(length or 0)

    def append(self, kept: ConversationRecord, items: Sequence[Item]) -> None:
        """Add items to a conversation, which becomes the most recently written."""
        id_ = kept.conversation.id
        raw = values.written_conversation(kept, self._lasting[id_])
        self._add(items, kept.numbers)
        self._write("HSET", "C", id_, raw)
        self.writes.append(["written", [id_]])
        self._expire(kept)
        counts = [
            total + sum(item.kind == kind for item in items)
            for kind, total in zip(KINDS, kept.totals[:2], strict=True)
        ]
        self.after["conversation", id_] = [coded(id_), raw, *(b"%d" % each for each in counts), b"0"]
        if kept.expires is None:
            self.after["soonest",] = self._read(("soonest",))

    def add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Add items to origins with these numbers; an origin that is a conversation continues after them."""
        self._add(items, numbers)
        newest: dict[str, int] = {}
        for item in items:
            newest[item.origin] = max(item.order, newest.get(item.origin, 0))
        for origin, order in newest.items():
            kept = self._kept.get(origin) or self.conversation(origin)
            if kept is not None and kept.next_order <= order:
                kept.next_order = order + 1
                self._write("HSET", "C", origin, values.stored_conversation(kept))

    def edit(self, item: StoredItem, edited: Item) -> None:
        """Add a version to an item."""
        key, brief = coded_key(item.key), self._briefs[item.key]
        changed = brief._replace(length=-1, earlier=brief.earlier + 1)
        self._unpost(item)
        self._write("HSET", "V", key + b"%d" % changed.earlier, item.text)
        self._write("HSET", "I", key, edited.versions[-1])
        self._write("HSET", "B", key, changed.stored())
        self._write("ZADD", "Q", str(int(brief.bucket) * BUCKET), key)
        for member in values.stored_citations(item.id, edited.cited):
            self._write("ZADD", "D", "0", member)

    def mark(self, items: Iterable[StoredItem]) -> None:
        """Store the marks of these items."""
        for item in items:
            if item.marks:
                self._write("HSET", "J", coded_key(item.key), values.stored_marks(item.marks))
            else:
                self._write("HDEL", "J", coded_key(item.key))

    def delete(self, items: Sequence[StoredItem]) -> None:
        """Delete items with all their versions, citations and terms."""
        self.after = {}
        for item in items:
            key, brief = coded_key(item.key), self._briefs[item.key]
            texts = (*self.versions(item), item.text)
            cited = frozenset[Cited]().union(*(cited_in(json.loads(text)) for text in texts))
            self._unpost(item)
            for n in range(1, brief.earlier + 1):
                self._write("HDEL", "V", key + b"%d" % n)
            members = values.stored_citations(item.id, cited)
            self.writes.append(["remove", [key, LETTERS[item.kind] + item.id, brief.bucket, members]])
            self._touched[item.key >> 32] = None

    def versions(self, item: StoredItem) -> list[str]:
        """Return the texts of the earlier versions of an item, oldest first."""
        count = self._briefs[item.key].earlier
        reply = self._read(("versions", coded_key(item.key), str(count))) if count else []
        return [text.decode() for text in reply if text is not None]

    def citing(self, namespace: str, path: str | None, location: str | None, blob: str | None) -> list[str]:
        """Return the ids of the turns that cite a file, ascending; None matches everything."""
        low = b"-" if path is None else b"[" + values.piece(path)
        high = b"+" if path is None else low + b"\xff"
        given = (False if each is None else each for each in (location, blob))
        return sorted(decoded(id_ or b"") for id_ in self._read(("citing", low, high, *given)))

    # ---- search

    def totals(self, namespace: str) -> tuple[int, int]:
        """Return the number of indexed items of a namespace, and of their terms."""
        items, length, _ = self._read(("totals",))
        return int(items or 0), int(length or 0)

    def match(self, namespace: str, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term in a namespace."""
        found = []
        for entries in self._read(("match", tuple(terms))):
            each = np.frombuffer(entries or b"", _ENTRY)
            found.append((each["key"].astype(np.int64), each["count"].astype(np.int64)))
        return found

    def ids(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of the items with these keys."""
        return [id_ for id_, _ in self._indexed_items(keys)]

    def lengths(self, keys: Sequence[int]) -> Keys:
        """Return the number of terms of the items with these keys, shape (keys,)."""
        return np.array([length for _, length in self._indexed_items(keys)], np.int64)

    def origins(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of the origins with these numbers."""
        wanted = sorted(numbers)
        reply = self._read(("origins", tuple(map(str, wanted)))) if wanted else []
        if None in reply:
            raise Conflict(self.scope.namespace)
        return {number: decoded(origin or b"") for number, origin in zip(wanted, reply, strict=True)}

    # ---- records

    def records(self, shelf: Shelf, keys: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records with these keys, in their order."""
        reply = self._read(("get", tuple(keys))) if keys else []
        found = zip(keys, values.pairs(reply, 2), strict=True)
        return {key: record_of(value, expiry) for key, (value, expiry) in found if value is not None}

    def record_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a record."""
        reply = self._read(("has", tuple(keys))) if keys else []
        return {key for key, is_there in zip(keys, reply, strict=True) if is_there == b"1"}

    def scan_records(self, shelf: Shelf, prefix: str) -> list[tuple[str, bytes]]:
        """Return the records whose key starts with a prefix, by key."""
        found = values.pairs(self._read(("prefix", prefix)), 3)
        return [(decoded(key or b""), value or b"") for key, value, _ in found]

    def count_records(self, shelf: Shelf) -> int:
        """Return the number of records on a shelf."""
        return int(self._read(("size",))[0] or 0)

    def put_records(self, shelf: Shelf, records: Mapping[str, StoredRecord]) -> None:
        """Store records."""
        writes = self.writes if self.scope.shelf is not None else self.shelf_writes.setdefault(shelf, [])
        for key, record in records.items():
            expiry = False if record.expires is None else str(micros(record.expires))
            writes.append(["put", [key, record.value, expiry]])

    def delete_records(self, shelf: Shelf, keys: Sequence[str] | None) -> int:
        """Delete these records, or all for None; return how many existed."""
        count = self.count_records(shelf) if keys is None else len(self.record_keys(shelf, keys))
        if count:
            self.writes.append(["clear", []] if keys is None else ["drop", [list(keys)]])
        return count

    def expire_records(self, now: datetime) -> None:
        """Delete the records of the scope that have expired."""
        if self.scope.shelf is not None:
            self.writes.append(["expire", [str(micros(now))]])

    def shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the shelves of a namespace and the keys of their records, both ascending."""
        return self._server.all_shelves(namespace)

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record, ascending."""
        return self._server.namespaces()

    # ---- internal

    def _indexed_items(self, keys: Sequence[int]) -> list[tuple[str, int]]:
        """Return id and length of the items with these keys; each is read once."""
        if unread := [key for key in keys if key not in self._indexed]:
            changed = self._read(("totals",))[2] or b""
            (reply,) = self._read(("briefs", np.array(unread, ">i8").tobytes(), changed))
            if reply is None:
                raise Conflict(self.scope.namespace)
            self._indexed.update(zip(unread, values.briefs_of(reply, len(unread)), strict=True))
        return [self._indexed[key] for key in keys]

    def all_writes(self) -> list[Any]:
        """Return all changes, with those at the end."""
        return [*self.writes, *(["forget", [number]] for number in self._touched)]

    def drop_writes(self) -> None:
        """Change nothing."""
        self.writes, self._touched, self.shelf_writes = [], {}, {}

    def _read(self, call: Call) -> Reply:
        if call not in self._known:
            self.trips += call[0] not in _NOT_CHECKED
            self._known.update(self._server.ask(self.scope, [call]))
        reply = self._known[call]
        if call[0] not in _NOT_CHECKED:
            self.used[call] = reply
        return reply

    def _write(self, command: str, key: str, *args: str | bytes) -> None:
        self.writes.append([command, NAMESPACE_KEYS.index(key) + 1, list(args)])

    def _conversations(self, call: Call) -> Iterator[ConversationRecord]:
        reply = self._read(call)
        for kept, raw in zip(values.conversations_of(reply, self.scope.namespace), reply[1::5], strict=True):
            self._lasting[kept.conversation.id] = values.lasting_part(raw or b"")
            self._kept[kept.conversation.id] = kept
            self._names[kept.conversation.id] = kept.conversation.name, frozenset(kept.numbers.values())
            yield kept

    def _number(self, origins: Sequence[str], kept: ConversationRecord) -> None:
        """Fill in the numbers of a conversation's origins."""
        known = {**kept.numbers, **self._numbers}
        wanted = tuple(dict.fromkeys(origin for origin in origins if origin not in known))
        if wanted:
            last, *found = self._read(("numbers", wanted))
            known |= {origin: int(number) for origin, number in zip(wanted, found, strict=True) if number}
            for origin in wanted:
                if origin not in known:
                    number = max(int(last or 0), *self._numbers.values(), 0) + 1
                    known[origin] = self._numbers[origin] = number
                    self._write("HSET", "O", f"i{origin}", str(number), f"n{number}", origin)
                    self._write("HSET", "M", "numbers", str(number))
        kept.numbers = {origin: known[origin] for origin in origins}

    def _expire(self, kept: ConversationRecord) -> None:
        if kept.expires is not None:
            self._write("ZADD", "E", str(micros(kept.expires)), kept.conversation.id)

    def _add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        rows = []
        for item in items:
            key = coded_key(item_key(numbers[item.origin], item.kind, item.order))
            for n, text in enumerate(item.versions[:-1], 1):
                self._write("HSET", "V", key + b"%d" % n, text)
            marks = values.stored_marks(item.marks) if item.marks else False
            cited = values.stored_citations(item.id, item.cited)
            field = LETTERS[item.kind] + item.id
            rows.append([key, field, str(len(item.versions) - 1), item.versions[-1], marks, cited])
        if rows:
            self.writes.append(["add", [rows]])

    def _item(
        self, key: bytes | None, brief: bytes | None, text: bytes | None, marks: bytes | None, origin: str
    ) -> StoredItem:
        assert key is not None and brief is not None and text is not None
        short = Brief.read(brief)
        item = values.item_of(key, short, text, marks, origin)
        self._briefs[item.key] = short
        return item

    def _unpost(self, item: StoredItem) -> None:
        if item.length >= 0:
            given = [coded_key(item.key), self._briefs[item.key].bucket, item.length, list(item.counts())]
            self.writes.append(["unpost", given])


def record_of(value: bytes | None, expiry: bytes | None) -> StoredRecord:
    """Return a stored record."""
    return StoredRecord(value or b"", None if expiry is None else moment_of(int(expiry)))
