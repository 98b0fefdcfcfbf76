"""The inverted index in a SQLite file: the terms of each turn and message, with their counts.

    pending    the newest items: a row for each item, with all its terms
    segment    all other items, in parts
    posting    the rows of a segment: one for each term, with an entry for each item that contains it

A turn has a few hundred terms. In a single index each of them is at another place, so an append would change
as many pages, which are all written to the log. Therefore the terms of new items are collected in one row
each until there are some thousands. They become a segment, whose rows are written sequentially. Eight small
segments are merged into a larger one: some of their rows move with each new segment, so that no append takes
long. An entry is in one place at any time, and a search reads all places. (A log-structured merge tree with
two levels, O'Neil et al. 1996; the segments are those of Lucene, but deleted entries are removed at once.)

The segments of an item's entries are those whose `first` and `last` keys include its own. An entry has 16
bytes (`ENTRY`); the entries of a row have no order.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag.backends.sqlite.bindings import execute

GATHERED = 8_000
"""The weight at which pending items become a segment; a higher one slows appends down."""
SMALL = 4 * GATHERED
"""Lighter segments are merged, as a search reads each segment."""
TOGETHER = 8
"""The number of small segments that are merged."""
STEP = 250
"""The number of rows of each of them that move per step."""
AT_ONCE = 1_000
"""The maximum number of items in a segment, as the row of a term is read and written as a whole."""
_ITEM = 16
"""The weight of an item in addition to its terms."""

ENTRY = np.dtype([("place", "<u4"), ("number", "<i8"), ("count", "<u4")])
"""The place of an item (see `place_of`), its order, and the count of the term."""

Entries = npt.NDArray[np.void]

_AT = Struct("<Iq")
_IS_TARGET = "key IN (SELECT target FROM segment WHERE target IS NOT NULL)"


class _Packed(dict[int, bytes]):
    """Return the end of an entry for each count."""

    def __missing__(self, count: int) -> bytes:
        return count.to_bytes(4, "little")


_PACKED = _Packed((count, count.to_bytes(4, "little")) for count in range(256))


class Posted(NamedTuple):
    """An item of the index."""

    item: int
    space: int
    place: int
    number: int
    counts: Mapping[str, int]

    @property
    def at(self) -> bytes:
        """The start of its entries."""
        return _AT.pack(self.place, self.number)

    @property
    def weight(self) -> int:
        """The cost of reading and merging it: its terms, plus a constant."""
        return _ITEM + len(self.counts)


def place_of(origin: int, kind: int) -> int:
    """Return origin and kind of an item as one number: twice the origin's key, plus the kind."""
    return 2 * origin + kind


def post(db: sqlite3.Connection, items: Sequence[Posted]) -> None:
    """Add items that are not in the index."""
    (waiting,) = db.execute("SELECT coalesce(sum(weight), 0) FROM pending").fetchone()
    if waiting + sum(item.weight for item in items) < GATHERED:
        rows = [(*item[:4], item.weight, json.dumps(item.counts)) for item in items]
        db.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?)", rows)
        return
    gathered = [item for item in (*_pending(db), *items) if item.counts]  # items without terms have no entry
    for at in range(0, len(gathered), AT_ONCE):
        _add_segment(db, gathered[at : at + AT_ONCE])
        _merge(db)
    db.execute("DELETE FROM pending")


def unpost(db: sqlite3.Connection, items: Sequence[Posted]) -> None:
    """Remove items; their counts must be those with which they were added."""
    rows: dict[tuple[int, int, str], set[bytes]] = defaultdict(set)
    becomes: dict[int, int] = {}
    for item in items:
        if not db.execute("DELETE FROM pending WHERE item = ?", (item.item,)).rowcount:
            around = "SELECT key, coalesce(target, key) FROM segment WHERE ? BETWEEN first AND last"
            for segment, target in db.execute(around, (item.item,)).fetchall():
                becomes[segment] = target
                for term in item.counts:
                    rows[segment, item.space, term].add(item.at)
    lighter: dict[int, dict[bytes, int]] = defaultdict(lambda: defaultdict(lambda: _ITEM))
    for row, gone in rows.items():
        for at in _remove(db, row, gone):
            lighter[becomes[row[0]]][at] += 1  # all that become it weigh in a target from its beginning
    db.executemany(
        "UPDATE segment SET weight = weight - ? WHERE key = ?",
        [(sum(weights.values()), key) for key, weights in lighter.items()],
    )
    is_empty = "NOT EXISTS (SELECT 1 FROM posting WHERE segment = key)"
    unused = f"DELETE FROM segment WHERE key = ? AND {is_empty} AND NOT {_IS_TARGET}"
    db.executemany(unused, [(key,) for key in sorted(becomes)])  # a target after those that become it


