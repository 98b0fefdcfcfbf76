"""Turns and messages in a SQLite file: add, remove, read and count within a transaction.

The functions take the connection of an open transaction; namespaces and origins are given by their keys.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rag.backends.sqlite.bindings import execute, put_wanted, text
from rag.backends.sqlite.postings import AT_ONCE, Posted, place_of, post, unpost
from rag.backends.stored_turns import Cited, Item, Kind, TurnSpan
from rag.schema import message_from_record, turn_from_record
from rag.searchable import term_counts
from rag.types import Conversation

KINDS: dict[Kind, int] = {"turn": 0, "message": 1}
_KIND_NAMES: tuple[Kind, ...] = ("turn", "message")
_NO_END = 2**63 - 1
_MIN_BULK_IDS = 8

_FOUND = """
    SELECT i.*, o.id AS origin_id, n.namespace,
        (SELECT json_group_array(mark) FROM mark WHERE item = i.key) AS marks
    FROM item i JOIN origin o ON o.key = i.origin JOIN space n ON n.key = i.space
"""
_SHOWN_BY_NONE = """
    NOT EXISTS (
        SELECT 1 FROM span s JOIN conversation c ON c.id = s.conversation
        WHERE s.origin = i.origin AND s.first <= i.number AND (s.last IS NULL OR i.number <= s.last)
        AND i.number >= CASE i.kind WHEN 0 THEN c.first_turn ELSE c.first_message END
    )
"""
_PUT_FILE = """
    INSERT OR IGNORE INTO file (path, location, blob)
    VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))
"""
_CITE = """
    INSERT OR IGNORE INTO cited SELECT ?, key FROM file
    WHERE path = CAST(? AS TEXT) AND location = CAST(? AS TEXT) AND blob = CAST(? AS TEXT)
