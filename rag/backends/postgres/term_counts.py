"""Precomputed counts of the items in a conversation that contain a term.

A tally counts the items of an origin below `origin.tallied`; the later ones, some hundreds, are counted by a
search. So an append does not change rows that others change, and only every thousandth updates the tally.
Deletions and edits below it change the tally in the same transaction.

A transaction that changes a tally, or the items it counts, locks the row of its origin until it commits, with
an earlier statement, so that it then reads what others have committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag.backends.postgres.server import Db

STEP = 1_000
"""The maximum number of items that a search counts, before they are tallied."""

LESSENED = """
    emptied AS (
        DELETE FROM tally t USING uncounted u
        WHERE t.origin = u.origin AND t.term = u.term AND t.holders = u.holders
    ), lessened AS (
        UPDATE tally t SET holders = t.holders - u.holders FROM uncounted u
        WHERE t.origin = u.origin AND t.term = u.term AND t.holders > u.holders
    )
"""
"""Parts of a statement that subtract the rows of `uncounted` (origin, term, holders) from the tally."""


def tally_items(db: Db, origin: int) -> None:
    """Tally the items that are not tallied; the origin is locked."""
    db.execute(
        """
        WITH old AS MATERIALIZED (SELECT tallied FROM origin WHERE key = %s), more AS (
            SELECT t.term, count(*) AS holders FROM old, item i, unnest(i.terms) AS t (term)
            WHERE i.origin = %s AND i.kind IN (0, 1) AND i.number >= old.tallied GROUP BY t.term
        ), added AS (
            INSERT INTO tally SELECT %s, term, holders FROM more ORDER BY term
            ON CONFLICT (origin, term) DO UPDATE SET holders = tally.holders + excluded.holders
        )
        UPDATE origin SET tallied = greatest(
            tallied, (SELECT max(number) + 1 FROM item WHERE origin = %s AND kind IN (0, 1))
        ) WHERE key = %s
        """,
        [origin] * 5,
    )


def tally_anew(db: Db, origins: Sequence[int]) -> None:
    """Tally long origins from the start; they are locked."""
    db.execute("DELETE FROM tally WHERE origin = ANY(%b::bigint[])", [list(origins)])
    db.execute("UPDATE origin SET tallied = 0 WHERE key = ANY(%b::bigint[])", [list(origins)])
    for origin in origins:
        tally_items(db, origin)


def untally_item(db: Db, item: int, origin: int) -> None:
    """Lock the origin of an item that is to be edited, and subtract the item from the tally."""
    db.execute("SELECT 1 FROM origin WHERE key = %s FOR UPDATE", [origin])
    uncounted = """
        SELECT o.key AS origin, t.term, 1::bigint AS holders
        FROM item i JOIN origin o ON o.key = i.origin AND i.number < o.tallied, unnest(i.terms) AS t (term)
        WHERE i.key = %s
    """
    db.execute(f"WITH uncounted AS ({uncounted}), {LESSENED} SELECT 1", [item])


def tally_item(db: Db, number: int, origin: int, terms: Sequence[bytes]) -> None:
    """Tally an item that was edited, if it was tallied before; its origin is locked."""
    db.execute(
        """
        INSERT INTO tally SELECT o.key, t.term, 1 FROM origin o, unnest(%b::bytea[]) AS t (term)
        WHERE o.key = %s AND %s < o.tallied ORDER BY t.term
        ON CONFLICT (origin, term) DO UPDATE SET holders = tally.holders + 1
        """,
        [list(terms), origin, number],
    )


def count_holders(db: Db, terms: Sequence[bytes], space: int, origin: int) -> list[int]:
    """Return the number of items of an origin that contain each term."""
    counted = """
        SELECT coalesce((SELECT y.holders FROM tally y WHERE y.origin = %s AND y.term = t.term), 0) + (
            SELECT count(*) FROM posting p WHERE p.space = %s AND p.term = t.term AND p.origin = %s
            AND p.number >= (SELECT o.tallied FROM origin o WHERE o.key = %s)
        )
        FROM unnest(%b::bytea[]) WITH ORDINALITY AS t (term, n) ORDER BY t.n
    """
    return [int(row[0]) for row in db.execute(counted, [origin, space, origin, origin, list(terms)])]
