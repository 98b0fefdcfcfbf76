"""How many of what was said in a conversation hold a term, counted beforehand.

A tally counts the items of an origin below `origin.tallied`; those from there on, of which there are some
hundreds, are counted when they are sought. So an append changes no row that others change, and only each
thousandth adds to the tally. Who deletes or edits below changes the tally in the same transaction.

Who changes a tally, or what one counts, holds the row of its origin until it commits, and has it held by a
statement before: what it then reads is what others have committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag.backends.postgres.server import Db

STEP = 1_000
"""So many items are counted when they are sought, until they are tallied."""

LESSENED = """
    emptied AS (
        DELETE FROM tally t USING untold u
        WHERE t.origin = u.origin AND t.term = u.term AND t.holders = u.holders
    ), lessened AS (
        UPDATE tally t SET holders = t.holders - u.holders FROM untold u
        WHERE t.origin = u.origin AND t.term = u.term AND t.holders > u.holders
    )
"""
"""Parts of a statement that take back what `untold` says: origin, term, holders."""


def tally_items(db: Db, origin: int) -> None:
    """Tally what is not; the origin is held."""
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
    """Tally origins from the beginning, where they are long; they are held."""
    db.execute("DELETE FROM tally WHERE origin = ANY(%b::bigint[])", [list(origins)])
    db.execute("UPDATE origin SET tallied = 0 WHERE key = ANY(%b::bigint[])", [list(origins)])
    for origin in origins:
        tally_items(db, origin)


def untally_item(db: Db, item: int, origin: int) -> None:
    """Hold the origin of an item that is to be edited, and take back what is tallied of it."""
    db.execute("SELECT 1 FROM origin WHERE key = %s FOR UPDATE", [origin])
    untold = """
        SELECT o.key AS origin, t.term, 1::bigint AS holders
        FROM item i JOIN origin o ON o.key = i.origin AND i.number < o.tallied, unnest(i.terms) AS t (term)
        WHERE i.key = %s
    """
    db.execute(f"WITH untold AS ({untold}), {LESSENED} SELECT 1", [item])


def tally_item(db: Db, number: int, origin: int, terms: Sequence[bytes]) -> None:
    """Tally an item that was edited, where it was; its origin is held."""
    db.execute(
        """
        INSERT INTO tally SELECT o.key, t.term, 1 FROM origin o, unnest(%b::bytea[]) AS t (term)
        WHERE o.key = %s AND %s < o.tallied ORDER BY t.term
        ON CONFLICT (origin, term) DO UPDATE SET holders = tally.holders + 1
        """,
        [list(terms), origin, number],
    )


def count_holders(db: Db, terms: Sequence[bytes], space: int, origin: int) -> list[int]:
    """How many items of an origin hold each term."""
    counted = """
        SELECT coalesce((SELECT y.holders FROM tally y WHERE y.origin = %s AND y.term = t.term), 0) + (
            SELECT count(*) FROM posting p WHERE p.space = %s AND p.term = t.term AND p.origin = %s
            AND p.number >= (SELECT o.tallied FROM origin o WHERE o.key = %s)
        )
        FROM unnest(%b::bytea[]) WITH ORDINALITY AS t (term, n) ORDER BY t.n
    """
    return [int(row[0]) for row in db.execute(counted, [origin, space, origin, origin, list(terms)])]
