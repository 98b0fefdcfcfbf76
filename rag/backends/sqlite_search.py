"""Words found in a SQLite file, see `TurnStore.matching`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from operator import itemgetter

from rag.backends.sqlite_items import View, count_items
from rag.backends.sqlite_sql import Value, execute
from rag.ports import Holder, Matches

_MOST_RANGES = 100
_AT = "i.origin = {0}.origin AND i.kind = {0}.kind AND i.number = {0}.number"
"""An item by its place: all that is told of it here stands in that index."""


def match_terms(
    db: sqlite3.Connection, terms: Sequence[str], space: int, view: View | None, limit: int
) -> Matches:
    """What the store knows of the terms, in a namespace or in one conversation."""
    if view is None:
        total = (
            "SELECT coalesce(sum(turns + messages), 0), coalesce(sum(length), 0) FROM origin WHERE space = ?"
        )
        items, length = execute(db, total, space).fetchone()
    else:
        turns, messages, length = count_items(db, view)
        items = turns + messages
    scope, values = ("1", ()) if view is None else _scope(db, view)
    place = f"p.space = ? AND p.term = ? AND {scope}"
    holders, counts, places = [], dict[int, dict[int, int]](), dict[int, list[int]]()
    for number, term in enumerate(terms):
        rows, holding = _newest(db, place, (space, term, *values), limit, across=view is None)
        holders.append(holding)
        for item, count, *at in rows:
            counts.setdefault(item, {})[number] = count
            places[item] = at
    _keep_found(db, places)
    _complete(db, terms, [n for n, holding in enumerate(holders) if holding > limit], counts, space)
    return Matches(items, length, tuple(holders), _holders(db, counts, len(terms)))


def _newest(
    db: sqlite3.Connection, place: str, values: tuple[Value, ...], limit: int, *, across: bool
) -> tuple[list[sqlite3.Row], int]:
    """The newest holders of a term with their counts and places, and how many hold it.

    Within a conversation orders are unique; across several, ids decide between the same orders.
    """
    found = "SELECT p.item, p.count, p.origin, p.kind, p.number FROM posting p"
    if across:
        newest = (
            f"{found} JOIN item i ON {_AT.format('p')} WHERE {place} ORDER BY p.number DESC, i.id LIMIT ?"
        )
    else:
        newest = f"{found} WHERE {place} ORDER BY p.number DESC LIMIT ?"
    rows = execute(db, newest, *values, limit).fetchall()
    if len(rows) < limit:
        return rows, len(rows)
    holding = execute(db, f"SELECT count(*) FROM posting p WHERE {place}", *values).fetchone()[0]
    return rows, int(holding)


def _scope(db: sqlite3.Connection, view: View) -> tuple[str, tuple[Value, ...]]:
    """A condition on postings that hold what a conversation shows, and its values."""
    if view.is_whole:
        return "p.origin = ?", (view.origins[0],)
    ranges = [(kind, *place) for kind in (0, 1) for place in view.ranges(kind)]
    if len(ranges) <= _MOST_RANGES:
        each = "(p.kind = ? AND p.origin = ? AND p.number BETWEEN ? AND ?)"
        return f"({' OR '.join([each] * len(ranges)) or '0'})", tuple(n for place in ranges for n in place)
    db.execute(
        "CREATE TEMP TABLE IF NOT EXISTS shown (kind INTEGER, origin INTEGER, first INTEGER, last INTEGER)"
    )
    db.execute("DELETE FROM temp.shown")
    db.executemany("INSERT INTO temp.shown VALUES (?, ?, ?, ?)", ranges)
    within = "s.kind = p.kind AND s.origin = p.origin AND p.number BETWEEN s.first AND s.last"
    return f"EXISTS (SELECT 1 FROM temp.shown s WHERE {within})", ()


def _keep_found(db: sqlite3.Connection, places: Mapping[int, Sequence[int]]) -> None:
    db.execute(
        "CREATE TEMP TABLE IF NOT EXISTS found "
        "(item INTEGER PRIMARY KEY, origin INTEGER, kind INTEGER, number INTEGER)"
    )
    db.execute("DELETE FROM temp.found")
    db.executemany("INSERT INTO temp.found VALUES (?, ?, ?, ?)", [(item, *at) for item, at in places.items()])


def _complete(
    db: sqlite3.Connection,
    terms: Sequence[str],
    cut: list[int],
    counts: dict[int, dict[int, int]],
    space: int,
) -> None:
    """Count the terms with more holders than were read in the items found by other terms."""
    counted = """
        SELECT f.item, p.count FROM temp.found f
        CROSS JOIN posting p ON p.space = ? AND p.term = ? AND p.number = f.number AND p.item = f.item
    """
    for number in cut:
        for item, count in execute(db, counted, space, terms[number]):
            counts[item][number] = count


def _holders(db: sqlite3.Connection, counts: dict[int, dict[int, int]], terms: int) -> tuple[Holder, ...]:
    # Thousands of rows: their text comes as bytes, so that no function of ours is called for each.
    rows = db.execute(
        "SELECT f.item, CAST(i.id AS BLOB), i.kind, i.origin, i.number, i.length "
        f"FROM temp.found f CROSS JOIN item i ON {_AT.format('f')}"
    ).fetchall()
    origins = {
        origin: execute(db, "SELECT id FROM origin WHERE key = ?", origin).fetchone()[0]
        for origin in {row[3] for row in rows}
    }
    found = []
    for key, item_id, kind, origin, number, length in rows:
        held = [0] * terms
        for term, count in counts[key].items():
            held[term] = count
        name = item_id.decode("utf-8", "surrogatepass")
        said_in = origins[origin]
        found.append(Holder(name, "message" if kind else "turn", said_in, number, length, tuple(held)))
    found.sort(key=itemgetter(2, 3))
    return tuple(found)
