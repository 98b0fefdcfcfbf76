"""Turns and messages in Postgres: add, remove, read and count within a transaction.

The functions take the connection of an open transaction; namespaces and origins are given by their keys. Each
is one statement, and so one round trip, for any number of items.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rag.backends.postgres.server import Db
from rag.backends.postgres.term_counts import LESSENED, tally_item, untally_item
from rag.backends.postgres.text import array, as_bytes, from_bytes, slot
from rag.schema import Record
from rag.turns.model import Item, Kind, TurnSpan
from rag.types import Conversation

KINDS: dict[Kind, int] = {"turn": 0, "message": 1}
_KIND_NAMES: tuple[Kind, ...] = ("turn", "message")
_NO_END = 2**63 - 1

_COLUMNS = "i.key, i.kind, i.origin, i.number, i.length, i.record, i.marks"
_RANGES = """
    unnest(%s::smallint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS r (kind, origin, first, last)
"""
_IN_RANGE = "i.origin = r.origin AND i.kind = r.kind AND i.number BETWEEN r.first AND r.last"
_SHOWN_BY_NONE = """
    NOT EXISTS (
        SELECT 1 FROM span s JOIN conversation c ON c.key = s.conversation
        WHERE s.origin = i.origin AND s.first <= i.number AND (s.last IS NULL OR i.number <= s.last)
        AND i.number >= CASE i.kind WHEN 0 THEN c.first_turn ELSE c.first_message END
    )
"""
_ADD = """
    WITH new AS (
        INSERT INTO item (space, kind, id, origin, number, length, record, marks, terms, counts)
        SELECT %s, i.kind, i.id, i.origin, i.number, i.length, i.record,
            i.marks::bytea[], i.terms::bytea[], i.counts::integer[]
        FROM unnest(
            %b::smallint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::integer[], %b::text[], %b::text[],
            %b::text[], %b::text[]
        ) AS i (kind, id, origin, number, length, record, marks, terms, counts)
        RETURNING *
    ), older AS (
        INSERT INTO version SELECT n.key, v.version, v.record
        FROM unnest(%b::bytea[], %b::integer[], %b::text[]) AS v (id, version, record)
        JOIN new n ON n.id = v.id AND n.kind = 0
    ), quoted AS (
        INSERT INTO cited SELECT n.key, c.path, c.location, c.blob
        FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]) AS c (id, path, location, blob)
        JOIN new n ON n.id = c.id AND n.kind = 0
    ), summed AS (
        UPDATE origin o SET turns = o.turns + s.turns, messages = o.messages + s.messages,
            length = o.length + s.length
        FROM (
            SELECT origin, count(*) FILTER (WHERE kind = 0) AS turns,
                count(*) FILTER (WHERE kind = 1) AS messages, sum(length) AS length
            FROM new GROUP BY origin
        ) s
        WHERE o.key = s.origin
    )
    INSERT INTO posting SELECT n.space, t.term, n.number, n.key, n.origin, n.kind, t.count
    FROM new n, unnest(n.terms, n.counts) AS t (term, count) ORDER BY t.term, n.number
"""
_REMOVE = f"""
    WITH gone AS (
        DELETE FROM item i {{using}} WHERE {{where}} RETURNING i.*
    ), unposted AS (
        DELETE FROM posting p
        USING (SELECT g.space, t.term, g.number, g.key FROM gone g, unnest(g.terms) AS t (term)) d
        WHERE p.space = d.space AND p.term = d.term AND p.number = d.number AND p.item = d.key
    ), uncounted AS (
        SELECT g.origin, t.term, count(*) AS holders
        FROM gone g JOIN origin o ON o.key = g.origin AND g.number < o.tallied, unnest(g.terms) AS t (term)
        GROUP BY g.origin, t.term
    ), {LESSENED}, summed AS (
        UPDATE origin o SET turns = o.turns - s.turns, messages = o.messages - s.messages,
            length = o.length - s.length
        FROM (
            SELECT origin, count(*) FILTER (WHERE kind = 0) AS turns,
                count(*) FILTER (WHERE kind = 1) AS messages, sum(length) AS length
            FROM gone GROUP BY origin
        ) s
        WHERE o.key = s.origin
    )
    SELECT count(*) FROM gone
"""

FIND_ITEM = f"""
    SELECT {_COLUMNS} FROM item i
    WHERE i.space = (SELECT key FROM space WHERE slot = %b) AND i.kind = %s AND i.id = %b
