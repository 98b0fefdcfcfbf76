"""Indexing in a child process: the server answers as quickly while it goes on, and can end it at any moment.

A child reads one job a line from its standard input and answers in lines on its standard output: progress
and notices, then one `done` or `error`. It ends when its input does, so it never outlives the server. A
store is written beside its place and renamed, and the kernel frees the lock of a process that is gone:
ending a child in the middle leaves the store as it was.

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
from rag.serve.errors import IndexingFailed
from rag.serve.workers.subprocesses import Child, started
from rag.settings import Settings
from rag.types import Checkout, Filters, IndexReport, Source

Tell = Callable[[str, int, int], None]

_MAX_LINE = 1 << 20
_LEAVES_WITHIN_S = 5.0
_NICENESS = 10
"""Questions that are asked meanwhile come first."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a job came to: the source on disk, and the report as JSON values (skipped files by reason)."""

    checkout: Checkout
    report: dict[str, Any]


class _Turns:
    """So many jobs at once; the others wait in the order in which they came.

    Those that somebody asks for come first, and one of them may run beside the others: no question waits for
    the long first index of another repository.
    """

    def __init__(self, most: int) -> None:
        self._most, self._running = most, 0
        self._waiting: OrderedDict[asyncio.Future[None], Source] = OrderedDict()
        self._hurried: set[Source] = set()

    @asynccontextmanager
    async def turn(self, source: Source) -> AsyncIterator[None]:
        """Wait for a turn, and have it while the block runs."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[mine] = source
        if source in self._hurried:
            self._waiting.move_to_end(mine, last=False)
        self._next()
        try:
            await mine
            yield
        finally:
            if self._waiting.pop(mine, None) is None:
                self._running -= 1
                self._next()

    def hurry(self, source: Source) -> None:
        """The job of a source, which waits or is about to, is next."""
        self._hurried.add(source)
        for mine in [mine for mine, waiting in self._waiting.items() if waiting == source]:
            self._waiting.move_to_end(mine, last=False)
        self._next()

    def _next(self) -> None:
        while self._waiting:
            mine, source = next(iter(self._waiting.items()))
            if self._running >= self._most + (source in self._hurried):
                return
            del self._waiting[mine]
            self._hurried.discard(source)
            self._running += 1
            if not mine.done():  # else it was cancelled, and gives its turn back
                mine.set_result(None)


class Indexers:
    """Children that index, at most `most` at once; an idle one waits for the next job.

    Args:
        settings: what they index with.
        notice: told in a sentence what the operator ought to know.
        most: jobs at once; one more waits.
    """

    def __init__(self, settings: Settings, *, notice: Callable[[str], None], most: int = 2) -> None:
        self._settings, self._notice = settings, notice
        self._turns = _Turns(most)
        self._idle: list[Child] = []

    def hurry(self, source: Source) -> None:
        """Somebody asks for the job of this source, which waits or is about to: it is next."""
        self._turns.hurry(source)

    async def index(
        self,
        source: Source,
        *,
        rebuild: bool,
        place: str | None,
        tell: Tell,
        refs: Sequence[str] | None = None,
    ) -> Indexed:
        """Index a source, or bring its store up to date. Cancelling ends the child.

        Args:
            source: what to index.
            rebuild: make it anew, whatever there is.
            place: where git may connect to and nowhere else, see `public_place`; None is wherever it is led.
            tell: told stage, done and total, in the event loop.
            refs: patterns of the refs that may be read, see `rag.corpus.refs`; None is all.

        Raises:
            IndexingFailed: with the error's message, or because the child died.
        """
        job = {
            "settings": _plain(self._settings),
            "source": asdict(source),
            "rebuild": rebuild,
            "place": place,
            "refs": refs,
        }
        async with self._turns.turn(source):
            child = await self._child()
            try:
                result = await self._run(child, job, tell)
            except BaseException:
                await child.end()
                raise
            self._idle.append(child)
        if error := result.get("error"):
            raise IndexingFailed(error["message"], kind=error["kind"])
        done = result["done"]
        return Indexed(_checkout(done["checkout"], source), done["report"])

    async def _child(self) -> Child:
        """One that waits for a job and was not ended by anyone meanwhile, else a new one."""
        while self._idle:
            child = self._idle.pop()
            if child.returncode is None:
                return child
            await child.end()
        try:
            return await started("rag.serve.workers.indexing", limit=_MAX_LINE, niceness=_NICENESS)
        except OSError as error:
            raise IndexingFailed(f"no indexing process could be started: {error}", kind="Died") from error

    async def close(self) -> None:
        """End the idle children."""
        while self._idle:
            await self._idle.pop().end()

    async def _run(self, child: Child, job: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
        try:
            child.stdin.write(json.dumps(job).encode() + b"\n")
            await child.stdin.drain()
            while line := await child.stdout.readline():
                said: dict[str, Any] = json.loads(line)
                if progress := said.get("progress"):
                    tell(*progress)
                elif notice := said.get("notice"):
                    self._notice(notice)
                else:
                    return said
        except (ConnectionError, ValueError) as error:
            raise IndexingFailed(
                f"the indexing process broke off ({error}); try again", kind="Died"
            ) from error
        code = await child.wait()
        raise IndexingFailed(
            f"the indexing process ended with {code} before it was done; its last words are in the server's "
            "log; is there enough memory?",
            kind="Died",
        )


def _plain(settings: Settings) -> dict[str, Any]:
    return {**asdict(settings), "home": str(settings.home)}


def _checkout(record: Mapping[str, Any], source: Source) -> Checkout:
    return Checkout(source, Path(record["root"]), record["commit"], record["dirty"], record["remote"])


def report_record(report: IndexReport) -> dict[str, Any]:
    """A report as JSON values; skipped files are counted by reason."""
    skipped: dict[str, int] = {}
    for skip in report.skipped:
        skipped[skip.reason] = skipped.get(skip.reason, 0) + 1
    names = ("action", "reason", "seen", "files", "chunks", "changed", "removed", "size_bytes", "commit")
    return {name: getattr(report, name) for name in names} | {
        "seconds": round(report.seconds, 3),
        "skipped": skipped,
    }


# ---------------------------------------------------------------- in the child


def main() -> None:
    """Do jobs until the input ends, or the server has no use for it: git ends with it, wherever it is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told, and ends its children
    signal.signal(signal.SIGTERM, _leave)
    jobs: list[str] = []
    there = threading.Semaphore(0)

    def read() -> None:
        for line in sys.stdin:
            jobs.append(line)
            there.release()
        # The server is gone, whatever is being done.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_LEAVES_WITHIN_S)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            there.acquire()
            _say(_done(json.loads(jobs.pop(0))))
    except SystemExit:
        os._exit(0)  # all is put away; Python's own end would wait for the thread that reads


def _leave(number: int, frame: FrameType | None) -> None:
    """What is under way is put away as after an error. Being told again does not disturb that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _say(value: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _done(job: dict[str, Any]) -> dict[str, Any]:
    from rag.service import Engine

    settings = Settings(**{**job["settings"], "home": Path(job["settings"]["home"])})
    given = job["source"]
    source = Source(given["location"], given["ref"], Filters(*map(tuple, given["filters"].values())))
    engine = Engine(
        settings,
        progress=lambda stage, done, total: _say({"progress": [stage, done, total]}),
        notice=lambda text: _say({"notice": text}),
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
