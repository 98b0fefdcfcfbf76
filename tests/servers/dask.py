"""A Dask scheduler and workers on loopback, as an operator starts them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psutil

from rag.processes import Process, start

DEADLINE_S = 120


class LocalDask:
    """A scheduler and its workers, which have a data folder of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self._processes: list[Process[bytes]] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler",
            "scheduler",
            "--port",
            "0",
            "--scheduler-file",
            str(file),
            "--dashboard-address",
            "127.0.0.1:0",
        )
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.tcp = str(json.loads(file.read_text())["address"])
        self.address = self.tcp.replace("tcp://", "dask://")

    @property
    def home(self) -> Path:
        """The data folder of the workers, unless they are given another one."""
        return self.folder / "worker-home"

    def add_worker(self, *, preload: str = "", count: int = 1) -> None:
        """Start workers with one thread each, and wait until they have joined. With a script that they run
        before, no second process waits to start them again.
        """
        name = f"worker{len(self._processes)}"
        more: Sequence[str] = ()
        if preload:
            script = self.folder / f"{name}.py"
            script.write_text(preload)
            more = ("--no-nanny", "--preload", str(script))
        process = self._start(
            name, "worker", self.tcp, "--nworkers", str(count), "--nthreads", "1", "--no-dashboard",
            "--name", name, "--local-directory", str(self.folder / name), *more,
        )  # fmt: skip
        self._processes.append(process)
        log = self.folder / f"{name}.log"
        until(lambda: log.read_text().count("Registered to") == count)

    def working(self) -> list[int]:
        """Return the processes of workers that run a job: a child has the lock of a store open."""
        found = []
        for process in self._processes:
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if any(file.path.endswith(".lock") for file in one.open_files()):
                        found.append(one.ppid())
        return found

    def _start(self, name: str, what: str, *arguments: str) -> Process[bytes]:
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        command = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", *arguments]
        environment = os.environ | {
            "RAG_HOME": str(self.home),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            # Profiles and health checks take 80 ms of CPU each second.
            "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
            "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
            "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
        }
        process = start(command, environment=environment, stdout=log, stderr=log)
        self._stack.callback(_end, process)
        return process


def _end(process: Process[bytes]) -> None:
    process.terminate()
    process.wait()


def until(found: Callable[[], Any]) -> Any:
    """Wait until something is true."""
    deadline = monotonic() + DEADLINE_S
    while not (value := found()):
        assert monotonic() < deadline, "it did not happen in time"
        Event().wait(0.05)
    return value


@contextmanager
def local_dask(folder: Path) -> Iterator[LocalDask]:
    """Start a scheduler without workers; end it and its workers afterwards."""
    with ExitStack() as stack:
        yield LocalDask(folder, stack)
