"""Streaming responses: server-sent events and other streams.

A stream ends with its source, when its client disconnects (the source is closed at once), or when the server
shuts down (with an error as its last piece).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rag.errors import RagError
from rag.serve.errors import ServeError, ShuttingDown

COMMENT = b": working on it\n\n"
"""An event that clients ignore."""

ErrorEvent = Callable[[RagError], bytes]
T = TypeVar("T")


class ClientDisconnected(ServeError):
    """The client has closed the connection. No client receives this."""

    status, code = 499, "client_gone"


class Streams:
    """The open streams, which can be ended together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.ending = False

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def registered(self, task: asyncio.Task[None]) -> Iterator[None]:
        """Register a stream for the duration of the block."""
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """End all streams, each with an error."""
        self.ending = True
        for task in self._tasks:
            task.cancel()


def event(data: Any, name: str | None = None, number: int | None = None) -> bytes:
    """Return a server-sent event with JSON data; with a number, a client can continue after it."""
    head = f"id: {number}\n" if number is not None else ""
    head += f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


class EventStream(Response):
    """A streaming response, of server-sent events by default.

    The response starts with the first piece: an error before it is raised and gets its own status. A later
    error is sent as the last piece.

    Args:
        pieces: the content; always closed at the end.
        streams: the registry of open streams.
        error_event: encodes an error as the last piece of this kind of stream.
        headers: additional headers.
        media_type: of the stream.
        start_after_s: start after this time without a piece, with a comment, which SSE clients ignore.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        streams: Streams,
        error_event: ErrorEvent,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        start_after_s: float | None = None,
    ) -> None:
        super().__init__(headers=headers, media_type=media_type or self.media_type)
        del self.headers["content-length"]
        self.headers.setdefault("cache-control", "no-store")
        self.headers.setdefault("x-accel-buffering", "no")
        self._pieces, self._streams, self._error_event = pieces, streams, error_event
        self._start_after_s, self._started = start_after_s, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces until the source ends, the client disconnects, or the server shuts down."""
        sending = asyncio.create_task(self._send(send))
        with self._streams.registered(sending):
            await _until_disconnect(sending, receive)

    async def _send(self, send: Send) -> None:
        last = b""
        waiting = asyncio.create_task(self._start_late(send))
        try:
            async for piece in self._pieces:
                await self._start(send)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except RagError as error:
            if not self._started:
                raise
            last = self._error_event(error)
        except asyncio.CancelledError:
            if not self._streams.ending:
                raise
            stopping = ShuttingDown("the server is shutting down; ask again in a moment", retry_after_s=5)
            if not self._started:
                raise stopping from None
            last = self._error_event(stopping)
        finally:
            waiting.cancel()
            await self._pieces.aclose()
        await self._start(send)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)

    async def _start_late(self, send: Send) -> None:
        if self._start_after_s is not None:
            await asyncio.sleep(self._start_after_s)
            if not self._started:
                await self._start(send)
                await send({"type": "http.response.body", "body": COMMENT, "more_body": True})


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work. If the client disconnects, cancel it and raise ClientDisconnected."""
    working = asyncio.create_task(work)
    await _until_disconnect(working, request.receive)
    if working.cancelled():
        raise ClientDisconnected("the client has closed the connection")
    return working.result()


async def _until_disconnect(working: asyncio.Task[Any], receive: Receive) -> None:
    """Wait for the task, or cancel it when the client disconnects. Raises the task's exception."""
    gone = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        with suppress(asyncio.CancelledError):
            await gone


async def _disconnected(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
