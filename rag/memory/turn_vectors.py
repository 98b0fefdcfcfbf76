"""The newest turns of a conversation as vectors, read once and kept as long as they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from rag.ports import Embedder, TurnStore, Vectors
from rag.searchable import searchable

NEWEST = 500
"""So many are held; what is older is found by its words."""
_CONVERSATIONS = 64
"""So many conversations are held, those last asked for."""


class TurnVectors:
    """Finds turns by meaning. Turns that are added later are read when it is next asked.

    A turn that was edited or taken back meanwhile is still proposed as it was: whoever asks reads the turn
    itself from the store before it counts.

    Args:
        store: where the turns are.
        embedder: makes the vectors.
        conversation: whose turns, by id.
        namespace: whose conversation.
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
        """The orders of the k turns nearest to a unit vector with their cosines above 0, best first.

        Equal ones: the newer first.

        Raises:
            NotFound: the conversation is gone.
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
        if not new:
            return
        vectors = self._embedder.embed([searchable(turn) for turn in new], role="passage")
        self._vectors = np.concatenate([self._vectors, vectors])[-NEWEST:]
        self._orders = [*self._orders, *(turn.order or 0 for turn in new)][-NEWEST:]


class TurnVectorCache:
    """The vectors of the conversations last asked for, in one store."""

    def __init__(self, store: TurnStore) -> None:
        self._store, self._lock = store, Lock()
        self._kept: OrderedDict[tuple[str, str, str], TurnVectors] = OrderedDict()

    def of(self, conversation: str, embedder: Embedder, *, namespace: str = "") -> TurnVectors:
        """The vectors of a conversation."""
        key = (namespace, conversation, embedder.fingerprint)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = TurnVectors(self._store, embedder, conversation, namespace=namespace)
            self._kept.move_to_end(key)
            while len(self._kept) > _CONVERSATIONS:
                self._kept.popitem(last=False)
            return self._kept[key]
