"""An embedder for tests that means something: equal texts are equal, shared words bring texts nearer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from rag.analysis import terms
from rag.ports import Role, Vectors


class HashingEmbedder:
    """Each term has a random direction of its own, drawn from its hash; a text is the sum of its terms'."""

    def __init__(self, dim: int = 64) -> None:
        self._dim = dim

    @property
    def dim(self) -> int:
        """Numbers a vector has."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """Changes with the width only."""
        return f"hashing:{self._dim}"

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts; the role makes no difference."""
        rows = np.zeros((len(texts), self._dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for term in sorted(set(terms(text))):
                row += self._direction(term)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(np.divide(rows, lengths, out=rows, where=lengths > 0))

    def _direction(self, term: str) -> Vectors:
        seed = int.from_bytes(
            hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little"
        )
        return np.random.default_rng(seed).standard_normal(self._dim, dtype=np.float32)