"""
"""Finds an item by the namespace's slot, the kind, and the id's slot."""

FIND_ITEMS = f"""
    SELECT {_COLUMNS} FROM item i
    WHERE i.space = (SELECT key FROM space WHERE slot = %b) AND i.kind = %s AND i.id = ANY(%b::bytea[])
"""
"""Finds items by the namespace's slot, the kind, and the slots of ids."""

Range = tuple[int, int, int, int]
"""A kind, an origin by its key, and the first and last order in it, both included."""


class ItemRow(NamedTuple):
    """A stored item."""

    key: int
    kind: int
    origin: int
    number: int
    length: int
    stored: str
    marks: list[bytes]

    def record(self) -> Record:
        """Return the current version as JSON values, with the marks."""
        record: Record = json.loads(self.stored)
        record["marks"] = [from_bytes(mark) for mark in sorted(self.marks)]
        return record


class PostgresView(NamedTuple):
    """A stored conversation: its spans by origin key, ascending, and the first order it shows.

    `sums` are the numbers of turns, messages and terms of its own origin; `tallied` belongs to that, too.
    """

    key: int
    space: int
    conversation: Conversation
    next_number: int
    first_turn: int
    first_message: int
    spans: tuple[TurnSpan, ...]
    origins: tuple[int, ...]
    sums: tuple[int, int, int]
    tallied: int

    def ranges(self, *kinds: int, after: int | None = None, before: int | None = None) -> list[Range]:
        """Return the ranges of what it shows of these kinds (none: both), ascending within a kind."""
        end = _NO_END if before is None else min(before - 1, _NO_END)
        found = []
        for kind in kinds or (0, 1):
            floor = max(self.first_message if kind else self.first_turn, -1 if after is None else after + 1)
            for origin, span in zip(self.origins, self.spans, strict=True):
                first, last = max(span.first, floor), min(_NO_END if span.last is None else span.last, end)
                if first <= last:
                    found.append((kind, origin, first, last))
        return found

    @property
    def is_whole(self) -> bool:
        """Whether it shows exactly its own items."""
        return len(self.spans) == 1 and not (self.spans[0].first or self.first_turn or self.first_message)


def space_key(db: Db, namespace: str) -> int:
    """Return the key of a namespace, -1 if it is empty."""
    row = db.execute("SELECT key FROM space WHERE slot = %b", [slot(namespace)]).fetchone()
    return -1 if row is None else int(row[0])


def made_space_key(db: Db, namespace: str) -> int:
    """Return the key of a namespace, creating it if necessary."""
    key = space_key(db, namespace)
    if key == -1:
        added = "INSERT INTO space (slot, namespace) VALUES (%b, %s) RETURNING key"
        (key,) = db.execute(added, [slot(namespace), json.dumps(namespace)]).fetchone() or (key,)
    return key


def origin_key(db: Db, conversation: str, space: int) -> int:
    """Return the key of a conversation as an origin, creating it if necessary; locked until the end."""
    made = """
        INSERT INTO origin (slot, id, space) VALUES (%b, %s, %s)
        ON CONFLICT (slot) DO UPDATE SET slot = excluded.slot RETURNING key
    """
    row = db.execute(made, [slot(conversation), json.dumps(conversation), space]).fetchone()
    return -1 if row is None else int(row[0])


def hold_origins(db: Db, origins: Iterable[int]) -> None:
    """Lock origins against changes of who shows their items, and of their totals."""
    db.execute("SELECT 1 FROM origin WHERE key = ANY(%s) ORDER BY key FOR UPDATE", [sorted(origins)])


def add_items(db: Db, items: Sequence[Item], space: int, origins: dict[str, int]) -> None:
    """Insert items of a namespace; `origins` are the keys by conversation."""
    if not items:
        return
    rows = [
        (
            KINDS[it.kind],
            slot(it.id),
            origins[it.origin],
            it.order,
            it.length,
            it.versions[-1],
            array(map(as_bytes, it.marks)),
            array(map(slot, it.counts)),
            _numbers(it.counts.values()),
        )
        for it in items
    ]
    older = [(slot(it.id), n, old) for it in items for n, old in enumerate(it.versions[:-1], 1)]
    cited = [(slot(it.id), *map(slot, place)) for it in items for place in it.cited]
    db.execute(_ADD, [space, *columns(rows, 9), *columns(older, 3), *columns(cited, 4)])


