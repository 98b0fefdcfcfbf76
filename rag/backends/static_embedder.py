"""Our static code embedding: a table of term vectors, trained on what developers write about code.

A text's vector is the normalized sum over its distinct terms of `(1 + log tf) * weight[term] * idf^alpha *
E[term]`. Queries and passages share the table E but have their own weights and alpha; a term in a text's head
(path, symbol) is multiplied by a learned factor. Unknown terms are mapped to hash buckets, so an unknown name
still matches itself. `data/embedding/PROVENANCE.md` describes the training data.

The table is one memory-mapped file; opening it only reads the header. An 8-byte magic number and the header's
length (uint64) are followed by the header (JSON) and its columns, each aligned to 64 bytes:

    hash      uint64 (terms,)               BLAKE2b-64 of the known terms, ascending
    idf       float32 (terms,)              typical inverse document frequency, for texts without a corpus
    query     float32 (terms + buckets,)    weight of a term in a query, times its row's scale
    passage   float32 (terms + buckets,)    the same in a passage
    table     int8 (terms + buckets, dim)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.analysis import ASCII_VERSION, TermBags, count_terms
from rag.errors import ConfigError
from rag.ports import Role, Vectors
from rag.resources import shipped

MAGIC = b"RAGTERM1"
_BATCH_ENTRIES = 16_384
"""Terms summed at a time: their vectors fit in the processor's cache."""

_MAX_KNOWN = 500_000


class StaticEmbedder:
    """Embeds texts by looking up their terms: thousands of chunks per second, without running a model."""

    def __init__(self, path: Path | None = None) -> None:
        """Open a table, by default the one of this package.

        Raises:
            ConfigError: the file is missing, truncated, or not such a table.
        """
        self._path = path or shipped("data/embedding/table.bin")
        header, self._column = _open_table(self._path)
        self._dim, self._alpha = int(header["dim"]), header["alpha"]
        self._head, self._unseen_idf = float(header["head"]), float(header["unseen_idf"])
        self._buckets = int(header["buckets"])
        self._fingerprint = f"static:{header['sha256'][:16]}"
        self._rows: dict[str, int] = {}

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """`static:` and the start of the SHA-256 of the table's columns."""
        return self._fingerprint

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts without a corpus, using the typical idf of each term.

        Vectors of `embed` and `embed_bags` can be compared, but work best with the same idf.
        """
        bags = count_terms([""] * len(texts), texts)
        rows = self._rows_of(bags.vocabulary)
        known = rows < len(self._column["idf"])
        idf = np.full(len(rows), self._unseen_idf, np.float32)
        idf[known] = self._column["idf"][rows[known]]
        return self.embed_bags(bags, idf, role=role)

    def embed_bags(self, bags: TermBags, idf: npt.NDArray[np.float32], *, role: Role) -> Vectors:
        """Embed counted terms: float32, shape (len(bags), dim), rows of length 1, or zero without terms.

        Args:
            bags: the terms of each text.
            idf: log(1 + (n - df + .5) / (df + .5)) of each vocabulary term in the corpus that is searched.
            role: whether the texts are queries or passages.
        """
        rows = self._rows_of(bags.vocabulary)
        alpha = float(self._alpha[role])
        of_term = self._column[role][rows] * np.maximum(idf, 0.05).astype(np.float32) ** alpha
        count = bags.body.astype(np.float32) + bags.head
        weight = of_term[bags.terms] * (1 + np.log(np.maximum(count, 1)))
        if role == "passage":
            weight = np.where(bags.head > 0, weight * self._head, weight)
        return _unit(self._sums(bags.indptr, rows[bags.terms], weight.astype(np.float32)))

    def knows(self, term: str) -> bool:
        """Whether the term is in the table itself, not only in a bucket."""
        return bool(self._rows_of([term])[0] < len(self._column["hash"]))

    def term_vectors(self, terms: Sequence[str]) -> Vectors:
        """Return the vectors of single terms: float32, shape (len(terms), dim), rows of length 1."""
        return _unit(self._column["table"][self._rows_of(terms)].astype(np.float32))

    def _rows_of(self, vocabulary: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the table row of each term; rows are cached."""
        unknown = [term for term in vocabulary if term not in self._rows]
        if unknown:
            if len(self._rows) + len(unknown) > _MAX_KNOWN:
                self._rows.clear()
                unknown = list(vocabulary)
            digests = b"".join(hashlib.blake2b(t.encode(), digest_size=8).digest() for t in unknown)
            self._rows.update(zip(unknown, self._rows_of_hashes(np.frombuffer(digests, "<u8")), strict=True))
        return np.fromiter((self._rows[t] for t in vocabulary), np.int64, len(vocabulary))

    def _rows_of_hashes(self, hashes: npt.NDArray[np.uint64]) -> list[int]:
        known = self._column["hash"]
        place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        bucket = len(known) + (hashes % np.uint64(self._buckets)).astype(np.int64)
        rows: list[int] = np.where(known[place] == hashes, place, bucket).tolist()
        return rows

    def _sums(
        self, indptr: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], weight: npt.NDArray[np.float32]
    ) -> Vectors:
        """Return weighted sums of table rows, one for each range of `indptr`; empty ranges give zero."""
        table = self._column["table"]
        out = np.zeros((len(indptr) - 1, self._dim), np.float32)
        filled = np.flatnonzero(np.diff(indptr))
        first = 0
        while first < len(filled):
            limit = indptr[filled[first]] + _BATCH_ENTRIES
            last = max(first + 1, int(np.searchsorted(indptr[filled + 1], limit, side="right")))
            start, end = indptr[filled[first]], indptr[filled[last - 1] + 1]
            vectors = table[rows[start:end]].astype(np.float32)
            vectors *= weight[start:end, None]
            out[filled[first:last]] = np.add.reduceat(vectors, indptr[filled[first:last]] - start, axis=0)
            first = last
        return out


def _unit(vectors: Vectors) -> Vectors:
    """Normalize the rows; zero rows stay zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(length > 0, length, 1)
    return vectors


def _open_table(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the memory-mapped columns of a table."""
    try:
        mapped = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the embedding table {path}: {error}; reinstall rag") from error
    try:
        if mapped[:8].tobytes() != MAGIC:
            raise ValueError("its magic number is wrong")
        size = int(mapped[8:16].view("<u8")[0])
        header = json.loads(mapped[16 : 16 + size].tobytes())
        if header["analyzer"] != ASCII_VERSION:
            raise ValueError(f"it was made for analyzer {header['analyzer']}, this is {ASCII_VERSION}")
        columns = {name: _column(mapped, **about) for name, about in header["columns"].items()}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"{path} is not a usable embedding table: {error}; reinstall rag") from error
    return header, columns


def _column(mapped: npt.NDArray[np.uint8], *, dtype: str, shape: list[int], offset: int) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if offset + size > len(mapped):
        raise ValueError(f"it is truncated at {len(mapped)} bytes")
    return np.asarray(mapped[offset : offset + size]).view(dtype).reshape(shape)
