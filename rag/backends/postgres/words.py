"""The full-text index in Postgres, with terms split by `rag.analysis`.

    pending    the newest items, whose terms are read from `item.terms` and `item.counts`
    posting    all other items: rows of a namespace and a term, each with some hundred bytes of entries

An entry is the key of an item (8 bytes) and the count of the term in it (4 bytes). A turn has about a hundred
terms, and a row for each of them would take longer than the turn; so items are collected until they have some
thousands of terms. A row has the first and last key in it. Who moves or removes entries locks the row of the
namespace; who adds items never waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, LiteralString

import numpy as np

from rag.backends.postgres.server import Db
from rag.backends.postgres.text import slot
from rag.turns.storage import Keys, Postings

GATHERED = 8_000
"""The number of pending terms at which they are moved; a higher one makes searches slower."""
PART_BYTES = 1_500
"""The length from which a row of entries is full. Longer rows would not be stored in one piece."""

ENTRY = np.dtype([("key", ">i8"), ("count", ">i4")])
_POST = """
    WITH due AS MATERIALIZED (
        SELECT key FROM space WHERE key = %(space)s AND %(gathered)s <= %(weight)s + (
            SELECT coalesce(sum(weight), 0) FROM pending WHERE space = %(space)s
        ) FOR UPDATE SKIP LOCKED
    ), waiting AS (
        INSERT INTO pending SELECT i.space, i.key, 1 + cardinality(i.terms) FROM item i
        WHERE i.key = ANY(%(keys)b::bigint[]) AND NOT EXISTS (SELECT 1 FROM due)
    ), moved AS (
        DELETE FROM pending p USING due WHERE p.space = due.key RETURNING p.item
    ), added AS MATERIALIZED (
        SELECT t.term, min(i.key) AS first, max(i.key) AS last,
            string_agg(int8send(i.key) || int4send(t.count), '') AS entries
        FROM (SELECT item FROM moved UNION ALL SELECT unnest(%(keys)b::bigint[]) FROM due) m
        JOIN item i ON i.key = m.item, unnest(i.terms, i.counts) AS t (term, count) GROUP BY t.term
    )
    INSERT INTO posting
    SELECT %(space)s, a.term,
        CASE WHEN tail.size < %(full)s THEN tail.part ELSE coalesce(tail.part + 1, 0) END,
        a.first, a.last, a.entries
    FROM added a LEFT JOIN LATERAL (
        SELECT p.part, octet_length(p.entries) AS size FROM posting p
        WHERE p.space = %(space)s AND p.term = a.term ORDER BY p.part DESC LIMIT 1
    ) tail ON true ORDER BY a.term
    ON CONFLICT (space, term, part) DO UPDATE SET entries = posting.entries || excluded.entries,
        first = least(posting.first, excluded.first), last = greatest(posting.last, excluded.last)
"""
_HOLDING = """
    WITH waiting AS (
        DELETE FROM pending WHERE space = %s AND item = ANY(%b::bigint[]) RETURNING item
    ), held AS (
        SELECT DISTINCT t.term FROM item i, unnest(i.terms) AS t (term)
        WHERE i.key = ANY(%b::bigint[]) AND NOT EXISTS (SELECT 1 FROM waiting w WHERE w.item = i.key)
    )
    SELECT p.term, p.part, p.entries FROM held h JOIN posting p ON p.space = %s AND p.term = h.term
    WHERE p.last >= %s AND p.first <= %s
"""
_CHANGE = """
    UPDATE posting p SET entries = c.entries
    FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[]) AS c (term, part, entries)
    WHERE p.space = %s AND p.term = c.term AND p.part = c.part
"""
_EMPTIED = "DELETE FROM posting WHERE space = %s AND term = ANY(%b::bytea[]) AND entries = ''"
_MATCH = """
    WITH waiting AS MATERIALIZED (
        SELECT t.term, int8send(i.key) || int4send(t.count) AS entries
        FROM pending p JOIN item i ON i.key = p.item, unnest(i.terms, i.counts) AS t (term, count)
        WHERE p.space = (SELECT key FROM space WHERE slot = %(namespace)b)
            AND i.terms && %(terms)b::bytea[] AND t.term = ANY(%(terms)b::bytea[])
    )
    SELECT term, string_agg(entries, '') FROM (
        SELECT p.term, p.entries FROM posting p
        WHERE p.space = (SELECT key FROM space WHERE slot = %(namespace)b)
            AND p.term = ANY(%(terms)b::bytea[])
        UNION ALL SELECT term, entries FROM waiting
    ) AS found GROUP BY term
"""


def post(db: Db, space: int, terms: Mapping[int, int]) -> None:
    """Add stored items that are not in the index, by their keys, each with its number of terms."""
    values = {"space": space, "keys": list(terms), "weight": sum(terms.values())}
    db.execute(_POST, {**values, "gathered": GATHERED, "full": PART_BYTES})


def unpost(db: Db, space: int, keys: Sequence[int]) -> None:
    """Remove items of a namespace that still have the terms with which they were added."""
    db.execute("SELECT 1 FROM space WHERE key = %s FOR UPDATE", [space])
    gone, changed = np.array(keys, np.int64), []
    for term, part, stored in db.execute(
        _HOLDING, [space, list(keys), list(keys), space, min(keys), max(keys)], binary=True
    ):
        entries = np.frombuffer(stored, ENTRY)
        left = entries[~np.isin(entries["key"], gone)]
        if len(left) < len(entries):
            changed.append((term, part, left.tobytes()))
    if changed:
        db.execute(_CHANGE, [*map(list, zip(*changed, strict=True)), space])
        empty = [term for term, _, entries in changed if not entries]
        db.execute(_EMPTIED, [space, empty])


def matching(namespace: str, terms: Sequence[str]) -> tuple[LiteralString, dict[str, Any]]:
    """Return a query for the postings of the terms in a namespace, see `unpacked`."""
    return _MATCH, {"namespace": slot(namespace), "terms": [slot(term) for term in terms]}


def unpacked(rows: Iterable[tuple[bytes, bytes]], terms: Sequence[str]) -> list[Postings]:
    """Return the postings of each term from the rows of `matching`."""
    found = dict(rows)
    return [_unpacked(found.get(slot(term))) for term in terms]


def _unpacked(stored: bytes | None) -> Postings:
    entries = np.frombuffer(stored or b"", ENTRY)
    keys: Keys = entries["key"].astype(np.int64)
    return keys, entries["count"].astype(np.int64)
