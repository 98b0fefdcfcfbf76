"""The child process of `rag.isolation`: it calls our functions on untrusted text.

A request is a function's name and a list of arguments; the response to each is a value or the reason why
there is none. All are JSON with a length prefix. Before each call a byte is written to stderr, so that the
parent knows during which call this process died. Each call is limited: CPU time by a timer whose signal ends
the process, whatever native code does, and private memory by a system limit (Linux).

Only what a child needs is imported here, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

LENGTH = struct.Struct("<Q")
BEGUN = b"\x01"

MEMORY_BYTES, MEMORY_BYTES_PER_BYTE = 48 << 20, 300
"""What a call may allocate, and the addition for each byte of text."""
CPU_S, CPU_S_PER_BYTE = 1.0, 2e-6

OUT_OF_TIME, OUT_OF_MEMORY = "out of time", "out of memory"

_JOURNAL = 2
_PARENT_CHECK_S = 5.0
_PAGE_BYTES = resource.getpagesize()


class GaveUp(Exception):
    """A function cannot process a text within its limits. The message is a short reason."""


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Write a JSON value with its length before it."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    stream.write(LENGTH.pack(len(data)))
    stream.write(data)


def parsed_frame(data: bytes) -> Any:
    """Return the value of a frame. Raises ValueError, RecursionError."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def main() -> None:
    """Answer requests until the input ends. The arguments are modules to import before the first one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and closes the input
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    bounds, parent = ProcessLimits(), os.getppid()
    for module in sys.argv[1:]:
        importlib.import_module(module)
    while _is_wanted(parent) and (head := requests.read(LENGTH.size)):
        name, calls = parsed_frame(requests.read(*LENGTH.unpack(head)))
        module, _, attribute = name.partition(":")
        function = getattr(importlib.import_module(module), attribute)
        for arguments in calls:
            if os.getppid() != parent:
                return
            write_frame(answers, _answer(function, arguments, bounds))
        bounds.lift()
        answers.flush()


def _is_wanted(parent: int) -> bool:
    """Wait for a request; return False if the parent has ended.

    Then the input mostly ends too, but not if a process that the parent forked has its other end.
    """
    while not select.select([sys.stdin.fileno()], [], [], _PARENT_CHECK_S)[0]:
        if os.getppid() != parent:
            return False
    return True


def _answer(function: Callable[..., Any], arguments: list[Any], bounds: ProcessLimits) -> dict[str, Any]:
    """Return the call's value, the reason for giving up, or the traceback of an error in our code."""
    try:
        return {"value": bounds.call(function, arguments)}
    except GaveUp as why:
        return {"lost": str(why)}
    except Exception:  # noqa: BLE001 - a process boundary: the parent raises it again
        return {"failed": traceback.format_exc()}


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error is, or comes from, a MemoryError: native modules wrap it in a SystemError."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


class ProcessLimits:
    """The limits of this process: renewed for each call, lifted between two requests."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._own = resource.getrlimit(resource.RLIMIT_DATA)
        self._statm = -1
        with suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function whose first argument is the text, after notifying the parent.

        Raises:
            GaveUp: the function cannot process the text within its limits.
        """
        os.write(_JOURNAL, BEGUN)
        try:
            self._renew(len(arguments[0]))
            return function(*arguments)
        except RecursionError:
            raise GaveUp("nested too deeply") from None
        except Exception as error:
            if _is_out_of_memory(error):
                raise GaveUp(OUT_OF_MEMORY) from None
            raise

    def _renew(self, size: int) -> None:
        """Set the limits for a text of this size, from now on."""
        if self._statm >= 0:
            pages = int(os.pread(self._statm, 200, 0).split()[5])  # data and stack
            most = pages * _PAGE_BYTES + MEMORY_BYTES + MEMORY_BYTES_PER_BYTE * size
            soft, hard = self._own
            resource.setrlimit(
                resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard)
            )
        signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_S_PER_BYTE * size)

    def lift(self) -> None:
        """Restore the limits of the process itself."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, self._own)


if __name__ == "__main__":
    # Functions raise the GaveUp of the imported module, not that of this script.
    from rag.isolated import main as run

    run()
