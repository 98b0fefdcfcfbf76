"""Full-text search and citations in Postgres, see `TurnStore.matching` and `TurnStore.citing`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rag.backends.postgres.items import PostgresView, columns, count_shown
from rag.backends.postgres.server import Db
from rag.backends.postgres.term_counts import count_holders
from rag.backends.postgres.text import from_bytes, slot
from rag.ports import Holder, Matches

_ID = "i.id, CASE WHEN position('\\xff'::bytea IN i.id) > 0 THEN i.record END"
"""An item's slot, and its record if the slot is not the id itself."""

_Counts = dict[int, dict[int, int]]
"""The counts of the terms in an item, by its key and their numbers."""


def match_terms(db: Db, terms: Sequence[str], space: int, view: PostgresView | None, limit: int) -> Matches:
    """Return the matches of the terms, in a namespace or in one conversation."""
    if view is None:
        total = """
            SELECT coalesce(sum(turns + messages), 0)::bigint, coalesce(sum(length), 0)::bigint
            FROM origin WHERE space = %s
        """
        items, length = db.execute(total, [space]).fetchone() or (0, 0)
    else:
        turns, messages, length = count_shown(db, view)
        items = turns + messages
    slots = [slot(term) for term in terms]
    scope, values = _scope(view)
    counts, numbers, holders = _newest(db, slots, space, scope, values, limit)
    cut = [number for number, holding in enumerate(holders) if holding == limit]
    if cut:
        sought = [slots[number] for number in cut]
        if view is not None and view.is_whole:
            held = count_holders(db, sought, space, view.key)
        else:
            held = _holding(db, sought, space, scope, values)
        for number, holding in zip(cut, held, strict=True):
            holders[number] = holding
        cut = [number for number in cut if holders[number] > limit]
        _complete(db, slots, cut, counts, numbers, space)
    return Matches(items, length, tuple(holders), _holders(db, counts, len(terms)))


def citing_ids(db: Db, space: int, sought: dict[str, str]) -> list[str]:
    """Return the ids of the turns with a citation with these column values, ascending."""
    where = "".join(f" AND c.{name} = %b" for name in sought)
    found = f"""
        SELECT {_ID} FROM item i WHERE i.space = %s
        AND i.key IN (SELECT c.item FROM cited c WHERE true{where})
    """
    return sorted(_id(*row) for row in db.execute(found, [space, *map(slot, sought.values())]))


def _newest(
    db: Db, slots: list[bytes], space: int, scope: str, values: list[Any], limit: int
) -> tuple[_Counts, dict[int, int], list[int]]:
    """Return the newest matches of each term, their orders, and their number.

    Within a conversation orders are unique; across several, equal orders are sorted by id.
    """
    place = f"p.space = %s AND p.term = t.term{scope}"
    if scope:
        newest = f"""
            SELECT p.item, p.number, p.count FROM posting p
            WHERE {place} ORDER BY p.number DESC LIMIT %s
        """
    else:
        newest = f"""
            SELECT p.item, p.number, p.count FROM posting p JOIN item i ON i.key = p.item
            WHERE {place} ORDER BY p.number DESC, i.id LIMIT %s
        """
    found = f"""
        SELECT t.n, p.item, p.number, p.count
        FROM unnest(%b::bytea[]) WITH ORDINALITY AS t (term, n), LATERAL ({newest}) p
    """
    counts: _Counts = {}
    numbers: dict[int, int] = {}
    holders = [0] * len(slots)
    for n, item, number, count in db.execute(found, [slots, space, *values, limit]).fetchall():
        counts.setdefault(item, {})[n - 1] = count
        numbers[item] = number
        holders[n - 1] += 1
    return counts, numbers, holders


def _holding(db: Db, slots: list[bytes], space: int, scope: str, values: list[Any]) -> list[int]:
    """Return the number of matches of each term."""
    counted = f"""
        SELECT (SELECT count(*) FROM posting p WHERE p.space = %s AND p.term = t.term{scope})
        FROM unnest(%b::bytea[]) WITH ORDINALITY AS t (term, n) ORDER BY t.n
    """
    return [row[0] for row in db.execute(counted, [space, *values, slots])]


def _complete(
    db: Db, slots: list[bytes], cut: list[int], counts: _Counts, numbers: dict[int, int], space: int
) -> None:
    """Count the terms with more matches than were read, in the items found by other terms.

    They are found by their orders, by which the index of postings is sorted; items of other conversations
    with these orders are filtered out afterwards. In a single step, or for all terms at once, Postgres would
    read all postings, as it does not know how common the terms are.
    """
    counted = """
        WITH held AS MATERIALIZED (
            SELECT p.item, t.n, p.count
            FROM unnest(%b::bytea[], %b::integer[]) AS t (term, n), LATERAL (
                SELECT p.item, p.count FROM posting p
                WHERE p.space = %s AND p.term = t.term AND p.number = ANY(%b::bigint[]) OFFSET 0
            ) p
        )
        SELECT h.item, h.n, h.count FROM held h JOIN unnest(%b::bigint[]) AS i (key) ON i.key = h.item
    """
    if cut:
        orders = sorted(set(numbers.values()))
        values = [[slots[n] for n in cut], cut, space, orders, list(numbers)]
        for item, n, count in db.execute(counted, values).fetchall():
            counts[item][n] = count


def _scope(view: PostgresView | None) -> tuple[str, list[Any]]:
    """Return a condition, with its values, on postings that a conversation shows."""
    if view is None:
        return "", []
    if view.is_whole:
        return " AND p.origin = %s", [view.origins[0]]
    within = """
        AND EXISTS (
            SELECT 1 FROM unnest(%b::smallint[], %b::bigint[], %b::bigint[], %b::bigint[])
                AS r (kind, origin, first, last)
            WHERE r.kind = p.kind AND r.origin = p.origin AND p.number BETWEEN r.first AND r.last
        )
    """
    return within, columns(view.ranges(), 4)


def _holders(db: Db, counts: _Counts, terms: int) -> tuple[Holder, ...]:
    rows = db.execute(
        f"SELECT i.key, i.kind, i.origin, i.number, i.length, {_ID} "
        "FROM item i WHERE i.key = ANY(%b::bigint[])",
        [list(counts)],
    ).fetchall()
    origins = db.execute(
        "SELECT key, id FROM origin WHERE key = ANY(%b::bigint[])", [[*{r[2] for r in rows}]]
    )
    conversations = {key: json.loads(named) for key, named in origins.fetchall()}
    found = []
    for key, kind, origin, number, length, *named in rows:
        held = [0] * terms
        for term, count in counts[key].items():
            held[term] = count
        where = conversations[origin]
        found.append(Holder(_id(*named), "message" if kind else "turn", where, number, length, tuple(held)))
    return tuple(sorted(found, key=lambda holder: (holder.conversation, holder.order)))


def _id(named: bytes, record: str | None) -> str:
    return from_bytes(named) if record is None else str(json.loads(record)["id"])
