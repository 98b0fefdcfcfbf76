"""faiss over mapped rows: exact cosine search without a copy of the vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag.errors import DimensionMismatch
from rag.ports import Vectors


class FaissIndex:
    """Implements `rag.ports.VectorIndex` over blocks of unit rows, numbered through.

    faiss's brute-force search reads the blocks where they are (a mapped file stays mapped), so that an
    index is ready at once and costs no memory of its own.
    """

    def __init__(self, blocks: Sequence[Vectors]) -> None:
        self._blocks = [block for block in blocks if len(block)]
        self._count = sum(len(block) for block in self._blocks)

    def __len__(self) -> int:
        return self._count

    def search(self, queries: Vectors, k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the k nearest rows of each query; see the port."""
        import faiss

        cosines, rows, first = [], [], 0
        for block in self._blocks:
            if block.shape[1] != queries.shape[1]:
                raise DimensionMismatch(expected=int(block.shape[1]), got=int(queries.shape[1]))
            near, found = faiss.knn(queries, block, min(k, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
            cosines.append(near)
            rows.append(found + first)
            first += len(block)
        if not cosines:
            empty = (len(queries), 0)
            return np.zeros(empty, np.float32), np.zeros(empty, np.int64)
        all_cosines, all_rows = np.concatenate(cosines, axis=1), np.concatenate(rows, axis=1)
        best = np.lexsort((all_rows, -all_cosines))[:, :k]
        return np.take_along_axis(all_cosines, best, 1), np.take_along_axis(all_rows, best, 1)
