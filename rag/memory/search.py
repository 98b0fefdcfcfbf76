"""Full-text search over turns and messages: the store finds matches, BM25 ranks them here.

Terms are those of `rag.analysis`: identifiers are split, CJK text is split in pairs, so `getUserName`, "user
name" and "北京" give the same ranking with every store (Robertson and Zaragoza 2009, usual k1 and b).
An index of pairs has no single characters: for "锁" alone the newest items are scanned.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from rag.analysis import terms
from rag.errors import NotFound
from rag.ports import Holder, Matches, TurnStore
from rag.searchable import searchable, term_counts
from rag.types import DialogTurn, Message

Kind = Literal["turn", "message"]

K1 = 1.2
B = 0.75
MAX_SCANNED = 2000
"""The maximum number of items that are scanned for a single character, which takes half a second."""

_FIRST_CJK = "\u3040"


@dataclass(frozen=True, slots=True)
class Recalled:
    """The id and score of a turn or message that was found."""

    id: str
    kind: Kind
    conversation: str
    order: int
    score: float


def search_text(
    store: TurnStore,
    query: str,
    *,
    namespace: str = "",
    conversation: str | None = None,
    kind: Kind | None = None,
    k: int = 10,
    limit: int = 1000,
) -> list[Recalled]:
    """Return the k best turns and messages for a query, best first; at equal scores the newer, then by id.

    Args:
        store: contains the items.
        query: any text; without a word nothing is found. If it has only single CJK characters, only the
            newest `MAX_SCANNED` items are searched.
        namespace: the namespace to search.
        conversation: search only this one; None searches the namespace.
        kind: only turns or only messages; None is both.
        k: at least 1.
        limit: the maximum number of matches per word, the newest.
    """
    words = list(dict.fromkeys(terms(query)))
    if not words:
        return []
    if all(len(word) == 1 and word >= _FIRST_CJK for word in words):
        matches = _scan(store, words, namespace, conversation)
    else:
        matches = store.matching(words, namespace=namespace, conversation=conversation, limit=limit)
    scored = [
        _recalled(holder, score)
        for holder, score in zip(matches.found, bm25(matches), strict=True)
        if kind in (None, holder.kind)
    ]
    scored.sort(key=lambda found: (-found.score, -found.order, found.id))
    return scored[:k]


def _scan(store: TurnStore, characters: list[str], namespace: str, conversation: str | None) -> Matches:
    """Return what `TurnStore.matching` would return for single characters, from the newest items only.

    These are the items of the most recently written conversations; of the last of them, the newest.
    """
    if conversation is None:
        conversations = store.conversations(namespace=namespace)
    else:
        conversations = [store.conversation(conversation, namespace=namespace)]
    items: dict[tuple[Kind, str], DialogTurn | Message] = {}
    for one in conversations:
        room = MAX_SCANNED - len(items)
        if room <= 0:
            break
        with suppress(NotFound):  # deleted in the meantime
            shown: list[DialogTurn | Message] = [
                *store.turns(one.id, namespace=namespace, last=room),
                *store.messages(one.id, namespace=namespace, last=room),
            ]
            shown.sort(key=lambda item: item.order or 0)
            items |= {("turn" if isinstance(i, DialogTurn) else "message", i.id): i for i in shown[-room:]}
    found, total = [], 0
    for (kind, name), item in items.items():
        length = sum(term_counts(item).values())
        total += length
        counts = tuple(map(searchable(item).count, characters))
        if any(counts):
            place = (item.conversation_id or "", item.order or 0)
            found.append(Holder(name, kind, *place, length, counts))
    holders = tuple(sum(one.counts[n] > 0 for one in found) for n in range(len(characters)))
    return Matches(len(items), total, holders, tuple(found))


def bm25(matches: Matches) -> list[float]:
    """Return the score of each item found, in their order; above 0."""
    mean = matches.length / matches.items if matches.items else 1.0
    idf = [math.log(1 + (matches.items - n + 0.5) / (n + 0.5)) for n in matches.holders]
    return [_score(holder, idf, mean or 1.0) for holder in matches.found]


def _score(holder: Holder, idf: list[float], mean: float) -> float:
    damping = K1 * (1 - B + B * holder.length / mean)
    return sum(
        weight * count * (K1 + 1) / (count + damping)
        for weight, count in zip(idf, holder.counts, strict=True)
        if count
    )


def _recalled(holder: Holder, score: float) -> Recalled:
    return Recalled(holder.id, holder.kind, holder.conversation, holder.order, round(score, 6))
