"""The short codes of a large store: computed when it is written, with a measure of their recall.

A search reads every vector while that takes a few milliseconds: up to 200,000 of them. Beyond that, it reads
four bits for every two numbers of a row (Jégou, Douze, Schmid: Product quantization for nearest neighbor
search, 2011), which the processor looks up in its registers (André, Kermarrec, Le Scouarnec: Cache locality
is not enough, 2015), and compares exactly the rows that these put first. How many they must be is measured on
queries whose distance to their neighbours is that of real questions to the chunks that answer them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.database.columns import Columns
from rag.database.quantise import restored
from rag.ports import Shorten, Vectors

RECALL = 0.99
"""The share of the ten nearest rows that must be among those that are compared exactly, for the sampled
queries.
"""
_LEAST_EXAMINED, _MOST_EXAMINED = 500, 8_000
_SAMPLE = 256
_K = 10
_NOISE = 2.0
"""Length of the random part of a sampled query, relative to a row of length 1: a cosine of 0.45 with it, as
questions have with the best chunk.
"""
_SEED = 20_26
_BLOCK_ROWS = 1 << 14


def with_short_codes(columns: Columns, shorten: Shorten) -> tuple[Columns, dict[str, Any]]:
    """Return the columns of the short codes, and their header entry: examined, recall_at_10, sample."""
    codes, scale = columns["vector_codes"], columns["vector_scale"]
    queries = _sample(codes, scale)
    book, packed, order = shorten(codes, scale, queries, _MOST_EXAMINED)
    neighbours = _nearest(codes, scale, queries)
    place = np.full(len(codes) + 1, order.shape[1])  # the last one is for -1, no row
    depths = []
    for own, first in zip(neighbours, order, strict=True):
        place[first] = np.arange(len(first))
        depths.append(place[own])
        place[first] = order.shape[1]
    depth = np.sort(np.concatenate(depths))
    examined = max(int(depth[math.ceil(RECALL * len(depth)) - 1]) + 1, _LEAST_EXAMINED)
    found = np.searchsorted(depth, min(examined, order.shape[1])) / len(depth)
    about = {"examined": examined, "recall_at_10": round(float(found), 4), "sample": len(queries)}
    return {"short_codebook": book, "short_codes": packed}, about


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
