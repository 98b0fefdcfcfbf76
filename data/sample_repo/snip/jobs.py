"""Work that no request waits for: counting clicks, deleting expired links, forgetting idle callers."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from snip.ratelimit import RateLimiter
from snip.storage import Storage

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A function that is run every `interval_s` seconds."""

    name: str
    interval_s: float
    run: Callable[[], int]


class ClickCounter:
    """Collects clicks in memory so that a redirect does not wait for a write."""

    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._lock = threading.Lock()

    def record(self, code: str) -> None:
        """Count one click."""
        with self._lock:
            self._pending[code] += 1

    def flush(self, storage: Storage) -> int:
        """Write the collected clicks; return how many. They are kept when the write fails."""
        with self._lock:
            counts, self._pending = self._pending, Counter()
        if not counts:
            return 0
        try:
            storage.add_clicks(counts.items())
        except BaseException:
            with self._lock:
                self._pending.update(counts)
            raise
        return counts.total()


class Scheduler:
    """Runs jobs one after the other in a daemon thread. A job that fails is logged and tried again later."""

    def __init__(self, jobs: list[Job], clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._clock = clock
        self._due = {job.name: clock() + job.interval_s for job in jobs}
        self._stop = threading.Event()

    def start(self) -> threading.Thread:
        """Begin; the thread ends with the process, or after `stop`."""
        thread = threading.Thread(target=self._loop, name="snip-jobs", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Ask the thread to end after the job it is in."""
        self._stop.set()

    def run_due(self) -> list[str]:
        """Run the jobs whose time has come; return their names."""
        now = self._clock()
        ran = [job for job in self._jobs if self._due[job.name] <= now]
        for job in ran:
            self._due[job.name] = now + job.interval_s
            try:
                log.info("%s: %d done", job.name, job.run())
            except Exception:
                log.exception("%s failed", job.name)
        return [job.name for job in ran]

    def _loop(self) -> None:
        while not self._stop.wait(1.0):
            self.run_due()


def default_jobs(
    storage: Storage, clicks: ClickCounter, limiter: RateLimiter, purge_interval_s: int
) -> list[Job]:
    """The jobs every server runs."""
    return [
        Job("flush-clicks", 5.0, lambda: clicks.flush(storage)),
        Job("purge-expired-links", purge_interval_s, lambda: storage.purge_expired(int(time.time()))),
        Job("forget-idle-callers", 300.0, limiter.forget_idle),
    ]
