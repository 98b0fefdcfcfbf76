"""The newest turns of a conversation as vectors, read once and kept as long as they are asked for."""

from __future__ import annotations

import numpy as np

from rag.ports import Embedder, TurnStore, Vectors
from rag.records import searchable

NEWEST = 2000
"""So many are held; what is older is found by its words."""


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
        self._orders: list[int] = []
        self._vectors: Vectors = np.zeros((0, embedder.dim), np.float32)

    def nearest(self, query: Vectors, k: int) -> list[tuple[int, float]]:
        """The orders of the k turns nearest to a unit vector with their cosines above 0, best first.

        Equal ones: the newer first.

        Raises:
            NotFound: the conversation is gone.
        """
        self._catch_up()
        cosines = self._vectors @ query
        best = np.lexsort((-np.asarray(self._orders, np.int64), -cosines))[:k]
        return [(self._orders[n], float(cosines[n])) for n in best if cosines[n] > 0]

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
