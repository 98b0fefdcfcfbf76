"""The child of `rag.isolation`: it calls functions of ours on text that nobody vouches for.

A request is a function's name and a list of arguments, the answer to each is a value or why there is none,
all JSON behind their length. Before each call a byte goes to stderr, so that the parent knows which one this
process died of. Each call is bounded: CPU time by a timer whose signal ends the process, whatever native
code does, and private memory by a limit of the system (Linux).

Only what a child needs is imported here; starting one should take little time.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

LENGTH = struct.Struct("<Q")
BEGUN = b"\x01"

MEMORY_BYTES, MEMORY_BYTES_A_BYTE = 48 << 20, 300
"""What a call may allocate, and what more for each byte of text."""
CPU_S, CPU_S_A_BYTE = 1.0, 2e-6

OUT_OF_TIME, OUT_OF_MEMORY = "out of time", "out of memory"

_JOURNAL = 2
_PAGE_BYTES = resource.getpagesize()


class GaveUp(Exception):
    """A function finds no way through a text within its bounds. The message is a short reason."""


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Write a JSON value behind its length."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    stream.write(LENGTH.pack(len(data)))
    stream.write(data)


def parsed_frame(data: bytes) -> Any:
    """The value of a frame. Raises ValueError, RecursionError."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def main() -> None:
    """Answer requests until the input ends. The arguments are modules to import before the first one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told too, and closes the input
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    bounds = ProcessBounds()
    for module in sys.argv[1:]:
        importlib.import_module(module)
    while head := requests.read(LENGTH.size):
        name, calls = parsed_frame(requests.read(*LENGTH.unpack(head)))
        module, _, attribute = name.partition(":")
        function = getattr(importlib.import_module(module), attribute)
        for arguments in calls:
            write_frame(answers, _answer(function, arguments, bounds))
        bounds.lift()
        answers.flush()


def _answer(function: Callable[..., Any], arguments: list[Any], bounds: ProcessBounds) -> dict[str, Any]:
    """The call's value, why it was given up, or what is wrong with our code."""
    try:
        return {"value": bounds.call(function, arguments)}
    except GaveUp as why:
        return {"lost": str(why)}
    except Exception:  # noqa: BLE001 - a process boundary: the parent raises it again
        return {"failed": traceback.format_exc()}


class ProcessBounds:
    """The bounds of this process: renewed for each call, lifted between two requests."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._own = resource.getrlimit(resource.RLIMIT_DATA)
        self._statm = -1
        with suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function whose first argument is the text; its parent learns first that the call begins.

        Raises:
            GaveUp: the function found no way through the text within its bounds.
        """
        os.write(_JOURNAL, BEGUN)
        try:
            self._renew(len(arguments[0]))
            return function(*arguments)
        except MemoryError:
            raise GaveUp(OUT_OF_MEMORY) from None
        except RecursionError:
            raise GaveUp("nested too deeply") from None

    def _renew(self, size: int) -> None:
        """Allow what a text of this size may take from now on."""
        if self._statm >= 0:
            pages = int(os.pread(self._statm, 200, 0).split()[5])  # data and stack
            most = pages * _PAGE_BYTES + MEMORY_BYTES + MEMORY_BYTES_A_BYTE * size
            soft, hard = self._own
            resource.setrlimit(
                resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard)
            )
        signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_S_A_BYTE * size)

    def lift(self) -> None:
        """Allow anything that the process itself may take."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, self._own)


if __name__ == "__main__":
    # Functions raise the GaveUp of the imported module, not that of this script.
    from rag.isolated import main as run

    run()
