"""A bounded cache of vectors on disk, shared by processes: a SQLite file that may be deleted at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from rag.ports import Vectors
from rag.resources import make_private

MAX_VECTORS = 200_000
"""The oldest tenth is evicted beyond this number; 80 MB with 384 dimensions."""
_BUSY_TIMEOUT_S = 0.2


class VectorCache:
    """Unit vectors by key, with 8 bits per number.

    A file that is damaged, locked or cannot be written is treated as empty: a cache never fails a question.
    """

    def __init__(self, path: Path, dim: int, *, max_vectors: int = MAX_VECTORS) -> None:
        self._path, self._dim, self._max_vectors = path, dim, max_vectors

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Return the vectors of those keys that are stored."""
        if not self._path.exists():
            return {}
        marks = ",".join("?" * len(keys))
        try:
            with closing(self._connect()) as db:
                rows = db.execute(
                    f"SELECT key, row FROM vectors WHERE key IN ({marks})", list(keys)
                ).fetchall()
        except sqlite3.Error:
            return {}
        return {key: self._unpacked(row) for key, row in rows if len(row) == self._dim}

    def put(self, vectors: Mapping[bytes, Vectors]) -> dict[bytes, Vectors]:
        """Store vectors, and return them as `get` would; a key that is stored keeps its vector."""
        packed = {key: self._packed(vector) for key, vector in vectors.items()}
        self._write(packed)
        return {key: self._unpacked(row) for key, row in packed.items()}

    def _write(self, rows: Mapping[bytes, bytes]) -> None:
        try:
            make_private(self._path.parent)
            with closing(self._connect()) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS vectors"
                    " (number INTEGER PRIMARY KEY, key BLOB UNIQUE, row BLOB)"
                )
                db.executemany(
                    "INSERT OR IGNORE INTO vectors (key, row) VALUES (?, ?)",
                    list(rows.items()),
                )
                first, last = db.execute("SELECT min(number), max(number) FROM vectors").fetchone()
                if last - first >= self._max_vectors:
                    db.execute("DELETE FROM vectors WHERE number <= ?", [first + self._max_vectors // 10])
        except sqlite3.OperationalError:
            return  # locked, full or read-only
        except sqlite3.DatabaseError:
            self._path.unlink(missing_ok=True)
        except OSError:
            return

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S)

    def _packed(self, vector: Vectors) -> bytes:
        codes = np.rint(vector / max(float(np.abs(vector).max()), 1e-9) * 127).astype(np.int8)
        return bytes(codes)

    def _unpacked(self, row: bytes) -> Vectors:
        vector = np.frombuffer(row, np.int8).astype(np.float32)
        return vector / max(float(np.linalg.norm(vector)), 1e-9)
