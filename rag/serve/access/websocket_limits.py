"""Limits for the client of a WebSocket: what it must read, and in how many parts it may send a message.

uvicorn waits without a limit for a client to take what was sent, even after its own timeout of a ping. It
answers each ping, whether or not the client reads the answers, and a message may have any number of empty
parts.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

_MAX_PARTS = 1_000


def bounded_websocket(*, within_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of WebSockets with limits.

    A client that takes less than 50 kB in this time, or not the rest after the end, is disconnected.
    """
    return type("BoundedWebSocket", (_BoundedWebSocket,), {"within_s": within_s})


class _BoundedWebSocket(WebSocketsSansIOProtocol):
    within_s: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread: asyncio.TimerHandle | None = None
        self._has_ended = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()  # what it sends may have to be answered
        self._abort_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._has_ended and not self.transport.is_closing():
            self._cancel_unread()
            if not self.read_paused:
                self.transport.resume_reading()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._has_ended = True
        self._abort_later()

    async def receive(self) -> ASGIReceiveEvent:
        event = await super().receive()
        if not self.writable.is_set():
            self.transport.pause_reading()
        return event

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < _MAX_PARTS:
            super().handle_cont(event)
        else:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many parts")
            self.handle_parser_exception()

    def _abort_later(self) -> None:
        if self._unread is None and not self.disconnected:
            self._unread = self.loop.call_later(self.within_s, self.transport.abort)

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
