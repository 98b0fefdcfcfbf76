"""The protocol on stdin and stdout: one message a line.

Lists are answered by the thread that reads. The first other request starts an event loop in a thread of its
own, with what opens repositories: most clients list the tools at once, and many never call one.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

from rag.errors import RagError
from rag.mcp.protocol import (
    INTERNAL,
    INVALID_REQUEST,
    UNEXPECTED,
    ClientMessage,
    ClientSession,
    Json,
    ProtocolError,
    answered_at_once,
    failure,
    read,
    written,
)
from rag.settings import ToolSet

if TYPE_CHECKING:
    import asyncio

    from rag.mcp.host import Host

log = logging.getLogger("rag.mcp")
_MAX_LINE = 10_000_000
_END_S = 0.6
"""How long calls may go on after the client has closed the stream, including their clean-up."""
_CLEAN_UP_S = 0.2
_THREADS = "rag-mcp"


class StdioServer:
    """Answers the messages of a client.

    Args:
        make_host: opens the repositories, at the first request that needs them.
        names: the names of the repositories.
        tools: the tools that are listed.
        lines: the messages; None is stdin.
        out: for the replies; None is stdout.
    """

    def __init__(
        self,
        make_host: Callable[[], Host],
        names: str,
        tools: ToolSet,
        *,
        lines: BinaryIO | None = None,
        out: BinaryIO | None = None,
    ) -> None:
        self._make_host, self._names, self._tools = make_host, names, tools
        self._lines = lines or sys.stdin.buffer
        self._writer = _Writer(out or open(sys.stdout.fileno(), "wb", buffering=0, closefd=False))  # noqa: SIM115
        self._calls: _Calls | None = None

    def run(self) -> None:
        """Answer messages until the client closes the stream, or reads no more."""
        for line in _lines(self._lines):
            if self._writer.is_closed:
                return
            try:
                self._handle(line)
            except ProtocolError as error:
                self._writer.write(failure(error))

    def close(self) -> bool:
        """Let the calls that run end for a moment, and cancel the others.

        Returns:
            Whether their threads have ended too: a thread that indexes cannot be cancelled.
        """
        return self._calls is None or self._calls.close()

    def _handle(self, line: bytes | None) -> None:
        if line is None:
            raise ProtocolError(INVALID_REQUEST, f"the message has more than {_MAX_LINE:,} bytes")
        if not line.strip() or (message := read(line)) is None:
            return
        if message.id is None:
            if message.cancels is not None and self._calls is not None:
                self._calls.handle(message)
        elif (reply := self._reply_at_once(message)) is not None:
            self._writer.write(reply)
        else:
            self._calls = self._calls or _Calls(self._make_session, self._writer)
            self._calls.handle(message)

    def _make_session(self) -> ClientSession:
        return ClientSession(self._make_host(), self._tools)

    def _reply_at_once(self, request: ClientMessage) -> Json | None:
        try:
            result = answered_at_once(request, self._names, self._tools)
        except ProtocolError as error:
            return failure(error, request.id)
        return None if result is None else request.result(result)


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a stream, None for one that is too long."""
    while line := stream.readline(_MAX_LINE):
        is_whole = len(line) < _MAX_LINE or line.endswith(b"\n")
        while not is_whole and (rest := stream.readline(_MAX_LINE)):
            is_whole, line = rest.endswith(b"\n"), b""
        yield line or None


class _Writer:
    """Writes messages, each whole, from any thread, until the client reads no more."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._lock = out, threading.Lock()
        self.is_closed = False

    def write(self, message: Json) -> None:
        """Write a message."""
        rest = memoryview(written(message) + b"\n")
        with self._lock:
            try:
                while rest and not self.is_closed:
                    rest = rest[self._out.write(rest) :]
            except OSError:
                self.is_closed = True


class _Calls:
    """The requests that take time, in an event loop with its own thread."""

    def __init__(self, make_session: Callable[[], ClientSession], writer: _Writer) -> None:
        import asyncio

        self._make_session, self._writer = make_session, writer
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(thread_name_prefix=_THREADS)
        self._loop.set_default_executor(self._threads)
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name=_THREADS, daemon=True)
        self._session: ClientSession | None = None
        self._thread.start()

    def handle(self, message: ClientMessage) -> None:
        """Begin to answer a request, or end the one that a notification cancels."""
        self._loop.call_soon_threadsafe(self._begin, message)

    def close(self) -> bool:
        """Wait for the calls, then cancel them; return whether all threads have ended."""
        import asyncio

        end = time.monotonic() + _END_S

        async def finish() -> None:
            for seconds in (_END_S - _CLEAN_UP_S, _CLEAN_UP_S):
                if running := [*self._running.values()]:
                    _, late = await asyncio.wait(running, timeout=seconds)
                    for task in late:
                        task.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(finish(), self._loop)
        for thread in threading.enumerate():
            if thread.name.startswith(_THREADS):
                thread.join(max(0.0, end - time.monotonic()))
        return not any(one.name.startswith(_THREADS) for one in threading.enumerate())

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _begin(self, request: ClientMessage) -> None:
        if request.id is None:
            if request.cancels is not None and (task := self._running.get(request.cancels)):
                task.cancel()
            return
        id_, task = request.id, self._loop.create_task(self._answer(request))
        self._running[id_] = task
        task.add_done_callback(lambda _: self._running.pop(id_, None))

    async def _answer(self, request: ClientMessage) -> None:
        async def send(message: Json) -> None:
            self._writer.write(message)

        try:
            self._session = self._session or self._make_session()
        except RagError as error:
            self._writer.write(failure(ProtocolError(INTERNAL, str(error)), request.id))
        except Exception:
            log.exception("%s failed", request.method)
            self._writer.write(failure(ProtocolError(INTERNAL, UNEXPECTED), request.id))
        else:
            self._writer.write(await self._session.reply(request, send))
