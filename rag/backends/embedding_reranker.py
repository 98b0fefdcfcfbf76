"""An embedding model as second stage of the search, with the student's word matches.

A score is `COSINE_WEIGHT` times the cosine of question and hit, and the score of the student.

A vector takes long (MiniLM's about 40 CPU-ms), so those of chunks are kept on disk by a hash of their text.
What a question lacks is computed on one background thread, newest question first, best hit first. A question
waits at most `wait_s`; vectors that come later serve the next question.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.backends.student_reranker import StudentReranker
from rag.ports import Embedder, Vectors
from rag.resources import make_private
from rag.types import Hit

WAIT_S = 1.0
"""How long a question waits for vectors, with the time to load the model."""
COSINE_WEIGHT = 0.7
_BATCH = 8
_MAX_CHARS = 4_000
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


class EmbeddingReranker:
    """Scores from an embedder's vectors and the student, for the hits whose vectors are ready in time."""

    def __init__(
        self,
        open_embedder: Callable[[], Embedder],
        fingerprint: str,
        cache: Path,
        *,
        together: bool = True,
        wait_s: float = WAIT_S,
    ) -> None:
        """Prepare; the model is opened with the first question.

        Args:
            open_embedder: opens the model.
            fingerprint: the model and its version; vectors of another one are not used.
            cache: the file for the vectors.
            together: embed several passages in one run.
            wait_s: the longest time that `scores` waits.
        """
        self._student = StudentReranker()
        self._open, self._model_fingerprint = open_embedder, fingerprint
        self._person = hashlib.blake2b(fingerprint.encode(), digest_size=16).digest()
        self._cache, self._together, self._wait_s = VectorCache(cache), together, wait_s
        self._jobs: list[_Job] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="second-stage")

    @property
    def fingerprint(self) -> str:
        """That of the model, and of the student."""
        return f"{self._model_fingerprint}:{self._student.fingerprint}"

    def scores(
        self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]
    ) -> npt.NDArray[np.float32]:
        """Return the scores; NaN for a hit whose vector is not ready after `wait_s`.

        Raises:
            ConfigError: the model's files have the wrong checksum.
            ProviderError: the model's server failed within that time.
        """
        texts = [_passage(hit) for hit in hits]
        keys = [
            hashlib.blake2b(text.encode(), digest_size=16, person=self._person).digest() for text in texts
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
                if key in ready and ready[key].shape == job.query.shape:
                    cosine = max(float(ready[key] @ job.query), 0.0)
                    result[place] = COSINE_WEIGHT * cosine + by_words[place]
        return result

    @cached_property
    def _model(self) -> Embedder:
        return self._open()

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
            runs = [batch] if self._together else [[key] for key in batch]
            for run in runs:
                rows = self._model.embed([job.texts[key] for key in run], role="passage")
                job.rows.update(self._cache.put(dict(zip(run, rows, strict=True))))
        return len(job.rows) == len(job.texts)


def _passage(hit: Hit) -> str:
    """Return what is embedded of a hit: its path and name, then its text."""
    name = f"{hit.scope}.{hit.symbol}" if hit.scope else hit.symbol
    return _encodable(f"{hit.path} {name}\n{hit.text}"[:_MAX_CHARS])


def _encodable(text: str) -> str:
    """Return the text with its unpaired surrogates replaced."""
    return text.encode("utf-8", "replace").decode()


class VectorCache:
    """A bounded cache of unit vectors on disk, with 8 bits per number: a SQLite file shared by processes.

    A file that is damaged, locked or cannot be written is treated as empty: a cache never fails a question.
    """

    def __init__(self, path: Path, *, max_vectors: int = MAX_VECTORS) -> None:
        self._path, self._max_vectors = path, max_vectors

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
        return {key: self._unpacked(row) for key, row in rows}

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