def entries_of(db: sqlite3.Connection, space: int, terms: Sequence[str]) -> list[Entries]:
    """Return the entries of each term in a namespace, in no order."""
    wanted = {term: number for number, term in enumerate(terms)}
    found: list[list[bytes]] = [[] for _ in terms]
    for item in _pending(db, space):
        for term in item.counts.keys() & wanted.keys():
            found[wanted[term]].append(item.at + _PACKED[item.counts[term]])
    posted = """
        SELECT p.entries FROM segment s
        CROSS JOIN posting p ON p.segment = s.key AND p.space = ? AND p.term = ?
    """
    for term, number in wanted.items():
        found[number] += [row[0] for row in execute(db, posted, space, term)]
    return [np.frombuffer(b"".join(entries), ENTRY) for entries in found]


def _pending(db: sqlite3.Connection, space: int | None = None) -> list[Posted]:
    """Return the pending items, of one namespace or of all."""
    waiting = "SELECT item, space, place, number, counts FROM pending"
    where, values = ("", ()) if space is None else (" WHERE space = ?", (space,))
    rows = db.execute(waiting + where, values)
    return [Posted(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]


def _add_segment(db: sqlite3.Connection, items: Sequence[Posted]) -> None:
    """Write items as a segment."""
    rows: dict[int, dict[str, list[bytes]]] = defaultdict(dict)
    for item in items:
        at, by_term = item.at, rows[item.space]
        for term, count in item.counts.items():
            entries = by_term.get(term)
            if entries is None:
                by_term[term] = [at + _PACKED[count]]
            else:
                entries.append(at + _PACKED[count])
    keys, weight = [item.item for item in items], sum(item.weight for item in items)
    segment = _made_segment(db, weight, min(keys), max(keys))
    for space, by_term in sorted(rows.items()):
        ordered = ((segment, space, term, b"".join(by_term[term])) for term in sorted(by_term))
        db.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", ordered)


def _made_segment(db: sqlite3.Connection, weight: int, first: int, last: int) -> int:
    made = "INSERT INTO segment (weight, first, last) VALUES (?, ?, ?)"
    return db.execute(made, (weight, first, last)).lastrowid or 0


def _merge(db: sqlite3.Connection) -> None:
    """Start a merge if there are enough small segments, and continue a running one by a step."""
    is_small = f"weight < ? AND target IS NULL AND NOT {_IS_TARGET}"
    small = db.execute(f"SELECT key, weight, first, last FROM segment WHERE {is_small}", (SMALL,)).fetchall()
    if len(small) >= TOGETHER:
        keys, weights, firsts, lasts = zip(*small, strict=True)
        target = _made_segment(db, sum(weights), min(firsts), max(lasts))
        db.executemany("UPDATE segment SET target = ? WHERE key = ?", [(target, key) for key in keys])
    begun = db.execute("SELECT DISTINCT target FROM segment WHERE target IS NOT NULL").fetchall()
    for (target,) in begun:
        _move_rows(db, target)


def _move_rows(db: sqlite3.Connection, target: int) -> None:
    """Move the first rows, by term, of the segments that are merged."""
    sources = [row[0] for row in db.execute("SELECT key FROM segment WHERE target = ?", (target,)).fetchall()]
    later = "SELECT space, term FROM posting WHERE segment = ? ORDER BY space, term LIMIT 1 OFFSET ?"
    ends = [tuple(row) for key in sources for row in db.execute(later, (key, STEP)).fetchall()]
    where, end = ("AND (space, term) < (?, ?)", min(ends)) if ends else ("", ())
    moved: dict[tuple[int, str], list[bytes]] = defaultdict(list)
    for key in sources:
        rows = db.execute(f"SELECT space, term, entries FROM posting WHERE segment = ? {where}", (key, *end))
        for space, term, entries in rows:
            moved[space, term].append(entries)
        db.execute(f"DELETE FROM posting WHERE segment = ? {where}", (key, *end))
    ordered = ((target, *at, b"".join(moved[at])) for at in sorted(moved))
    db.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", ordered)
    if not ends:
        db.execute("DELETE FROM segment WHERE target = ?", (target,))


def _remove(db: sqlite3.Connection, row: tuple[int, int, str], gone: set[bytes]) -> list[bytes]:
    """Remove entries, by their start, from a row of the index; return those that existed."""
    at_row = "WHERE segment = ? AND space = ? AND term = ?"
    found = db.execute(f"SELECT entries FROM posting {at_row}", row).fetchone()
    if found is None:
        return []
    left, size, removed = found[0], ENTRY.itemsize, []
    for at in gone:
        begins = left.find(at)
        while begins > 0 and begins % size:
            begins = left.find(at, begins + 1)
        if begins >= 0:
            left = left[:begins] + left[begins + size :]
            removed.append(at)
    if left:
        db.execute(f"UPDATE posting SET entries = ? {at_row}", (left, *row))
    else:
        db.execute(f"DELETE FROM posting {at_row}", row)
    return removed
