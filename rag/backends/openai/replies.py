"""Validation of the replies of OpenAI-protocol servers, which differ in details."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import openai

from rag.backends.openai.errors import server_words
from rag.backends.openai.tools import CallParts
from rag.errors import ProviderBroke
from rag.types import FinishReason

_NO_REQUEST: Any = None
"""An error that a reply contains needs none for its message."""


def _bad_reply(host: str, what: str) -> ProviderBroke:
    message = f"{host} sent {what}; check the address, which usually ends in /v1"
    return ProviderBroke(message, provider=host, retryable=False)


def reported_error(reply: Any, *, is_error: bool = False) -> openai.APIError | None:
    """Return the error that a reply contains instead of an answer, as some services send with status 200."""
    reply = reply[0] if isinstance(reply, list) and reply else reply
    if not isinstance(reply, Mapping):
        return None
    error = reply.get("error")
    if not error and (is_error or not ({"choices", "data", "id"} & set(reply))) and server_words(reply):
        error = reply
    return openai.APIError(server_words(error), _NO_REQUEST, body=error) if error else None


def checked_completion(reply: Any, host: str) -> Any:
    """Return the completion if it is valid. Raises ProviderBroke if it is not, APIError if it is an error."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
        own = event_of_ollama(reply.to_dict(warnings=False)) if hasattr(reply, "to_dict") else None
        if own is not None:
            (choice,) = own["choices"]
            said = SimpleNamespace(message=SimpleNamespace(content=choice["delta"].get("content")))
            return SimpleNamespace(choices=[said], usage=None, stop_reason=choice["finish_reason"])
        raise _error_in(reply) or _bad_reply(host, "something that is not an answer")
    return reply


def is_line_of_ollama(line: str) -> bool:
    """Return whether a line of JSON is an event of Ollama's own protocol, or the error that ends it."""
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return event_of_ollama(event) is not None or (isinstance(event, Mapping) and set(event) == {"error"})


def event_of_ollama(event: Any) -> dict[str, Any] | None:
    """Return an event, or a whole reply, of Ollama's own protocol as an event of OpenAI's; else None."""
    said = event.get("message") if isinstance(event, Mapping) and "choices" not in event else None
    if not isinstance(said, Mapping) or not isinstance(event.get("done"), bool):
        return None
    reason = (event.get("done_reason") or "stop") if event["done"] else None
    found: dict[str, Any] = {"choices": [{"index": 0, "delta": dict(said), "finish_reason": reason}]}
    counts = event.get("prompt_eval_count"), event.get("eval_count")
    if all(isinstance(count, int) for count in counts):
        found["usage"] = dict(zip(("prompt_tokens", "completion_tokens"), counts, strict=True))
    return found


def _error_in(reply: Any) -> openai.APIError | None:
    return reported_error(reply.to_dict(warnings=False) if hasattr(reply, "to_dict") else reply)


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, a part, or a list of parts, of which those with
    thoughts are left out. Halves of a character become one; single halves, which JSON cannot carry on, are
    replaced.
    """
    content = [content] if isinstance(content, Mapping) else content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping) and part.get("type") in _TEXTS]
        texts = (part.get("text") for part in parts if not part.get("thought"))
        content = "".join(text for text in texts if isinstance(text, str))
    return joined_surrogates(content) if isinstance(content, str) else ""


_TEXTS = (None, "text", "output_text")
"""The types of a message's parts that are its text, and not thoughts."""
_THINKERS = ("thinking", "thought", "reasoning")
"""The roles of messages that are thoughts."""


def _is_thought(said: Mapping[str, Any]) -> bool:
    """Return whether a message is marked as thoughts: by a field of its own, or as Gemini marks its own."""
    extra = said.get("extra_content")
    google = extra.get("google") if isinstance(extra, Mapping) else None
    return bool(said.get("thought")) or (isinstance(google, Mapping) and bool(google.get("thought")))


def joined_surrogates(text: str) -> str:
    """Return the text with each pair of surrogates as one character; single ones are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def checked_embeddings(reply: Any, host: str) -> Any:
    """Return the embeddings if each has an index and a vector. Raises ProviderBroke or APIError if not."""
    data = getattr(reply, "data", None)
    if not isinstance(data, list) or not data:
        raise _error_in(reply) or _bad_reply(host, "no embeddings")
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


_ENDS: Mapping[str, FinishReason] = {
    **dict.fromkeys(
        ("", "stop", "eos", "eos_token", "end_turn", "end", "stop_sequence", "completed"), "stop"
    ),
    **dict.fromkeys(("complete", "done", "tool_calls", "tool_use", "function_call", "null", "none"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_length", "max_output_tokens"), "length"),
}


def kind_of_end(reason: str | None) -> FinishReason:
    """Return why an answer ended: "interrupted" for all reasons but its own end or a limit of tokens."""
    return _ENDS.get((reason or "").lower(), "interrupted")


def reason_of_end(reply: Any) -> str | None:
    """Return the server's reason for ending an answer: of one of our streams, or of a whole reply."""
    choices = getattr(reply, "choices", None)
    first = choices[0] if isinstance(choices, list) and choices else reply
    reason = getattr(first, "finish_reason", None) or getattr(reply, "stop_reason", None)
    return reason[:_MAX_REASON_CHARS] if isinstance(reason, str) else None


