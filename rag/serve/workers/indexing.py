"""Indexing in a child process, which does not slow down the server and can be ended at any time."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from rag.job_queue import QueuedJob
from rag.processes import object_store_environment
from rag.serve.errors import IndexingFailed
from rag.serve.workers.subprocesses import Child, start_child
from rag.settings import Settings, plain_settings
from rag.types import Checkout, Progress, Source

Taken = Callable[["Indexed"], None]

_MAX_LINE = 1 << 20
_NICENESS = 10
"""Lower priority than the server's own process."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of a job: the source on disk, and the report as JSON values (skipped files by reason).

    The checkout is None if another machine may have indexed it.
    """

    checkout: Checkout | None
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexTask:
    """What is to be indexed, or whose store is to be updated.

    Args:
        source: the repository.
        rebuild: rebuild the store from scratch.
        place: the only addresses git may connect to, see `resolve_public`; None does not restrict it.
        refs: patterns of the refs that may be read, see `rag.corpus.refs`; None allows all.
        namespace: whose job it is in a shared queue.
        joined: a job of another server, which is followed instead of adding one to the shared queue.
        with_files: clone a URL even if its published index can be used without (`published_index`).
    """

    source: Source
    rebuild: bool = False
    place: str | None = None
    refs: Sequence[str] | None = None
    namespace: str = ""
    joined: QueuedJob | None = None
    with_files: bool = False

    @property
    def may_take(self) -> bool:
        """Whether a published index is enough."""
        return not self.with_files and not self.rebuild and self.refs is None


def ignore(indexed: Indexed) -> None:
    """Do nothing."""


class Indexers(Protocol):
    """Has sources indexed, by child processes of this server or by the workers of a shared queue."""

    def prioritize(self, source: Source) -> None:
        """Move the job of a source, which a question waits for, to the front."""
        ...

    async def index(self, task: IndexTask, progress: Progress, taken: Taken = ignore) -> Indexed:
        """Index a source, or update its store.

        Args:
            task: what to index.
            progress: called with stage, done and total, in the event loop.
            taken: called when a published index can be used before the job is done.

        Raises:
            IndexingFailed: with the error's message, because the child ended, or because it was cancelled.
            StoreError: the queue cannot be reached.
        """
        ...

    async def cancel(self, source: Source) -> None:
        """Cancel the job of a source, for all servers of a shared queue."""
        ...

    async def close(self) -> None:
        """End the idle children and threads. Jobs of a shared queue go on."""
        ...


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


class ChildIndexers(Indexers):
    """Child processes that index; an idle one is reused. Cancelling `index` ends the child.

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
        self._queue.prioritize(source)

    async def index(self, task: IndexTask, progress: Progress, taken: Taken = ignore) -> Indexed:
        if task.may_take and (found := await self.take(task, is_checked=True)) is not None:
            return found
        args = {"rebuild": task.rebuild, "refs": task.refs}
        done = await self._done("index", task, args, progress)
        return Indexed(_checkout(done["checkout"], task.source), done["report"])

    async def take(
        self, task: IndexTask, *, is_checked: bool, published_as: str | None = None
    ) -> Indexed | None:
        """Take the published index of a URL that has no clone here; None if there is none, or it is older.

        Args:
            task: what is indexed.
            is_checked: whether the index must be of the commit that the git server has now.
            published_as: the key under which a worker has just published it.

        Raises:
            IndexingFailed: as `index`.
        """
        if not self._settings.stores or not task.source.is_url:
            return None
        args = {"is_checked": is_checked, "published_as": published_as}
        done = await self._done("take", task, args, lambda stage, done, total: None)
        return Indexed(_checkout(done["checkout"], task.source), done["report"]) if done["taken"] else None

    async def _done(
        self, kind: str, task: IndexTask, args: Mapping[str, Any], progress: Progress
    ) -> dict[str, Any]:
        """Run a job in a child. Raises IndexingFailed."""
        args = {"source": asdict(task.source), "place": task.place, **args}
        job = {"kind": kind, "settings": plain_settings(self._settings), "args": args}
        async with self._queue.slot(task.source):
            child = await self._child()
            try:
                result = await self._run(child, job, progress)
            except BaseException:
                await child.end()
                raise
            self._idle.append(child)
        if error := result.get("error"):
            raise IndexingFailed(error["message"], kind=error["kind"])
        done: dict[str, Any] = result["done"]
        return done

    async def _child(self) -> Child:
        """Return an idle child that is still alive, or start one."""
        while self._idle:
            child = self._idle.pop()
            if child.returncode is None:
                return child
            await child.end()
        try:
            return await start_child(
                "rag.worker.child",
                environment=object_store_environment() if self._settings.stores else None,
                limit=_MAX_LINE,
                niceness=_NICENESS,
            )
        except OSError as error:
            raise IndexingFailed(f"no indexing process could be started: {error}", kind="Died") from error

    async def cancel(self, source: Source) -> None:
        """Nothing is left to cancel."""

    async def close(self) -> None:
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


def _checkout(record: Mapping[str, Any], source: Source) -> Checkout:
    root = Path(record["root"])
    return Checkout(
        source, root, record["commit"], record["dirty"], record["remote"], has_files=record["has_files"]
    )
