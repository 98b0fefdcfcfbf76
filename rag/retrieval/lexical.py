"""Lexical retrieval: BM25F over the two fields of a chunk, its body and its head (path and names).

Zaragoza, Craswell, Taylor, Saria, Robertson: Microsoft Cambridge at TREC-13 (2004): the counts of each field
are normalised by its length, weighted, added, and only then saturated.

The best chunks are found without scoring all: Turtle, Flood: Query evaluation: strategies and optimizations
(1995), MaxScore. Terms are processed from the highest to the lowest possible contribution. As soon as the
remaining terms could not lift a chunk that holds none of the terms so far into the best, only the chunks that
can still get there are looked up in the long posting lists of the common terms. The result equals that of
scoring all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.ports import ChunkIndex, Postings
from rag.top_k import find_sorted, top_k

Scores = npt.NDArray[np.float32]
Chunks = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]

K1 = 1.2
B_BODY = 0.6
B_HEAD = 0.3
HEAD_WEIGHT = 2.0

_MAX_EXHAUSTIVE_POSTINGS = 200_000
"""This many postings and chunks are all scored in a millisecond; skipping some would gain nothing."""
_MANY_CHUNKS, _FEW_OF_A_TERM = 16_384, 16
"""From 16,384 chunks on, looking each up among the sorted chunks of a term takes longer than reading all
of the term, unless these are 16 times as many.
"""
_SCORE_TOLERANCE = 1 - 1e-5
"""Sums of float32 in another order differ by less; a chunk this near to the bound is examined."""


class Rarity:
    """Inverse document frequency of terms in stores that are searched together.

    log(1 + (N - df + 1/2) / (df + 1/2)), the positive form that Lucene uses, over all chunks of all stores.
    With its own counts alone, a large store would treat a word that it seldom uses as rare, and with it
    outrank the small store that the word belongs to.
    """

    def __init__(self, indexes: Sequence[ChunkIndex]) -> None:
        self._indexes = indexes
        self._chunks = sum(index.live_count for index in indexes)
        self._known: dict[str, float] = {}

    def __call__(self, term: str) -> float:
        """Return the rarity of a term; the maximum for one that does not occur."""
        value = self._known.get(term)
        if value is None:
            found = sum(len(index.postings(term).chunks) for index in self._indexes)
            value = float(np.log1p((max(self._chunks - found, 0) + 0.5) / (found + 0.5)))
            self._known[term] = value
        return value

    def of(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the rarity of each term."""
        return {term: self(term) for term in terms}


