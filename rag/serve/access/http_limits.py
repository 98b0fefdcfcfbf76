"""Connections that say something: the head of a request arrives whole, within a size and a time.

The gate bounds what is behind the head. Before there is one nobody knows who calls, and uvicorn waits for its
end for ever: whoever never ended it would hold a connection, or the memory, of a server without having a key.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = b"431 Request Header Fields Too Large"
_AROUND_A_HEADER = len(b": \r\n")
_TOO_SLOW = b"408 Request Timeout"


def bounded(*, most_bytes: int, within_s: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol for connections whose heads have at most so many bytes, and come within a time."""
    return type("Bounded", (_Bounded,), {"most_bytes": most_bytes, "within_s": within_s})


class _Bounded(HttpToolsProtocol):
    most_bytes: int
    within_s: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._is_too_large = False
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        # A cycle begins with the end of a head; what became a WebSocket is no connection of ours any more.
        answers = self.cycle is not None and not self.cycle.response_complete
        if answers or self.cycle is not before or self not in self.connections:
            self._wait_no_more()
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.most_bytes:
            self._refuse(_TOO_LARGE)
        elif self._patience is None:
            self._wait()

    def on_message_begin(self) -> None:
        self._parsed_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _AROUND_A_HEADER)
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        """Count what was parsed: a head that comes at once is parsed before anyone sees how long it is."""
        self._parsed_bytes += size
        if self._parsed_bytes > self.most_bytes:
            self._is_too_large = True
            raise ValueError("the head is too large")  # ends the parsing; the parser makes it its own error

    def send_400_response(self, msg: str) -> None:
        if self._is_too_large:
            self._refuse(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _wait(self) -> None:
        self._patience = asyncio.get_running_loop().call_later(self.within_s, self._refuse, _TOO_SLOW)

    def _wait_no_more(self) -> None:
        self._head_bytes = 0
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self, status: bytes) -> None:
        self._wait_no_more()
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()
