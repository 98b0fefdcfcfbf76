"""The inverted index in a SQLite file: which terms each turn and message holds, and how often.

    pending    what was said last: a row for each item, with all its terms
    posting    the rest, by term: a block for each term and merge

A turn has a few hundred terms, each at another place of an index as large as the file. Written there at
once, an append would touch as many pages; so its terms are kept in one row until some thousands have
gathered, and then go to their places together, by term, within the append that makes them enough. What
is read comes from both. (After the first two levels of a log-structured merge tree, O'Neil et al. 1996.)

A block holds entries of 16 bytes (`ENTRY`), in no order. It is named by the first item in it, and an item's
entry stands in the last block of the term whose name is not above the item's key: new items have the
highest keys, and what is edited goes into the block where it was, or would have been.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

GATHERED = 8_000
"""So much gathers before it is merged (see `Posted.weight`); with more, the append that merges would last."""
_ITEM = 16
_AT_ONCE = 1_000
"""So many items are merged at a time: what they hold is in memory together."""

ENTRY = np.dtype([("place", "<u4"), ("number", "<i8"), ("count", "<u4")])
"""An item by its place (see `place_of`) and its order, and how often it has the term."""

Entries = npt.NDArray[np.void]

_AT = Struct("<Iq")


class _Packed(dict[int, bytes]):
    """How entries end, by count."""

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
        """How its entries begin."""
        return _AT.pack(self.place, self.number)

    @property
    def weight(self) -> int:
        """What it takes to read and to merge it: its terms, and some for itself."""
        return _ITEM + len(self.counts)


def place_of(origin: int, kind: int) -> int:
    """Where items of an origin and a kind stand, as one number: the origin's key twice, and the kind."""
    return 2 * origin + kind


def post(db: sqlite3.Connection, items: Sequence[Posted]) -> None:
    """Add new items, whose keys ascend and are above all others."""
    (waiting,) = db.execute("SELECT coalesce(sum(weight), 0) FROM pending").fetchone()
    if waiting + sum(item.weight for item in items) < GATHERED:
        rows = [(*item[:4], item.weight, json.dumps(item.counts)) for item in items]
        db.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?)", rows)
        return
    merged = [*_pending(db), *items]
    for at in range(0, len(merged), _AT_ONCE):
        _merge(db, merged[at : at + _AT_ONCE])
    db.execute("DELETE FROM pending")


def unpost(db: sqlite3.Connection, items: Sequence[Posted]) -> None:
    """Remove items; their counts are those with which they were added."""
    by_term: dict[tuple[int, str], dict[int, bytes]] = defaultdict(dict)
    for item in items:
        if not db.execute("DELETE FROM pending WHERE item = ?", (item.item,)).rowcount:
            for term in item.counts:
                by_term[item.space, term][item.item] = item.at
    for (space, term), gone in by_term.items():
        keys = sorted(gone)
        while keys:
            first, entries = _block(db, space, term, keys[-1])
            here = set()
            while keys and keys[-1] >= first:
                here.add(gone[keys.pop()])
            each = (entries[at : at + ENTRY.itemsize] for at in range(0, len(entries), ENTRY.itemsize))
            _put_block(db, space, term, first, b"".join(entry for entry in each if entry[:-4] not in here))


def repost(db: sqlite3.Connection, old: Posted, new: Posted) -> None:
    """Put an item in the place of what it was before it was edited."""
    if db.execute("SELECT 1 FROM pending WHERE item = ?", (new.item,)).fetchone():
        changed = (new.weight, json.dumps(new.counts), new.item)
        db.execute("UPDATE pending SET weight = ?, counts = ? WHERE item = ?", changed)
        return
    unpost(db, [old])
    for term, count in new.counts.items():
        first, entries = _block(db, new.space, term, new.item)
        _put_block(db, new.space, term, first, entries + new.at + _PACKED[count])


def entries_of(db: sqlite3.Connection, space: int, terms: Sequence[str]) -> list[Entries]:
    """The entries of each term in a namespace, in no order."""
    wanted = {term: number for number, term in enumerate(terms)}
    found: list[list[bytes]] = [[] for _ in terms]
    for item in _pending(db, space):
        for term in item.counts.keys() & wanted.keys():
            found[wanted[term]].append(item.at + _PACKED[item.counts[term]])
    posted = "SELECT entries FROM posting WHERE space = ? AND term = ?"
    for term, number in wanted.items():
        found[number] += [row[0] for row in db.execute(posted, (space, term))]
    return [np.frombuffer(b"".join(blocks), ENTRY) for blocks in found]


def _pending(db: sqlite3.Connection, space: int | None = None) -> list[Posted]:
    """Items that wait, by key; of one namespace, or all."""
    waiting = "SELECT item, space, place, number, counts FROM pending"
    where, values = ("", ()) if space is None else (" WHERE space = ?", (space,))
    rows = db.execute(waiting + where, values)
    return [Posted(row[0], row[1], row[2], row[3], json.loads(row[4])) for row in rows]


def _merge(db: sqlite3.Connection, items: Iterable[Posted]) -> None:
    """Write the entries of items, by term: what is written together stands together."""
    spaces: dict[int, dict[str, tuple[int, list[bytes]]]] = defaultdict(dict)
    for item in items:
        key, at, blocks = item.item, item.at, spaces[item.space]
        for term, count in item.counts.items():
            block = blocks.get(term)
            if block is None:
                blocks[term] = key, [at + _PACKED[count]]
            else:
                block[1].append(at + _PACKED[count])
    for space, blocks in sorted(spaces.items()):
        rows = ((space, term, first, b"".join(each)) for term, (first, each) in sorted(blocks.items()))
        db.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", rows)


def _block(db: sqlite3.Connection, space: int, term: str, item: int) -> tuple[int, bytes]:
    """The block that an item's entry belongs to: its name and entries; a new one where there is none."""
    found = """
        SELECT first, entries FROM posting WHERE space = ? AND term = ? AND first <= ?
        ORDER BY first DESC LIMIT 1
    """
    row = db.execute(found, (space, term, item)).fetchone()
    return (item, b"") if row is None else (row[0], row[1])


def _put_block(db: sqlite3.Connection, space: int, term: str, first: int, entries: bytes) -> None:
    if entries:
        db.execute("INSERT OR REPLACE INTO posting VALUES (?, ?, ?, ?)", (space, term, first, entries))
    else:
        db.execute("DELETE FROM posting WHERE space = ? AND term = ? AND first = ?", (space, term, first))