def edit_item(db: Db, row: ItemRow, space: int, edited: Item) -> None:
    """Store another version of an item that was found and is locked."""
    terms, counts = [slot(term) for term in edited.counts], list(edited.counts.values())
    untally_item(db, row.key, row.origin)
    db.execute(
        """
        DELETE FROM posting p USING item i, unnest(i.terms) AS t (term)
        WHERE i.key = %s AND p.space = %s AND p.term = t.term AND p.number = i.number AND p.item = i.key
        """,
        [row.key, space],
    )
    version = json.loads(row.stored)["version"]
    db.execute("INSERT INTO version VALUES (%s, %s, %s)", [row.key, version, row.stored])
    db.execute(
        "UPDATE item SET record = %s, length = %s, terms = %b::bytea[], counts = %b::integer[] "
        "WHERE key = %s",
        [edited.versions[-1], edited.length, terms, counts, row.key],
    )
    db.execute(
        "INSERT INTO posting SELECT %s, t.term, %s, %s, %s, %s, t.count "
        "FROM unnest(%b::bytea[], %b::integer[]) AS t (term, count)",
        [space, row.number, row.key, row.origin, row.kind, terms, counts],
    )
    cited = [tuple(map(slot, place)) for place in edited.cited]
    db.execute(
        "INSERT INTO cited SELECT %s, * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[]) "
        "ON CONFLICT DO NOTHING",
        [row.key, *columns(cited, 3)],
    )
    tally_item(db, row.number, row.origin, terms)
    more = edited.length - row.length
    db.execute("UPDATE origin SET length = length + %s WHERE key = %s", [more, row.origin])


def remove_item(db: Db, kind: Kind, item_id: str, space: int) -> int:
    """Delete an item with everything that belongs to it; return how many existed."""
    where, values = "i.space = %s AND i.kind = %s AND i.id = %b", [space, KINDS[kind], slot(item_id)]
    said_in = f"SELECT i.origin FROM item i WHERE {where}"
    db.execute(f"SELECT 1 FROM origin WHERE key = ({said_in}) FOR UPDATE", values)
    return _removed(db, "", where, values)


def remove_shown(
    db: Db, ranges: Sequence[Range], *, ids: Sequence[str] | None = None, mark: Sequence[str] | None = None
) -> int:
    """Delete the items within these ranges with one of these ids or one of these marks."""
    where, values = _IN_RANGE, [*columns(ranges, 4)]
    hold_origins(db, {origin for _, origin, _, _ in ranges})
    if ids is not None:
        where += " AND i.id = ANY(%b::bytea[])"
        values.append([slot(each) for each in ids])
    if mark is not None:
        where += " AND i.marks && %b::bytea[]"
        values.append([as_bytes(each) for each in mark])
    return _removed(db, f"USING {_RANGES}", where, values)


def release(db: Db, ranges: Sequence[Range]) -> None:
    """Delete the items in these ranges that no conversation shows any more; their origins are locked."""
    if ranges:
        _removed(db, f"USING {_RANGES}", f"{_IN_RANGE} AND {_SHOWN_BY_NONE}", [*columns(ranges, 4)])


def find_items(db: Db, kind: Kind, ids: Sequence[str], space: int, *, hold: bool = False) -> list[ItemRow]:
    """Return the items of a kind with these ids."""
    found = f"SELECT {_COLUMNS} FROM item i WHERE i.space = %s AND i.kind = %s AND i.id = ANY(%b::bytea[])"
    values = [space, KINDS[kind], [slot(each) for each in ids]]
    return [ItemRow._make(row) for row in db.execute(found + (" FOR UPDATE" if hold else ""), values)]


