"""The contract of `rag.job_queue.Jobs`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from rag.errors import LeaseLost, NotFound
from rag.job_queue import Jobs, QueuedJob

_A_LONG_TIME_S = 100_000.0


class JobsContract:
    """Tests for each promise of the port; a subclass has the fixtures.

    Fixtures:
        jobs: an empty queue with a lease of 15 s, a first backoff of 2 s and 3 attempts.
        later: lets this many seconds pass for the queue.
    """

    @staticmethod
    def added(jobs: Jobs, key: str, **more: Any) -> QueuedJob:
        return jobs.enqueue(key, {"of": key}, **more)

    @staticmethod
    def leased(jobs: Jobs, worker: str = "w", **more: Any) -> QueuedJob:
        job = jobs.lease(worker, **more)
        assert job is not None
        return job

    def test_a_job_goes_from_waiting_over_running_to_done(self, jobs: Jobs) -> None:
        added = self.added(jobs, "a", namespace="ann")
        assert (added.state, added.key, added.namespace) == ("waiting", "a", "ann")
        assert added.args == {"of": "a"} and not added.has_ended
        running = self.leased(jobs, "worker-1")
        assert (running.id, running.state, running.worker, running.attempts) == (
            added.id,
            "running",
            "worker-1",
            0,
        )
        assert jobs.lease("worker-2") is None
        reported = jobs.report(running, "embed", 3, 10)
        assert (reported.stage, reported.done, reported.total) == ("embed", 3, 10)
        assert jobs.job(added.id) == reported
        jobs.complete(running, {"chunks": 12})
        done = jobs.job(added.id)
        assert (done.state, done.result, done.error, done.lease) == ("done", {"chunks": 12}, "", 0)
        assert done.has_ended and done.ended is not None and done.ended >= done.created

    def test_a_key_names_one_unended_job(self, jobs: Jobs) -> None:
        first = self.added(jobs, "a")
        assert self.added(jobs, "a").id == first.id
        running = self.leased(jobs)
        assert self.added(jobs, "a").id == first.id
        jobs.complete(running, {})
        assert self.added(jobs, "a").id != first.id

    def test_many_at_once_get_one_job(self, jobs: Jobs) -> None:
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda _: self.added(jobs, "a").id, range(24)))
        assert len(ids) == 1

    def test_many_workers_share_the_jobs_without_repeats(self, jobs: Jobs) -> None:
        added = {self.added(jobs, f"job {number}", namespace=f"n{number % 3}").id for number in range(30)}
        leased: list[int] = []
        lock = threading.Lock()

        def work(worker: int) -> None:
            while (job := jobs.lease(f"w{worker}")) is not None:
                with lock:
                    leased.append(job.id)
                jobs.complete(job, {})

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        while (job := jobs.lease("last")) is not None:  # a worker may have met only jobs that others took
            leased.append(job.id)
        assert sorted(leased) == sorted(added)

    def test_of_one_lock_one_job_runs_at_a_time(self, jobs: Jobs) -> None:
        self.added(jobs, "index", lock="store")
        self.added(jobs, "rebuild", lock="store")
        other = self.added(jobs, "other")
        first = self.leased(jobs)
        assert first.key == "index"
        assert self.leased(jobs).id == other.id
        assert jobs.lease("w") is None
        jobs.complete(first, {})
        assert self.leased(jobs).key == "rebuild"

    def test_many_workers_never_run_one_lock_twice(self, jobs: Jobs) -> None:
        for number in range(12):
            self.added(jobs, f"job {number}", lock="store")
        running = threading.Semaphore(1)

        def work(worker: int) -> int:
            count = 0
            for _ in range(40):
                job = jobs.lease(f"w{worker}")
                if job is None:
                    continue
                assert running.acquire(blocking=False), "two jobs of one lock run"
                running.release()
                jobs.complete(job, {})
                count += 1
            return count

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(4))) <= 12

    def test_what_was_asked_for_is_first(self, jobs: Jobs) -> None:
        for key in "abc":
            self.added(jobs, key)
        self.added(jobs, "d", asked=True)
        assert self.added(jobs, "c", asked=True).asked  # it waits already, and moves to the front
        assert [self.leased(jobs).key for _ in range(4)] == ["c", "d", "a", "b"]

    def test_namespaces_take_turns(self, jobs: Jobs) -> None:
        for number in range(4):
            self.added(jobs, f"many {number}", namespace="many")
        self.added(jobs, "one", namespace="one")
        self.added(jobs, "two", namespace="two")
        order = []
        for _ in range(6):
            job = self.leased(jobs)
            order.append(job.namespace)
            jobs.complete(job, {})
        assert order == ["many", "one", "two", "many", "many", "many"]

    def test_a_namespace_with_running_jobs_is_behind_others(self, jobs: Jobs) -> None:
        for number in range(3):
            self.added(jobs, f"many {number}", namespace="many")
        assert [self.leased(jobs).key for _ in range(2)] == ["many 0", "many 1"]
        self.added(jobs, "one", namespace="one")
        assert self.leased(jobs).key == "one"

    def test_a_silent_worker_loses_its_job(self, jobs: Jobs, later: Callable[[float], None]) -> None:
        added = self.added(jobs, "a")
        lost = self.leased(jobs, "first")
        later(jobs.lease_s - 5)
        assert jobs.lease("second") is None
        jobs.report(lost, "embed", 1, 2)
        later(jobs.lease_s - 5)
        assert jobs.lease("second") is None  # it was renewed
        later(jobs.lease_s)
        again = self.leased(jobs, "second")
        assert (again.id, again.attempts, again.worker) == (added.id, 1, "second")
        assert "first" in again.error and (again.stage, again.done) == ("", 0)
        for call in (
            lambda: jobs.report(lost, "embed", 2, 2),
            lambda: jobs.complete(lost, {"by": "first"}),
            lambda: jobs.fail(lost, "late", retry=False),
            lambda: jobs.release(lost),
        ):
            with pytest.raises(LeaseLost):
                call()
        jobs.complete(again, {"by": "second"})
        assert jobs.job(added.id).result == {"by": "second"}

    def test_a_job_that_ends_its_workers_fails_in_the_end(
        self, jobs: Jobs, later: Callable[[float], None]
    ) -> None:
        added = self.added(jobs, "poison")
        for _ in range(2):  # after the first loss it is repeated at once
            assert self.leased(jobs).id == added.id
            later(_A_LONG_TIME_S)  # beyond the lease
        assert jobs.lease("w") is None
        later(_A_LONG_TIME_S)  # beyond the time between attempts
        assert self.leased(jobs).id == added.id
        later(_A_LONG_TIME_S)
        assert jobs.lease("w") is None
        failed = jobs.job(added.id)
        assert (failed.state, failed.attempts) == ("failed", 3) and "did not report" in failed.error

    def test_a_failed_attempt_is_repeated_after_growing_times(
        self, jobs: Jobs, later: Callable[[float], None]
    ) -> None:
        added = self.added(jobs, "a")
        waits = []
        for attempt in (1, 2):
            waiting = jobs.fail(self.leased(jobs), f"error {attempt}", retry=True)
            assert (waiting.state, waiting.attempts, waiting.error) == (
                "waiting",
                attempt,
                f"error {attempt}",
            )
            waited = 0
            while (job := jobs.lease("w")) is None:
                later(1)
                waited += 1
                assert waited < 60
            waits.append(waited)
            jobs.release(job)
        assert all(shorter < longer for shorter, longer in pairwise([0, *waits]))
        failed = jobs.fail(self.leased(jobs), "error 3", retry=True)
        assert (failed.id, failed.state, failed.attempts) == (added.id, "failed", 3)

    def test_a_repeated_job_holds_no_other_back(self, jobs: Jobs) -> None:
        self.added(jobs, "poison", asked=True)
        self.added(jobs, "good")
        jobs.fail(self.leased(jobs), "no", retry=True)
        assert self.leased(jobs).key == "good"

    def test_a_hopeless_job_is_not_repeated(self, jobs: Jobs) -> None:
        self.added(jobs, "a")
        failed = jobs.fail(self.leased(jobs), "there is no such folder", retry=False)
        assert (failed.state, failed.error, failed.attempts) == ("failed", "there is no such folder", 1)
        assert jobs.lease("w") is None

    def test_an_error_is_bounded(self, jobs: Jobs) -> None:
        self.added(jobs, "a")
        failed = jobs.fail(self.leased(jobs), "é\0\ud800" * 100_000, retry=False)
        assert 900 < len(jobs.job(failed.id).error) <= 1_000

    def test_a_released_job_waits_without_an_attempt(self, jobs: Jobs) -> None:
        self.added(jobs, "a")
        jobs.release(self.leased(jobs, "first"))
        again = self.leased(jobs, "second")
        assert (again.attempts, again.error, again.worker) == (0, "", "second")

    def test_a_waiting_job_is_cancelled_at_once(self, jobs: Jobs) -> None:
        added = self.added(jobs, "a")
        assert jobs.cancel(added.id)
        assert jobs.job(added.id).state == "cancelled" and jobs.job(added.id).ended is not None
        assert jobs.lease("w") is None
        assert not jobs.cancel(added.id)
        assert self.added(jobs, "a").id != added.id

    def test_a_running_job_is_cancelled_by_its_worker(self, jobs: Jobs) -> None:
        added = self.added(jobs, "a")
        running = self.leased(jobs)
        assert jobs.cancel(added.id)
        assert jobs.job(added.id).state == "running" and jobs.job(added.id).cancelling
        assert jobs.report(running, "embed", 1, 2).cancelling
        new = self.added(jobs, "a")  # the cancelled one does not count any more
        assert new.id != added.id
        assert jobs.lease("w") is None  # but it still runs
        assert jobs.fail(running, "cancelled", retry=True).state == "cancelled"
        assert self.leased(jobs).id == new.id

    def test_a_cancelled_job_of_a_lost_worker_ends(self, jobs: Jobs, later: Callable[[float], None]) -> None:
        added = self.added(jobs, "a")
        self.leased(jobs)
        jobs.cancel(added.id)
        later(_A_LONG_TIME_S)
        assert jobs.lease("w") is None
        assert jobs.job(added.id).state == "cancelled"

    def test_jobs_are_listed_the_newest_first(self, jobs: Jobs) -> None:
        ids = [self.added(jobs, key, namespace=key).id for key in "abc"]
        running = self.leased(jobs)
        assert [job.id for job in jobs.jobs()] == ids[::-1]
        assert [job.id for job in jobs.jobs(limit=1)] == ids[-1:]
        assert [job.id for job in jobs.jobs(states=["running"])] == [running.id]
        assert [job.id for job in jobs.jobs(namespace="b")] == [ids[1]]
        assert [job.id for job in jobs.jobs(ids=[ids[2], ids[0], 10**9])] == [ids[2], ids[0]]
        assert jobs.jobs(ids=[]) == []

    def test_what_is_unknown_is_named(self, jobs: Jobs) -> None:
        for call in (jobs.job, jobs.cancel):
            with pytest.raises(NotFound, match="no job 987654"):
                call(987654)

    @pytest.mark.parametrize("number", [0, -1, 2**63, 2**70])
    def test_a_number_that_no_job_has_is_not_found(self, jobs: Jobs, number: int) -> None:
        with pytest.raises(NotFound, match=f"no job {number};"):
            jobs.job(number)
        with pytest.raises(NotFound, match=f"no job {number};"):
            jobs.cancel(number)

    def test_a_result_with_characters_that_cannot_be_stored_ends_its_job(self, jobs: Jobs) -> None:
        added = self.added(jobs, "a")
        jobs.complete(self.leased(jobs), {"root": "/srv/\udcff", "more": ["\0", {"n": 1}]})
        done = jobs.job(added.id)
        assert done.state == "done" and done.result["more"][1] == {"n": 1}

    def test_a_key_has_a_sensible_length(self, jobs: Jobs) -> None:
        assert self.added(jobs, "é" * 200).key == "é" * 200
        for key in ("", "a" * 201):
            with pytest.raises(ValueError, match="1 to 200"):
                self.added(jobs, key)

    def test_waiting_ends_when_a_job_is_added(self, jobs: Jobs) -> None:
        jobs.wait(0.01)  # from now on, changes are noticed
        done = threading.Event()

        def add() -> None:
            number = 0
            while not done.is_set():
                self.added(jobs, f"job {number}")
                number += 1

        adding = threading.Thread(target=add)
        adding.start()
        try:
            assert jobs.wait(30)
        finally:
            done.set()
            adding.join()
