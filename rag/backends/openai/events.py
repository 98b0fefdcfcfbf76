"""Reads the events of a streamed answer, or the whole reply of a server that does not stream.

The openai package's own reader ends at an event without data, which proxies send to keep a connection open,
and loses the first event after a byte order mark.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai

from rag.backends.openai.replies import event_of_ollama, is_line_of_ollama, reported_error

_DONE = "[DONE]"


def events(reply: Any) -> Iterator[Any]:
    """Yield the events of an opened stream as they arrive, and None when the server has declared its end.

    Raises:
        openai.APIError: the server reported an error.
        ValueError: an event is not JSON.
    """
    if not isinstance(reply, openai.Stream):
        yield from (reply.to_dict(warnings=False), None)
        return
    reader = _EventReader()
    for chunk in reply.response.iter_bytes():
        for event in reader.feed(chunk):
            yield event
            if event is None:
                return
    for event in reader.end():
        yield event


async def aevents(reply: Any) -> AsyncIterator[Any]:
    """Do the same in an event loop."""
    if not isinstance(reply, openai.AsyncStream):
        for event in (reply.to_dict(warnings=False), None):
            yield event
        return
    reader = _EventReader()
    async for chunk in reply.response.aiter_bytes():
        for event in reader.feed(chunk):
            yield event
            if event is None:
                return
    for event in reader.end():
        yield event


class _EventReader:
    """Splits the bytes of a reply into events. One that begins with a brace is a whole reply, or a stream of
    Ollama's own protocol, with an event on each line.
    """

    def __init__(self) -> None:
        utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._lines = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._parts: list[str] = []
        self._data: list[str] = []
        self._is_whole: bool | None = None
        self._has_lines: bool | None = None
        self._is_error = False

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the events that a piece of the reply completes; None for the declared end."""
        if self._is_whole is None and chunk.startswith(b"\x1f\x8b"):
            chunk.decode()  # compressed, though no header says so: an error
        yield from self._read(self._lines.decode(chunk))

    def end(self) -> Iterator[Any]:
        """Yield what was not complete before the reply's last byte."""
        yield from self._read(self._lines.decode(b"", final=True))
        if self._is_whole:
            if rest := "".join(self._parts).strip():
                yield _parsed(rest, is_error=False)
            yield None
        else:
            yield from self._read("\n\n")

    def _read(self, text: str) -> Iterator[Any]:
        if self._is_whole is None and (begun := text.lstrip()):
            self._is_whole = begun[0] == "{"
        if (self._is_whole and self._has_lines is False) or "\n" not in text:
            self._parts.append(text)
            return
        *lines, rest = ("".join(self._parts) + text).split("\n")
        if self._is_whole and self._has_lines is None and (first := lines[0].strip()):
            self._has_lines = is_line_of_ollama(first)
            if not self._has_lines:
                self._parts.append(text)
                return
        self._parts = [rest]
        for line in lines:
            if not self._is_whole:
                yield from self._take(line)
            elif line.strip():
                yield _parsed(line, is_error=False)

    def _take(self, line: str) -> Iterator[Any]:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._is_error = value.strip() == "error"
        elif not line:
            data, is_error = "\n".join(self._data).strip(), self._is_error
            self._data, self._is_error = [], False
            if data.startswith(_DONE):
                yield None
            elif data and not data.startswith(":"):  # a comment that a proxy has wrapped
                yield _parsed(data, is_error=is_error)


def _parsed(data: str, *, is_error: bool) -> Any:
    event = json.loads(data)
    if error := reported_error(event, is_error=is_error):
        raise error
    return event_of_ollama(event) or event
