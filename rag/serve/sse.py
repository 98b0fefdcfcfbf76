"""Responses that come piece by piece, and end as they should.

A stream ends when its source does, when its client goes (the source is closed at once, so that a model
stops and nothing is stored), or when the server stops (a last piece says so).
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

_COMMENT = b": working on it\n\n"

LastWords = Callable[[RagError], bytes]
T = TypeVar("T")


class ClientGone(ServeError):
    """The client has closed the connection; nobody reads this."""

    status, code = 499, "client_gone"


class Streams:
    """The streams under way, so that they can be ended together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.ending = False

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def holding(self, task: asyncio.Task[None]) -> Iterator[None]:
        """Know of a stream while it lasts."""
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def end(self) -> None:
        """End all of them, each with its last words."""
        self.ending = True
        for task in self._tasks:
            task.cancel()


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event whose data is JSON."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


class EventStream(Response):
    """A stream of bytes; by default of server-sent events.

    The response begins with the first piece: an error up to then is raised, and has a status of its own.
    One that comes later is the last piece.

    Args:
        pieces: what is sent; closed in the end, however that comes.
        streams: where the stream is held.
        last_words: an error as the last piece of this kind of stream.
        headers: more headers.
        media_type: of the stream.
        patience_s: begin after this time without a piece, by a comment, which clients of events pass over.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        streams: Streams,
        last_words: LastWords,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        patience_s: float | None = None,
    ) -> None:
        super().__init__(headers=headers, media_type=media_type or self.media_type)
        del self.headers["content-length"]
        self.headers.setdefault("cache-control", "no-store")
        self.headers.setdefault("x-accel-buffering", "no")
        self._pieces, self._streams, self._last_words = pieces, streams, last_words
        self._patience_s, self._begun = patience_s, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces until the source, the client or the server ends."""
        sending = asyncio.create_task(self._send(send))
        with self._streams.holding(sending):
            await _unless_gone(sending, receive)

    async def _send(self, send: Send) -> None:
        last = b""
        waiting = asyncio.create_task(self._begin_late(send))
        try:
            async for piece in self._pieces:
                await self._begin(send)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except RagError as error:
            if not self._begun:
                raise
            last = self._last_words(error)
        except asyncio.CancelledError:
            if not self._streams.ending:
                raise
            stopping = ShuttingDown("the server stops; ask again in a moment", retry_after_s=5)
            if not self._begun:
                raise stopping from None
            last = self._last_words(stopping)
        finally:
            waiting.cancel()
            await self._pieces.aclose()
        await self._begin(send)
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _begin(self, send: Send) -> None:
        if not self._begun:
            self._begun = True
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)

    async def _begin_late(self, send: Send) -> None:
        if self._patience_s is not None:
            await asyncio.sleep(self._patience_s)
            if not self._begun:
                await self._begin(send)
                await send({"type": "http.response.body", "body": _COMMENT, "more_body": True})


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; it is cancelled when the client goes first, and ClientGone is raised."""
    working = asyncio.create_task(work)
    await _unless_gone(working, request.receive)
    if working.cancelled():
        raise ClientGone("the client has closed the connection")
    return working.result()


async def _unless_gone(working: asyncio.Task[Any], receive: Receive) -> None:
    """Wait until the task ends, or end it when the client goes; raises what it raised."""
    gone = asyncio.create_task(_gone(receive))
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


async def _gone(receive: Receive) -> None:
    """Until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
