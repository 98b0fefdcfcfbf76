"""Cosine search over the memory-mapped 8-bit rows of a store: exact if it is small, else with short codes.

Rows are read in place, in batches, so an index is ready at once and needs no memory. For 45,000 rows of 128
numbers numpy takes 1.5 ms. faiss would take half of that, but needs a copy, and 40 ms for its import, so
exact search does not use it. Nor is a copy as float32 cached: numpy would divide its product between threads,
and where processors are busy, waiting for these takes longer than the copy saves.

The short codes of a large store are those of faiss's `IndexPQFastScan`, which reads a million rows of 128
numbers in 2 ms. They are stored as plain arrays, in the arrangement of faiss's own files, which its newer
versions read; so no faiss data is ever deserialized. The first search copies them: 32 MB for a million rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import DimensionMismatch
from rag.ports import SHORT_BLOCK, Rows, ShortCodes, Vectors
from rag.top_k import top_k

Cosines = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_BATCH_NUMBERS = 1 << 17
"""Numbers converted to float32 at a time: half a megabyte, which fits in the processor's cache."""

_BITS = 4
_NUMBERS_PER_CODE = 2
_SAMPLED = 4096
"""Rows that the codebook is computed from: faiss reads no more for 16 entries."""
_ADDED = 1 << 16
_SEED = 1
_EXAMINED_PER_RESULT = 4
"""At least this many rows are compared exactly for each one that is wanted."""
_SHARED, _SHARED_PER_RESULT = 2, 16
"""Of several blocks together at most this many times the rows of one, or this many for each one wanted."""
_MOST_OF_SHARE = 2
"""A block gives at most this many times its share of those rows, if that reaches its stated recall."""
_MOST_EXAMINED = 4
"""Where more than one row of this many would be compared exactly, all are."""


class FaissIndex:
    """Implements `rag.ports.VectorIndex` over consecutive blocks of rows."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        self._blocks = [block for block in blocks if len(block.codes)]
        self._count = sum(len(block.codes) for block in self._blocks)
        self._short: list[Any] | None = None

    def __len__(self) -> int:
        return self._count

    def search(
        self, queries: Vectors, k: int, *, dead: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Cosines, Numbers]:
        """Find the k nearest rows of each query; see the port."""
        living = self._count if dead is None else self._count - int(np.count_nonzero(dead))
        k = min(k, living)
        if self._short is None and any(block.short for block in self._blocks):
            self._short = [block.short and _opened(block.short, len(block.codes)) for block in self._blocks]
        found = [self._nearest(query, k, dead) for query in queries]
        shape = (len(queries), k)
        cosines = np.asarray([near for near, _ in found], np.float32).reshape(shape)
        return cosines, np.asarray([rows for _, rows in found], np.int64).reshape(shape)

    def _nearest(self, query: Vectors, k: int, dead: npt.NDArray[np.bool_] | None) -> tuple[Cosines, Numbers]:
        cosines, numbers = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        firsts = np.cumsum([0, *(len(block.codes) for block in self._blocks)]).tolist()
        gone = [None if dead is None else dead[start:end] for start, end in pairwise(firsts)]
        for block in self._blocks:
            if block.codes.shape[1] != len(query):
                raise DimensionMismatch(expected=int(block.codes.shape[1]), got=len(query))
        chosen = self._by_short_codes(query, k, gone) if self._short else [None] * len(self._blocks)
        for n, block in enumerate(self._blocks):
            near, rows = _in_block(block, query, k, gone[n], chosen[n])
            cosines.append(near)
            numbers.append(rows + firsts[n])
        near, rows = np.concatenate(cosines), np.concatenate(numbers)
        best = np.lexsort((rows, -near))[:k]
        return near[best], rows[best]

    def _by_short_codes(
        self, query: Vectors, k: int, dead: Sequence[npt.NDArray[np.bool_] | None]
    ) -> list[Numbers | None]:
        """Return the live rows of each block that the short codes put first, ascending; None where all are to
        be compared.

        Of all blocks with short codes together no more rows than needed are returned: reading rows at random
        places costs more than the search by short codes.
        """
        short_rows = sum(len(block.codes) for block in self._blocks if block.short)
        examined = max((block.short.examined for block in self._blocks if block.short), default=0)
        most, least = max(_SHARED * examined, _SHARED_PER_RESULT * k), -np.inf
        share = most * _MOST_OF_SHARE / max(short_rows, 1)
        found = [
            _first_by_short_codes(block, short, query, k, gone, share) if short else None
            for block, short, gone in zip(self._blocks, self._short or (), dead, strict=True)
        ]
        near = [distances for distances, _ in filter(None, found)]
        if sum(map(len, near)) > most:
            least = np.partition(np.concatenate(near), -most)[-most]
        return [None if one is None else np.sort(one[1][one[0] >= least]) for one in found]


def shorten(
    codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], queries: Vectors, k: int
) -> tuple[Vectors, npt.NDArray[np.uint8], Numbers]:
    """Implements `rag.ports.Shorten` with faiss's product quantizer."""
    import faiss

    dim = codes.shape[1]
    per_code = 1 if dim % _NUMBERS_PER_CODE else _NUMBERS_PER_CODE
    index = _empty(dim // per_code, dim)
    index.pq.cp.seed = _SEED
    index.pq.cp.min_points_per_centroid = 1
    entries = 1 << _BITS
    random = np.random.default_rng(_SEED)
    sample = np.sort(random.choice(len(codes), min(len(codes), _SAMPLED), replace=False))
    sample = np.resize(sample, max(len(sample), entries))  # faiss wants a row for each entry
    index.train(_widened(codes[sample], scale[sample]))
    for first in range(0, len(codes), _ADDED):
        part = slice(first, first + _ADDED)
        index.add(_widened(codes[part], scale[part]))
    book = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, entries, per_code)
    packed = faiss.AlignedTable_to_array(index.codes).reshape(-1, SHORT_BLOCK, index.M2 // 2)
    _, order = index.search(queries, min(k, len(codes)))
    return book, packed, order


def _opened(short: ShortCodes, rows: int) -> Any:
    """Return faiss's index with the short codes of some rows."""
    import faiss

    entries = short.codebook.shape
    index = _empty(entries[0], entries[0] * entries[2])
    faiss.copy_array_to_vector(np.ascontiguousarray(short.codebook).ravel(), index.pq.centroids)
    faiss.copy_array_to_AlignedTable(np.ascontiguousarray(short.packed).ravel(), index.codes)
    index.ntotal, index.ntotal2 = rows, len(short.packed) * SHORT_BLOCK
    index.is_trained = True
    return index


def _empty(codes_per_row: int, dim: int) -> Any:
    import faiss

    return faiss.IndexPQFastScan(dim, codes_per_row, _BITS, faiss.METRIC_INNER_PRODUCT, SHORT_BLOCK)


def _widened(codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]) -> Vectors:
    return codes.astype(np.float32) * scale[:, None]


