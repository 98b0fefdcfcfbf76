"""What a server of the OpenAI protocol sends back, read with care: many servers, many readings of it."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.errors import ProviderBroke


def _nonsense(host: str, what: str) -> ProviderBroke:
    message = f"{host} sent {what}; is the address right? It usually ends in /v1"
    return ProviderBroke(message, provider=host, retryable=False)


def checked_completion(reply: Any, host: str) -> Any:
    """Return the completion when it is one. Raises ProviderBroke for anything else."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
        raise _nonsense(host, "something that is not an answer")
    return reply


def checked_embeddings(reply: Any, host: str) -> Any:
    """Return the embeddings when every one has an index and a vector. Raises ProviderBroke otherwise."""
    data = getattr(reply, "data", None)
    if not isinstance(data, list) or not data:
        raise _nonsense(host, "no embeddings")
    for place, item in enumerate(data):
        if not getattr(item, "embedding", None):
            raise _nonsense(host, f"an empty vector for text {place + 1} of {len(data)}")
        if getattr(item, "index", None) is None:
            item.index = place  # llama.cpp's older servers leave it out; the order then counts
    return reply


def embedding_row(value: Any) -> npt.NDArray[np.float32]:
    """A vector sent as numbers or as base64 of little-endian float32, as float32 of shape (dim,).

    Raises:
        ValueError: it is neither.
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
    """What has come of a streamed answer: characters, usage, and why it ended."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._events = 0
        self.characters = 0
        self.usage: Any = None
        self.finish_reason: str | None = None

    def take(self, event: Any) -> str:
        """Note one event and return its text, "" for those without: roles, reasoning, usage."""
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
        """Check that the answer is whole. Raises ProviderBroke when the stream just stopped."""
        if self.finish_reason is not None or self.usage is not None:
            return
        if not self._events:
            kind = response.response.headers.get("content-type", "nothing")
            empty = kind.startswith("text/event-stream")
            said = "a stream without events" if empty else f"{kind} instead of a stream of events"
            raise _nonsense(self._host, said)
        broke = f"the answer of {self._host} broke off after {self.characters} characters; ask again"
        raise ProviderBroke(broke, provider=self._host, retryable=True)