"""
_IS_CITED = "EXISTS (SELECT 1 FROM cited c WHERE c.file = file.key)"

Range = tuple[int, int, int]
"""An origin by its key, and the first and last order in it, both included."""


class SqliteView(NamedTuple):
    """A stored conversation: its spans by origin key, ascending, and the first order it shows."""

    conversation: Conversation
    next_number: int
    first_turn: int
    first_message: int
    spans: tuple[TurnSpan, ...]
    origins: tuple[int, ...]
    space: int

    def ranges(self, kind: int, after: int | None = None, before: int | None = None) -> list[Range]:
        """Return the ranges of the items of a kind that it shows, ascending."""
        floor = max(self.first_message if kind else self.first_turn, -1 if after is None else after + 1)
        end = _NO_END if before is None else before - 1
        found = []
        for origin, span in zip(self.origins, self.spans, strict=True):
            first, last = max(span.first, floor), min(_NO_END if span.last is None else span.last, end)
            if first <= last:
                found.append((origin, first, last))
        return found

    @property
    def is_whole(self) -> bool:
        """Whether it shows exactly its own items."""
        return len(self.spans) == 1 and not (self.spans[0].first or self.first_turn or self.first_message)


def space_key(db: sqlite3.Connection, namespace: str) -> int:
    """Return the key of a namespace, -1 if it is empty."""
    row = execute(db, "SELECT key FROM space WHERE namespace = ?", namespace).fetchone()
    return -1 if row is None else int(row[0])


def made_space_key(db: sqlite3.Connection, namespace: str) -> int:
    """Return the key of a namespace, creating it if necessary."""
    if (key := space_key(db, namespace)) >= 0:
        return key
    return execute(db, "INSERT INTO space (namespace) VALUES (?)", namespace).lastrowid or 0


def origin_key(db: sqlite3.Connection, conversation: str, namespace: str) -> int:
    """Return the key of a conversation as an origin, creating it if necessary."""
    row = execute(db, "SELECT key FROM origin WHERE id = ?", conversation).fetchone()
    if row is not None:
        return int(row[0])
    space = made_space_key(db, namespace)
    added = execute(db, "INSERT INTO origin (id, space) VALUES (?, ?)", conversation, space)
    return added.lastrowid or 0


def add_items(db: sqlite3.Connection, items: Sequence[Item], space: int, origins: Mapping[str, int]) -> None:
    """Insert items of one namespace; `origins` has the keys of their origins."""
    if not items:
        return
    keyed = put_items(db, items, space, origins)
    cite(db, [(key, it.cited) for key, it in keyed])
    post(db, [_posted(key, space, origins[it.origin], it) for key, it in keyed])


def put_items(
    db: sqlite3.Connection, items: Sequence[Item], space: int, origins: Mapping[str, int]
) -> list[tuple[int, Item]]:
    """Insert items without their index entries; return them with their keys."""
    key = int(db.execute("SELECT coalesce(max(key), 0) FROM item").fetchone()[0])
    keyed = list(enumerate(items, key + 1))
    db.executemany(
        "INSERT INTO item VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?)",
        [
            (
                key,
                space,
                KINDS[it.kind],
                text(it.id),
                origins[it.origin],
                it.order,
                it.length,
                it.versions[-1],
            )
            for key, it in keyed
        ],
    )
    if old := [(key, n, version) for key, it in keyed for n, version in enumerate(it.versions[:-1], 1)]:
        db.executemany("INSERT INTO version VALUES (?, ?, ?)", old)
    add_marks(db, [(key, mark) for key, it in keyed for mark in it.marks])
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for item in items:
        total = sums[origins[item.origin]]
        total[KINDS[item.kind]] += 1
        total[2] += item.length
    _sum(db, sums)
    return keyed


def add_marks(db: sqlite3.Connection, marks: Iterable[tuple[int, str]]) -> None:
    """Mark items, by key."""
    if rows := [(key, text(mark)) for key, mark in marks]:
        db.executemany("INSERT OR IGNORE INTO mark VALUES (?, CAST(? AS TEXT))", rows)


def edit_item(db: sqlite3.Connection, row: sqlite3.Row, edited: Item) -> None:
    """Store another version of an item."""
    key, version = row["key"], json.loads(row["record"])["version"]
    execute(db, "INSERT INTO version VALUES (?, ?, ?)", key, version, row["record"])
    execute(
        db, "UPDATE item SET record = ?, length = ? WHERE key = ?", edited.versions[-1], edited.length, key
    )
    cite(db, [(key, edited.cited)])
    unpost(db, [posted(row)])
    post(db, [_posted(key, row["space"], row["origin"], edited)])
    _sum(db, {row["origin"]: [0, 0, edited.length - row["length"]]})


def remove_items(db: sqlite3.Connection, rows: Sequence[sqlite3.Row]) -> int:
    """Delete items with everything that belongs to them; return how many."""
    keys = [(row["key"],) for row in rows]
    for at in range(0, len(rows), AT_ONCE):
        unpost(db, [posted(row) for row in rows[at : at + AT_ONCE]])
    files = {file for key in keys for (file,) in db.execute("SELECT file FROM cited WHERE item = ?", key)}
    db.executemany("DELETE FROM item WHERE key = ?", keys)
    db.executemany(f"DELETE FROM file WHERE key = ? AND NOT {_IS_CITED}", [(file,) for file in files])
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        total = sums[row["origin"]]
        total[row["kind"]] -= 1
        total[2] -= row["length"]
    _sum(db, sums)
    return len(rows)


def release(db: sqlite3.Connection, ranges: Iterable[Range], kind: int) -> None:
    """Delete the items of a kind in these ranges that no conversation shows any more."""
    place = "WHERE i.origin = ? AND i.kind = ? AND i.number BETWEEN ? AND ?"
    for origin, first, last in ranges:
        statement = f"SELECT i.* FROM item i {place} AND {_SHOWN_BY_NONE}"
        remove_items(db, execute(db, statement, origin, kind, first, last).fetchall())


def known_ids(db: sqlite3.Connection, kind: Kind, ids: Sequence[str], space: int) -> list[str]:
    """Return those of these ids that are ids of items of a kind."""
    if len(ids) < _MIN_BULK_IDS:
        one = "SELECT 1 FROM item WHERE space = ? AND kind = ? AND id = ?"
        return [each for each in ids if execute(db, one, space, KINDS[kind], each).fetchone()]
    put_wanted(db, 3, ids)
    known = """
        SELECT w.value FROM temp.wanted w
        CROSS JOIN item i ON i.space = ? AND i.kind = ? AND i.id = w.value WHERE w.list = 3
    """
    return [row[0] for row in execute(db, known, space, KINDS[kind])]


def find_item(db: sqlite3.Connection, kind: Kind, item_id: str, space: int) -> sqlite3.Row | None:
    """Return the row of an item by its id."""
    where = f"{_FOUND} WHERE i.space = ? AND i.kind = ? AND i.id = ?"
    row: sqlite3.Row | None = execute(db, where, space, KINDS[kind], item_id).fetchone()
    return row


def shown_items(
    db: sqlite3.Connection,
    ranges: Sequence[Range],
    kind: int,
    *,
    last: int | None = None,
    mark: Sequence[str] | None = None,
    exclude_mark: Sequence[str] | None = None,
) -> list[sqlite3.Row]:
    """Return the rows of the items within these ranges, oldest first."""
    where = "i.origin = ? AND i.kind = ? AND i.number BETWEEN ? AND ?"
    wanted = "SELECT 1 FROM mark m WHERE m.item = i.key"
    for number, (marks, sense) in enumerate(((mark, "EXISTS"), (exclude_mark, "NOT EXISTS"))):
        if marks is not None:
            put_wanted(db, number, marks)
            chosen = f"SELECT value FROM temp.wanted WHERE list = {number}"
            where += f" AND {sense} ({wanted} AND m.mark IN ({chosen}))"
    found: list[sqlite3.Row] = []
    for origin, first, end in reversed(ranges):
        left = -1 if last is None else last - len(found)
        if left != 0:
            statement = f"{_FOUND} WHERE {where} ORDER BY i.number DESC LIMIT ?"
            found += execute(db, statement, origin, kind, first, end, left)
    return found[::-1]


def newest_orders(db: sqlite3.Connection, ranges: Sequence[Range], kind: int, most: int) -> list[int]:
    """Return the orders of the newest items within these ranges, newest first."""
    place = "WHERE origin = ? AND kind = ? AND number BETWEEN ? AND ?"
    orders = f"SELECT number FROM item {place} ORDER BY number DESC LIMIT ?"
    found: list[int] = []
    for origin, first, end in reversed(ranges):
        found += (row[0] for row in execute(db, orders, origin, kind, first, end, most - len(found)))
    return found


def item_record(row: sqlite3.Row) -> dict[str, Any]:
    """Return the item's current version as JSON values, with its marks."""
    record: dict[str, Any] = json.loads(row["record"])
    record["marks"] = sorted(json.loads(row["marks"]))
    return record


