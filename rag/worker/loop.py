"""The loop of a worker: lease a job, run it in a child process, report its progress, end it.

A worker that dies loses its leases after `Jobs.lease_s` seconds, and another one runs its jobs again. A
worker that lost a lease, or cannot reach the queue for that long, ends the child process: somebody else may
run the job by then. The queue's server may be away for a while; the worker waits for it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from rag.errors import LeaseLost, StoreError
from rag.job_queue import Jobs, QueuedJob
from rag.service.repositories.jobs import name_of, public_error
from rag.settings import Settings, plain_settings, with_absolute_paths
from rag.worker.process import JobProcess

Notice = Callable[[str], None]

_BEAT_S = 1.0
"""How often a running job is reported, if the lease is long enough."""
_QUEUE_PAUSE_S = 2.0
"""The pause between two attempts to reach a queue whose server is away."""
_JOIN_S = 0.2


class Worker:
    """Runs the jobs of a queue until it is stopped.

    Args:
        jobs: the queue.
        settings: what jobs run with; their arguments only choose the source and the embedder.
        notice: called with a line for the operator about each job, from several threads.
        slots: how many jobs run at once.
        name: identifies the worker in the list of jobs. Default: the host's name and the process id.
        grace_s: how long jobs may go on after `stop`; then they are given back to the queue.
        poll_s: how often an idle worker looks for jobs that it was not notified of.
    """

    def __init__(
        self,
        jobs: Jobs,
        settings: Settings,
        *,
        notice: Notice = lambda text: None,
        slots: int = 1,
        name: str = "",
        grace_s: float = 10.0,
        poll_s: float = 1.0,
    ) -> None:
        self.jobs, self.notice = jobs, notice
        self.settings = with_absolute_paths(settings)
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.ended: Counter[str] = Counter()
        """How many jobs ended in each state, with "released" and "lost"."""
        self._slots, self._grace_s, self._poll_s = slots, grace_s, poll_s
        self._stopping = threading.Event()
        self._stop_at = float("inf")
        self._queue_is_away = False

    def run(self, *, drain: bool = False) -> Counter[str]:
        """Run jobs until `stop` is called; with `drain` also until no job waits or runs. Returns `ended`."""
        threads = [
            threading.Thread(target=self._run_slot, args=[drain], name=f"job-{number}")
            for number in range(self._slots)
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(_JOIN_S)  # not for ever, so that signals are handled
        except BaseException:
            self.stop(grace_s=0)
            for thread in threads:
                thread.join()
            raise
        return self.ended

    def stop(self, *, grace_s: float | None = None) -> None:
        """Begin no more jobs; give those back that are not done within the grace period."""
        self._stop_at = time.monotonic() + (self._grace_s if grace_s is None else grace_s)
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def is_overdue(self) -> bool:
        """Whether the grace period after `stop` is over."""
        return time.monotonic() >= self._stop_at

    def count(self, state: str) -> None:
        """Count an ended job."""
        self.ended[state] += 1

    def _run_slot(self, drain: bool) -> None:
        child: JobProcess | None = None
        try:
            while not self.is_stopping:
                try:
                    job = self.jobs.lease(self.name)
                    if job is None:
                        if drain and not self.jobs.jobs(states=("waiting", "running"), limit=1):
                            return
                        self.jobs.wait(self._poll_s)
                except StoreError as error:
                    self._wait_for_queue(error)
                    continue
                self._queue_is_away = False
                if job is not None:
                    child = Attempt(self, job).run(child)
        finally:
            if child is not None:
                child.end()

    def _wait_for_queue(self, error: StoreError) -> None:
        if not self._queue_is_away:
            self._queue_is_away = True
            self.notice(f"the queue cannot be used, trying again: {error}")
        self._stopping.wait(_QUEUE_PAUSE_S)


class Attempt:
    """One attempt at a job, from its lease to its end."""

    def __init__(self, worker: Worker, job: QueuedJob) -> None:
        self._worker, self._job = worker, job
        request = f", request {job.request_id}" if job.request_id else ""
        self._about = f"{name_of(job)} (job {job.id}{request})"
        self._began = self._renewed = time.monotonic()
        self._beat_s = min(_BEAT_S, worker.jobs.lease_s / 4)
        self._progress: tuple[str, int, int] = ("starting", 0, 0)

    def run(self, child: JobProcess | None) -> JobProcess | None:
        """Run the job in this child process, or in a new one; return the child if it can be used again."""
        settings = self._worker.settings
        job = {"kind": "index", "args": self._job.args, "settings": plain_settings(settings)}
        try:
            if child is None or child.returncode is not None:
                child = JobProcess(shares_stores=bool(settings.stores))
        except OSError as error:
            self._fail(f"no process could be started: {error}", retry=True)
            return None
        is_reusable = False
        try:
            child.send(job)
            is_reusable = self._follow(child)
        finally:
            if not is_reusable:
                child.end()
        return child if is_reusable else None

    def _follow(self, child: JobProcess) -> bool:
        """Follow the job to its end; return whether the child is ready for the next one."""
        beat_at = self._began
        while True:
            now = time.monotonic()
            if now >= beat_at:
                beat_at = now + self._beat_s
                if not self._goes_on(child):
                    return False
            try:
                message = child.receive(max(0.0, beat_at - now))
            except EOFError as error:
                self._fail(
                    f"the process of the job is gone: {error}; check that there is enough memory", retry=True
                )
                return False
            if message is None:
                continue
            if "progress" in message:
                stage, done, total = message["progress"]
                if stage != self._progress[0]:
                    beat_at = 0.0  # a new stage is reported at once
                self._progress = (str(stage), int(done), int(total))
            elif "notice" in message:
                self._worker.notice(f"{self._about}: {message['notice']}")
            elif "error" in message:
                self._fail(str(message["error"]["message"]), retry=bool(message["error"]["retry"]))
                return True
            else:
                self._complete(message["done"])
                return True

    def _goes_on(self, child: JobProcess) -> bool:
        """Renew the lease; return False, with the child ended, if the job must not go on."""
        worker = self._worker
        try:
            if worker.is_overdue():
                child.end()
                worker.jobs.release(self._job)
                self._end("released", "given back to the queue, as the worker stops")
                return False
            reported = worker.jobs.report(self._job, *self._progress)
            self._renewed = time.monotonic()
            if not reported.cancelling:
                return True
            child.end()
            worker.jobs.fail(self._job, "cancelled", retry=False)
            self._end("cancelled", "cancelled")
            return False
        except LeaseLost:
            self._lose("another worker has it, or it was cancelled")
        except StoreError as error:
            if time.monotonic() - self._renewed < worker.jobs.lease_s and not worker.is_overdue():
                return True
            self._lose(f"the queue cannot be reached: {error}")
        child.end()
        return False

    def _complete(self, result: dict[str, Any]) -> None:
        if self._record(lambda: self._worker.jobs.complete(self._job, result)):
            self._end("done", "done")

    def _fail(self, message: str, *, retry: bool) -> None:
        shown = public_error(message, self._worker.settings)

        def fail() -> None:
            self._job = self._worker.jobs.fail(self._job, shown, retry=retry)

        if self._record(fail):
            waits = self._job.state == "waiting"
            self._end(
                "retried" if waits else self._job.state,
                f"failed ({shown}); it is tried again" if waits else f"failed: {shown}",
            )

    def _record(self, call: Callable[[], None]) -> bool:
        """Record the end of the attempt, as long as the lease holds; return whether it was recorded."""
        while True:
            try:
                call()
                return True
            except LeaseLost:
                self._lose("another worker has it, or it was cancelled")
                return False
            except StoreError as error:
                if time.monotonic() - self._renewed >= self._worker.jobs.lease_s:
                    self._lose(f"its end could not be recorded: {error}")
                    return False
            threading.Event().wait(self._beat_s)

    def _lose(self, why: str) -> None:
        self._end("lost", f"given up: {why}")

    def _end(self, state: str, text: str) -> None:
        self._worker.count(state)
        self._worker.notice(f"{self._about}: {text} after {time.monotonic() - self._began:.1f} s")
