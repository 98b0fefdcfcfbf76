"""What a node of a cluster does for `rag index --executor`: it runs a job in a child process.

The node brings its own settings, so its keys and tokens are those of its environment and never travel. Only
where the indexes are stored, and with which embedder, is decided by the command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import rag
from rag.database.format import FORMAT
from rag.errors import RagError
from rag.service.jobs import public_error
from rag.settings import Settings, load_settings, plain_settings, with_absolute_paths
from rag.worker.process import JobProcess

_POLL_S = 0.5
_IDLE_S = 20.0
"""How long a process waits for the next job of its node. Starting one takes about a second."""


class NodeCheck(NamedTuple):
    """What a node must have to do the same as the machine of the command."""

    version: str
    marker: str
    """A file in the shared folder; "" if there is none."""


class NodeJob(NamedTuple):
    """A job for a node. `home` is the shared data folder; "" for the node's own."""

    check: NodeCheck
    kind: str
    args: Mapping[str, Any]
    embedder: str
    stores: str
    home: str


def node_version() -> str:
    """Return the version of rag here, with that of its indexes."""
    return f"{rag.__version__} (index format {FORMAT})"


def problem(check: NodeCheck) -> str:
    """Return why this node cannot do what the command wants; "" if it can."""
    if (version := node_version()) != check.version:
        return f"it has rag {version}, the command has rag {check.version}; install the same version"
    if check.marker and not Path(check.marker).is_file():
        return (
            f"it does not see the folder {Path(check.marker).parent} of the command; mount it there, or set "
            "RAG_STORES to a bucket (s3://BUCKET/PREFIX)"
        )
    return ""


def run_on_node(job: NodeJob, is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Run a job; return its last message (`rag.worker.tasks.run`), with an error that everyone may see."""
    if why := problem(job.check):
        return _error(why, retry=False)
    try:
        settings = with_absolute_paths(load_settings())
    except RagError as error:
        return _error(str(error), retry=False)
    settings = replace(settings, embedder=job.embedder, stores=job.stores)
    if job.home:
        settings = replace(settings, home=Path(job.home))
    message = _run(job, settings, is_cancelled)
    if "error" in message:
        return _error(public_error(message["error"]["message"], settings), retry=message["error"]["retry"])
    return message


def _run(job: NodeJob, settings: Settings, is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    try:
        child = _processes.take(bool(job.stores))
    except OSError as error:
        return _error(f"no process could be started: {error}", retry=True)
    is_reusable = False
    try:
        child.send({"kind": job.kind, "args": job.args, "settings": plain_settings(settings)})
        while not is_cancelled():
            message = child.receive(_POLL_S)
            if message is not None and ("done" in message or "error" in message):
                is_reusable = True
                return message
        return _error("cancelled", retry=False)
    except EOFError as error:
        return _error(
            f"the process of the job is gone: {error}; check that there is enough memory", retry=True
        )
    finally:
        if is_reusable:
            _processes.give_back(child, bool(job.stores))
        else:
            child.end()


def _error(message: str, *, retry: bool) -> dict[str, Any]:
    return {"error": {"message": message, "retry": retry}}


class _IdleProcesses:
    """The processes of this node that wait for a job, as a start takes longer than a small repository."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[JobProcess, bool, threading.Timer]] = []

    def take(self, shares_stores: bool) -> JobProcess:
        """Return a waiting process, or a new one. Raises OSError if none can be started."""
        with self._lock:
            for at, (child, shares, timer) in enumerate(self._idle):
                if shares == shares_stores and child.returncode is None:
                    timer.cancel()
                    del self._idle[at]
                    return child
        return JobProcess(shares_stores=shares_stores)

    def give_back(self, child: JobProcess, shares_stores: bool) -> None:
        """Let a process wait for the next job, for a while."""
        timer = threading.Timer(_IDLE_S, self._end, [child])
        timer.daemon = True
        with self._lock:
            self._idle.append((child, shares_stores, timer))
        timer.start()

    def _end(self, child: JobProcess) -> None:
        with self._lock:
            waiting = [one for one in self._idle if one[0] is not child]
            was_idle, self._idle = len(waiting) < len(self._idle), waiting
        if was_idle:
            child.end()


_processes = _IdleProcesses()