_MAX_REASON_CHARS = 60


def refusal_of(reply: Any) -> str:
    """Return the words with which a model refuses to answer, "" for none: of a stream or a whole reply."""
    choices = getattr(reply, "choices", None)
    said = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else reply
    words = _refusal_in(getattr(said, "refusal", None), getattr(said, "content", None))
    words = "".join(char for char in " ".join(words.split()) if char.isprintable())
    return words if len(words) <= _MAX_REFUSAL_CHARS else words[:_MAX_REFUSAL_CHARS] + "…"


_MAX_REFUSAL_CHARS = 300


def _refusal_in(refusal: Any, content: Any) -> str:
    """Return a refusal in the field of that name, or in parts of the content."""
    parts = content if isinstance(content, list) else ()
    found = [refusal, *(part.get("refusal") for part in parts if isinstance(part, Mapping))]
    return "".join(joined_surrogates(words) for words in found if isinstance(words, str))


class Tally:
    """The state of a streamed answer: characters received, tool calls, refusal, usage, and finish reason.

    `is_separate` is set when the server sends thoughts separately.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._events = 0
        self._half = ""
        self._has_ended = False
        self._role = ""
        self.characters = 0
        self.usage: Any = None
        self.finish_reason: str | None = None
        self.is_separate = False
        self.refusal = ""
        self.parts = CallParts()

    def take(self, event: Any) -> str:
        """Record one event, None for the declared end; return its text, "" for events without text."""
        if event is None:
            self._has_ended = True
            return self._counted("", is_last=True)
        self._events += 1
        if not isinstance(event, Mapping):
            return ""
        usage = event.get("usage")
        self.usage = SimpleNamespace(**usage) if isinstance(usage, dict) and usage else self.usage
        choices = event.get("choices")
        every = [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
        choice = next((one for one in every if not one.get("index")), None)  # the others are other answers
        if choice is None:
            return ""
        reason = choice.get("finish_reason")
        self.finish_reason = reason if reason and isinstance(reason, str) else self.finish_reason
        for name in ("delta", "message"):  # some servers send the whole message, others send it again
            said = choice.get(name)
            if isinstance(said, Mapping) and not (name == "message" and self.has_begun):
                self.parts.add(said.get("tool_calls"))
                self._role = str(said.get("role") or self._role)
                is_thought = self._role in _THINKERS or _is_thought(said)
                self.is_separate |= is_thought or any(said.get(field) for field in _SEPARATE)
                content = None if is_thought else said.get("content")
                self.refusal += _refusal_in(said.get("refusal"), content)
                if content:
                    return self._counted(content, is_last=False)
        return ""

    @property
    def has_begun(self) -> bool:
        """Whether a part of the reply has arrived: text, a refusal, or a tool call."""
        return bool(self.characters or self.refusal or self.parts.calls)

    def _counted(self, content: Any, *, is_last: bool) -> str:
        """Return the text; the first half of a character waits for the second."""
        if isinstance(content, str):
            content, self._half = self._half + content, ""
            if not is_last and "\ud800" <= content[-1:] <= "\udbff":
                content, self._half = content[:-1], content[-1]
        text = text_of(content)
        self.characters += len(text)
        return text

    def end(self, response: Any) -> str:
        """Check that the answer is complete; return the rest of its text.

        Raises:
            ProviderBroke: the stream ended too early.
        """
        if self.finish_reason is not None or self.usage is not None or (self._has_ended and self._events):
            return self._counted("", is_last=True)
        if not self._events:
            kind = response.response.headers.get("content-type", "nothing")
            empty = kind.startswith("text/event-stream")
            what = "a stream without events" if empty else f"{kind[:100]} instead of a stream of events"
            raise _bad_reply(self._host, what)
        broke = f"the answer of {self._host} broke off after {self.characters} characters; ask again"
        raise ProviderBroke(broke, provider=self._host, retryable=True)


_SEPARATE = "reasoning_content", "reasoning", "thinking"
"""The fields of a message for thoughts."""
