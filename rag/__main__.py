"""The command `rag`, also as `python -m rag`. Ctrl-C during imports exits with 130, without a traceback.

SIGTERM and SIGHUP (a terminal that is closed) end it as an error would, so that what it has started ends too.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

_STOPPING_S = 10
"""How long the command may take to end after a signal; then the system ends it."""


def main() -> None:
    """Run the command line."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the caller ignores it
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    # No other import may come before: the current folder may contain modules of any name.
    from rag.processes import STOPPED, drop_current_folder, exit_at_once

    drop_current_folder()
    from rag.cli import main as run

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, handler in ((signal.SIGTERM, _stop), (signal.SIGHUP, _hang_up)):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores it
            signal.signal(number, handler)
    try:
        run()
    except SystemExit as exited:
        if exited.code == STOPPED:
            exit_at_once(STOPPED)
        if exited.code is None or isinstance(exited.code, int):
            _leave(exited.code or 0)
        raise


def _leave(code: int) -> None:
    """End the process without dismantling the interpreter, which takes a tenth of the time of a search.

    The stores are closed by then. Return where the interpreter has work of its own to do: other threads, a
    profiler, output that cannot be written.
    """
    import atexit
    import sys
    import threading

    if threading.active_count() > 1 or sys.gettrace() is not None or sys.getprofile() is not None:
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _stop(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    if os.getpid() == 1:  # the first process of a container ignores every signal without a handler
        signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.alarm(_STOPPING_S)
    raise SystemExit(128 + number)


def _hang_up(*_: object) -> None:
    signal.raise_signal(signal.SIGTERM)  # a server and a worker handle it in their own way


def _end(*_: object) -> NoReturn:
    os._exit(130)  # an exception would print a traceback, or be handled as a missing module


if __name__ == "__main__":
    main()