def taken_places(db: Db, places: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those of these places (origin, order) that have an item."""
    taken = """
        SELECT i.origin, i.number FROM unnest(%b::bigint[], %b::bigint[]) AS p (origin, number)
        JOIN item i ON i.origin = p.origin AND i.kind IN (0, 1) AND i.number = p.number
    """
    return set(db.execute(taken, columns(places, 2)).fetchall())


def shown_items(
    db: Db,
    ranges: Sequence[Range],
    *,
    last: int | None = None,
    mark: Sequence[str] | None = None,
    exclude_mark: Sequence[str] | None = None,
) -> list[ItemRow]:
    """Return the items within these ranges, oldest first; at most the `last` newest."""
    where, marks = _IN_RANGE, []
    for wanted, sense in ((mark, ""), (exclude_mark, "NOT ")):
        if wanted is not None:
            where += f" AND {sense}i.marks && %b::bytea[]"
            marks.append([as_bytes(each) for each in wanted])
    newest = f"SELECT {_COLUMNS} FROM item i WHERE {where} ORDER BY i.number DESC LIMIT %s"
    found = f"SELECT i.* FROM {_RANGES}, LATERAL ({newest}) i ORDER BY i.number DESC LIMIT %s"
    rows = db.execute(found, [*columns(ranges, 4), *marks, last, last])
    return [ItemRow._make(row) for row in rows][::-1]


def first_of_newest(db: Db, ranges: Sequence[Range], keep: int) -> int | None:
    """Return the lowest order of the newest `keep` items within these ranges; None if none is older."""
    newest = f"SELECT i.number FROM item i WHERE {_IN_RANGE} ORDER BY i.number DESC LIMIT %s"
    found = f"SELECT i.number FROM {_RANGES}, LATERAL ({newest}) i ORDER BY i.number DESC OFFSET %s LIMIT 2"
    rows = db.execute(found, [*columns(ranges, 4), keep + 1, keep - 1]).fetchall()
    return int(rows[0][0]) if len(rows) == 2 else None


def whole_items(db: Db, rows: Sequence[ItemRow], namespace: str) -> list[Item]:
    """Return the items with all their versions, in their order."""
    older: dict[int, list[str]] = {}
    kept = "SELECT item, record FROM version WHERE item = ANY(%b::bigint[]) ORDER BY item, version"
    for key, record in db.execute(kept, [[row.key for row in rows]]):
        older.setdefault(key, []).append(record)
    found = []
    for row in rows:
        record = row.record()
        found.append(
            Item(
                kind=_KIND_NAMES[row.kind],
                id=record["id"],
                namespace=namespace,
                origin=record["conversation"],
                order=row.number,
                versions=[*older.get(row.key, ()), row.stored],
                marks=set(record["marks"]),
                counts={},
                length=row.length,
            )
        )
    return found


def count_shown(db: Db, view: PostgresView) -> tuple[int, int, int]:
    """Return the number of turns and messages that a conversation shows, and of their terms."""
    return view.sums if view.is_whole else count_items(db, view.ranges())


def count_items(db: Db, ranges: Sequence[Range]) -> tuple[int, int, int]:
    """Return the number of turns and messages within these ranges, and of their terms."""
    summed = f"""
        SELECT count(*) FILTER (WHERE i.kind = 0), count(*) FILTER (WHERE i.kind = 1),
            coalesce(sum(i.length), 0)
        FROM {_RANGES} JOIN item i ON {_IN_RANGE}
    """
    turns, messages, length = db.execute(summed, [*columns(ranges, 4)]).fetchone() or (0, 0, 0)
    return turns, messages, int(length)


def mark_items(
    db: Db, ranges: Sequence[Range], new: str | None, old: str | None, ids: Sequence[str] | None
) -> int:
    """Add, replace or remove a mark on items within these ranges; return how many changed."""
    if old == new:
        return 0
    added, gone = ([] if mark is None else [as_bytes(mark)] for mark in (new, old))
    where = _IN_RANGE + (" AND i.marks @> %b::bytea[]" if gone else " AND NOT i.marks @> %b::bytea[]")
    values = [added, added, gone, *columns(ranges, 4), gone or added]
    if ids is not None:
        where += " AND i.id = ANY(%b::bytea[])"
        values.append([slot(each) for each in ids])
    changed = f"""
        WITH changed AS (
            UPDATE item i SET marks = CASE WHEN i.marks @> %b::bytea[] THEN '{{}}' ELSE %b::bytea[] END
                || ARRAY(SELECT m FROM unnest(i.marks) AS m WHERE m <> ALL(%b::bytea[]))
            FROM {_RANGES} WHERE {where} RETURNING 1
        )
        SELECT count(*) FROM changed
    """
    row = db.execute(changed, values).fetchone()
    return 0 if row is None else int(row[0])


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return rows as columns, even if there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _removed(db: Db, using: str, where: str, values: Sequence[Any]) -> int:
    row = db.execute(_REMOVE.format(using=using, where=where), values).fetchone()
    return 0 if row is None else int(row[0])


def _numbers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"