def whole_item(db: sqlite3.Connection, row: sqlite3.Row) -> Item:
    """Return the item with all its versions."""
    versions = execute(db, "SELECT record FROM version WHERE item = ? ORDER BY version", row["key"])
    return Item(
        kind=_KIND_NAMES[row["kind"]],
        id=row["id"],
        namespace=row["namespace"],
        origin=row["origin_id"],
        order=row["number"],
        versions=[*(old["record"] for old in versions), row["record"]],
        marks=set(json.loads(row["marks"])),
        counts={},
        length=row["length"],
    )


def count_items(db: sqlite3.Connection, view: SqliteView) -> tuple[int, int, int]:
    """Return the number of turns and messages that a conversation shows, and of their terms."""
    if view.is_whole:
        row = execute(
            db, "SELECT turns, messages, length FROM origin WHERE key = ?", view.origins[0]
        ).fetchone()
        return (row[0], row[1], row[2])
    counts, length = [0, 0], 0
    summed = """
        SELECT count(*), coalesce(sum(length), 0) FROM item
        WHERE origin = ? AND kind = ? AND number BETWEEN ? AND ?
    """
    for kind in (0, 1):
        for origin, first, last in view.ranges(kind):
            count, terms = execute(db, summed, origin, kind, first, last).fetchone()
            counts[kind] += count
            length += terms
    return (counts[0], counts[1], length)


def posted(row: sqlite3.Row) -> Posted:
    """Return the index entry of an item."""
    record = json.loads(row["record"])
    counts = term_counts(message_from_record(record) if row["kind"] else turn_from_record(record))
    return Posted(row["key"], row["space"], place_of(row["origin"], row["kind"]), row["number"], counts)


def _posted(key: int, space: int, origin: int, item: Item) -> Posted:
    return Posted(key, space, place_of(origin, KINDS[item.kind]), item.order, item.counts)


def cite(db: sqlite3.Connection, items: Iterable[tuple[int, Iterable[Cited]]]) -> None:
    """Add citations to items, by key, to those already stored."""
    rows = [(key, *map(text, place)) for key, cited in items for place in cited]
    if rows and db.executemany(_CITE, rows).rowcount < len(rows):
        db.executemany(_PUT_FILE, (place for _, *place in rows))
        db.executemany(_CITE, rows)


def _sum(db: sqlite3.Connection, sums: dict[int, list[int]]) -> None:
    db.executemany(
        "UPDATE origin SET turns = turns + ?, messages = messages + ?, length = length + ? WHERE key = ?",
        [(*total, origin) for origin, total in sums.items()],
    )
