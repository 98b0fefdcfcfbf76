"""The lexical leg: BM25F over the two fields of a chunk, its body and its head (path and names).

Zaragoza, Craswell, Taylor, Saria, Robertson: Microsoft Cambridge at TREC-13 (2004): field counts are
normalised by field length each, weighted, added, and only then saturated.

The best chunks are found without scoring all: Turtle, Flood: Query evaluation: strategies and optimizations
(1995), MaxScore. Terms are taken from the one that can give most to the one that can give least; as soon as
what is left could not lift a chunk without any of the terms so far among the best, only the chunks that
still could be among them are looked up in the long lists of the common terms. The result is that of
scoring all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.ports import ChunkIndex, Postings

Scores = npt.NDArray[np.float32]
Chunks = npt.NDArray[np.int64]

K1 = 1.2
B_BODY = 0.6
B_HEAD = 0.3
HEAD_WEIGHT = 2.0

_FEW_POSTINGS = 200_000
"""So many are all scored in a millisecond, and there is nothing to gain by leaving some out."""
_NEARLY = 1 - 1e-5
"""Sums of float32 in another order differ by less; a chunk so near to the bound is looked at."""


def idf(index: ChunkIndex, document_frequency: int) -> float:
    """log(1 + (N - df + 1/2) / (df + 1/2)), the positive form that Lucene uses."""
    rest = max(index.live_count - document_frequency, 0)
    return float(np.log1p((rest + 0.5) / (document_frequency + 0.5)))


def term_idfs(index: ChunkIndex, terms: Mapping[str, float]) -> dict[str, float]:
    """Inverse document frequency of each term."""
    return {term: idf(index, len(index.postings(term).chunks)) for term in terms}


class Bm25:
    """Weighted terms against a store. A term of weight 2 counts like two terms of weight 1.

    False when no chunk holds any of the terms.
    """

    def __init__(self, index: ChunkIndex, terms: Mapping[str, float]) -> None:
        self._index = index
        self._found: list[tuple[float, Postings]] = []
        for term, weight in terms.items():
            found = index.postings(term)
            if len(found.chunks) and weight > 0:
                self._found.append((weight * idf(index, len(found.chunks)) * (K1 + 1), found))
        self._found.sort(key=lambda pair: -pair[0])
        self._few = sum(len(found.chunks) for _, found in self._found) <= _FEW_POSTINGS

    def __bool__(self) -> bool:
        return bool(self._found)

    def scores(self, chunks: Chunks) -> Scores:
        """The score of each of these chunks; 0 where no term stands."""
        if self._few:
            return self._all[chunks]
        total = np.zeros(len(chunks), np.float32)
        for gain, found in self._found:
            place = np.minimum(np.searchsorted(found.chunks, chunks), len(found.chunks) - 1)
            there = np.flatnonzero(found.chunks[place] == chunks)
            total[there] += self._contribution(gain, found, place[there])
        return total

    def best(self, k: int) -> Chunks:
        """The k chunks with the best scores above 0, ascending; fewer when fewer have a term."""
        if self._few:
            return _top(self._all, k)
        total = np.zeros(len(self._index), np.float32)
        seen = np.zeros(0, np.int32)
        left, bound = sum(gain for gain, _ in self._found), 0.0
        for gain, found in self._found:
            if left < bound * _NEARLY:
                break
            new = found.chunks[total[found.chunks] == 0]
            total[found.chunks] += self._contribution(gain, found)
            seen = np.concatenate([seen, new])
            left -= gain
            if k < len(seen):
                bound = float(np.partition(total[seen], len(seen) - k)[len(seen) - k])
        candidates = np.sort(seen[total[seen] >= (bound - left) * _NEARLY]).astype(np.int64)
        return candidates[_top(self.scores(candidates), k)]

    @cached_property
    def _all(self) -> Scores:
        total = np.zeros(len(self._index), np.float32)
        for gain, found in self._found:
            total[found.chunks] += self._contribution(gain, found)
        return total

    def _contribution(self, gain: float, found: Postings, rows: Chunks | None = None) -> Scores:
        """What a term gives to the chunks that hold it, or to those at some rows of its postings."""
        chunks, body, head = found if rows is None else (column[rows] for column in found)
        mean_body, mean_head = self._index.mean_lengths
        frequency: Scores = body.astype(np.float32) / _norm(
            self._index.length_body, chunks, B_BODY, mean_body
        )
        named = np.flatnonzero(head)
        long_head = _norm(self._index.length_head, chunks[named], B_HEAD, mean_head)
        frequency[named] += np.float32(HEAD_WEIGHT) * head[named] / long_head
        result: Scores = frequency / (frequency + np.float32(K1)) * np.float32(gain)
        return result


def _norm(lengths: npt.NDArray[np.int32], chunks: npt.NDArray[Any], b: float, mean: float) -> Scores:
    """How long the field is beside the average, as far as `b` lets it count."""
    norm: Scores = lengths[chunks].astype(np.float32)
    norm *= np.float32(b / mean)
    norm += np.float32(1 - b)
    return norm


def _top(scores: Scores, k: int) -> Chunks:
    """The positions of the k best scores above 0, ascending."""
    best = np.argpartition(-scores, k - 1)[:k] if k < len(scores) else np.arange(len(scores))
    return np.sort(best[scores[best] > 0])


def bm25(index: ChunkIndex, terms: Mapping[str, float]) -> Scores:
    """Score every chunk for weighted terms, shape (len(index),); 0 where no term stands."""
    return Bm25(index, terms).scores(np.arange(len(index)))
