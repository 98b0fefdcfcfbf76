"""Full text over turns and messages: a store finds who holds the words, BM25 ranks here.

The words are those of `rag.analysis`: identifiers split, CJK in pairs, so `getUserName`, "user name" and
"北京" find the same turns in the same order whatever the store (Robertson and Zaragoza 2009, with the
usual k1 and b). An index of pairs knows no single character: for "锁" alone the newest that was said is read.
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
MOST_READ = 2000
"""Turns and messages that are read through for a single character: half a second's worth."""

_FIRST_CJK = "\u3040"


@dataclass(frozen=True, slots=True)
class Recalled:
    """A turn or message that was found, by its id."""

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
    """The k best turns and messages for words, best first; equal scores: the newer first, then by id.

    Args:
        store: where they are.
        query: any text; without a word in it nothing is found. Single CJK characters alone are sought in the
            newest `MOST_READ` turns and messages only.
        namespace: whose conversations.
        conversation: only this one; None is all of the namespace.
        kind: only turns, or only messages; None is both.
        k: at least 1.
        limit: how many holders of each word are looked at, the newest.
    """
    words = list(dict.fromkeys(terms(query)))
    if not words:
        return []
    if all(len(word) == 1 and word >= _FIRST_CJK for word in words):
        matches = _read_through(store, words, namespace, conversation)
    else:
        matches = store.matching(words, namespace=namespace, conversation=conversation, limit=limit)
    scored = [
        _recalled(holder, score)
        for holder, score in zip(matches.found, bm25(matches), strict=True)
        if kind in (None, holder.kind)
    ]
    scored.sort(key=lambda found: (-found.score, -found.order, found.id))
    return scored[:k]


def _read_through(
    store: TurnStore, characters: list[str], namespace: str, conversation: str | None
) -> Matches:
    """What `TurnStore.matching` would tell of characters, wherever they stand, if there were only the newest.

    The newest are those of the conversations last written to, and of the last of these its newest.
    """
    if conversation is None:
        shown = store.conversations(namespace=namespace)
    else:
        shown = [store.conversation(conversation, namespace=namespace)]
    items: dict[tuple[Kind, str], DialogTurn | Message] = {}
    for one in shown:
        room = MOST_READ - len(items)
        if room <= 0:
            break
        with suppress(NotFound):  # deleted in the meantime
            said: list[DialogTurn | Message] = [
                *store.turns(one.id, namespace=namespace, last=room),
                *store.messages(one.id, namespace=namespace, last=room),
            ]
            said.sort(key=lambda item: item.order or 0)
            items |= {("turn" if isinstance(i, DialogTurn) else "message", i.id): i for i in said[-room:]}
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
    """The score of each turn or message found, in their order; above 0."""
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
