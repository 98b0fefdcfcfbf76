"""Embeddings from any server that implements the OpenAI protocol: OpenAI, Ollama, vLLM, llama.cpp, gateways.

Texts are sent in batches, several in parallel. Replies are checked for count, order and width, and the
vectors are normalised: a skipped text, mixed widths or an empty vector raises an error.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from rag.adal import adalflow
from rag.backends.openai.client import OpenAICompatibleClient
from rag.backends.openai.endpoint import Retries, host_of
from rag.backends.openai.errors import is_too_large
from rag.errors import ProviderBroke, ProviderRejected, SettingsError
from rag.ports import Role, Vectors
from rag.settings import Settings

_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_USD_PER_MILLION_TOKENS = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}
_PREFIXES: dict[str, tuple[str, str]] = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "multilingual-e5": ("query: ", "passage: "),
    "e5-": ("query: ", "passage: "),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-large-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-base-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-small-en": ("Represent this sentence for searching relevant passages: ", ""),
}
"""The prefixes for queries and for passages that a model was trained with (from the models' own cards)."""

_BATCH_TEXTS = 128
_BATCH_CHARS = 200_000
_PARALLEL = 4
_BYTES_PER_TOKEN = 2.5
"""Close to dense code (minified scripts, markup); ordinary source has four or more."""


class OpenAIEmbedder:
    """The `Embedder` port over `/embeddings`.

    Args:
        model: the model's name on the server.
        base_url: the server's address; None is OpenAI.
        api_key: None for a server without keys.
        dim: request vectors of this width (the model must support it); None uses the model's own width.
        timeout_s: the time limit of a batch.
        max_chars: longer texts are truncated to this; 8,000 characters stay under OpenAI's limit of 8,191
            tokens in almost any language. `truncated` counts them.
        retries: when to retry a batch.

    Raises:
        SettingsError: the model is missing, or the address is invalid.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dim: int | None = None,
        timeout_s: float = 120.0,
        max_chars: int = 8_000,
        retries: Retries | None = None,
    ) -> None:
        if not model:
            raise SettingsError("no embedding model is given; set embedder = openai:MODEL (RAG_EMBEDDER)")
        self.model, self.max_chars, self.truncated = model, max_chars, 0
        variable = "RAG_EMBEDDING_API_KEY (or OPENAI_API_KEY)" if base_url else "OPENAI_API_KEY"
        self.client = OpenAICompatibleClient(base_url, api_key, timeout_s, retries, variable)
        self._asked_dim = dim
        self._dim = dim or (_DIMS.get(model) if self.client.is_openai else None)
        self._prefixes = _prefixes(model)
        self._lock = threading.Lock()
        self._max_texts = _BATCH_TEXTS

    @classmethod
    def from_settings(cls, settings: Settings, model: str) -> OpenAIEmbedder:
        """Create the embedder of the settings. Without its own address it uses the model's server.

        The model's key is sent to the model's host only; for OpenAI the environment's OPENAI_API_KEY is used.
        """
        url = settings.embedding_base_url or settings.base_url
        shared = settings.client == "openai" and host_of(url) == host_of(settings.base_url)
        key = settings.embedding_api_key or (settings.api_key if shared else None)
        return cls(model, base_url=url, api_key=key, dim=settings.embedding_dim, timeout_s=settings.timeout_s)

    @property
    def dim(self) -> int:
        """Width of the vectors. Unless configured or well known, it is requested from the server once."""
        if self._dim is None:
            self._batch(["dimension"])
        assert self._dim is not None
        return self._dim

    @property
    def fingerprint(self) -> str:
        """Host, model, width, and the prefixes' hash; requests the width from the server if it is unknown."""
        prefixes = hashlib.sha256("\0".join(self._prefixes).encode()).hexdigest()[:8]
        return f"openai:{self.client.host}:{self.model}:{self.dim}:{self.max_chars}:{prefixes}"

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts, in order: float32, shape (len(texts), dim), rows of length 1.

        Blank texts are not sent; their rows are zero. Texts longer than `max_chars` are cut and counted.

        Raises:
            ProviderError: a batch failed after its retries, or its reply was incomplete. Nothing is returned.
        """
        prefix = self._prefixes[0 if role == "query" else 1]
        filled = [place for place, text in enumerate(texts) if text.strip()]
        self.truncated += sum(len(texts[place]) > self.max_chars for place in filled)
        sent = [prefix + texts[place][: self.max_chars] for place in filled]
        batches = _batches(sent)
        if not batches:
            return np.zeros((len(texts), self.dim), np.float32)
        rows = np.concatenate(self._all(batches))
        vectors = np.zeros((len(texts), rows.shape[1]), np.float32)
        vectors[filled] = rows
        return vectors

    def estimate(self, texts: Sequence[str]) -> tuple[int, float | None]:
        """Return the tokens that embedding these passages takes (rather too many), and their price in USD.

        The price is 0.0 on this machine and its network, and None where it is unknown.
        """
        sent = [self._prefixes[1] + text[: self.max_chars] for text in texts if text.strip()]
        tokens = sum(math.ceil(len(text.encode(errors="replace")) / _BYTES_PER_TOKEN) for text in sent)
        if self.client.is_local:
            return tokens, 0.0
        price = _USD_PER_MILLION_TOKENS.get(self.model.rpartition("/")[2])
        return tokens, None if price is None else tokens * price / 1e6

    def _all(self, batches: list[list[str]]) -> list[Vectors]:
        """Return every batch's vectors, in order. The first failure cancels the batches not yet started."""
        if len(batches) == 1:
            return [self._batch(batches[0])]
        with ThreadPoolExecutor(min(_PARALLEL, len(batches)), "embed") as pool:
            futures = [pool.submit(self._batch, batch) for batch in batches]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
            failed = next((f for f in futures if f.done() and not f.cancelled() and f.exception()), None)
            return [failed.result()] if failed else [future.result() for future in futures]

    def _batch(self, texts: list[str]) -> Vectors:
        """Return the vectors of a batch; a server that refuses its size gets halves, now and later."""
        if len(texts) > self._max_texts:
            return self._halves(texts)
        try:
            return self._sent(texts)
        except ProviderRejected as error:
            if len(texts) == 1 or not (error.status == 413 or is_too_large(str(error))):
                raise
            with self._lock:
                self._max_texts = min(self._max_texts, len(texts) // 2)
            return self._halves(texts)

    def _halves(self, texts: list[str]) -> Vectors:
        half = (len(texts) + 1) // 2
        return np.concatenate([self._batch(texts[:half]), self._batch(texts[half:])])

    def _sent(self, texts: list[str]) -> Vectors:
        kind = adalflow.core.types.ModelType.EMBEDDER
        kwargs: dict[str, Any] = {"model": self.model}
        if self._asked_dim is not None:
            kwargs["dimensions"] = self._asked_dim
        body = self.client.convert_inputs_to_api_kwargs(texts, kwargs, kind)
        reply = self.client.call(body, kind)
        try:
            output = self.client.parse_embedding_response(reply)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._broke(f"vectors that cannot be read ({error})") from error
        indexes = [item.index for item in output.data]
        if indexes != list(range(len(texts))):
            raise self._broke(f"{len(indexes)} vectors for {len(texts)} texts, or twice for one")
        widths = {len(item.embedding) for item in output.data}
        if len(widths) != 1:
            raise self._broke(f"vectors of different widths ({', '.join(map(str, sorted(widths)))})")
        self._agree_on(widths.pop())
        return self._unit(np.asarray([item.embedding for item in output.data], np.float32))

    def _agree_on(self, width: int) -> None:
        with self._lock:
            if self._dim is None:
                self._dim = width
        if width != self._dim:
            asked = (
                " (embedding_dim requests it; leave it unset if the model cannot)" if self._asked_dim else ""
            )
            raise self._broke(f"vectors of {width} numbers instead of {self._dim}{asked}")

    def _unit(self, rows: Vectors) -> Vectors:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or (lengths == 0).any():
            raise self._broke("a vector that is zero or not finite")
        unit: Vectors = rows / lengths
        return unit

    def _broke(self, what: str) -> ProviderBroke:
        message = f"{self.client.host} sent {what} for the model {self.model!r}; is it an embedding model?"
        return ProviderBroke(message, provider=self.client.host, retryable=False)


def _prefixes(model: str) -> tuple[str, str]:
    name = model.lower().rpartition("/")[2]
    return next((both for start, both in _PREFIXES.items() if name.startswith(start)), ("", ""))


def _batches(texts: list[str]) -> list[list[str]]:
    """Split the texts into batches within both limits, in order."""
    batches: list[list[str]] = []
    chars = 0
    for text in texts:
        if not batches or len(batches[-1]) >= _BATCH_TEXTS or chars + len(text) > _BATCH_CHARS:
            batches.append([])
            chars = 0
        batches[-1].append(text)
        chars += len(text)
    return batches
