"""The protocol on stdin and stdout: one message a line.

Lists are answered by the thread that reads. The first other request starts an event loop in a thread of its
own, with what opens repositories: most clients list the tools at once, and many never call one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock, Thread
from typing import TYPE_CHECKING, BinaryIO

from rag.mcp.protocol import (
    ClientMessage,
    Json,
    ProtocolError,
    answered_at_once,
    failure,
    read,
    written,
)

if TYPE_CHECKING:
    import asyncio

    from rag.mcp.host import Host

_MAX_LINE = 10_000_000


def serve(
    make_host: Callable[[], Host],
    names: str,
    *,
    lines: BinaryIO | None = None,
    out: BinaryIO | None = None,
) -> None:
    """Answer the messages of a client until its end of the stream; then wait for the calls that run.

    Args:
        make_host: opens the repositories, at the first request that needs them.
        names: the names of the repositories.
        lines: the messages; None is stdin.
        out: for the replies; None is stdout.
    """
    writer = _Writer(out or sys.stdout.buffer)
    calls: _Calls | None = None
    for line in iter(lambda: (lines or sys.stdin.buffer).readline(_MAX_LINE), b""):
        if not line.strip():
            continue
        request = None
        try:
            request = read(line)
            if request is None or (request.id is None and request.method != "notifications/cancelled"):
                continue
            result = answered_at_once(request, names) if request.id is not None else None
        except ProtocolError as error:
            writer.write(failure(error, request.id if request else None))
            continue
        if result is not None:
            writer.write(request.result(result))
        elif calls is not None or request.id is not None:
            calls = calls or _Calls(make_host, writer)
            calls.handle(request)
    if calls is not None:
        calls.close()


class _Writer:
    """Writes messages, each whole, from any thread."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._lock = out, Lock()

    def write(self, message: Json) -> None:
        """Write a message."""
        with self._lock:
            self._out.write(written(message) + b"\n")
            self._out.flush()


class _Calls:
    """The requests that take time, in an event loop with its own thread."""

    def __init__(self, make_host: Callable[[], Host], writer: _Writer) -> None:
        import asyncio

        self._make_host, self._writer = make_host, writer
        self._loop = asyncio.new_event_loop()
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._thread = Thread(target=self._loop.run_forever, name="rag-mcp", daemon=True)
        self._session = self._loop.create_future()
        self._thread.start()
        self._loop.call_soon_threadsafe(self._open)

    def handle(self, request: ClientMessage) -> None:
        """Begin to answer a request, or end the one that a notification cancels."""
        self._loop.call_soon_threadsafe(self._begin, request)

    def close(self) -> None:
        """Wait for what runs, and end the thread."""
        import asyncio

        async def finish() -> None:
            await asyncio.gather(*self._running.values(), return_exceptions=True)

        asyncio.run_coroutine_threadsafe(finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _open(self) -> None:
        from rag.mcp.protocol import ClientSession

        try:
            self._session.set_result(ClientSession(self._make_host()))
        except Exception as error:  # noqa: BLE001 - raised in the requests
            self._session.set_exception(error)

    def _begin(self, request: ClientMessage) -> None:
        if request.id is None:
            if task := self._running.get(request.params.get("requestId", "")):
                task.cancel()
            return
        task = self._loop.create_task(self._answer(request))
        self._running[request.id] = task
        task.add_done_callback(lambda _: self._running.pop(request.id or 0, None))

    async def _answer(self, request: ClientMessage) -> None:
        async def send(message: Json) -> None:
            self._writer.write(message)

        session = await self._session
        self._writer.write(await session.reply(request, send))