class Bm25:
    """Weighted terms against a store. A term of weight 2 counts like two terms of weight 1.

    False when no chunk holds any of the terms.
    """

    def __init__(self, index: ChunkIndex, terms: Mapping[str, float], rarity: Rarity | None = None) -> None:
        """`rarity` is that of all stores searched together; None counts in this store alone."""
        rarity = rarity or Rarity([index])
        self._index = index
        self._rest: list[tuple[float, Postings]] = []
        for term, weight in terms.items():
            found = index.postings(term)
            if len(found.chunks) and weight > 0:
                self._rest.append((weight * rarity(term) * (K1 + 1), found))
        self._rest.sort(key=lambda pair: -pair[0])
        self._any = bool(self._rest)
        postings = sum(len(found.chunks) for _, found in self._rest)
        self._few = max(postings, len(index)) <= _MAX_EXHAUSTIVE_POSTINGS
        self._total: Scores | None = None
        """For every chunk, the sum over the terms no longer in `_rest`; None until it is needed."""

    def __bool__(self) -> bool:
        return self._any

    def scores(self, chunks: Chunks) -> Scores:
        """Return the score of each of these distinct chunks; 0 for a chunk without any of the terms."""
        if self._few:
            return self._of(chunks) if self._total is None else self._total[chunks]
        scores = np.zeros(len(chunks), np.float32) if self._total is None else self._total[chunks]
        position = self._positions(chunks) if len(chunks) > _MANY_CHUNKS and self._rest else None
        for gain, found in self._rest:
            if position is None or len(found.chunks) > _FEW_OF_A_TERM * len(chunks):
                place = np.minimum(find_sorted(found.chunks, chunks), len(found.chunks) - 1)
                there = np.flatnonzero(found.chunks[place] == chunks)
                scores[there] += self._contribution(gain, found, place[there])
            else:
                at = position[found.chunks]
                rows = np.flatnonzero(at >= 0)
                scores[at[rows]] += self._contribution(gain, found, rows)
        return scores

    def _positions(self, chunks: Chunks) -> Positions:
        """Return the position of each chunk of the store among some chunks; -1 for the others."""
        position = np.full(len(self._index), -1, np.int32)
        position[chunks] = np.arange(len(chunks), dtype=np.int32)
        return position

    def in_head(self, chunks: Chunks) -> npt.NDArray[np.bool_]:
        """Return which of these chunks may have a term in their head; the others have none."""
        if not self._few:
            return np.ones(len(chunks), np.bool_)
        headed = np.zeros(len(self._index), np.bool_)
        for _, found in self._rest:
            headed[found.chunks[found.head > 0]] = True
        return headed[chunks]

    def best(self, k: int) -> Chunks:
        """Return the k chunks with the best scores above 0, ascending; fewer when fewer have a term.

        Call it only once.
        """
        if self._few:
            self._total = self._all()
            return _top(self._total, k)
        total = self._total = np.zeros(len(self._index), np.float32)
        seen: list[npt.NDArray[np.int32]] = []
        count = 0
        left, given, bound = sum(gain for gain, _ in self._rest), 0.0, 0.0
        while self._rest and left >= bound * _SCORE_TOLERANCE:
            gain, found = self._rest[0]
            seen.append(found.chunks[total[found.chunks] == 0])
            count += len(seen[-1])
            left -= gain
            given += gain
            self._add(total)
            # No score is above what was given so far: no bound is needed until that is more than is left.
            if k < count and (given * _SCORE_TOLERANCE > left or not self._rest):
                seen = [np.concatenate(seen)]
                bound = _kth_largest(total[seen[0]], k, bound)
        known = np.concatenate([np.zeros(0, np.int32), *seen])
        candidates = np.sort(known[total[known] >= (bound - left) * _SCORE_TOLERANCE]).astype(np.int64)
        return candidates[_top(self.scores(candidates), k)]

    def _all(self) -> Scores:
        """Score all terms everywhere at once: a dozen numpy calls in all instead of a dozen per term."""
        count = len(self._index)
        if not self._rest:
            return np.zeros(count, np.float32)
        gains, found = self._together()
        total: Scores = np.bincount(found.chunks, self._contribution(gains, found), count).astype(np.float32)
        return total

    def _of(self, chunks: Chunks) -> Scores:
        """Score all terms for some chunks."""
        if not self._rest:
            return np.zeros(len(chunks), np.float32)
        gains, found = self._together()
        place = self._positions(chunks)[found.chunks]
        rows = np.flatnonzero(place >= 0)
        given = self._contribution(gains[rows], found, rows)
        total: Scores = np.bincount(place[rows], given, len(chunks)).astype(np.float32)
        return total

    def _together(self) -> tuple[Scores, Postings]:
        """Return the concatenated postings of all terms, and the gain of each."""
        columns = [np.concatenate(column) for column in zip(*(found for _, found in self._rest), strict=True)]
        gains = np.asarray([gain for gain, _ in self._rest], np.float32)
        return np.repeat(gains, [len(found.chunks) for _, found in self._rest]), Postings(*columns)

    def _add(self, total: Scores) -> None:
        """Score the next term everywhere."""
        gain, found = self._rest.pop(0)
        total[found.chunks] += self._contribution(gain, found)

    def _contribution(self, gain: float | Scores, found: Postings, rows: Chunks | None = None) -> Scores:
        """Return what a term adds to the chunks that hold it, or to those at some rows of its postings."""
        chunks, body, head = found if rows is None else (column[rows] for column in found)
        mean_body, mean_head = self._index.mean_lengths
        frequency: Scores = body.astype(np.float32) / _norm(
            self._index.length_body, chunks, B_BODY, mean_body
        )
        named = np.flatnonzero(head > 0)
        long_head = _norm(self._index.length_head, chunks[named], B_HEAD, mean_head)
        frequency[named] += np.float32(HEAD_WEIGHT) * head[named] / long_head
        result: Scores = frequency / (frequency + np.float32(K1))
        result *= np.float32(gain) if isinstance(gain, float) else gain
        return result


def _norm(lengths: npt.NDArray[np.int32], chunks: npt.NDArray[Any], b: float, mean: float) -> Scores:
    """Return the length of the field relative to the average, as far as `b` lets it count."""
    norm: Scores = lengths.take(chunks).astype(np.float32)
    norm *= np.float32(b / mean)
    norm += np.float32(1 - b)
    return norm


def _kth_largest(scores: Scores, k: int, least: float) -> float:
    """Return the k-th largest of more than k scores, which is at least `least`."""
    high = scores[scores >= np.float32(least)]
    return float(np.partition(high, len(high) - k)[len(high) - k])


def _top(scores: Scores, k: int) -> Chunks:
    """Return the positions of the k best scores above 0, ascending."""
    found = np.flatnonzero(scores > 0)
    best: Chunks = found[top_k(scores[found], k)]
    return best


def bm25(index: ChunkIndex, terms: Mapping[str, float], rarity: Rarity | None = None) -> Scores:
    """Score every chunk for weighted terms, shape (len(index),); 0 for a chunk without any of the terms."""
    return Bm25(index, terms, rarity).scores(np.arange(len(index)))
