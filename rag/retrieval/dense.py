"""Dense retrieval: the question as a vector, and the chunks nearest to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.ports import ChunkIndex, Embedder, Rows, VectorIndex, Vectors, takes_bags
from rag.retrieval.lexical import Rarity


def embed_question(embedder: Embedder, index: ChunkIndex, text: str, terms: Mapping[str, float]) -> Vectors:
    """Return the question as a unit vector, shape (dim,); zero when the embedder knows none of its words.

    An embedder of counted terms gets the terms with the statistics of the corpus; any other embedder gets the
    text.
    """
    if not takes_bags(embedder):
        return np.asarray(embedder.embed([text], role="query")[0])
    count = len(terms)
    bag = TermBags(
        vocabulary=list(terms),
        indptr=np.asarray([0, count], np.int64),
        terms=np.arange(count, dtype=np.int32),
        body=np.ones(count, np.uint16),
        head=np.zeros(count, np.uint16),
    )
    idf = np.asarray(list(Rarity([index]).of(terms).values()), np.float32)
    return np.asarray(embedder.embed_bags(bag, idf, role="query")[0])


def nearest(vectors: VectorIndex, index: ChunkIndex, query: Vectors, k: int) -> npt.NDArray[np.int64]:
    """Return the live chunks nearest to the query, best first; none for a zero query."""
    if not len(vectors) or not query.any():
        return np.zeros(0, np.int64)
    _, rows = vectors.search(query[None, :], k, dead=index.dead)
    return np.asarray(rows[0])


def cosines(index: ChunkIndex, chunks: npt.NDArray[np.int64], query: Vectors) -> npt.NDArray[np.float32]:
    """Return the cosine of each chunk with the query, in the order given."""
    if len(index.vectors) == 1:
        return _with_rows(index.vectors[0], chunks, query)
    result = np.zeros(len(chunks), np.float32)
    first = 0
    for block in index.vectors:
        inside = (chunks >= first) & (chunks < first + len(block.codes))
        result[inside] = _with_rows(block, chunks[inside] - first, query)
        first += len(block.codes)
    return result


def _with_rows(block: Rows, rows: npt.NDArray[np.int64], query: Vectors) -> npt.NDArray[np.float32]:
    # `take` copies rows of bytes five times faster than indexing.
    cosines: npt.NDArray[np.float32] = block.codes.take(rows, axis=0).astype(np.float32) @ query
    return cosines * block.scale.take(rows)


def mixed(vectors: Sequence[tuple[Vectors, float]]) -> Vectors:
    """Return the weighted sum of unit vectors, normalised to length 1 (or zero)."""
    total = np.sum([weight * vector for vector, weight in vectors], axis=0, dtype=np.float32)
    length = float(np.linalg.norm(total))
    return np.asarray(total / length if length else total, np.float32)
