"""Full-text search over turns and messages, ranked by BM25 (`rag.turns.search`).

Terms are those of `rag.analysis`: identifiers are split, CJK text is split in pairs, so `getUserName`, "user
name" and "北京" give the same ranking with every store.
An index of pairs has no single characters: for "锁" alone the newest items are scanned.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import numpy as np

from rag.analysis import terms
from rag.errors import NotFound
from rag.ports import Recalled, TurnStore
from rag.searchable import searchable, term_counts
from rag.turns.search import bm25
from rag.types import DialogTurn, Message

Kind = Literal["turn", "message"]

MAX_SCANNED = 2000
"""The maximum number of items that are scanned for a single character, which takes half a second."""

_FIRST_CJK = "\u3040"


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
    if not all(len(word) == 1 and word >= _FIRST_CJK for word in words):
        return store.ranked(
            words, namespace=namespace, conversation=conversation, kind=kind, k=k, limit=limit
        )
    scored = [found for found in _scan(store, words, namespace, conversation) if kind in (None, found.kind)]
    scored.sort(key=lambda found: (-found.score, -found.order, found.id))
    return scored[:k]


def _scan(
    store: TurnStore, characters: list[str], namespace: str, conversation: str | None
) -> list[Recalled]:
    """Return what contains one of the characters, from the newest items only.

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
    places = [
        (name, kind, item.conversation_id or "", item.order or 0) for (kind, name), item in items.items()
    ]
    lengths = np.array([sum(term_counts(item).values()) for item in items.values()], np.int64)
    counts = np.array([[*map(searchable(item).count, characters)] for item in items.values()], np.int64)
    counts = counts.reshape(len(items), len(characters))
    holders = np.count_nonzero(counts, axis=0).tolist()
    scores = bm25(len(items), int(lengths.sum()), holders, lengths, counts).tolist()
    return [Recalled(*place, score) for place, score in zip(places, scores, strict=True) if score > 0]
