"""Vectors of the newest turns of a conversation, computed once and cached."""

from __future__ import annotations

from collections import OrderedDict
from itertools import takewhile
from threading import Lock

import numpy as np

from rag.memory.asked import is_settled
from rag.ports import Embedder, TurnStore, Vectors
from rag.searchable import searchable

NEWEST = 500
"""The maximum number of turns with vectors; older ones are only found by words."""
_CONVERSATIONS = 64
"""The maximum number of conversations in the cache."""


class TurnVectors:
    """Finds turns by meaning. New turns are added at the next search.

    Turns that were edited or removed in the meantime are still returned with their old vectors; the caller
    reads the current turn from the store.

    Args:
        store: contains the turns.
        embedder: embeds the turns.
        conversation: its id.
        namespace: the namespace of the conversation.
    """

    def __init__(
        self, store: TurnStore, embedder: Embedder, conversation: str, *, namespace: str = ""
    ) -> None:
        self._store, self._embedder = store, embedder
        self._conversation, self._namespace = conversation, namespace
        self._lock = Lock()
        self._orders: list[int] = []
        self._vectors: Vectors = np.zeros((0, embedder.dim), np.float32)

    def nearest(self, query: Vectors, k: int) -> list[tuple[int, float]]:
        """Return the orders and cosines of the k turns nearest to a unit vector, best first, cosines above 0.

        At equal cosines the newer comes first.

        Raises:
            NotFound: the conversation was deleted.
        """
        with self._lock:
            self._catch_up()
            orders, vectors = self._orders, self._vectors
        cosines = vectors @ query
        best = np.lexsort((-np.asarray(orders, np.int64), -cosines))[:k]
        return [(orders[n], float(cosines[n])) for n in best if cosines[n] > 0]

    def _catch_up(self) -> None:
        new = self._store.turns(
            self._conversation,
            namespace=self._namespace,
            last=NEWEST,
            after=self._orders[-1] if self._orders else None,
        )
        new = list(takewhile(is_settled, new))  # the vector of a question would be without its answer
        if not new:
            return
        vectors = self._embedder.embed([searchable(turn) for turn in new], role="passage")
        self._vectors = np.concatenate([self._vectors, vectors])[-NEWEST:]
        self._orders = [*self._orders, *(turn.order or 0 for turn in new)][-NEWEST:]


class TurnVectorCache:
    """A cache of the vectors of the most recently searched conversations of a store."""

    def __init__(self, store: TurnStore) -> None:
        self._store, self._lock = store, Lock()
        self._kept: OrderedDict[tuple[str, str, str], TurnVectors] = OrderedDict()

    def of(self, conversation: str, embedder: Embedder, *, namespace: str = "") -> TurnVectors:
        """Return the vectors of a conversation."""
        key = (namespace, conversation, embedder.fingerprint)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = TurnVectors(self._store, embedder, conversation, namespace=namespace)
            self._kept.move_to_end(key)
            while len(self._kept) > _CONVERSATIONS:
                self._kept.popitem(last=False)
            return self._kept[key]
