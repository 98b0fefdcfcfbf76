"""Full-text search of a turn store, see `TurnStore.matching` and `TurnStore.ranked`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag.ports import Holder, Matches, Recalled
from rag.top_k import distinct
from rag.turns.conversations import sums
from rag.turns.model import KINDS, ConversationRecord, Kind, RecordCorrupt
from rag.turns.storage import Keys, Postings, Transaction
from rag.turns.values import MAX_ORDER

K1 = 1.2
B = 0.75


class _Found(NamedTuple):
    """The items that contain a term: their keys, ascending, and the count of each term, (items, terms).

    `items` and `length` are those of all items searched, `holders` the number of items with each term.
    """

    items: int
    length: int
    holders: tuple[int, ...]
    keys: Keys
    counts: Keys


def match_terms(
    tx: Transaction, terms: Sequence[str], namespace: str, kept: ConversationRecord | None, limit: int
) -> Matches:
    """Return the matches of the terms, in a namespace or in one conversation."""
    found = _find(tx, terms, namespace, kept, limit)
    keys, lengths = found.keys.tolist(), _lengths(tx, found.keys)
    origins = tx.origins({key >> 32 for key in keys})
    holders = [
        Holder(id_, KINDS[key >> 31 & 1], origins[key >> 32], key & (MAX_ORDER - 1), length, tuple(held))
        for key, id_, length, held in zip(
            keys, tx.ids(keys), lengths.tolist(), found.counts.tolist(), strict=True
        )
    ]
    return Matches(found.items, found.length, found.holders, tuple(sorted(holders, key=itemgetter(2, 3))))


def rank_terms(
    tx: Transaction,
    terms: Sequence[str],
    namespace: str,
    kept: ConversationRecord | None,
    kind: Kind | None,
    k: int,
    limit: int,
) -> list[Recalled]:
    """Return the k best matches of the terms; only their ids are read."""
    found = _find(tx, terms, namespace, kept, limit)
    if kind is not None:
        is_meant = found.keys >> 31 & 1 == KINDS.index(kind)
        found = found._replace(keys=found.keys[is_meant], counts=found.counts[is_meant])
    scores = bm25(found.items, found.length, found.holders, _lengths(tx, found.keys), found.counts)
    if len(scores) > k:
        best = scores >= np.partition(scores, -k)[-k]
        found, scores = found._replace(keys=found.keys[best]), scores[best]
    keys = found.keys.tolist()
    origins = tx.origins({key >> 32 for key in keys})
    recalled = [
        Recalled(id_, KINDS[key >> 31 & 1], origins[key >> 32], key & (MAX_ORDER - 1), score)
        for key, id_, score in zip(keys, tx.ids(keys), scores.tolist(), strict=True)
    ]
    recalled.sort(key=lambda one: (-one.score, -one.order, one.id))
    return recalled[:k]


def _lengths(tx: Transaction, keys: Keys) -> Keys:
    """Return the number of terms of the items with these keys. Raises RecordCorrupt if one does not exist."""
    found = tx.lengths(keys.tolist())
    if len(found) != len(keys):
        raise RecordCorrupt("its index of terms has items that do not exist")
    return found


def bm25(
    items: int, length: int, holders: Sequence[int], lengths: Keys, counts: Keys
) -> npt.NDArray[np.float64]:
    """Return the score of each item found, above 0, rounded to six decimals.

    Robertson and Zaragoza (2009), with the usual k1 and b. `holders` is the number of items with each term,
    shape (terms,), `lengths` the terms of each item found, shape (found,), and `counts` has the shape
    (found, terms). `items` and `length` are those of all items searched.
    """
    mean = (length / items if items else 0.0) or 1.0
    rarity = np.array([math.log(1 + (max(items - n, 0) + 0.5) / (n + 0.5)) for n in holders])
    damping = K1 * (1 - B + B * lengths / mean)
    given = counts * (K1 + 1) / (counts + damping[:, None])
    scores: npt.NDArray[np.float64] = np.round((given * rarity).sum(axis=1), 6)
    return scores


def _find(
    tx: Transaction, terms: Sequence[str], namespace: str, kept: ConversationRecord | None, limit: int
) -> _Found:
    """Return the items that contain a term, at most the newest `limit` of each term."""
    if kept is None:
        items, length = tx.totals(namespace)
    else:
        turns, messages, length = sums(tx, kept)
        items = turns + messages
    holding = tx.match(namespace, terms)
    if kept is not None:
        holding = _shown(kept, holding)
    newest = [_newest(tx, keys, limit) for keys, _ in holding]
    found = distinct(np.concatenate([np.empty(0, np.int64), *newest]))
    counts = np.zeros((len(found), len(terms)), np.int64)
    for term, (keys, count) in enumerate(holding):
        if len(keys) and len(found):
            at = np.searchsorted(found, keys)
            at[at == len(found)] = 0
            is_in = found[at] == keys
            counts[at[is_in], term] = count[is_in]
    return _Found(items, length, tuple(len(keys) for keys, _ in holding), found, counts)


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
        ids = tx.ids(equal.tolist())
        equal = equal[sorted(range(len(ids)), key=ids.__getitem__)[:room]]
    return np.concatenate((sure, equal))
