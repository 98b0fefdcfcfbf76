"""The parent's end of a child process that runs jobs (`rag.worker.child`)."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Mapping
from typing import Any

from rag.processes import PIPE, TimeoutExpired, object_store_environment, start_module

_MAX_LINE = 1 << 20
_CHUNK = 1 << 16
_EXIT_TIMEOUT_S = 5.0
_NICENESS = 10


class JobProcess:
    """A child process that runs one job after another.

    Its memory is limited, and it ends when its input is closed, so it never outlives this process.

    Args:
        shares_stores: whether its jobs publish stores, so that it needs the credentials for that.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, *, shares_stores: bool = False) -> None:
        self._process = start_module(
            "rag.worker.child",
            environment=object_store_environment() if shares_stores else None,
            niceness=_NICENESS,
            stdin=PIPE,
            stdout=PIPE,
            buffered=False,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._buffer = b""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def send(self, job: Mapping[str, Any]) -> None:
        """Send a job. A child that has ended is noticed by `receive`."""
        try:
            self._input.write(json.dumps(job).encode() + b"\n")
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message, or None if there is none for this long.

        Raises:
            EOFError: the process has ended, or wrote what is not a message.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MAX_LINE:
                raise EOFError("its message is too long")
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._output, selectors.EVENT_READ)
                if not waiting.select(timeout_s):
                    return None
            more = os.read(self._output.fileno(), _CHUNK)
            if not more:
                raise EOFError(f"it ended with {self._process.wait()}")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise EOFError("its message is not JSON") from error
        return message

    def end(self) -> None:
        """Terminate the process; kill it after 5 seconds."""
        self._process.terminate()
        try:
            self._process.wait(_EXIT_TIMEOUT_S)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._input.close()
        self._output.close()
