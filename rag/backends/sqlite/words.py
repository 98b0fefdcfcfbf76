"""The full-text index of a SQLite file: an FTS5 table, with terms split by `rag.analysis`.

    pending    the newest items: a row for each item, with its tokens
    word       all other items, in an FTS5 table that stores neither texts nor positions
    posting    the same, as rows of token and item (`fts5vocab`)

The token of a term is `space.term#count`, so one range of tokens has the items of a namespace that contain a
term, with the counts. A turn has a few hundred terms; FTS5 writes some pages and a segment for each item that
is added alone, and merges the segments. So new items are collected until they have some thousands of tokens.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rag.backends.sqlite.bindings import execute
from rag.turns.storage import Keys, Postings

GATHERED = 8_000
"""The number of pending tokens at which they are moved; a higher one makes searches slower."""
_ITEM = 16
"""The weight of a pending item in addition to its tokens."""
SCHEMA = (
    """
    CREATE VIRTUAL TABLE word USING
    fts5 (tokens, content='', detail=none, columnsize=0, tokenize="ascii tokenchars '.#_$'")
    """,
    "CREATE VIRTUAL TABLE posting USING fts5vocab (word, instance)",
    """
    CREATE TABLE pending (
        item   INTEGER PRIMARY KEY,
        space  INTEGER NOT NULL,
        weight INTEGER NOT NULL,
        tokens TEXT NOT NULL
    ) STRICT
    """,
)

Indexed = tuple[int, int, Mapping[str, int]]
"""The key of an item, its namespace, and how often each term occurs in it."""


def post(db: sqlite3.Connection, items: Iterable[Indexed]) -> None:
    """Add items that are not in the index."""
    rows = [(key, space, _ITEM + len(counts), _tokens(space, counts)) for key, space, counts in items]
    (waiting,) = db.execute("SELECT total(weight) FROM pending").fetchone()
    if waiting + sum(row[2] for row in rows) < GATHERED:
        marks = ", ".join(["(?, ?, ?, ?)"] * len(rows))
        db.execute(f"INSERT INTO pending VALUES {marks}", [value for row in rows for value in row])
        return
    rows += db.execute("SELECT * FROM pending").fetchall()
    add = "INSERT INTO word (rowid, tokens) VALUES (?, ?)"
    db.executemany(add, sorted((key, tokens) for key, _, _, tokens in rows if tokens))
    db.execute("DELETE FROM pending")


def unpost(db: sqlite3.Connection, items: Iterable[Indexed]) -> None:
    """Remove items; their counts must be those with which they were added."""
    rows = []
    for key, space, counts in items:
        if not db.execute("DELETE FROM pending WHERE item = ?", (key,)).rowcount and counts:
            rows.append((key, _tokens(space, counts)))
    db.executemany("INSERT INTO word (word, rowid, tokens) VALUES ('delete', ?, ?)", sorted(rows))


def postings(db: sqlite3.Connection, space: int, terms: Sequence[str]) -> list[Postings]:
    """Return the postings of each term in a namespace."""
    waiting = _pending(db, space, terms)
    return [_posting(db, f"{space}.{term}", waiting.get(term, [])) for term in terms]


def _posting(db: sqlite3.Connection, token: str, waiting: list[tuple[int, int]]) -> Postings:
    parts = [_pair([key for key, _ in waiting], [count for _, count in waiting])] if waiting else []
    # One text for all items of a token, as a row for each of them takes several times as long.
    found = """
        SELECT term, group_concat(doc) FROM posting WHERE term >= ? AND term < ? GROUP BY term
    """
    for at, docs in execute(db, found, f"{token}#", f"{token}$"):
        parts.append(_pair(np.fromstring(docs, np.int64, sep=","), int(at.rpartition("#")[2])))
    empty = np.empty(0, np.int64)
    keys = np.concatenate([empty, *(part[0] for part in parts)])
    return keys, np.concatenate([empty, *(part[1] for part in parts)])


def _pair(keys: Keys | list[int], counts: int | list[int]) -> Postings:
    held = np.asarray(keys, np.int64)
    return held, np.broadcast_to(np.asarray(counts, np.int64), held.shape)


def _pending(db: sqlite3.Connection, space: int, terms: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return the pending items that contain each term, with its counts."""
    wanted = frozenset(terms)
    found: dict[str, list[tuple[int, int]]] = {}
    before = len(f"{space}.")
    for key, tokens in db.execute("SELECT item, tokens FROM pending WHERE space = ?", (space,)):
        for token in tokens.split(" "):
            term, _, count = token[before:].rpartition("#")
            if term in wanted:
                found.setdefault(term, []).append((key, int(count)))
    return found


def _tokens(space: int, counts: Mapping[str, int]) -> str:
    return " ".join([f"{space}.{term}#{count}" for term, count in counts.items()])
