"""A child process that runs jobs, which can be ended at any time.

It reads one JSON job per line from its standard input and writes JSON lines to its standard output: progress
and notices, then one `done` or `error`. It ends when its input is closed, so it never outlives its parent. A
store is written to a temporary file and renamed, and the kernel releases the lock of a process that has
ended, so ending a child at any point leaves the previous store intact.

    {"kind": "index", "settings": {…}, "args": {"source": {…}, "rebuild": false}}
    {"progress": ["chunk", 120, 6800]}
    {"done": {"checkout": {…}, "report": {…}}}
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

_EXIT_TIMEOUT_S = 5.0


def main() -> None:
    """Run jobs until the input is closed or SIGTERM arrives. git's processes end with this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends its children
    jobs: list[str] = []
    available = threading.Semaphore(0)

    def read() -> None:
        with suppress(OSError):  # a reset: the parent was killed before it had read everything
            for line in sys.stdin:
                jobs.append(line)
                available.release()
        # The parent has ended, so this process ends too, even during a job.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_EXIT_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    try:
        from rag.worker.tasks import run

        # Until now there was nothing to clean up, and SIGTERM ended the process at once: an exception that is
        # raised during an import may be lost, and the signal with it.
        signal.signal(signal.SIGTERM, _terminate)
        while True:
            available.acquire()
            _send(run(json.loads(jobs.pop(0)), _send))
    except SystemExit:
        os._exit(0)  # cleanup is done; a normal exit would wait for the reading thread


def _terminate(number: int, frame: FrameType | None) -> None:
    """Clean up the current job as after an error. A second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _send(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
