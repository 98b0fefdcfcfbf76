"""Workers: started, replaced when they die, and killed when an input runs away."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tools.fuzz.case import Case
from tools.fuzz.targets import TARGETS, Bounds
from tools.fuzz.worker import Order, Outcome, cpu_of, descendants, memory_of, serve

_FACTOR = 10
"""A worker that takes so many times what an input may take is killed."""
_STUCK_S = 900.0
_MOST_BYTES = 3 << 30
_CHECK_S = 0.3
"""How often a worker is looked at: each time reads `/proc` for all of its threads."""
_INPUTS = 2_000
_HELD_BYTES = 1 << 30
"""A worker is replaced after so many inputs, or when it holds so much."""


class Worker:
    """One worker process at a time."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._served = 0
        self._process: Any = None
        self._connection: Connection | None = None

    def run(self, order: Order) -> Outcome:
        """Run an input. An outcome of kind "died" says how the process ended."""
        connection = self._connected()
        connection.send(order)
        died = self._waited(connection, TARGETS[order.target].bounds)
        if not died:
            try:
                outcome: Outcome = connection.recv()
            except (EOFError, ConnectionError):
                died = "ended"
            else:
                self._served += 1
                if self._served >= _INPUTS or memory_of(self._process.pid) > _HELD_BYTES:
                    self.close()
                return outcome
        self._process.join(1)
        status = f", status {self._process.exitcode}" if died == "ended" else ""
        self.close()
        case = self.case(order)
        return Outcome("died", f"the process {died}{status}", label=case.label, size=len(case.content))

    def case(self, order: Order) -> Case:
        """The input that an order names, not run."""
        connection = self._connected()
        connection.send(Order(order.target, order.number, order.seed, order.case, make=True))
        case: Case = connection.recv()
        return case

    def close(self) -> None:
        """End the process, and what it started."""
        if self._process is None:
            return
        if self._connection is not None:
            self._connection.close()
        self._process.join(3)
        for pid in (*descendants(self._process.pid), self._process.pid):
            if self._process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.join()
        self._process = self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            folder = Path(tempfile.mkdtemp(prefix="rag-fuzz-"))
            self._process = context.Process(target=serve, args=(theirs, folder))
            self._process.start()
            theirs.close()
            self._connection, self._served = ours, 0
        return self._connection

    def _waited(self, connection: Connection, bounds: Bounds) -> str:
        """Wait for an answer; "" when there is one, else what was done to the process."""
        pid, began = self._process.pid, time.monotonic()
        cpu_s = _total_s(pid)
        allowed_s = _FACTOR * bounds.cpu_s(1_000_000)
        while not connection.poll(_CHECK_S):
            family = (pid, *descendants(pid))
            if not self._process.is_alive():
                return "ended"
            if max(map(memory_of, family)) > _MOST_BYTES:
                return self._killed(family, f"was killed at {_MOST_BYTES >> 30} GiB")
            if _total_s(pid) - cpu_s > allowed_s or time.monotonic() - began > _STUCK_S:
                return self._killed(family, f"was killed after {time.monotonic() - began:.0f} s")
        return ""

    def _killed(self, pids: tuple[int, ...], what: str) -> str:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return what


def _total_s(pid: int) -> float:
    return cpu_of(pid) + sum(map(cpu_of, descendants(pid)))
