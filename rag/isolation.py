"""Call our functions on untrusted text in an expendable process.

Native code that reads a repository's text may allocate gigabytes, run for minutes, or crash. It runs in one
child process (`rag.isolated`) that is started on first use, reused, and replaced when it dies: the text that
crashed it is `Lost`, and the others continue.

The child limits itself, see there. This process also watches it, on every system: its memory, and that it
makes progress.

A process that is itself such a child, and is replaced by its parent when it dies, makes the calls directly
(`call_in_process`).
"""

from __future__ import annotations

import atexit
import importlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from rag.errors import RagError
from rag.isolated import (
    BEGUN,
    LENGTH,
    MEMORY_BYTES,
    MEMORY_BYTES_PER_BYTE,
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    GaveUp,
    ProcessLimits,
    parsed_frame,
    write_frame,
)
from rag.processes import PIPE, Process, python_command, start

__all__ = [
    "MAX_LOST",
    "NOT_TRIED",
    "InProcess",
    "Isolated",
    "Lost",
    "begun_calls",
    "call_in_process",
    "reason_of_exit",
    "resident_bytes",
    "shared",
]

MAX_LOST = 10
"""The number of texts per request that may crash the child; the rest is then lost without a try."""
_MAX_CALLS = 8_000
"""Calls per request: at most as many as the pipe can buffer bytes to count them."""
_POLL_MS = 50
_IDLE_BYTES = 200 << 20
"""More than a child uses between two requests. A child that keeps more is replaced."""
_STUCK_AFTER_S = 120.0
"""A child that has not begun another call for this long is stuck."""
_REASONS = {signal.SIGPROF: OUT_OF_TIME, signal.SIGKILL: OUT_OF_MEMORY}
_CRASHED = "crashed or out of memory"  # out of memory, native code mostly crashes
NOT_TRIED = "not tried after others failed"
"""Why the rest of a request is lost after too many of its texts are."""
OUR_ERROR = "error in rag"
"""How the reason begins if not the text but the function is to blame; see `Lost.traceback`."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A call without a value; `why` is a short reason, `traceback` that of an error in the function."""

    why: str
    traceback: str = ""


