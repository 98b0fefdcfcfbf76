"""Full-text search in a SQLite file, see `TurnStore.matching`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from rag.backends.sqlite.bindings import execute
from rag.backends.sqlite.items import SqliteView, count_items
from rag.backends.sqlite.postings import Entries, entries_of, place_of
from rag.ports import Holder, Matches

_Numbers = npt.NDArray[np.int64]

Place = tuple[int, int]
"""The place of an item: `sqlite_postings.place_of`, and its order."""

_AT = "i.origin = f.place / 2 AND i.kind = f.place % 2 AND i.number = f.number"
"""An item by its place; that index contains all values that are needed here."""


def match_terms(
    db: sqlite3.Connection, terms: Sequence[str], space: int, view: SqliteView | None, limit: int
) -> Matches:
    """Return the matches of the terms, in a namespace or in one conversation."""
    if view is None:
        total = (
            "SELECT coalesce(sum(turns + messages), 0), coalesce(sum(length), 0) FROM origin WHERE space = ?"
        )
        items, length = execute(db, total, space).fetchone()
    else:
        turns, messages, length = count_items(db, view)
        items = turns + messages
    holding = entries_of(db, space, terms)
    if view is not None:
        holding = _shown(view, holding)
    counts: dict[Place, dict[int, int]] = {}
    for number, entries in enumerate(holding):
        for place, order, count in _newest(db, entries, limit).tolist():
            counts.setdefault((place, order), {})[number] = count
    _complete(holding, limit, counts)
    return Matches(items, length, tuple(map(len, holding)), _holders(db, counts, len(terms)))


def _shown(view: SqliteView, holding: Sequence[Entries]) -> list[Entries]:
    """Return the entries of what a conversation shows."""
    if view.is_whole:
        return [entries[entries["place"] // 2 == view.origins[0]] for entries in holding]
    ranges = [_ranges(view, kind) for kind in (0, 1)]
    return [np.concatenate([_within(entries, each) for each in ranges]) for entries in holding]


def _ranges(view: SqliteView, kind: int) -> _Numbers:
    """Return the ranges of places of what a conversation shows of a kind, with first and last order."""
    ranges = [(place_of(origin, kind), first, last) for origin, first, last in view.ranges(kind)]
    return np.array(ranges, np.int64).reshape(-1, 3)


def _within(entries: Entries, ranges: _Numbers) -> Entries:
    """Return the entries within ranges of a kind, which are ascending and disjoint."""
    if not len(ranges):
        return entries[:0]
    place, first, last = ranges.T
    at = np.searchsorted(first, entries["number"], side="right") - 1
    is_in = (at >= 0) & (entries["number"] <= last[at]) & (entries["place"] == place[at])
    shown: Entries = entries[is_in]
    return shown


def _newest(db: sqlite3.Connection, entries: Entries, limit: int) -> Entries:
    """Return the newest matches of a term: the highest orders; at equal orders, the first by id."""
    if len(entries) <= limit:
        return entries
    orders = entries["number"]
    last = np.partition(orders, -limit)[-limit]
    sure, equal = entries[orders > last], entries[orders == last]
    if (room := limit - len(sure)) < len(equal):
        _look_for(db, ((place, number) for place, number, _ in equal.tolist()))
        by_id = f"SELECT f.at FROM temp.found f CROSS JOIN item i ON {_AT} ORDER BY i.id LIMIT ?"
        equal = equal[[row[0] for row in db.execute(by_id, (room,))]]
    return np.concatenate((sure, equal))


def _complete(holding: Sequence[Entries], limit: int, counts: dict[Place, dict[int, int]]) -> None:
    """Count the terms with more matches than were taken, in the matches of other terms."""
    cut = [number for number, entries in enumerate(holding) if len(entries) > limit]
    places, orders = np.array(list(counts), np.int64).reshape(-1, 2).T
    for term in cut:
        entries = holding[term]
        for place, order, count in entries[_is_one_of(entries, places, orders)].tolist():
            if (place, order) in counts:
                counts[place, order][term] = count


def _is_one_of(entries: Entries, places: _Numbers, orders: _Numbers) -> npt.NDArray[np.bool_]:
    """Return whether each entry's place and order are among these."""
    return np.isin(entries["number"], orders) & np.isin(entries["place"], places)


def _look_for(db: sqlite3.Connection, places: Iterable[Place]) -> None:
    """Put places into `temp.found`, numbered from 0."""
    db.execute(
        "CREATE TEMP TABLE IF NOT EXISTS found (at INTEGER PRIMARY KEY, place INTEGER, number INTEGER)"
    )
    db.execute("DELETE FROM temp.found")
    rows = ((at, *place) for at, place in enumerate(places))
    db.executemany("INSERT INTO temp.found VALUES (?, ?, ?)", rows)


def _holders(
    db: sqlite3.Connection, counts: Mapping[Place, Mapping[int, int]], terms: int
) -> tuple[Holder, ...]:
    places = list(counts)
    _look_for(db, places)
    # Thousands of rows: text is returned as bytes, so that no Python function is called per row.
    rows = db.execute(
        f"SELECT f.at, CAST(i.id AS BLOB), i.length FROM temp.found f CROSS JOIN item i ON {_AT}"
    ).fetchall()
    origins = {
        origin: execute(db, "SELECT id FROM origin WHERE key = ?", origin).fetchone()[0]
        for origin in {place // 2 for place, _ in places}
    }
    found = []
    for at, item_id, length in rows:
        place, number = places[at]
        held = [0] * terms
        for term, count in counts[place, number].items():
            held[term] = count
        name, origin = item_id.decode("utf-8", "surrogatepass"), origins[place // 2]
        found.append(Holder(name, "message" if place % 2 else "turn", origin, number, length, tuple(held)))
    found.sort(key=itemgetter(2, 3))
    return tuple(found)
