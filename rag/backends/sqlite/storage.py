"""The storage of turns in a SQLite file, see `rag.turns.storage`. `schema` describes the tables."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rag.backends.sqlite import words
from rag.backends.sqlite.bindings import execute, insert, text
from rag.backends.sqlite.file import SqliteFile
from rag.schema import conversation_record
from rag.turns.model import (
    KINDS,
    ConversationRecord,
    Item,
    Kind,
    Range,
    StoredItem,
    StoredRecord,
    TurnSpan,
    item_key,
    reads_stored,
    valid_conversation,
    valid_item,
)
from rag.turns.storage import Keys, Postings, Scope, Shelf
from rag.turns.values import conversation_of

_MAX_PER_STATEMENT = 500
"""The maximum number of values or rows in a statement, whose number SQLite limits."""
_NEXT_WRITTEN = "(SELECT coalesce(max(written), 0) + 1 FROM conversation)"
_EXPIRED = """
    SELECT EXISTS (SELECT 1 FROM conversation WHERE expires <= ?)
    OR EXISTS (SELECT 1 FROM record WHERE expires <= ?)
"""
_CONVERSATION = "SELECT c.*, s.namespace FROM conversation c JOIN space s ON s.key = c.space"
_SPACE = "(SELECT key FROM space WHERE namespace = ?)"
_CITE = """
    INSERT OR IGNORE INTO cited SELECT v.column1, f.key FROM (VALUES {}) v
    JOIN file f ON f.path = v.column2 AND f.location = v.column3 AND f.blob = v.column4
"""
_CITED = "(?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))"
_FILE = "(CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))"
_SUM = """
    UPDATE conversation SET turns = turns + ?, messages = messages + ?, length = length + ? WHERE key = ?
