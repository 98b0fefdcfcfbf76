"""Validation of the replies of OpenAI-protocol servers, which differ in details."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import ProviderBroke


def _bad_reply(host: str, what: str) -> ProviderBroke:
    message = f"{host} sent {what}; check the address, which usually ends in /v1"
    return ProviderBroke(message, provider=host, retryable=False)


def checked_completion(reply: Any, host: str) -> Any:
    """Return the completion if it is valid. Raises ProviderBroke if it is not."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
        raise _bad_reply(host, "something that is not an answer")
    return reply


def checked_embeddings(reply: Any, host: str) -> Any:
    """Return the embeddings if each has an index and a vector. Raises ProviderBroke if one does not."""
    data = getattr(reply, "data", None)
    if not isinstance(data, list) or not data:
        raise _bad_reply(host, "no embeddings")
    for place, item in enumerate(data):
        if not getattr(item, "embedding", None):
            raise _bad_reply(host, f"an empty vector for text {place + 1} of {len(data)}")
        if getattr(item, "index", None) is None:
            item.index = place  # older llama.cpp servers omit it and keep the order
    return reply


def embedding_row(value: Any) -> npt.NDArray[np.float32]:
    """Decode a vector sent as numbers or as base64 of little-endian float32 into float32 of shape (dim,).

    Raises:
        ValueError: it is in neither form.
    """
    if isinstance(value, str):
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        except binascii.Error as error:
            raise ValueError(f"a vector is not base64: {error}") from error
    row = np.asarray(value, dtype=np.float32)
    if row.ndim != 1:
        raise ValueError("a vector is not a list of numbers")
    return row


class Tally:
    """The state of a streamed answer: characters received, usage, and finish reason."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._events = 0
        self.characters = 0
        self.usage: Any = None
        self.finish_reason: str | None = None

    def take(self, event: Any) -> str:
        """Record one event and return its text; "" for events without text (role, reasoning, usage)."""
        self._events += 1
        self.usage = getattr(event, "usage", None) or self.usage
        choices = getattr(event, "choices", None)
        if not isinstance(choices, list) or not choices:
            return ""
        self.finish_reason = getattr(choices[0], "finish_reason", None) or self.finish_reason
        piece = getattr(getattr(choices[0], "delta", None), "content", None)
        if not isinstance(piece, str):
            return ""
        self.characters += len(piece)
        return piece

    def end(self, response: Any) -> None:
        """Check that the answer is complete. Raises ProviderBroke when the stream ended too early."""
        if self.finish_reason is not None or self.usage is not None:
            return
        if not self._events:
            kind = response.response.headers.get("content-type", "nothing")
            empty = kind.startswith("text/event-stream")
            what = "a stream without events" if empty else f"{kind} instead of a stream of events"
            raise _bad_reply(self._host, what)
        broke = f"the answer of {self._host} broke off after {self.characters} characters; ask again"
        raise ProviderBroke(broke, provider=self._host, retryable=True)
