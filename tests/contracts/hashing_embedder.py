"""A deterministic embedder for tests: equal texts have equal vectors, shared words make them similar."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rag.analysis import terms
from rag.ports import Role, Vectors


class HashingEmbedder:
    """Each term has a random direction, seeded by its hash; a text's vector is the sum of its terms."""

    def __init__(self, dim: int = 64) -> None:
        self._dim = dim

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """An id that depends only on the width."""
        return f"hashing:{self._dim}"

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts; the role has no effect."""
        rows = np.zeros((len(texts), self._dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for term in sorted(set(terms(text))):
                row += _direction(term, self._dim)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(np.divide(rows, lengths, out=rows, where=lengths > 0))


@lru_cache(maxsize=1 << 16)
def _direction(term: str, dim: int) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).standard_normal(dim, dtype=np.float32)
