"""A queue of jobs in the memory of one process."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from rag.backends.queue.limits import (
    BACKOFF_S,
    LEASE_S,
    MAX_ATTEMPTS,
    WORKER_LOST,
    backoff_s,
    checked_key,
    shortened,
)
from rag.errors import LeaseLost, NotFound
from rag.job_queue import Jobs, JobState, QueuedJob
from rag.ports import Clock
from rag.types import now_utc

_MAX_ENDED = 100_000
"""As many as a list of repositories may have, so that the outcome of each is known at the end."""


class _Entry:
    """A job with what only the queue knows about it."""

    def __init__(self, job: QueuedJob, lock: str) -> None:
        self.job, self.lock = job, lock
        self.not_before = self.renewed = -math.inf
        """On the clock of leases."""


class MemoryJobs(Jobs):
    """A `Jobs` queue that its process takes with it.

    Args:
        clock: the source of the times that are shown.
        monotonic: the clock of leases and attempts, in seconds; changes of the system's time do not move it.
        lease_s: see `Jobs.lease_s`.
        first_backoff_s: how long a job waits after its first failed attempt; then twice as long each time.
        max_attempts: how often a job is attempted.
        max_ended: how many jobs that ended are remembered.
    """

    def __init__(
        self,
        *,
        clock: Clock = now_utc,
        monotonic: Callable[[], float] = time.monotonic,
        lease_s: float = LEASE_S,
        first_backoff_s: float = BACKOFF_S,
        max_attempts: int = MAX_ATTEMPTS,
        max_ended: int = _MAX_ENDED,
    ) -> None:
        self._clock, self._lease_s, self._max_ended = clock, lease_s, max_ended
        self._monotonic = monotonic
        self._backoff_s, self._max_attempts = first_backoff_s, max_attempts
        self._entries: dict[int, _Entry] = {}
        self._by_key: dict[str, _Entry] = {}
        """The newest job of each key that has not ended."""
        self._waiting: dict[int, _Entry] = {}
        self._running: dict[int, _Entry] = {}
        self._ended: deque[int] = deque()
        self._served: dict[str, int] = {}
        """When each namespace was last served, as the number of the lease."""
        self._ids, self._leases = count(1), count(1)
        self._changed = threading.Condition()
        self._last_changed = 0

    @property
    def lease_s(self) -> float:
        return self._lease_s

    def enqueue(
        self,
        key: str,
        args: Mapping[str, Any],
        *,
        namespace: str = "",
        asked: bool = False,
        lock: str = "",
    ) -> QueuedJob:
        checked_key(key)
        with self._changed:
            known = self._by_key.get(key)
            if known is not None and not known.job.cancelling:
                if asked and known.job.state == "waiting":
                    self._set(known, asked=True)
                return known.job
            job = QueuedJob(next(self._ids), key, dict(args), self._clock(), namespace, asked=asked)
            entry = _Entry(job, lock or key)
            self._entries[job.id] = self._waiting[job.id] = self._by_key[key] = entry
            self._forget_oldest()
            self._noticed(job)
            return job

    def lease(self, worker: str) -> QueuedJob | None:
        with self._changed:
            self._end_stale_leases()
            now = self._monotonic()
            locked = {entry.lock for entry in self._running.values()}
            busy: dict[str, int] = {}
            for entry in self._running.values():
                busy[entry.job.namespace] = busy.get(entry.job.namespace, 0) + 1

            def order(entry: _Entry) -> tuple[bool, int, int, int]:
                job = entry.job
                return (
                    not job.asked,
                    busy.get(job.namespace, 0),
                    self._served.get(job.namespace, 0),
                    job.id,
                )

            waiting = (
                entry
                for entry in self._waiting.values()
                if entry.not_before <= now and entry.lock not in locked
            )
            found = min(waiting, key=order, default=None)
            if found is None:
                return None
            found.renewed, number = now, next(self._leases)
            self._served[found.job.namespace] = number
            return self._set(found, state="running", worker=worker, lease=number, stage="", done=0, total=0)

    def report(self, job: QueuedJob, stage: str, done: int, total: int) -> QueuedJob:
        with self._changed:
            entry = self._held(job)
            entry.renewed = self._monotonic()
            return self._set(entry, stage=stage, done=done, total=total)

    def complete(self, job: QueuedJob, result: Mapping[str, Any]) -> None:
        with self._changed:
            self._end(self._held(job), "done", error="", result=dict(result))

    def fail(self, job: QueuedJob, error: str, *, retry: bool) -> QueuedJob:
        with self._changed:
            return self._failed(self._held(job), shortened(error), retry=retry)

    def release(self, job: QueuedJob) -> None:
        with self._changed:
            entry = self._held(job)
            if entry.job.cancelling:
                self._end(entry, "cancelled")
            else:
                self._set(entry, state="waiting", lease=0, worker="", stage="", done=0, total=0)

    def cancel(self, job_id: int) -> bool:
        with self._changed:
            entry = self._entry(job_id)
            if entry.job.has_ended:
                return False
            if entry.job.state == "waiting":
                self._end(entry, "cancelled")
            else:
                self._set(entry, cancelling=True)
            return True

    def job(self, job_id: int) -> QueuedJob:
        with self._changed:
            return self._entry(job_id).job

    def jobs(
        self,
        *,
        ids: Sequence[int] | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
    ) -> list[QueuedJob]:
        with self._changed:
            known = self._entries
            entries = known.values() if ids is None else [known[one] for one in set(ids) if one in known]
            found = [
                entry.job
                for entry in entries
                if namespace in (None, entry.job.namespace) and (not states or entry.job.state in states)
            ]
        return sorted(found, key=lambda job: -job.id)[:limit]

    def wait(self, timeout_s: float) -> list[int]:
        with self._changed:
            self._changed.wait(timeout_s)
            return [self._last_changed] if self._last_changed else []

    def close(self) -> None:
        """There is nothing to release."""

    # ---- with the lock

    def _entry(self, job_id: int) -> _Entry:
        if job_id not in self._entries:
            raise NotFound(f"there is no job {job_id}; `rag jobs list` lists the jobs")
        return self._entries[job_id]

    def _held(self, job: QueuedJob) -> _Entry:
        entry = self._entries.get(job.id)
        if entry is None or entry.job.state != "running" or entry.job.lease != job.lease:
            raise LeaseLost(f"job {job.id} is not run by this worker any more; nothing was changed")
        return entry

    def _set(self, entry: _Entry, **changes: Any) -> QueuedJob:
        before, entry.job = entry.job.state, replace(entry.job, **changes)
        if entry.job.state != before:
            self._moved(entry)
        self._noticed(entry.job)
        return entry.job

    def _moved(self, entry: _Entry) -> None:
        """Record a new state in what is looked up by state."""
        job = entry.job
        self._waiting.pop(job.id, None)
        self._running.pop(job.id, None)
        if job.state == "waiting":
            self._waiting[job.id] = entry
        elif job.state == "running":
            self._running[job.id] = entry
        else:
            self._ended.append(job.id)
            if self._by_key.get(job.key) is entry:
                del self._by_key[job.key]

    def _noticed(self, job: QueuedJob) -> None:
        self._last_changed = job.id
        self._changed.notify_all()

    def _end(self, entry: _Entry, state: JobState, **changes: Any) -> QueuedJob:
        return self._set(entry, state=state, ended=self._clock(), lease=0, cancelling=False, **changes)

    def _failed(self, entry: _Entry, error: str, *, retry: bool, at_once: bool = False) -> QueuedJob:
        attempts = entry.job.attempts + 1
        if entry.job.cancelling:
            return self._end(entry, "cancelled", error=error, attempts=attempts)
        if not retry or attempts >= self._max_attempts:
            return self._end(entry, "failed", error=error, attempts=attempts)
        wait_s = 0.0 if at_once else backoff_s(attempts, self._backoff_s)
        entry.not_before = self._monotonic() + wait_s
        return self._set(entry, state="waiting", error=error, attempts=attempts, lease=0, worker="")

    def _end_stale_leases(self) -> None:
        limit = self._monotonic() - self._lease_s
        for entry in list(self._running.values()):
            if entry.renewed < limit:
                lost = WORKER_LOST.format(worker=entry.job.worker, lease_s=self._lease_s)
                self._failed(entry, lost, retry=True, at_once=entry.job.attempts == 0)

    def _forget_oldest(self) -> None:
        while len(self._ended) > self._max_ended:
            del self._entries[self._ended.popleft()]
