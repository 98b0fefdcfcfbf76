"""Indexing in a child process, which does not slow down the server and can be ended at any time.

A child reads one JSON job per line from its standard input and writes JSON lines to its standard output:
progress and notices, then one `done` or `error`. It ends when its input is closed, so it never outlives the
server. A store is written to a temporary file and renamed, and the kernel releases the lock of a process that
has ended, so ending a child at any point leaves the previous store intact.

    {"settings": {…}, "source": {…}, "rebuild": false}
    {"progress": ["chunk", 120, 6800]}
    {"done": {"checkout": {…}, "report": {…}}}
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rag.errors import RagError
from rag.processes import object_store_environment
from rag.serve.errors import IndexingFailed
from rag.serve.workers.subprocesses import Child, start_child
from rag.settings import Settings
from rag.types import Checkout, Filters, IndexReport, Source

Progress = Callable[[str, int, int], None]

_MAX_LINE = 1 << 20
_EXIT_TIMEOUT_S = 5.0
_NICENESS = 10
"""Lower priority than the server's own process."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of a job: the source on disk, and the report as JSON values (skipped files by reason)."""

    checkout: Checkout
    report: dict[str, Any]


class _JobQueue:
    """Runs a limited number of jobs at once; the others wait in order of arrival.

    Jobs that a question waits for are first in the queue, and one of them may exceed the limit: no question
    waits for the long first index of another repository.
    """

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs, self._running = max_jobs, 0
        self._waiting: OrderedDict[asyncio.Future[None], Source] = OrderedDict()
        self._prioritized: set[Source] = set()

    @asynccontextmanager
    async def slot(self, source: Source) -> AsyncIterator[None]:
        """Wait for a slot, and hold it in the block."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = source
        if source in self._prioritized:
            self._waiting.move_to_end(mine, last=False)
        self._next()
        try:
            await mine
            yield
        finally:
            if self._waiting.pop(mine, None) is None:
                self._running -= 1
                self._next()

    def prioritize(self, source: Source) -> None:
        """Move the waiting or next job of a source to the front."""
        self._prioritized.add(source)
        for mine in [mine for mine, waiting in self._waiting.items() if waiting == source]:
            self._waiting.move_to_end(mine, last=False)
        self._next()

    def _next(self) -> None:
        while self._waiting:
            mine, source = next(iter(self._waiting.items()))
            if self._running >= self._max_jobs + (source in self._prioritized):
                return
            del self._waiting[mine]
            self._prioritized.discard(source)
            self._running += 1
            if not mine.done():  # if it was cancelled, `slot` releases it
                mine.set_result(None)


class Indexers:
    """Child processes that index; an idle one is reused for the next job.

    Args:
        settings: the settings to index with.
        notice: called with each message for the operator.
        max_jobs: the number of jobs at once; others wait.
    """

    def __init__(self, settings: Settings, *, notice: Callable[[str], None], max_jobs: int = 2) -> None:
        self._settings, self._notice = settings, notice
        self._queue = _JobQueue(max_jobs)
        self._idle: list[Child] = []

    def prioritize(self, source: Source) -> None:
        """Move the job of a source, which a question waits for, to the front."""
        self._queue.prioritize(source)

    async def index(
        self,
        source: Source,
        *,
        rebuild: bool,
        place: str | None,
        progress: Progress,
        refs: Sequence[str] | None = None,
    ) -> Indexed:
        """Index a source, or update its store. Cancelling ends the child.

        Args:
            source: what to index.
            rebuild: rebuild the store from scratch.
            place: the only addresses git may connect to, see `resolve_public`; None does not restrict it.
            progress: called with stage, done and total, in the event loop.
            refs: patterns of the refs that may be read, see `rag.corpus.refs`; None allows all.

        Raises:
            IndexingFailed: with the error's message, or because the child ended.
        """
        job = {
            "settings": _plain(self._settings),
            "source": asdict(source),
            "rebuild": rebuild,
            "place": place,
            "refs": refs,
        }
        async with self._queue.slot(source):
            child = await self._child()
            try:
                result = await self._run(child, job, progress)
            except BaseException:
                await child.end()
                raise
            self._idle.append(child)
        if error := result.get("error"):
            raise IndexingFailed(error["message"], kind=error["kind"])
        done = result["done"]
        return Indexed(_checkout(done["checkout"], source), done["report"])

    async def _child(self) -> Child:
        """Return an idle child that is still alive, or start one."""
        while self._idle:
            child = self._idle.pop()
            if child.returncode is None:
                return child
            await child.end()
        try:
            return await start_child(
                "rag.serve.workers.indexing",
                environment=object_store_environment() if self._settings.stores else None,
                limit=_MAX_LINE,
                niceness=_NICENESS,
            )
        except OSError as error:
            raise IndexingFailed(f"no indexing process could be started: {error}", kind="Died") from error

    async def close(self) -> None:
        """End the idle children."""
        while self._idle:
            await self._idle.pop().end()

    async def _run(self, child: Child, job: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        try:
            child.stdin.write(json.dumps(job).encode() + b"\n")
            await child.stdin.drain()
            while line := await child.stdout.readline():
                message: dict[str, Any] = json.loads(line)
                if state := message.get("progress"):
                    progress(*state)
                elif notice := message.get("notice"):
                    self._notice(notice)
                else:
                    return message
        except (ConnectionError, ValueError) as error:
            raise IndexingFailed(
                f"the connection to the indexing process broke ({error}); try again", kind="Died"
            ) from error
        code = await child.wait()
        raise IndexingFailed(
            f"the indexing process ended with {code} before it was done; its last lines are in the server's "
            "log; check that there is enough memory",
            kind="Died",
        )


def _plain(settings: Settings) -> dict[str, Any]:
    return {**asdict(settings), "home": str(settings.home)}


def _checkout(record: Mapping[str, Any], source: Source) -> Checkout:
    return Checkout(source, Path(record["root"]), record["commit"], record["dirty"], record["remote"])


def report_record(report: IndexReport) -> dict[str, Any]:
    """Return a report as JSON values; skipped files are counted by reason."""
    skipped: dict[str, int] = {}
    for skip in report.skipped:
        skipped[skip.reason] = skipped.get(skip.reason, 0) + 1
    names = ("action", "reason", "seen", "files", "chunks", "changed", "removed", "size_bytes", "commit")
    return {name: getattr(report, name) for name in names} | {
        "seconds": round(report.seconds, 3),
        "skipped": skipped,
    }


# ---------------------------------------------------------------- child process


def main() -> None:
    """Run jobs until the input is closed or SIGTERM arrives. git's processes end with this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles it and ends its children
    signal.signal(signal.SIGTERM, _terminate)
    jobs: list[str] = []
    available = threading.Semaphore(0)

    def read() -> None:
        for line in sys.stdin:
            jobs.append(line)
            available.release()
        # The server has ended, so this process ends too, even during a job.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_EXIT_TIMEOUT_S)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            available.acquire()
            _send(_run_job(json.loads(jobs.pop(0))))
    except SystemExit:
        os._exit(0)  # cleanup is done; a normal exit would wait for the reading thread


def _terminate(number: int, frame: FrameType | None) -> None:
    """Clean up the current job as after an error. A second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _send(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _run_job(job: dict[str, Any]) -> dict[str, Any]:
    from rag.service import Engine

    settings = Settings(**{**job["settings"], "home": Path(job["settings"]["home"])})
    given = job["source"]
    source = Source(given["location"], given["ref"], Filters(*map(tuple, given["filters"].values())))
    engine = Engine(
        settings,
        progress=lambda stage, done, total: _send({"progress": [stage, done, total]}),
        notice=lambda text: _send({"notice": text}),
        place=job["place"],
        refs=job["refs"],
    )
    try:
        repository = engine.repository(source, rebuild=job["rebuild"])
    except RagError as error:
        return {"error": {"kind": type(error).__name__, "message": str(error)}}
    checkout, report = repository.checkout, repository.report
    assert report is not None
    place = {"root": str(checkout.root), **{n: getattr(checkout, n) for n in ("commit", "dirty", "remote")}}
    return {"done": {"checkout": place, "report": report_record(report)}}


if __name__ == "__main__":
    main()