"""


class SqliteStorage:
    """The storage in one file."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file
        self._is_swept = False  # set by `together`, for its thread only

    @property
    def is_swept(self) -> bool:
        """Whether this thread is in a group of transactions, before which expired data was removed."""
        return self._is_swept and self.file.is_together

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[SqliteTransaction]:
        """Run a transaction that reads."""
        with self.file.read() as db:
            yield SqliteTransaction(db)

    @contextmanager
    def writing(self, scope: Scope) -> Iterator[SqliteTransaction]:
        """Run a transaction that writes."""
        with self.file.write() as db:
            yield SqliteTransaction(db)

    @contextmanager
    def swept(self) -> Iterator[None]:
        """Mark expired data as removed."""
        before, self._is_swept = self._is_swept, True
        try:
            yield
        finally:
            self._is_swept = before

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class SqliteTransaction:
    """A transaction of the file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._spaces: dict[str, int] = {}  # those read so far

    # ---- conversations

    def conversation(self, conversation: str) -> ConversationRecord | None:
        """Return a conversation by its id."""
        return self._one("c.id = ? AND c.written IS NOT NULL", conversation)

    def named(self, namespace: str, name: str) -> ConversationRecord | None:
        """Return the conversation of this name, which is not ""."""
        where = f"c.space = {_SPACE} AND c.name = ? AND c.name <> '' AND c.written IS NOT NULL"
        return self._one(where, namespace, name)

    def conversations(self, namespace: str) -> list[ConversationRecord]:
        """Return the conversations of a namespace, the most recently written last."""
        return self._kept(f"c.space = {_SPACE} AND c.written IS NOT NULL ORDER BY c.written", namespace)

    def viewers(self, number: int) -> list[ConversationRecord]:
        """Return the conversations that have a span of this origin."""
        return self._kept("c.key IN (SELECT conversation FROM viewer WHERE origin = ?)", number)

    def put_conversation(self, kept: ConversationRecord) -> None:
        """Store a conversation; a new one is the most recently written."""
        space = self._made_space(kept.conversation.namespace)
        own = kept.conversation.id
        known = execute(self._db, "SELECT key, written FROM conversation WHERE id = ?", own).fetchone()
        if known is None:
            known = self._made_origin(own, space), None
        key, written = known
        kept.numbers = {span.origin: self._number(span.origin, own, key, space) for span in kept.spans}
        record = conversation_record(kept.conversation)
        changes = {
            "name": record.pop("name"),
            "updated": record.pop("updated"),
            "expires": _moment(kept.expires),
            "next_order": kept.next_order,
        }
        del record["id"], record["namespace"]
        spans = [[span.origin, kept.numbers[span.origin], span.first, span.last] for span in kept.spans]
        changes["record"] = json.dumps({**record, "first": kept.first, "spans": spans})
        if written is None:
            changes["written"] = self._db.execute(f"SELECT {_NEXT_WRITTEN}").fetchone()[0]
        columns = ", ".join(f"{name} = ?" for name in changes)
        execute(self._db, f"UPDATE conversation SET {columns} WHERE key = ?", *changes.values(), key)
        self._db.execute("DELETE FROM viewer WHERE conversation = ?", (key,))
        viewers = [(number, key) for number in kept.numbers.values()]
        self._db.executemany("INSERT INTO viewer VALUES (?, ?)", viewers)

    def delete_conversation(self, kept: ConversationRecord) -> None:
        """Delete a conversation; it remains an origin while it has items."""
        key = kept.numbers[kept.conversation.id]
        gone = "UPDATE conversation SET written = NULL, expires = NULL, name = '', record = '' WHERE key = ?"
        self._db.execute(gone, (key,))
        self._db.execute("DELETE FROM viewer WHERE conversation = ?", (key,))
        self._forget_origins(kept.numbers.values())

    def has_expired(self, now: datetime) -> bool:
        """Whether a conversation or record has expired."""
        moment = _moment(now)
        return bool(self._db.execute(_EXPIRED, (moment, moment)).fetchone()[0])

    def expired(self, now: datetime) -> list[ConversationRecord]:
        """Return the conversations that have expired."""
        return self._kept("c.expires <= ?", _moment(now))

    def settle(self) -> None:
        """Do nothing: changes are visible at once."""

    # ---- items

    def items(self, kind: Kind, ids: Iterable[str], namespace: str) -> dict[str, StoredItem]:
        """Return the items with these ids, by id, in their order."""
        wanted = list(ids)
        where = f"i.space = {_SPACE} AND i.kind = {KINDS.index(kind)} AND i.id IN"
        found: dict[str, StoredItem] = {}
        for n in range(0, len(wanted), _MAX_PER_STATEMENT):
            some = wanted[n : n + _MAX_PER_STATEMENT]
            marks = ", ".join("?" * len(some))
            statement = f"""
                SELECT i.key, i.id, i.length, i.marks, i.record, c.id AS origin
                FROM item i JOIN conversation c ON c.key = i.key >> 32 WHERE {where} ({marks})
            """
            rows = execute(self._db, statement, namespace, *some)
            found.update((row["id"], _item(row, row["origin"])) for row in rows)
        return {each: found[each] for each in wanted if each in found}

    def scan(
        self, range_: Range, *, newest_first: bool = False, limit: int = -1, marked: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the items in a range; at most `limit` (-1: all), or only those with a mark."""
        found = f"""
            SELECT key, id, length, marks, record FROM item WHERE key BETWEEN ? AND ?
            {"AND marks IS NOT NULL" if marked else ""} ORDER BY key {"DESC" if newest_first else ""} LIMIT ?
        """
        for row in self._db.execute(found, (*range_.keys, limit)):
            yield _item(row, range_.origin)

    def count(self, range_: Range) -> tuple[int, int]:
        """Return the number of items in a range, and of their terms."""
        summed = """
            SELECT count(*), coalesce(sum(length), 0) FROM item INDEXED BY item_brief
            WHERE key BETWEEN ? AND ?
        """
        count, length = self._db.execute(summed, range_.keys).fetchone()
        return count, length

    def append(self, kept: ConversationRecord, items: Sequence[Item]) -> None:
        """Add items to a conversation, which becomes the most recently written."""
        number = kept.numbers[kept.conversation.id]
        self._insert(items, {kept.conversation.id: number})
        counted = f"""
            UPDATE conversation SET turns = turns + ?, messages = messages + ?, length = length + ?,
            next_order = ?, updated = ?, expires = ?, written = {_NEXT_WRITTEN} WHERE key = ?
        """
        turns = sum(item.kind == "turn" for item in items)
        sums = (turns, len(items) - turns, sum(item.length for item in items))
        times = _moment(kept.conversation.updated), _moment(kept.expires)
        self._db.execute(counted, (*sums, kept.next_order, *times, number))

    def add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Add items to origins with these numbers."""
        self._insert(items, numbers)
        self._sum((numbers[item.origin], item.kind, 1, item.length) for item in items)
        later = "UPDATE conversation SET next_order = max(next_order, ?) WHERE key = ?"
        self._db.executemany(later, [(item.order + 1, numbers[item.origin]) for item in items])

    def edit(self, item: StoredItem, edited: Item) -> None:
        """Add a version to an item."""
        old = "INSERT INTO version SELECT ?, coalesce(max(number), 0) + 1, ? FROM version WHERE item = ?"
        self._db.execute(old, (item.key, item.text, item.key))
        changed = "UPDATE item SET record = ?, length = ? WHERE key = ?"
        self._db.execute(changed, (edited.versions[-1], edited.length, item.key))
        self._cite([(item.key, *map(text, cited)) for cited in edited.cited])
        space = self._space(edited.namespace)
        words.unpost(self._db, [(item.key, space, item.counts())])
        words.post(self._db, [(item.key, space, edited.counts)])
        self._sum([(item.key >> 32, item.kind, 0, edited.length - item.length)])

    def mark(self, items: Iterable[StoredItem]) -> None:
        """Store the marks of these items."""
        rows = [(_marks(item.marks), item.key) for item in items]
        self._db.executemany("UPDATE item SET marks = ? WHERE key = ?", rows)

    def delete(self, items: Sequence[StoredItem]) -> None:
        """Delete items with all their versions, citations and terms."""
        if not items:
            return
        keys = [(item.key,) for item in items]
        (space,) = self._db.execute("SELECT space FROM item WHERE key = ?", keys[0]).fetchone()
        words.unpost(self._db, ((item.key, space, item.counts()) for item in items))
        cited = "SELECT file FROM cited WHERE item = ?"
        files = {file for key in keys for (file,) in self._db.execute(cited, key)}
        for table, column in (("item", "key"), ("version", "item"), ("cited", "item")):
            self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", keys)
        unused = "DELETE FROM file WHERE key = ? AND NOT EXISTS (SELECT 1 FROM cited WHERE file = file.key)"
        self._db.executemany(unused, [(file,) for file in files])
        self._sum((item.key >> 32, item.kind, -1, -item.length) for item in items)
        self._forget_origins({item.key >> 32 for item in items})

    def versions(self, item: StoredItem) -> list[str]:
        """Return the texts of the earlier versions of an item, oldest first."""
        rows = self._db.execute("SELECT record FROM version WHERE item = ? ORDER BY number", (item.key,))
        return [row[0] for row in rows]

    def citing(self, namespace: str, path: str | None, location: str | None, blob: str | None) -> list[str]:
        """Return the ids of the turns that cite a file, ascending; None matches everything."""
        where = {"path": path, "location": location, "blob": blob}
        sought = {name: value for name, value in where.items() if value is not None}
        conditions = " AND ".join([f"i.space = {_SPACE}", *(f"f.{name} = ?" for name in sought)])
        cited = "FROM file f CROSS JOIN cited c ON c.file = f.key CROSS JOIN item i ON i.key = c.item"
        found = f"SELECT DISTINCT i.id {cited} WHERE {conditions} ORDER BY i.id"
        return [row[0] for row in execute(self._db, found, namespace, *sought.values())]

    # ---- search

    def totals(self, namespace: str) -> tuple[int, int]:
        """Return the number of items of a namespace, and of their terms."""
        summed = f"""
            SELECT coalesce(sum(turns + messages), 0), coalesce(sum(length), 0) FROM conversation
            WHERE space = {_SPACE}
        """
        items, length = execute(self._db, summed, namespace).fetchone()
        return items, length

    def match(self, namespace: str, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term in a namespace."""
        return words.postings(self._db, self._space(namespace), terms)

    def ids(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of the items with these keys."""
        found = """
            SELECT i.id FROM json_each(?) k CROSS JOIN item i INDEXED BY item_brief ON i.key = k.value
        """
        return [row[0] for row in self._db.execute(found, (json.dumps(keys),))]

    def lengths(self, keys: Sequence[int]) -> Keys:
        """Return the number of terms of the items with these keys, shape (keys,)."""
        # One text for thousands of items, as a row for each of them takes several times as long.
        found = """
            SELECT group_concat(length) FROM (
                SELECT i.length FROM json_each(?) k
                CROSS JOIN item i INDEXED BY item_brief ON i.key = k.value ORDER BY k.key
            )
        """
        (text,) = self._db.execute(found, (json.dumps(keys),)).fetchone()
        return np.fromstring(text or "", np.int64, sep=",")

    @reads_stored
    def origins(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of the origins with these numbers."""
        found = "SELECT id FROM conversation WHERE key = ?"
        return {number: self._db.execute(found, (number,)).fetchone()[0] for number in numbers}

    # ---- records

    def records(self, shelf: Shelf, keys: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records with these keys, in their order."""
        found = f"SELECT value, expires FROM record WHERE space = {_SPACE} AND shelf = ? AND key = ?"
        rows = ((key, execute(self._db, found, *shelf, key).fetchone()) for key in keys)
        return {key: _record(row) for key, row in rows if row is not None}

    def record_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a record."""
        there: set[str] = set()
        for n in range(0, len(keys), _MAX_PER_STATEMENT):
            some = keys[n : n + _MAX_PER_STATEMENT]
            wanted = ", ".join("?" * len(some))
            found = f"SELECT key FROM record WHERE space = {_SPACE} AND shelf = ? AND key IN ({wanted})"
            there.update(row[0] for row in execute(self._db, found, *shelf, *some))
        return there

    def scan_records(self, shelf: Shelf, prefix: str) -> list[tuple[str, bytes]]:
        """Return the records whose key starts with a prefix, by key."""
        found = f"""
            SELECT key, value FROM record WHERE space = {_SPACE} AND shelf = ? AND key >= ?
            AND (? = 0 OR substr(CAST(key AS BLOB), 1, ?) = ?) ORDER BY key
        """
        start = prefix.encode("utf-8", "surrogatepass")
        rows = execute(self._db, found, *shelf, prefix, len(start), len(start), start)
        return [(row["key"], row["value"]) for row in rows]

    def count_records(self, shelf: Shelf) -> int:
        """Return the number of records on a shelf."""
        counted = f"SELECT count(*) FROM record WHERE space = {_SPACE} AND shelf = ?"
        return int(execute(self._db, counted, *shelf).fetchone()[0])

    def put_records(self, shelf: Shelf, records: Mapping[str, StoredRecord]) -> None:
        """Store records."""
        put = """
            INSERT INTO record (space, shelf, key, value, expires)
            VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)
            ON CONFLICT (space, shelf, key) DO UPDATE SET value = excluded.value, expires = excluded.expires
        """
        space, name = self._made_space(shelf[0]), text(shelf[1])
        rows = [
            (space, name, text(key), record.value, _moment(record.expires)) for key, record in records.items()
        ]
        self._db.executemany(put, rows)

    def delete_records(self, shelf: Shelf, keys: Sequence[str] | None) -> int:
        """Delete these records, or all for None; return how many existed."""
        gone = f"DELETE FROM record WHERE space = {_SPACE} AND shelf = ?"
        if keys is None:
            return execute(self._db, gone, *shelf).rowcount
        return sum(execute(self._db, f"{gone} AND key = ?", *shelf, key).rowcount for key in keys)

    def expire_records(self, now: datetime) -> None:
        """Delete the records that have expired."""
        self._db.execute("DELETE FROM record WHERE expires <= ?", (_moment(now),))

    def shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the shelves of a namespace and the keys of their records, both ascending."""
        held = f"SELECT shelf, key FROM record WHERE space = {_SPACE} ORDER BY shelf, key"
        found: dict[str, list[str]] = {}
        for shelf, key in execute(self._db, held, namespace):
            found.setdefault(shelf, []).append(key)
        return list(found.items())

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record, ascending."""
        held = """
            SELECT namespace FROM space
            WHERE key IN (SELECT space FROM conversation WHERE written IS NOT NULL)
            OR key IN (SELECT space FROM record) ORDER BY namespace
        """
        return [row[0] for row in self._db.execute(held)]

    # ---- internal

    def _one(self, where: str, *values: str) -> ConversationRecord | None:
        row = execute(self._db, f"{_CONVERSATION} WHERE {where}", *values).fetchone()
        if row is None:
            return None
        self._spaces[row["namespace"]] = row["space"]
        return _kept(row)

    def _kept(self, where: str, *values: Any) -> list[ConversationRecord]:
        return [_kept(row) for row in execute(self._db, f"{_CONVERSATION} WHERE {where}", *values)]

    def _space(self, namespace: str) -> int:
        """Return the number of a namespace, -1 for a new one."""
        if namespace not in self._spaces:
            row = execute(self._db, "SELECT key FROM space WHERE namespace = ?", namespace).fetchone()
            if row is None:
                return -1
            self._spaces[namespace] = int(row[0])
        return self._spaces[namespace]

    def _made_space(self, namespace: str) -> int:
        if (key := self._space(namespace)) >= 0:
            return key
        return insert(self._db, "space", {"namespace": namespace})

    def _number(self, origin: str, own: str, key: int, space: int) -> int:
        if origin == own:
            return key
        row = execute(self._db, "SELECT key FROM conversation WHERE id = ?", origin).fetchone()
        return self._made_origin(origin, space) if row is None else int(row[0])

    def _made_origin(self, origin: str, space: int) -> int:
        return insert(self._db, "conversation", {"id": origin, "space": space})

    def _forget_origins(self, numbers: Iterable[int]) -> None:
        """Remove origins of deleted conversations that have no items and are in no span."""
        unused = """
            DELETE FROM conversation WHERE key = ? AND written IS NULL AND turns = 0 AND messages = 0
            AND NOT EXISTS (SELECT 1 FROM viewer WHERE origin = key)
        """
        self._db.executemany(unused, [(number,) for number in numbers])

    def _insert(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Insert items of one namespace with their versions, citations and terms."""
        if not items:
            return
        space = self._made_space(items[0].namespace)
        keyed = [(item_key(numbers[it.origin], it.kind, it.order), it) for it in items]
        rows = [
            (
                key,
                space,
                KINDS.index(it.kind),
                text(it.id),
                it.length,
                _marks(sorted(it.marks)),
                it.versions[-1],
            )
            for key, it in keyed
        ]
        self._db.executemany("INSERT INTO item VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?, ?)", rows)
        if old := [(key, n, version) for key, it in keyed for n, version in enumerate(it.versions[:-1], 1)]:
            self._db.executemany("INSERT INTO version VALUES (?, ?, ?)", old)
        self._cite([(key, *map(text, cited)) for key, it in keyed for cited in it.cited])
        words.post(self._db, [(key, space, it.counts) for key, it in keyed])

    def _cite(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add citations to items, by key, to those already stored."""
        for n in range(0, len(rows), _MAX_PER_STATEMENT):
            some = rows[n : n + _MAX_PER_STATEMENT]
            cite = _CITE.format(", ".join([_CITED] * len(some)))
            values = [value for row in some for value in row]
            if self._db.execute(cite, values).rowcount < len(some):
                files = list(dict.fromkeys(row[1:] for row in some))
                put = "INSERT OR IGNORE INTO file (path, location, blob) VALUES "
                put += ", ".join([_FILE] * len(files))
                self._db.execute(put, [value for file in files for value in file])
                self._db.execute(cite, values)

    def _sum(self, changes: Iterable[tuple[int, Kind, int, int]]) -> None:
        """Add numbers of items and of their terms to the totals of origins."""
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for number, kind, items, length in changes:
            sums[number][KINDS.index(kind)] += items
            sums[number][2] += length
        self._db.executemany(_SUM, [(*total, number) for number, total in sums.items()])


@reads_stored
def _kept(row: sqlite3.Row) -> ConversationRecord:
    record = json.loads(row["record"])
    if not isinstance(record, dict) or not record.get("spans"):
        raise ValueError(f"the conversation {row['id']} has no beginning")
    spans = record.pop("spans")
    first = record.pop("first")
    names = ("id", "namespace", "name", "updated")
    conversation = conversation_of({**record, **{name: row[name] for name in names}})
    kept = ConversationRecord(
        conversation,
        [TurnSpan(origin, begin, end) for origin, _, begin, end in spans],
        row["next_order"],
        first,
        _time(row["expires"]),
        {origin: number for origin, number, _, _ in spans},
        (row["turns"], row["messages"], row["length"]),
    )
    if valid_conversation(kept).numbers[row["id"]] != row["key"]:
        raise ValueError(f"the conversation {row['id']} has another number than its span")
    return kept


@reads_stored
def _item(row: sqlite3.Row, origin: str) -> StoredItem:
    key, id_, length, marks, record = row[:5]
    held = () if marks is None else tuple(json.loads(marks))
    kind = KINDS[key >> 31 & 1]
    return valid_item(StoredItem(key, kind, id_, origin, key & 0x7FFFFFFF, length, record, held))


def _marks(marks: Sequence[str]) -> str | None:
    return json.dumps(marks) if marks else None


@reads_stored
def _record(row: sqlite3.Row) -> StoredRecord:
    return StoredRecord(row["value"], _time(row["expires"]))


def _moment(time: datetime | None) -> str | None:
    """Return a time in its stored form."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def _time(moment: str | None) -> datetime | None:
    return None if moment is None else datetime.fromisoformat(moment)