def _in_block(
    block: Rows,
    query: Vectors,
    k: int,
    dead: npt.NDArray[np.bool_] | None,
    rows: npt.NDArray[Any] | None,
) -> tuple[Cosines, Numbers]:
    """Return the k nearest live rows of a block in any order, or all of them if there are fewer.

    Only `rows` are compared, if they are given.
    """
    if rows is None and dead is not None:
        rows = np.flatnonzero(~dead)
    near = _cosines(block, query, rows)
    if k < len(near):
        best = top_k(near, k)
        return near[best], best if rows is None else rows[best]
    return near, np.arange(len(near)) if rows is None else rows


def _first_by_short_codes(
    block: Rows, short: Any, query: Vectors, k: int, dead: npt.NDArray[np.bool_] | None, share: float
) -> tuple[Vectors, Numbers] | None:
    """Return the live rows that the short codes put first, with approximate products; None where all are to
    be compared. `share` is the most of its rows that are taken, if that is enough for a good result.
    """
    count = len(block.codes)
    live = count if dead is None else count - int(np.count_nonzero(dead))
    wanted = max(min(_EXAMINED_PER_RESULT * k, round(share * count)), k)
    examined = max(block.short.examined if block.short else 0, wanted)
    # Dead rows have codes too, and are assumed to be as near as others.
    examined = examined * count // max(live, 1)
    if examined > count // _MOST_EXAMINED:
        return None
    near, rows = (found[0] for found in short.search(query[None], examined))
    kept = (rows >= 0) & np.isfinite(near)
    if dead is not None:
        kept[kept] = ~dead[rows[kept]]
    return (near[kept], rows[kept]) if np.count_nonzero(kept) >= min(k, live) else None


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
        # `take` copies rows of bytes five times faster than indexing.
        widened[...] = block.codes[part] if rows is None else block.codes.take(rows[part], axis=0)
        np.dot(widened, query, out=result[part])
    result *= block.scale if rows is None else block.scale[rows]
    return result
