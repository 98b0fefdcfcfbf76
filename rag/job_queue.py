"""The queue of jobs: its values, and the port that the queues in `rag/backends/queue` implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of a queue, as it was when it was read.

    `attempts` counts the attempts that failed; the last `error` stays while the job waits for the next one.
    `lease` identifies the attempt that runs; it is 0 while nobody runs the job.
    """

    id: int
    key: str
    args: Mapping[str, Any]
    created: datetime
    namespace: str = ""
    state: JobState = "waiting"
    asked: bool = False
    attempts: int = 0
    stage: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    worker: str = ""
    ended: datetime | None = None
    cancelling: bool = False
    lease: int = 0

    @property
    def request_id(self) -> str:
        """The id of the request that it was first added for; "" if none is known."""
        return str(self.args.get("request_id", ""))

    @property
    def has_ended(self) -> bool:
        """Whether nobody will run it any more."""
        return self.state in ("done", "failed", "cancelled")


class Jobs(Protocol):
    """A queue of jobs that servers fill and workers empty.

    A job is run by the worker that leases it. A lease that is not renewed (`report`) for `lease_s` seconds
    ends: the job then waits again. Whatever a former holder calls after that raises LeaseLost and changes
    nothing. Jobs that somebody asked for are leased first; among those of equal priority the namespace that
    has the fewest running jobs, then the one that was served least recently; within a namespace the oldest.

    All methods may be called from several threads and processes.

    Raises:
        StoreError: from every method, if the queue is unreachable, busy or damaged.
    """

    @property
    def lease_s(self) -> float:
        """Seconds after which a lease that was not renewed ends."""
        ...

    def enqueue(
        self,
        key: str,
        args: Mapping[str, Any],
        *,
        namespace: str = "",
        asked: bool = False,
        lock: str = "",
    ) -> QueuedJob:
        """Add a job; while one with this key waits or runs, return that one.

        Args:
            key: what the job is about, 1 to 200 characters.
            args: JSON values for the worker. The returned job may have the arguments of an earlier call.
            namespace: whose job it is.
            asked: whether somebody waits for it. A waiting job that is asked for moves to the front.
            lock: of the jobs with one lock only one runs at a time; "" is the key.
        """
        ...

    def lease(self, worker: str) -> QueuedJob | None:
        """Begin the next job; None if there is none to begin now.

        Jobs whose lease has ended are added to the waiting ones first, or fail after too many attempts.
        """
        ...

    def report(self, job: QueuedJob, stage: str, done: int, total: int) -> QueuedJob:
        """Renew the lease and record the progress; return the job, whose `cancelling` may have been set.

        Raises:
            LeaseLost: the job is not run by this attempt any more.
        """
        ...

    def complete(self, job: QueuedJob, result: Mapping[str, Any]) -> None:
        """End the job with a result of JSON values. Raises LeaseLost as `report`."""
        ...

    def fail(self, job: QueuedJob, error: str, *, retry: bool) -> QueuedJob:
        """Record that the attempt failed; return the job.

        With `retry` it waits again, each time longer, until its attempts are used up; else it has failed. A
        job that is `cancelling` is cancelled. Of the error, the first 1,000 characters are stored.

        Raises:
            LeaseLost: as `report`.
        """
        ...

    def release(self, job: QueuedJob) -> None:
        """Give the job back unfinished, without counting an attempt. Raises LeaseLost as `report`."""
        ...

    def cancel(self, job_id: int) -> bool:
        """Cancel a waiting job, or ask the worker of a running one to stop; False if it has ended.

        Raises:
            NotFound: there is no such job.
        """
        ...

    def job(self, job_id: int) -> QueuedJob:
        """Return a job. Raises NotFound if there is none, or it ended long ago."""
        ...

    def jobs(
        self,
        *,
        ids: Sequence[int] | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
    ) -> list[QueuedJob]:
        """Return jobs, the newest first: those with these ids, of a namespace, and in one of the states."""
        ...

    def wait(self, timeout_s: float) -> list[int]:
        """Wait until a job was added or has changed, at most this long; return the ids of those that have.

        Changes just before the call may be missed, and an id may come more than once.
        """
        ...

    def close(self) -> None:
        """Release connections. Closing twice is allowed."""
        ...
