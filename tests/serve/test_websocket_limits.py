"""A client of a WebSocket that does not read, or sends what has no end, holds neither memory nor a place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import uvicorn
from websockets.sync.client import connect

from rag.serve.access.websocket_limits import _MAX_PARTS, bounded_websocket

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASK = b"\0\0\0\0"
PING = b"\x89\xfd" + MASK + b"p" * 125
TEXT = b"\x81\x81" + MASK + b"t"
FIRST_PART, EMPTY_PART = b"\x01\x80" + MASK, b"\x00\x80" + MASK


class App:
    """Sends frames to each client, then waits for its messages until it is gone, or returns."""

    def __init__(self, frames: int, size: int, *, waits: bool) -> None:
        self.frames, self.text, self.waits = frames, "x" * size, waits
        self.ended = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        try:
            await receive()
            await send({"type": "websocket.accept"})
            for _ in range(self.frames):
                await send({"type": "websocket.send", "text": self.text})
            while self.waits and (await receive())["type"] != "websocket.disconnect":
                pass
            await send({"type": "websocket.close"})
        finally:
            self.ended.set()


class Running:
    """A server in a thread."""

    def __init__(self, app: App, within_s: float, loop: str) -> None:
        config = uvicorn.Config(
            app, port=0, log_config=None, lifespan="off", loop=loop, ws=bounded_websocket(within_s=within_s)
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])

    @property
    def open_ones(self) -> set[Any]:
        return self.server.server_state.connections

    def waiting_bytes(self) -> int:
        return sum(one.transport.get_write_buffer_size() for one in list(self.open_ones))


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def running(app: App, within_s: float, loop: str = "auto") -> Iterator[Running]:
    one = Running(app, within_s, loop)
    one.thread.start()
    try:
        wait_until(lambda: one.server.started)
        yield one
    finally:
        one.server.should_exit = True
        one.thread.join()


@contextmanager
def reading_nothing(port: int) -> Iterator[socket.socket]:
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        wire.connect(("127.0.0.1", port))
        wire.sendall(UPGRADE)
        yield wire


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(("frames", "size"), [(10_000, 10_000), (3, 10_000_000), (1, 4_000_000)])
def test_a_client_that_does_not_read_is_disconnected(frames, size, loop):
    app = App(frames, size, waits=False)
    with running(app, 0.5, loop) as server, reading_nothing(server.port):
        wait_until(server.waiting_bytes)
        wait_until(lambda: not server.open_ones)
        assert app.ended.wait(60)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("sent", [PING * 1_000, (PING * 50 + TEXT) * 20])
def test_answers_to_pings_that_nobody_reads_do_not_pile_up(sent, loop):
    app = App(0, 0, waits=True)
    most = 0
    with running(app, 2, loop) as server, reading_nothing(server.port) as wire:
        wire.settimeout(0.01)
        until = time.monotonic() + 60
        with pytest.raises(OSError, match=r"reset|[Bb]roken|abort"):
            while time.monotonic() < until:
                with suppress(TimeoutError):
                    wire.send(sent)
                most = max(most, server.waiting_bytes())
        assert app.ended.wait(60)
        wait_until(lambda: not server.open_ones)
    assert most < 1_000_000


@pytest.mark.parametrize("parts", [_MAX_PARTS - 1, 100_000])
def test_a_message_of_parts_without_end_is_refused(parts):
    app = App(0, 0, waits=True)
    with running(app, 30) as server, reading_nothing(server.port) as wire:
        wire.settimeout(60)
        wait_until(lambda: any(getattr(one, "handshake_complete", False) for one in server.open_ones))
        assert wire.recv(4_096).startswith(b"HTTP/1.1 101 ")
        wire.sendall(FIRST_PART)
        try:
            wire.sendall(EMPTY_PART * parts)
            wire.sendall(b"\x80\x80" + MASK + b"\x88\x80" + MASK)
            answered = wire.recv(4_096)
        except ConnectionError:
            answered = b""
        if parts < _MAX_PARTS:
            assert answered == b"\x88\x00"
        assert app.ended.wait(60)


def test_a_client_that_reads_gets_everything():
    app = App(40, 100_000, waits=False)
    with running(app, 2) as server, connect(f"ws://127.0.0.1:{server.port}", open_timeout=60) as client:
        assert sum(len(text) for text in client) == 4_000_000
        assert client.close_code == 1000


def test_the_server_of_rag_has_these_limits(serve):
    running = serve(repositories=(), deepwiki=True, body_timeout_s=7)
    assert running.server.config.ws_protocol_class.within_s == 7
