"""The inverted lists of a large store: built when it is written, with a measure of their recall.

A search reads every vector while that takes a few milliseconds: up to 200,000 of them. Beyond that, the rows
are clustered around 3 sqrt(n) centroids (by the `Gather` that the service passes in), and a search reads only
the lists nearest to its query: Jégou, Douze, Schmid: Product quantization for nearest neighbor search (2011),
the inverted file, without the product quantisation. The number of lists to read is measured on queries whose
distance to their neighbours is that of real questions to the chunks that answer them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.database.columns import Columns
from rag.database.quantise import restored
from rag.ports import Gather, Vectors

RECALL = 0.98
"""The share of the ten nearest rows that a search by lists must find for the sampled queries; real questions,
some of which are farther off, find up to .01 less.
"""
_SAMPLE = 256
_K = 10
_NOISE = 2.0
"""Length of the random part of a sampled query, relative to a row of length 1: a cosine of 0.45 with it, as
questions have with the best chunk.
"""
_SEED = 20_26
_BLOCK_ROWS = 1 << 14


def with_lists(columns: Columns, gather: Gather) -> tuple[Columns, dict[str, Any]]:
    """Return the columns of the lists, and their header entry: lists, probes, recall_at_10, sample."""
    codes, scale = columns["vector_codes"], columns["vector_scale"]
    centroids, number = gather(codes, scale, min(3 * math.isqrt(len(codes)), len(codes)))
    order = np.argsort(number, kind="stable").astype(np.int32)
    sizes = np.bincount(number, minlength=len(centroids))
    queries = _sample(codes, scale)
    neighbours = _nearest(codes, scale, queries)
    closer = np.argsort(np.argsort(-(queries @ centroids.T), axis=1), axis=1)
    depth = np.sort(np.take_along_axis(closer, number[neighbours], axis=1).ravel())
    probes = int(depth[math.ceil(RECALL * len(depth)) - 1]) + 1
    found = np.searchsorted(depth, probes) / len(depth)
    made = {
        "list_centroids": np.ascontiguousarray(centroids, np.float32),
        "list_indptr": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
        "list_rows": order,
    }
    about = {"lists": len(centroids), "probes": probes, "recall_at_10": round(float(found), 4)}
    return made, about | {"sample": len(queries)}


def _sample(codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32]) -> Vectors:
    """Return random rows with noise, so that their distance to the row is that of a question; unit rows."""
    random = np.random.default_rng(_SEED)
    drawn = random.choice(len(codes), min(_SAMPLE, len(codes)), replace=False)
    noise = random.standard_normal((len(drawn), codes.shape[1]), np.float32)
    queries = restored(codes[drawn], scale[drawn]) + noise * np.float32(_NOISE / math.sqrt(codes.shape[1]))
    unit: Vectors = queries / np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-9)
    return unit


def _nearest(
    codes: npt.NDArray[np.int8], scale: npt.NDArray[np.float32], queries: Vectors
) -> npt.NDArray[np.int64]:
    """Return the ten nearest rows of each query by exact search, shape (queries, at most 10), unordered."""
    best = np.zeros((len(queries), 0), np.float32)
    rows = np.zeros((len(queries), 0), np.int64)
    for first in range(0, len(codes), _BLOCK_ROWS):
        block = restored(codes[first : first + _BLOCK_ROWS], scale[first : first + _BLOCK_ROWS])
        numbers = np.broadcast_to(np.arange(first, first + len(block)), (len(queries), len(block)))
        best = np.concatenate([best, queries @ block.T], axis=1)
        rows = np.concatenate([rows, numbers], axis=1)
        if best.shape[1] > _K:
            top = np.argpartition(-best, _K, axis=1)[:, :_K]
            best, rows = np.take_along_axis(best, top, 1), np.take_along_axis(rows, top, 1)
    return rows
