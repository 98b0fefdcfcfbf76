"""Indexing by the workers of a shared queue: a server adds jobs, and follows them and those of other servers.

One thread waits for changes of the queue and hands them to the event loop. If the queue cannot be reached,
jobs are followed again when it is back; nothing is added twice, as a store has one job at a time.

If the servers share stores in another place than the data folder, a job that is done has published one. Each
server then takes it; one that has a clone or a folder updates its own index, which begins with the published
one (`rag.service.repositories.shared_stores`). If the place cannot be used, the job is done all the same, and
each server indexes what has changed itself.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from rag.errors import ConfigError, StoreError
from rag.job_queue import Jobs, QueuedJob
from rag.serve.errors import IndexingFailed
from rag.serve.telemetry import log
from rag.serve.workers.indexing import ChildIndexers, Indexed, Indexers, IndexTask, Taken, ignore
from rag.service.repositories.jobs import index_request, source_of
from rag.settings import Settings
from rag.types import Progress, Source

_POLL_S = 1.0
"""How often jobs are read although nothing was noticed."""
_PAUSE_S = 2.0
"""The pause after the queue could not be reached."""
_MAX_RUNNING = 500
"""How many running jobs of other servers are shown."""
_BATCH = 500
_MAX_HANDLED = 10_000

_Listener = Callable[[QueuedJob | None], None]
"""Receives a job that has changed; None if it is not in the queue any more."""


class SharedIndexers(Indexers):
    """Has sources indexed by workers. Cancelling `index` only ends the waiting.

    Args:
        jobs: the queue.
        settings: those of the stores.
        notice: called with each message for the operator.
        of_others: called in the event loop with a job that this server has not added, running or done.
    """

    def __init__(
        self,
        jobs: Jobs,
        settings: Settings,
        *,
        notice: Callable[[str], None],
        of_others: Callable[[QueuedJob], None],
    ) -> None:
        self._jobs, self._settings, self._of_others = jobs, settings, of_others
        self._local = ChildIndexers(settings, notice=notice) if settings.stores else None
        self._handled: OrderedDict[int, None] = OrderedDict()
        """The last jobs that this server has followed to their end."""
        self._followed: dict[int, _Listener] = {}
        self._by_source: dict[Source, int] = {}
        self._prioritized: set[Source] = set()
        self._taken: set[Source] = set()
        """The sources whose published indexes were looked for once, before their first jobs."""
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="shared-jobs", daemon=True)
        self._tasks: set[asyncio.Task[object]] = set()
        self._thread.start()

    def prioritize(self, source: Source) -> None:
        job_id = self._by_source.get(source)
        if job_id is None:
            self._prioritized.add(source)
            return
        task: asyncio.Task[object] = asyncio.create_task(to_thread(self._ask, job_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ask(self, job_id: int) -> None:
        try:
            job = self._jobs.job(job_id)
            if job.state == "waiting" and not job.asked:
                self._jobs.enqueue(job.key, job.args, namespace=job.namespace, asked=True)
        except (ConfigError, StoreError) as error:
            log.warning("job %s could not be moved to the front: %s", job_id, error)

    async def index(self, task: IndexTask, progress: Progress, taken: Taken = ignore) -> Indexed:
        source, local = task.source, self._local
        if task.may_take and local is not None and source not in self._taken:
            if found := await local.take(task, is_checked=False):
                taken(found)
            self._taken.add(source)
        job = await self._ended(task.joined or await self._added(task), source, progress)
        if job.state != "done":
            kind = "Cancelled" if job.state == "cancelled" else "Failed"
            raise IndexingFailed(job.error or f"the job was {job.state}", kind=kind)
        if local is None:
            return Indexed(None, dict(job.result["report"]))
        if task.may_take and (key := job.result.get("published")):  # it is of this commit, or a later one
            found = await local.take(task, is_checked=False, published_as=str(key))
            if found is not None:
                return found
        return await local.index(replace(task, rebuild=False), progress)

    async def _added(self, task: IndexTask) -> QueuedJob:
        """Add a job to the queue, at its front if a question waits for it."""
        asked = task.source in self._prioritized
        self._prioritized.discard(task.source)
        request = index_request(
            task.source,
            self._settings,
            rebuild=task.rebuild,
            place=task.place,
            refs=task.refs,
            publish_required=False,
        )
        return await to_thread(request.enqueue, self._jobs, namespace=task.namespace, asked=asked)

    async def _ended(self, job: QueuedJob, source: Source, progress: Progress) -> QueuedJob:
        """Follow a job, and return it when it has ended."""
        ended: asyncio.Future[QueuedJob] = asyncio.get_running_loop().create_future()

        def changed(now: QueuedJob | None) -> None:
            if ended.done():
                return
            if now is None:
                ended.set_exception(IndexingFailed("the job is not in the queue any more", kind="Failed"))
            elif now.has_ended:
                ended.set_result(now)
            elif now.state == "running":
                progress(now.stage or "starting", now.done, now.total)

        self._followed[job.id], self._by_source[source] = changed, job.id
        try:
            if source in self._prioritized:
                self._prioritized.discard(source)
                await to_thread(self._ask, job.id)
            changed(job)
            return await ended
        finally:
            self._followed.pop(job.id, None)
            self._by_source.pop(source, None)
            self._handled[job.id] = None
            if len(self._handled) > _MAX_HANDLED:
                self._handled.popitem(last=False)

    async def cancel(self, source: Source) -> None:
        job_id = self._by_source.get(source)
        if job_id is not None:
            await to_thread(self._jobs.cancel, job_id)

    async def close(self) -> None:
        self._closing.set()
        await to_thread(self._thread.join)
        await to_thread(self._jobs.close)
        if self._local is not None:
            await self._local.close()

    # ---- in the thread

    def _watch(self) -> None:
        is_away = False
        while not self._closing.is_set():
            try:
                self._read(self._jobs.wait(_POLL_S))
                is_away = False
            except StoreError as error:
                if not is_away:
                    log.warning("the jobs cannot be read, trying again: %s", error)
                is_away = True
                self._closing.wait(_PAUSE_S)

    def _read(self, changed: Sequence[int]) -> None:
        followed = list(self._followed)
        found = self._jobs.jobs(states=("running",), limit=_MAX_RUNNING)
        seen = {job.id for job in found}
        rest = [number for number in {*followed, *changed} if number not in seen]
        for at in range(0, len(rest), _BATCH):
            found += self._jobs.jobs(ids=rest[at : at + _BATCH], limit=_BATCH)
        if not self._closing.is_set():
            gone = set(followed) - {job.id for job in found}
            self._loop.call_soon_threadsafe(self._deliver, found, gone)

    def _deliver(self, found: list[QueuedJob], gone: set[int]) -> None:
        for listener in [self._followed[number] for number in gone if number in self._followed]:
            listener(None)
        for job in found:
            if follows := self._followed.get(job.id):
                follows(job)
            elif _is_about_a_store(job) and job.id not in self._handled:
                self._of_others(job)


def _is_about_a_store(job: QueuedJob) -> bool:
    """Return whether a job builds a store, or has built one."""
    return job.state in ("running", "done")


def indexed_source(job: QueuedJob) -> Source | None:
    """Return the source of a job of another server; None if it is not one that this version reads."""
    try:
        return source_of(job.args.get("source", {}))
    except ConfigError:
        return None
