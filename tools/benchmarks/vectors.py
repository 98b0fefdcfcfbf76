"""Embedders to set beside ours: WordLlama's table pooled by idf, and MiniLM with its vectors kept on disk."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag.backends.minilm_embedder import MiniLmEmbedder
from rag.errors import BackendMissing
from rag.ports import Role, Vectors
from tools.benchmarks.bench import CHECKOUT, Bench, NotMeasured

_WHEEL = "wordllama==0.4.0.post1"
_BATCH = 256


class WordLlamaEmbedder:
    """WordLlama as an `Embedder`; `fit` it to the corpus first."""

    dim, fingerprint = 256, _WHEEL

    def __init__(self, wheel: Path) -> None:
        self._model = _trained_beside("wordllama").WordLlama(wheel)

    def fit(self, texts: Sequence[str]) -> None:
        """Take the statistics of a corpus: idf and mean vector."""
        self._model.fit(texts)

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Unit rows."""
        rows: Vectors = self._model.vectors(texts)
        return rows


def _trained_beside(name: str) -> Any:
    """A module of the training scripts, which are no package."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "tools" / "train" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NotMeasured(f"{name}: {error}; `pip install '.[minilm]'` has it") from error
    return module


def wordllama(bench: Bench) -> WordLlamaEmbedder:
    """WordLlama, its wheel downloaded when it is not there.

    Raises:
        NotMeasured: it cannot be had.
    """
    folder = bench.peers / "wheels"
    if not any(folder.glob("wordllama-*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), _WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotMeasured(f"WordLlama ({_WHEEL} cannot be had: {done.stderr.strip()[-300:]})")
    return WordLlamaEmbedder(next(folder.glob("wordllama-*.whl")))


class KeptMiniLm:
    """MiniLM whose vectors of passages are kept in a file, since a second costs it eight of them.

    Attributes:
        cpu_s: processor time of all passages in the file.
    """

    def __init__(self, file: Path) -> None:
        """Open it.

        Raises:
            NotMeasured: the extra `minilm` is not installed.
        """
        try:
            self._model = MiniLmEmbedder()
        except BackendMissing as error:
            raise NotMeasured(str(error)) from error
        self._file, self.dim, self.fingerprint = file, self._model.dim, self._model.fingerprint
        self._known: dict[int, Vectors] = {}
        self.cpu_s = 0.0
        if file.is_file():
            with np.load(file) as kept:
                vectors = kept["vectors"].astype(np.float32)
                self._known = dict(zip(kept["names"].tolist(), vectors, strict=True))
                self.cpu_s = float(kept["cpu_s"])

    @property
    def per_cpu_s(self) -> float:
        """Passages embedded in a second of processor time."""
        return len(self._known) / self.cpu_s if self.cpu_s else float("nan")

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Unit rows, in the order of the texts."""
        if role == "query":
            return self._model.embed(texts, role=role)
        names = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        missing = {name: text for name, text in zip(names, texts, strict=True) if name not in self._known}
        order = sorted(missing, key=lambda name: len(missing[name]))
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            began = time.process_time()
            rows = self._model.embed([missing[name] for name in batch], role=role)
            self.cpu_s += time.process_time() - began
            self._known.update(zip(batch, rows, strict=True))
            self._keep()
            sys.stderr.write(f"minilm: {first + len(batch)}/{len(order)}\n")
        return np.stack([self._known[name] for name in names])

    def _keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part.npz")
        names = np.fromiter(self._known, np.uint64, len(self._known))
        vectors = np.stack(list(self._known.values())).astype(np.float16)
        np.savez(part, names=names, vectors=vectors, cpu_s=self.cpu_s)
        part.replace(self._file)
