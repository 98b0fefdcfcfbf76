"""The lexical leg: BM25F over the two fields of a chunk, its body and its head (path and names).

Zaragoza, Craswell, Taylor, Saria, Robertson: Microsoft Cambridge at TREC-13 (2004): field counts are
normalised by field length each, weighted, added, and only then saturated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rag.ports import ChunkIndex

Scores = npt.NDArray[np.float32]

K1 = 1.2
B_BODY = 0.6
B_HEAD = 0.3
HEAD_WEIGHT = 2.0


def idf(index: ChunkIndex, document_frequency: int) -> float:
    """log(1 + (N - df + 1/2) / (df + 1/2)), the positive form that Lucene uses."""
    rest = max(index.live_count - document_frequency, 0)
    return float(np.log1p((rest + 0.5) / (document_frequency + 0.5)))


def term_idfs(index: ChunkIndex, terms: Mapping[str, float]) -> dict[str, float]:
    """Inverse document frequency of each term."""
    return {term: idf(index, len(index.postings(term).chunks)) for term in terms}


def bm25(index: ChunkIndex, terms: Mapping[str, float]) -> Scores:
    """Score every chunk for weighted terms, shape (len(index),); 0 where no term stands.

    A term of weight 2 counts like two terms of weight 1.
    """
    scores = np.zeros(len(index), np.float32)
    if not len(index):
        return scores
    mean_body = max(float(index.length_body.mean()), 1.0)
    mean_head = max(float(index.length_head.mean()), 1.0)
    for term, weight in terms.items():
        found = index.postings(term)
        if not len(found.chunks):
            continue
        long_body = 1 - B_BODY + B_BODY * index.length_body[found.chunks] / mean_body
        long_head = 1 - B_HEAD + B_HEAD * index.length_head[found.chunks] / mean_head
        frequency = found.body / long_body + HEAD_WEIGHT * found.head / long_head
        gain = weight * idf(index, len(found.chunks)) * (K1 + 1)
        scores[found.chunks] += (gain * frequency / (K1 + frequency)).astype(np.float32)
    return scores
