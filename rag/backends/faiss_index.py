"""Cosine search over the memory-mapped 8-bit rows of a store: exact for small stores, with lists for large
ones.

Rows are read in place, in batches, so an index is ready at once and needs no memory. For 45,000 rows of 128
numbers numpy takes 0.7 ms. An index that is searched repeatedly caches the rows as float32 if there are not
too many, which halves the time. faiss would be as fast, but also needs a copy, and 40 ms for its import, so
exact search does not use it. The lists of a large store are computed by faiss's k-means (Lloyd's, threaded)
when the store is built; they are stored as plain arrays, so no faiss data is ever deserialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import DimensionMismatch
from rag.ports import Lists, Rows, Vectors
from rag.top_k import top_k

Cosines = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_BATCH_NUMBERS = 1 << 17
"""Numbers converted to float32 at a time: half a megabyte, which fits in the processor's cache."""


_CACHE_AFTER = 8
"""The number of searches after which the float32 rows are cached."""
_MAX_CACHED = 8 << 20
"""The maximum number of cached numbers: 32 MB, or 65,000 rows of 128."""

_SAMPLED = 40
"""Rows per centroid in the training sample; faiss recommends at least 39."""
_ROUNDS = 6
_ASSIGNED = 1 << 16
_SEED = 1


class FaissIndex:
    """Implements `rag.ports.VectorIndex` over consecutive blocks of rows."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        self._blocks = [block for block in blocks if len(block.codes)]
        self._count = sum(len(block.codes) for block in self._blocks)
        self._searches = 0
        self._wide: list[Vectors | None] | None = None

    def __len__(self) -> int:
        return self._count

    def search(
        self, queries: Vectors, k: int, *, dead: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Cosines, Numbers]:
        """Find the k nearest rows of each query; see the port."""
        living = self._count if dead is None else self._count - int(np.count_nonzero(dead))
        k = min(k, living)
        self._searches += 1
        if self._searches >= _CACHE_AFTER and self._wide is None:
            self._wide = self._widened()
        found = [self._nearest(query, k, dead) for query in queries]
        shape = (len(queries), k)
        cosines = np.asarray([near for near, _ in found], np.float32).reshape(shape)
        return cosines, np.asarray([rows for _, rows in found], np.int64).reshape(shape)

    def _nearest(self, query: Vectors, k: int, dead: npt.NDArray[np.bool_] | None) -> tuple[Cosines, Numbers]:
        cosines, numbers, first = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)], 0
        kept = self._wide or [None] * len(self._blocks)
        for block, wide in zip(self._blocks, kept, strict=True):
            if block.codes.shape[1] != len(query):
                raise DimensionMismatch(expected=int(block.codes.shape[1]), got=len(query))
            gone = None if dead is None else dead[first : first + len(block.codes)]
            near, rows = _in_block(block, wide, query, k, gone)
            cosines.append(near)
            numbers.append(rows + first)
            first += len(block.codes)
        near, rows = np.concatenate(cosines), np.concatenate(numbers)
        best = np.lexsort((rows, -near))[:k]
        return near[best], rows[best]

    def _widened(self) -> list[Vectors | None]:
        """Return the float32 rows of blocks without lists, as far as they fit; None for other blocks.

        They are transposed, which makes the product faster, as memory is read sequentially.
        """
        left, kept = _MAX_CACHED, list[Vectors | None]()
        for block in self._blocks:
            fits = block.lists is None and block.codes.size <= left
            left -= block.codes.size if fits else 0
            kept.append(np.ascontiguousarray(_widened(block.codes, block.scale).T) if fits else None)
        return kept


def gather(
    codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], lists: int
) -> tuple[Vectors, Numbers]:
    """Implements `rag.ports.Gather` with faiss's spherical k-means over a sample of the rows."""
    import faiss

    dim = codes.shape[1]
    wanted = min(len(codes), lists * _SAMPLED)
    sample = np.sort(np.random.default_rng(_SEED).choice(len(codes), wanted, replace=False))
    means = faiss.Kmeans(
        dim,
        lists,
        niter=_ROUNDS,
        spherical=True,
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=_SAMPLED,
    )
    means.train(_widened(codes[sample], scale[sample]))
    centroids = np.asarray(means.centroids, np.float32)
    number = np.empty(len(codes), np.int64)
    for first in range(0, len(codes), _ASSIGNED):
        part = slice(first, first + _ASSIGNED)
        _, nearest = means.index.search(_widened(codes[part], scale[part]), 1)
        number[part] = nearest[:, 0]
    return centroids, number


def _widened(codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]) -> Vectors:
    return codes.astype(np.float32) * scale[:, None]


def _in_block(
    block: Rows, wide: Vectors | None, query: Vectors, k: int, dead: npt.NDArray[np.bool_] | None
) -> tuple[Cosines, Numbers]:
    """Return the k nearest live rows of a block in any order, or all of them if there are fewer."""
    rows: npt.NDArray[Any] | None = None if block.lists is None else _listed(block.lists, query, dead)
    if rows is None or len(rows) < k:  # too few rows in the nearest lists
        rows = None if dead is None else np.flatnonzero(~dead)
    if wide is None:
        near = _cosines(block, query, rows)
    else:
        near = query @ wide if rows is None else (query @ wide)[rows]
    if k < len(near):
        best = top_k(near, k)
        return near[best], best if rows is None else rows[best]
    return near, np.arange(len(near)) if rows is None else rows


def _listed(lists: Lists, query: Vectors, dead: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int32]:
    """Return the live rows of the lists nearest to the query, ascending for sequential reads."""
    closeness = lists.centroids @ query
    probes = min(lists.probes, len(closeness))
    nearest = np.argpartition(-closeness, probes - 1)[:probes].tolist()
    indptr = lists.indptr
    rows = np.sort(np.concatenate([lists.rows[indptr[i] : indptr[i + 1]] for i in nearest]))
    return rows if dead is None else rows[~dead[rows]]


def _cosines(block: Rows, query: Vectors, rows: npt.NDArray[Any] | None = None) -> Cosines:
    """Return the cosines of the given rows, or of all rows."""
    dim = block.codes.shape[1]
    count = len(block.codes) if rows is None else len(rows)
    stretch = max(_BATCH_NUMBERS // max(dim, 1), 1)
    wide = np.empty((min(stretch, count), dim), np.float32)
    result = np.empty(count, np.float32)
    for first in range(0, count, stretch):
        part = slice(first, min(first + stretch, count))
        widened = wide[: part.stop - first]
        widened[...] = block.codes[part if rows is None else rows[part]]
        np.dot(widened, query, out=result[part])
    result *= block.scale if rows is None else block.scale[rows]
    return result
