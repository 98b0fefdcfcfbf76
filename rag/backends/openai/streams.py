"""Streamed answers, for threads and for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import openai

from rag.backends.openai.bounds import RequestBounds, within
from rag.backends.openai.errors import failures
from rag.backends.openai.events import aevents, events
from rag.backends.openai.replies import Tally
from rag.backends.openai.tools import CallParts
from rag.types import ToolCall


@dataclass(slots=True)
class Request:
    """One call in progress: its body, limits, number of tries, and time spent waiting.

    `streams` is whether the caller wants a stream, which is not in the body if the server refuses it. `turn`
    is closed when the call is over, so that the next one may begin.
    """

    model_type: Any
    body: dict[str, Any]
    bounds: RequestBounds
    streams: bool = False
    attempts: int = 0
    waited_s: float = 0.0
    adapted: set[str] = field(default_factory=set)
    turn: ExitStack = field(default_factory=ExitStack)


class Sender(Protocol):
    """The part of the client that a stream uses: sending, and deciding about retries."""

    host: str

    def connected(self) -> openai.AsyncOpenAI:
        """Return a connection pool for one asynchronous call."""
        ...

    def send(self, request: Request) -> Any:
        """Send, with retries; return the opened stream of events."""
        ...

    async def asend(self, connection: openai.AsyncOpenAI, request: Request) -> Any:
        """Do the same over a connection of the running event loop."""
        ...

    def pause_s(self, error: Exception, request: Request, received: int = 0) -> float:
        """Return the seconds to wait before the next try, or raise the translated error."""
        ...

    def wait(self, pause_s: float) -> None:
        """Sleep before the next try."""
        ...

    async def await_(self, pause_s: float) -> None:
        """Sleep before the next try, without blocking the event loop."""
        ...


class _Ended:
    """What is known of an answer at its end."""

    _tally: Tally

    @property
    def usage(self) -> Any:
        """Token usage as reported by the server (prompt_tokens, completion_tokens), or None."""
        return self._tally.usage

    @property
    def finish_reason(self) -> str | None:
        """The server's reason for ending the answer: "stop", "length"; None before the end."""
        return self._tally.finish_reason

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model calls, complete at the end."""
        return self._tally.parts.calls

    @property
    def refusal(self) -> str:
        """The words with which the model refuses to answer so far."""
        return self._tally.refusal

    @property
    def has_separate_thoughts(self) -> bool:
        """Whether the server has sent thoughts separately so far."""
        return self._tally.is_separate


class TextStream(_Ended, Iterator[str]):
    """Iterates over the pieces of an answer; `usage` and `finish_reason` are set at its end.

    Iterating raises ProviderError when the answer breaks off. Closing it (or leaving its `with` block)
    closes the response immediately, so that the server stops generating.
    """

    def __init__(self, client: Sender, request: Request) -> None:
        self._client, self._request = client, request
        self._tally = Tally(client.host)
        self._open(client.send(request))

    def _open(self, response: Any) -> None:
        self._response, self._events = response, events(response)
        self._tally.parts = CallParts()

    def __next__(self) -> str:
        while True:
            try:
                for event in self._events:
                    if piece := self._tally.take(event):
                        return piece
                if piece := self._tally.end(self._response):
                    return piece
            except failures() as error:
                self._close_response()
                self._reopen(error)
                continue
            except BaseException:
                self.close()
                raise
            self.close()
            raise StopIteration

    def _reopen(self, error: Exception) -> None:
        """Send again if nothing of the answer has arrived, else raise."""
        try:
            self._client.wait(self._client.pause_s(error, self._request, self._tally.characters))
            self._open(self._client.send(self._request))
        except BaseException:
            self.close()
            raise

    def _close_response(self) -> None:
        if isinstance(self._response, openai.Stream):
            self._response.close()

    def close(self) -> None:
        """Close the response. May be called repeatedly."""
        with self._request.turn:
            self._request.bounds.release()
            self._close_response()

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTextStream(_Ended, AsyncIterator[str]):
    """A `TextStream` for an event loop; `aclose` closes the response and its connection."""

    def __init__(self, client: Sender, request: Request) -> None:
        self._client, self._request = client, request
        self._tally = Tally(client.host)
        self._connection = client.connected()
        self._response: Any = None
        self._events: AsyncIterator[Any] | None = None

    async def opened(self) -> AsyncTextStream:
        """Return the stream as soon as the server has begun to answer."""
        try:
            await within(self._request.bounds, self._send())
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _send(self) -> None:
        self._response = await self._client.asend(self._connection, self._request)
        self._events = aevents(self._response)
        self._tally.parts = CallParts()

    async def __anext__(self) -> str:
        try:
            return await within(self._request.bounds, self._next(), self._tally.characters)
        except BaseException:
            await self.aclose()
            raise

    async def _next(self) -> str:
        assert self._events is not None
        while True:
            try:
                async for event in self._events:
                    if piece := self._tally.take(event):
                        return piece
                if piece := self._tally.end(self._response):
                    return piece
            except failures() as error:
                await self._close_response()
                received = self._tally.characters
                pause = await asyncio.to_thread(self._client.pause_s, error, self._request, received)
                await self._client.await_(pause)
                await self._send()
                continue
            raise StopAsyncIteration

    async def _close_response(self) -> None:
        if isinstance(self._response, openai.AsyncStream):
            await self._response.close()

    async def aclose(self) -> None:
        """Close the response and the connection. May be called repeatedly."""
        with self._request.turn:
            await self._close_response()
            await self._connection.close()
