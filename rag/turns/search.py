"""Full-text search of a turn store, see `TurnStore.matching`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter

import numpy as np

from rag.ports import Holder, Matches
from rag.turns.conversations import sums
from rag.turns.model import KINDS, MAX_ORDER, ConversationRecord
from rag.turns.storage import Keys, Postings, Transaction


def match_terms(
    tx: Transaction, terms: Sequence[str], namespace: str, kept: ConversationRecord | None, limit: int
) -> Matches:
    """Return the matches of the terms, in a namespace or in one conversation."""
    if kept is None:
        items, length = tx.totals(namespace)
    else:
        turns, messages, length = sums(tx, kept)
        items = turns + messages
    holding = tx.match(namespace, terms)
    if kept is not None:
        holding = _shown(kept, holding)
    newest = (_newest(tx, keys, limit).tolist() for keys, _ in holding)
    found = np.array(sorted(set(chain.from_iterable(newest))), np.int64)
    counts = np.zeros((len(found), len(terms) if len(found) else 0), np.int64)
    for term, (keys, count) in enumerate(holding):
        if len(keys) and len(found):
            at = np.searchsorted(found, keys)
            at[at == len(found)] = 0
            is_in = found[at] == keys
            counts[at[is_in], term] = count[is_in]
    return Matches(items, length, tuple(len(keys) for keys, _ in holding), _holders(tx, found, counts))


def _shown(kept: ConversationRecord, holding: Sequence[Postings]) -> list[Postings]:
    """Return the postings of what a conversation shows."""
    ranges = sorted(range_.keys for kind in KINDS for range_ in kept.ranges(kind))
    first, last = np.array(ranges, np.int64).reshape(-1, 2).T
    found = []
    for keys, counts in holding:
        if not len(first) or not len(keys):
            found.append((keys[:0], counts[:0]))
            continue
        at = np.searchsorted(first, keys, side="right") - 1
        is_in = (at >= 0) & (keys <= last[at])
        found.append((keys[is_in], counts[is_in]))
    return found


def _newest(tx: Transaction, keys: Keys, limit: int) -> Keys:
    """Return the newest matches of a term: the highest orders; at equal orders, the first by id."""
    if len(keys) <= limit:
        return keys
    orders = keys & (MAX_ORDER - 1)
    last = np.partition(orders, -limit)[-limit]
    sure, equal = keys[orders > last], keys[orders == last]
    if (room := limit - len(sure)) < len(equal):
        ids = tx.briefs(equal.tolist())
        equal = equal[sorted(range(len(ids)), key=lambda n: ids[n][0])[:room]]
    return np.concatenate((sure, equal))


def _holders(tx: Transaction, found: Keys, counts: Keys) -> tuple[Holder, ...]:
    keys = found.tolist()
    origins = tx.origins({key >> 32 for key in keys})
    holders = [
        Holder(id_, KINDS[key >> 31 & 1], origins[key >> 32], key & (MAX_ORDER - 1), length, tuple(held))
        for key, (id_, length), held in zip(keys, tx.briefs(keys), counts.tolist(), strict=True)
    ]
    return tuple(sorted(holders, key=itemgetter(2, 3)))
