"""The registry of served repositories: an allow-list that is kept indexed in the background.

A `ServedRepository` is one repository at one ref. A child process builds or updates its store; meanwhile
questions are answered from the previous state. A few changed files of a folder are indexed in a thread before
the answer. A request can open only a listed repository by name, such a name at a ref, or an https URL on an
allowed host.

A question is answered from the store on disk, whichever process wrote it: when its generation differs from
the open one, it is reopened. Before that, the files are compared with the index (`tree_checks`).

Everything here runs in the server's event loop; only opening stores, comparing files and indexing a few of
them use threads.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag.database.parts import belongs
from rag.errors import NotFound, RagError, SourceError, StoreCorrupt, StoreError, TooManyOpenFiles
from rag.job_queue import QueuedJob
from rag.request_context import note_repository
from rag.serve.access.keys import Caller
from rag.serve.access.ssrf import resolve_public
from rag.serve.errors import Forbidden, IndexingFailed, ServeError, TooMany
from rag.serve.repositories.entry import ServedRepository, damaged, failed, still_indexing
from rag.serve.repositories.names import RepositoryNames
from rag.serve.settings import ServerSettings
from rag.serve.telemetry import log
from rag.serve.workers.indexing import ChildIndexers, Indexed, Indexers, IndexTask
from rag.serve.workers.open_files import max_open_stores
from rag.serve.workers.shared_indexing import SharedIndexers, indexed_source
from rag.serve.workers.tree_checks import TreeChecks
from rag.service import Engine, Repository
from rag.service.repositories.engine import Generation
from rag.service.repositories.jobs import open_jobs
from rag.service.repositories.ref_retention import RefRetention, RetentionFull
from rag.service.repositories.repository import at_checkout
from rag.types import Checkout, Source

_MIN_PAUSE_FACTOR = 20.0
"""The share of time spent on looking for changes is at most one divided by this."""
_RECHECK_S = 30.0
"""A folder that is watched is also compared after this time, while it is asked."""
_FEW_FILES = 50
"""Up to so many changed files are indexed before an answer, in this process, as a child gets its share of a
busy machine much later; more are indexed after the answer, which names them.
"""
_MAX_UPDATE_WAIT_S = 10.0
"""How long a question waits for them; then its answer names them too."""
_OPEN_ATTEMPTS = 2
"""A running update may miss that a store is damaged; the rebuild after it replaces the store."""
_RETRY_AFTER_FAILURE_S = 30.0
"""How long a question does not repeat a job that has failed."""


class RepositoryRegistry(RepositoryNames):
    """The served repositories, by name.

    Args:
        settings: the listed repositories, and the intervals of checks.
        engine: opens the stores.
        notice: called with each message for the operator.
    """

    def __init__(
        self, settings: ServerSettings, engine: Engine, *, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        super().__init__(settings, released=lambda source: self._retention.release(source))
        self._engine, self._notice = engine, notice
        self._indexers: Indexers | None = None
        self._retention = RefRetention(
            settings.engine.home,
            self._store_file,
            max_entries=settings.max_refs,
            max_bytes=settings.max_refs_bytes,
        )
        self._checks: TreeChecks | None = None
        self._probing: asyncio.Task[None] | None = None
        self._open: OrderedDict[ServedRepository, None] = OrderedDict()
        """The entries whose stores are open, least recently used first."""

    # ------------------------------------------------------------ questions

    async def repository(self, name: str, *, caller: Caller | None = None) -> Repository:
        """Open the repository that a request names. Starts indexing and updates when they are due.

        Raises:
            StillIndexing: its first index takes longer than a request should wait.
            IndexingFailed: it could not be indexed.
            ServeError: as `entry`.
        """
        return await self.opened(self.entry(name, caller=caller))

    async def opened(self, entry: ServedRepository) -> Repository:
        """Open the repository of an entry with its current files, see `repository`.

        A store on disk is opened at once, even while the repository waits to be indexed. Up to 50 changed
        files are indexed first; more are named in the repository's `coverage`.
        """
        note_repository(entry.name)
        self._refresh_if_due(entry)
        if not entry.is_listed:
            self._retention.used(entry.source)
        self._prioritize(entry)
        repository = await self._current(entry)
        for _ in range(_OPEN_ATTEMPTS):
            if repository is None:
                await self._wait_for_first_index(entry)
                repository = await self._current(entry)
        if repository is None:
            raise damaged(entry) or entry.error or still_indexing(entry)
        found = await self._updated(entry, repository)
        return replace(found, coverage=replace(found.coverage, repository=entry.name))

    async def _wait_for_first_index(self, entry: ServedRepository) -> None:
        """Wait for the first index. Raises StillIndexing after the time that a request should wait."""
        deadline = time.monotonic() + self._settings.wait_for_index_s
        while not entry.can_answer and entry.running:
            try:
                await asyncio.wait_for(entry.wait_for_change(), deadline - time.monotonic())
            except TimeoutError:
                raise still_indexing(entry) from None

    async def _current(self, entry: ServedRepository, checkout: Checkout | None = None) -> Repository | None:
        """Return the repository with the current store on disk, or None if there is no usable one.

        The previously open store is closed when the last question that uses it has been answered.
        """
        if entry.repository is not None and self._engine.generation(entry.source) == entry.generation:
            self._mark_used(entry)
            return entry.repository
        if not entry.is_listed and entry.report is None:
            return None  # only a job checks whether this ref is allowed
        async with entry._opening:
            generation = self._engine.generation(entry.source)
            if entry.repository is not None and entry.generation == generation:
                return entry.repository
            try:
                opened = await self._opened_store(entry, checkout)
            except (NotFound, SourceError, StoreError) as error:
                if isinstance(error, TooManyOpenFiles):
                    raise
                entry.stored = False  # the open store is still used
                if isinstance(error, StoreCorrupt):
                    self._replace_damaged(entry, generation, error)
                elif not isinstance(error, NotFound):
                    log.warning("the store of %s was not opened: %s", entry.name, error)
            else:
                entry.damage = ""
                self._use(entry, opened, generation)
                if entry.state != "ready":
                    entry.state = "ready"
                    entry.notify()
            return entry.repository

    def _use(self, entry: ServedRepository, opened: Repository, generation: Generation) -> None:
        entry.repository, entry.generation, entry.stored = opened, generation, True
        entry.checkout = opened.checkout
        self._mark_used(entry)

    def _replace_damaged(self, entry: ServedRepository, found: Generation, damage: StoreCorrupt) -> None:
        """Start to rebuild a damaged store.

        The open store is still used if another file replaced it. It is closed if its own file was modified:
        the file is mapped, and reading beyond the end of a truncated file ends the process.
        """
        if _was_modified(entry.generation, found):
            self._close_store(entry)
        if not entry.damage:
            log.warning("rebuilding the store of %s: %s", entry.name, damage)
        entry.damage = damage.why
        if not self._has_just_failed(entry):
            self.index(entry, rebuild=True)

    async def _opened_store(self, entry: ServedRepository, checkout: Checkout | None) -> Repository:
        try:
            return await to_thread(self._engine.stored, entry.source, checkout)
        except TooManyOpenFiles:
            self._close_stores(len(self._open) // 2)
            return await to_thread(self._engine.stored, entry.source, checkout)

    def _mark_used(self, entry: ServedRepository) -> None:
        """Mark a store as used, and close the least recently used ones above the system's limit."""
        self._open[entry] = None
        self._open.move_to_end(entry)
        self._close_stores(max_open_stores())

    def _close_stores(self, limit: int) -> None:
        """Close the least recently used stores until at most `limit` are open."""
        while len(self._open) > limit:
            self._close_store(next(iter(self._open)))

    def _close_store(self, entry: ServedRepository) -> None:
        self._open.pop(entry, None)
        self._engine.release(entry.source)
        if self._checks is not None:
            self._checks.forget(entry.source)
        entry.repository = entry.generation = None

    async def _updated(self, entry: ServedRepository, repository: Repository) -> Repository:
        """Compare the repository with its files; index changed files first if they are few."""
        if repository.source.is_url:
            ago = self._fetched_ago_s(entry, repository)
            coverage = replace(repository.coverage, checked_ago_s=None if ago is None else round(ago, 3))
            return replace(repository, coverage=coverage)
        if self._checks is None or self._settings.refresh_s <= 0:
            return repository
        is_here = entry.source.ref is None and not self._engine.settings.shared
        joins = entry.update is not None or entry.running  # begun earlier: may lack the last change
        arrived = time.monotonic()
        now, is_behind = await self._compared(entry, repository, arrived)
        for _ in range(2 if joins else 1):
            if not is_behind or self._has_just_failed(entry):
                return now
            is_small = 0 < now.coverage.not_indexed_count <= _FEW_FILES and not entry.rebuilding
            if is_small and is_here:
                await self._update_here(entry, now)
            else:
                self.index(entry)
                self._prioritize(entry)
                if not (is_small and await self._ended(entry)):
                    return now
            now, is_behind = await self._compared(entry, await self._current(entry) or now, arrived)
        return now

    async def _compared(
        self, entry: ServedRepository, repository: Repository, arrived: float
    ) -> tuple[Repository, bool]:
        """Return the repository compared with its files since `arrived`, and whether its index is behind."""
        assert self._checks is not None
        now, is_behind = await self._checks.checked(repository, arrived)
        self._set_checkout(entry, now)
        return now, is_behind

    async def _update_here(self, entry: ServedRepository, compared: Repository) -> None:
        """Index the changes that a comparison has found in a thread, once for all questions that wait."""
        if entry.update is None:
            entry.update = asyncio.create_task(to_thread(self._engine.caught_up, compared))
            entry.update.add_done_callback(lambda done: self._updated_here(entry, compared, done))
        await asyncio.wait([entry.update], timeout=_MAX_UPDATE_WAIT_S)

    def _updated_here(
        self, entry: ServedRepository, compared: Repository, done: asyncio.Task[Repository]
    ) -> None:
        entry.update, entry.checked, entry.indexed = None, time.monotonic(), time.time()
        error = None if done.cancelled() else done.exception()
        if isinstance(error, RagError):
            entry.error = error if isinstance(error, ServeError) else failed(error)
            self._notice(f"{entry.name} could not be indexed: {error}")
        elif error is not None:
            log.error("the changed files of %s could not be indexed", entry.name, exc_info=error)
            entry.error = _internal(entry)
        elif not done.cancelled() and (report := done.result().report) is not None:
            entry.report, entry.error = report.record, None
            self._use(entry, done.result(), self._engine.generation(entry.source))
            if self._checks is not None:
                self._checks.caught_up(compared, done.result())
        entry.notify()

    async def _ended(self, entry: ServedRepository) -> bool:
        """Whether the job of an entry ends within the time that a question waits for it."""
        deadline = time.monotonic() + _MAX_UPDATE_WAIT_S
        while entry.running:
            try:
                await asyncio.wait_for(entry.wait_for_change(), deadline - time.monotonic())
            except TimeoutError:
                return False
        return True

    def _fetched_ago_s(self, entry: ServedRepository, repository: Repository) -> float | None:
        """Return the seconds since a URL was fetched, or since its published index was compared with it."""
        if repository.checkout.has_files:
            return self._engine.fetched_ago_s(repository)
        is_compared = entry.report is not None and entry.report.get("is_current", True)
        return time.monotonic() - entry.checked if is_compared else None

    def _set_checkout(self, entry: ServedRepository, now: Repository) -> None:
        """Store the checkout that was found, so that the next question's hits have its commit."""
        if entry.repository is not None and entry.repository.store.segments is now.store.segments:
            entry.repository, entry.checkout = now, now.checkout

    def _prioritize(self, entry: ServedRepository) -> None:
        if self._indexers is not None and entry.running and entry.stage == "waiting":
            self._indexers.prioritize(entry.source)

    def _has_just_failed(self, entry: ServedRepository) -> bool:
        return entry.error is not None and time.monotonic() - entry.checked < _RETRY_AFTER_FAILURE_S

    # ------------------------------------------------------------ indexing

    async def start(self) -> None:
        """Start indexing the list. Repositories with a store on disk can be asked before that."""
        self._indexers = await self._opened_indexers()
        self._checks = TreeChecks(self._engine, recheck_s=max(_RECHECK_S, self._settings.refresh_s))
        for entry in self.entries():
            self.index(entry)
        self._probing = asyncio.create_task(self._find_stored())
        self._probing.add_done_callback(_log_failure)

    async def _opened_indexers(self) -> Indexers:
        settings = self._engine.settings
        if not settings.shared:
            return ChildIndexers(settings, notice=self._notice)
        return SharedIndexers(open_jobs(settings), settings, notice=self._notice, of_others=self._follow)

    def _follow(self, job: QueuedJob) -> None:
        """Follow a job that another server has added, if it is about one of the repositories."""
        source = indexed_source(job)
        entry = next((entry for entry in self._entries.values() if entry.source == source), None)
        if entry is not None and not entry.running:
            self.index(entry, joined=job)

    async def _find_stored(self) -> None:
        """Mark the listed repositories whose stores on disk are usable as ready."""
        for entry in self.entries():
            if not entry.can_answer and await to_thread(self._engine.usable, entry.source):
                entry.stored, entry.state = True, "ready"
                entry.notify()

    async def close(self) -> None:
        """Cancel all jobs. What was indexed stays."""
        await asyncio.sleep(0)  # a task that was never started would not run its cleanup
        tasks: list[asyncio.Task[Any]] = [e._task for e in self.entries() if e._task is not None]
        tasks += [self._probing] if self._probing is not None else []
        for task in tasks:  # cancel all before waiting, so that no queued job starts
            task.cancel()
        tasks += [e.update for e in self.entries() if e.update is not None]  # threads, which end soon
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._checks is not None:
            await self._checks.close()
        if self._indexers is not None:
            await self._indexers.close()
        self._retention.close()

    def index(
        self,
        entry: ServedRepository,
        *,
        rebuild: bool = False,
        joined: QueuedJob | None = None,
        caller: Caller | None = None,
    ) -> bool:
        """Start to index, unless a job is running; return whether one was started.

        `joined` is a job of another server, which is followed. `caller` has asked for the job explicitly.
        """
        if entry.running:
            return False
        entry.started_by = None if caller is None else caller.namespace
        entry.running, entry.rebuilding, entry.jobs, entry.error = True, rebuild, entry.jobs + 1, None
        if not entry.can_answer:
            entry.state = "waiting"
        entry.report_progress("waiting", 0, 0)
        entry._task = asyncio.create_task(self._job(entry, rebuild=rebuild, joined=joined))
        entry._task.add_done_callback(_log_failure)
        return True

    def rebuild_damaged(self, damage: StoreCorrupt) -> str | None:
        """Start to rebuild the index that an error is about; return the entry's name, or None."""
        for entry in self.entries():
            path = entry.repository.store.path if entry.repository is not None else None
            if path is not None and belongs(damage.path, path):
                self.index(entry, rebuild=True)
                return entry.name
        return None

    async def cancel(self, entry: ServedRepository, caller: Caller) -> bool:
        """Cancel the job of an entry; return whether there was one. The previous index stays.

        Raises:
            Forbidden: another caller has started the job, or waits for this ref or URL, too.
        """
        others = {entry.started_by} if entry.is_listed else entry.asked_by
        if entry.running and others - {None, caller.namespace}:
            raise Forbidden(
                f"another caller has asked to index {entry.name}; only its callers can cancel that"
            )
        task = entry._task
        if task is None or task.done():
            return False
        await asyncio.sleep(0)  # a task that was never started would not run its cleanup
        if self._indexers is not None:
            await self._indexers.cancel(entry.source)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return True

    async def events(self, entry: ServedRepository) -> AsyncIterator[ServedRepository]:
        """Yield the entry now and after each change until its job ends. Simultaneous changes are merged."""
        yield entry
        while entry.running:
            await entry.wait_for_change()
            yield entry

    async def _job(self, entry: ServedRepository, *, rebuild: bool, joined: QueuedJob | None) -> None:

        try:
            async with self._retained(entry):
                await self._publish(entry, await self._indexed(entry, rebuild=rebuild, joined=joined))
        except RagError as error:
            entry.error = error if isinstance(error, ServeError) else failed(error)
            entry.state = "ready" if entry.can_answer else "failed"
            self._notice(f"{entry.name} could not be indexed: {error}")
        except asyncio.CancelledError:
            entry.state = "ready" if entry.can_answer else "cancelled"
            entry.error = IndexingFailed(f"the indexing of {entry.name} was cancelled", kind="Cancelled")
            raise
        finally:
            if not entry.can_answer and entry.error is None:
                # An unexpected exception: set an error, so that waiting requests end.
                entry.state = "failed"
                entry.error = _internal(entry)
            entry.running = entry.rebuilding = False
            entry.checked, entry.indexed = time.monotonic(), time.time()
            entry.report_progress("", 0, 0)
        if entry.wants_files and entry.error is None and entry.checkout and not entry.checkout.has_files:
            self.index(entry)

    async def _indexed(self, entry: ServedRepository, *, rebuild: bool, joined: QueuedJob | None) -> Indexed:
        assert self._indexers is not None, "the registry is started with the server"

        def progress(stage: str, done: int, total: int) -> None:
            if not entry.can_answer:
                entry.state = "indexing"
            entry.report_progress(stage, done, total)

        task = IndexTask(
            entry.source,
            rebuild=rebuild,
            place=None if self._is_trusted(entry.source) else await resolve_public(entry.source.location),
            refs=None if entry.is_listed else self._settings.allowed_refs,
            namespace=min(entry.asked_by, default=""),
            joined=joined,
            with_files=entry.wants_files,
        )
        return await self._indexers.index(task, progress, lambda indexed: self._taken(entry, indexed))

    async def _publish(self, entry: ServedRepository, indexed: Indexed) -> None:
        """Use the new store. It is opened now if the previous one is open, else when it is first asked."""
        if entry.repository is not None:
            opened = await self._current(entry, indexed.checkout)
            if entry.repository is opened is not None and indexed.checkout is not None:
                entry.repository = at_checkout(opened, indexed.checkout)
        entry.checkout, entry.stored = indexed.checkout or entry.checkout, True
        entry.report, entry.state, entry.error = indexed.report, "ready", None
        entry.took_s = float(indexed.report["seconds"])

    def _taken(self, entry: ServedRepository, indexed: Indexed) -> None:
        """Answer from a published index while the job goes on."""
        entry.checkout, entry.stored, entry.report = indexed.checkout, True, indexed.report
        entry.state = "ready"
        entry.notify()

    def fetch_files(self, source: Source) -> None:
        """Clone a listed URL that is answered from a published index alone, in the background."""
        found = next((entry for entry in self._entries.values() if entry.source == source), None)
        if found is None or not found.is_listed or found.wants_files or self._indexers is None:
            return
        found.wants_files = True
        self.index(found)  # or when the job that is running has ended

    def _refresh_if_due(self, entry: ServedRepository) -> None:
        """Start a job in the background if the last one is old enough.

        A folder that can answer is instead compared with its index at each question.
        """
        if entry.running or (entry.jobs and entry.can_answer and not entry.source.is_url):
            return
        pause = self._settings.fetch_s if entry.source.is_url else self._settings.refresh_s
        if entry.error is not None and entry.jobs:
            pause = max(pause, _RETRY_AFTER_FAILURE_S)
        age = time.monotonic() - entry.checked
        if not entry.jobs or (pause > 0 and age > max(pause, _MIN_PAUSE_FACTOR * entry.took_s)):
            self.index(entry)

    # ------------------------------------------------------------ unlisted repositories

    @asynccontextmanager
    async def _retained(self, entry: ServedRepository) -> AsyncIterator[None]:
        """Count the disk usage of a job for an unlisted ref or URL, and evict others above the limit.

        Raises:
            TooMany: there is no room, and everything else is in use.
        """
        if entry.is_listed:
            yield
            return
        try:
            self._drop(await to_thread(self._retention.begin, entry.source))
            try:
                yield
            finally:
                self._drop(await to_thread(self._retention.end, entry.source))
        except RetentionFull as error:
            self._close_store(entry)
            entry.stored = False
            raise TooMany(str(error), retry_after_s=60) from error
        except OSError as error:
            raise IndexingFailed(f"{entry.name} cannot be stored: {error}", kind="StoreUnwritable") from error

    def _drop(self, evicted: Sequence[Source]) -> None:
        """Drop the entries whose stores were evicted from disk."""
        for entry in self.entries():
            if entry.source in evicted and not (entry.is_listed or entry.running):
                del self._entries[entry.name]
                self._close_store(entry)

    def _store_file(self, source: Source) -> Path:
        return self._engine.store_file(source)


def _internal(entry: ServedRepository) -> IndexingFailed:
    """Return the error of an indexing that an unexpected exception has ended, which the log has."""
    return IndexingFailed(
        f"{entry.name} could not be indexed; see the server's log for the reason", kind="Internal"
    )


def _log_failure(job: asyncio.Task[None]) -> None:
    """Log the exception of a background task, which no other code awaits."""
    if not job.cancelled() and (error := job.exception()) is not None:
        log.error("a job of the registry failed", exc_info=error)


def _was_modified(opened: Generation | None, found: Generation) -> bool:
    """Whether a file of a store was modified in place since it was opened."""
    before = {state[0]: state for state in opened or () if state is not None}
    return any(now is not None and before.get(now[0], now) != now for now in found)