class Calls(Protocol):
    """Calls functions on text, protected from what the text does to the process that reads it."""

    def call(self, function: str, *arguments: Any) -> Any:
        """Return the value of one call, see `Isolated.call`."""
        ...

    def calls(self, function: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the values of many calls, see `Isolated.calls`."""
        ...


class Isolated:
    """A child process that answers calls, one request at a time. Safe to share between threads.

    Args:
        modules: what it imports while the first request is being prepared.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._lock = threading.Lock()
        self._process: Process[bytes] | None = None
        self._is_closing = False

    def begin(self) -> None:
        """Start the child now, so that it is ready when needed. Without this it starts on first use."""
        with self._lock:
            self._child()

    def call(self, function: str, *arguments: Any) -> Any:
        """Call `module:function`; arguments and value are JSON values, the first argument is the text.

        Returns:
            The value, or `Lost`.
        """
        return self.calls(function, [arguments])[0]

    def calls(self, function: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the values of many calls, in order, `Lost` where there is none.

        Raises:
            RagError: no child can be started.
        """
        found: list[Any] = []
        with self._lock:
            for first in range(0, len(calls), _MAX_CALLS):
                found += self._run_calls(function, calls[first : first + _MAX_CALLS])
        return found

    def close(self) -> None:
        """End the child. A request that another thread waits for fails with RagError."""
        self._is_closing = True
        while not self._lock.acquire(timeout=_POLL_MS / 1000):
            if (process := self._process) is not None:
                process.kill()
        try:
            self._end()
        finally:
            self._is_closing = False
            self._lock.release()

    def _run_calls(self, function: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        values: list[Any] = [None] * len(calls)
        todo, lost, silent = list(range(len(calls))), 0, 0
        while todo:
            if self._is_closing:
                raise RagError("the process that reads source text was ended")
            if lost == MAX_LOST:
                for number in todo:
                    values[number] = Lost(NOT_TRIED)
                return values
            child = self._child()
            exchange = _Exchange(child, function, [calls[number] for number in todo])
            answers = exchange.answers()
            for number, answer in zip(todo, answers, strict=False):
                values[number] = _value(answer)
            if exchange.is_whole:
                if resident_bytes(child.pid) > _IDLE_BYTES:
                    self._end()
                return values
            why = exchange.why(self._end())
            if not exchange.begun:  # it had exited before
                silent += 1
                if silent == 3:
                    raise RagError(f"a process that reads source text exited at once ({why}), three times")
                continue
            values[todo[exchange.begun - 1]] = Lost(why)
            lost += 1
            todo = [number for number in todo if values[number] is None]
        return values

    def _child(self) -> Process[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            try:
                command = python_command("rag.isolated", *self._modules)
                self._process = start(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
            except OSError as error:
                raise RagError(f"cannot start a process that reads source text: {error}") from error
            assert self._process.stderr is not None
            os.set_blocking(self._process.stderr.fileno(), False)
        return self._process

    def _end(self) -> int | None:
        """End the child; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with process, suppress(BrokenPipeError):
            process.kill()
            if process.stdin is not None:
                process.stdin.close()
        return process.returncode


class _Exchange:
    """One request to a child, and its results.

    Attributes:
        begun: how many calls it began.
        is_whole: whether all were answered.
    """

    def __init__(self, child: Process[bytes], function: str, calls: Sequence[Sequence[Any]]) -> None:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        self._child, self._count = child, len(calls)
        self._requests, self._pipe, self._journal = child.stdin, child.stdout.fileno(), child.stderr.fileno()
        self._request = [function, calls]
        largest = max(len(str(call[0])) for call in calls)
        self._most_bytes = _IDLE_BYTES + MEMORY_BYTES + 4 * MEMORY_BYTES_PER_BYTE * largest
        self._buffer = bytearray()
        self._kill_reason = ""
        self._progress_s = time.monotonic()
        self.begun, self.is_whole = 0, False

    def answers(self) -> list[Any]:
        """Return the answers, in order; those after the child's death are missing."""
        found: list[Any] = []
        with suppress(BrokenPipeError, EOFError):
            write_frame(self._requests, self._request)
            self._requests.flush()
            while len(found) < self._count:
                (size,) = LENGTH.unpack(self._read(LENGTH.size))
                found.append(parsed_frame(self._read(size)))
            self.is_whole = True
        self._count_begun()
        return found

    def why(self, code: int | None) -> str:
        """Return why the child ended, by its exit code."""
        return self._kill_reason or reason_of_exit(code)

    def _read(self, size: int) -> bytes:
        poller = select.poll()
        poller.register(self._pipe, select.POLLIN)
        while len(self._buffer) < size:
            if not poller.poll(_POLL_MS):
                self._watch()
            elif piece := os.read(self._pipe, 1 << 18):
                self._buffer += piece
                self._progress_s = time.monotonic()
            else:
                raise EOFError
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _watch(self) -> None:
        """Kill a child that has grown too large, or makes no progress."""
        if self._count_begun():
            self._progress_s = time.monotonic()
        if resident_bytes(self._child.pid) > self._most_bytes:
            self._kill_reason = OUT_OF_MEMORY
        elif time.monotonic() - self._progress_s > _STUCK_AFTER_S:
            self._kill_reason = OUT_OF_TIME
        if self._kill_reason:
            self._child.kill()

    def _count_begun(self) -> int:
        """Count the calls that the child has begun since the last check."""
        new = begun_calls(self._journal)
        self.begun += new
        return new


def _value(answer: Any) -> Any:
    if "failed" in answer:
        traceback = str(answer["failed"])
        name = traceback.rstrip().rpartition("\n")[2].partition(":")[0]
        return Lost(f"{OUR_ERROR}: {name[:80]}", traceback)
    return Lost(str(answer["lost"])) if "lost" in answer else answer["value"]


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 where the system does not report it."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _page_bytes()
    except (OSError, IndexError):
        return _resident_on_macos(pid) if sys.platform == "darwin" else 0


@cache
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _resident_on_macos(pid: int) -> int:
    """Return `ri_resident_size` of `proc_pid_rusage`: the seventh number after a UUID of 16 bytes."""
    import ctypes

    numbers = (ctypes.c_uint64 * 32)()
    try:
        libc = ctypes.CDLL("/usr/lib/libproc.dylib")
        failed = libc.proc_pid_rusage(pid, 0, ctypes.byref(numbers))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else int(numbers[2 + 6])


def begun_calls(journal: int) -> int:
    """Count the calls that a child has begun since the last check; `journal` is its non-blocking stderr."""
    new = 0
    with suppress(BlockingIOError):
        while piece := os.read(journal, 1 << 16):
            new += piece.count(BEGUN)
    return new


def reason_of_exit(code: int | None) -> str:
    """Return why a child ended within a call, by its exit code."""
    return next((why for number, why in _REASONS.items() if code == -number), _CRASHED)


class InProcess:
    """Makes calls in this process, with the same limits: its parent replaces it when a call kills it.

    The parent counts the calls that began (`begun_calls`), and passes the lost ones when it asks again.
    """

    def __init__(self) -> None:
        self._bounds = ProcessLimits()
        self.expect({})

    def expect(self, lost: Mapping[int, str], until: int | None = None) -> None:
        """Count calls from 0 again. Those that were `lost` before, and all from `until` on, are not tried."""
        self._lost, self._until, self._number = lost, until, -1

    def call(self, function: str, *arguments: Any) -> Any:
        """See `Isolated.call`."""
        return self.calls(function, [arguments])[0]

    def calls(self, function: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """See `Isolated.calls`."""
        module, _, attribute = function.partition(":")
        named = getattr(importlib.import_module(module), attribute)
        try:
            return [self._value(named, arguments) for arguments in calls]
        finally:
            self._bounds.lift()

    def _value(self, function: Any, arguments: Sequence[Any]) -> Any:
        self._number += 1
        if why := self._lost.get(self._number):
            return Lost(why)
        if self._until is not None and self._number >= self._until:
            return Lost(NOT_TRIED)
        try:
            return self._bounds.call(function, arguments)
        except GaveUp as why:
            return Lost(str(why))


_in_process: list[InProcess] = []


def call_in_process() -> InProcess:
    """Make this process's calls in the process itself from now on. Its parent must be able to replace it."""
    _in_process[:] = [InProcess()]
    return _in_process[0]


def shared() -> Calls:
    """Return the caller of this process: one child that ends with it, or the process itself."""
    return _in_process[0] if _in_process else _child_of_this_process()


@cache
def _child_of_this_process() -> Isolated:
    isolated = Isolated("rag.code.outline")
    atexit.register(isolated.close)
    return isolated
