"""Size and time limits for the head of a request, and a time limit for a client that does not read.

The middleware limits the body. Before the head is complete the caller is unknown, and uvicorn waits for it
without a limit: a client without a key could hold a connection, or memory, by never completing it. It also
waits without a limit for a client to take a response.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = b"431 Request Header Fields Too Large"
_HEADER_OVERHEAD = len(b": \r\n")
_TOO_SLOW = b"408 Request Timeout"
_INVALID = b"400 Bad Request"

_access_log = logging.getLogger("rag.serve.access")


def bounded(*, max_bytes: int, within_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with limits for the head of a request: its size and arrival time.

    A client that takes less than 50 kB of a response in the same time is disconnected.
    """
    return type("Bounded", (_Bounded,), {"max_bytes": max_bytes, "within_s": within_s})


class _Bounded(HttpToolsProtocol):
    max_bytes: int
    within_s: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._is_too_large = False
        self._timeout: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        self._cancel_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._abort_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_unread()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():  # when the client has taken the rest
            self._abort_later()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    def _abort_later(self) -> None:
        if self._unread is None:
            self._unread = asyncio.get_running_loop().call_later(self.within_s, self.transport.abort)

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        # The end of a head begins a cycle; a connection that became a WebSocket has left `connections`.
        answers = self.cycle is not None and not self.cycle.response_complete
        if answers or self.cycle is not before or self not in self.connections:
            self._cancel_timeout()
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.max_bytes:
            self._refuse(_TOO_LARGE)
        elif self._timeout is None:
            self._start_timeout()

    def on_message_begin(self) -> None:
        self._parsed_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _HEADER_OVERHEAD)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        """Count parsed bytes: a head that arrives at once is parsed before `data_received` counts it."""
        self._parsed_bytes += size
        if self._parsed_bytes > self.max_bytes:
            self._is_too_large = True
            raise ValueError("the head is too large")  # stops the parser, which replaces the error

    def send_400_response(self, msg: str) -> None:
        self._refuse(_TOO_LARGE if self._is_too_large else _INVALID)

    def _start_timeout(self) -> None:
        self._timeout = asyncio.get_running_loop().call_later(self.within_s, self._refuse, _TOO_SLOW)

    def _cancel_timeout(self) -> None:
        self._head_bytes = 0
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _refuse(self, status: bytes) -> None:
        self._cancel_timeout()
        request_id = uuid.uuid4().hex
        head = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: 0\r\nx-request-id: %s\r\n\r\n"
        self.transport.write(head % (status, request_id.encode()))
        self.transport.close()
        fields = {"method": "-", "route": "unmatched", "status": int(status[:3]), "request_id": request_id}
        _access_log.info("request", extra={"fields": fields})
