"""The queues keep what `rag.job_queue.Jobs` promises: in memory, and in a real Postgres server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from rag.backends.queue import schema
from rag.backends.queue.memory import MemoryJobs
from rag.backends.queue.postgres import PostgresJobs
from rag.errors import SettingsError, StoreTooNew
from rag.job_queue import Jobs
from rag.testing.clock import SteppedClock
from rag.testing.jobs import JobsContract
from rag.worker.bulk import MAX_LISTED
from tests.servers.postgres import LocalPostgres


class TestMemoryJobs(JobsContract):
    @pytest.fixture
    def clock(self) -> SteppedClock:
        return SteppedClock()

    @pytest.fixture
    def jobs(self, clock: SteppedClock) -> Jobs:
        return MemoryJobs(clock=clock, max_attempts=3)

    @pytest.fixture
    def later(self, clock: SteppedClock) -> Callable[[float], None]:
        return clock.advance

    def test_ended_jobs_are_forgotten_from_a_number_on_the_oldest_first(self) -> None:
        jobs = MemoryJobs(max_ended=10)
        numbers = []
        for number in range(16):
            numbers.append(jobs.enqueue("index", f"job {number}", {}).id)
            jobs.complete(self.leased(jobs), {})
            known = [job.id for job in jobs.jobs()]
            assert sorted(known) == numbers[-11:]
        assert [job.id for job in jobs.jobs(ids=numbers)] == numbers[:-12:-1]

    def test_as_many_ended_jobs_are_known_as_a_list_may_have(self) -> None:
        jobs = MemoryJobs()
        numbers = []
        for number in range(MAX_LISTED):
            numbers.append(jobs.enqueue("index", f"job {number}", {}).id)
            jobs.complete(self.leased(jobs), {})
        assert len(jobs.jobs(ids=numbers, limit=MAX_LISTED)) == MAX_LISTED


@pytest.fixture(scope="module")
def database(postgres: LocalPostgres) -> Iterator[str]:
    with postgres.database("queues") as url:
        yield url


@pytest.fixture
def emptied(database: str) -> str:
    """The address of a database without jobs."""
    jobs = PostgresJobs(database)
    jobs.jobs()  # creates the tables
    jobs.close()
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        db.execute("TRUNCATE procrastinate_jobs, procrastinate_workers, rag_served CASCADE")
    return database


class TestPostgresJobs(JobsContract):
    @pytest.mark.parametrize("text", ["/srv/\udcff", "\0"])
    def test_arguments_that_cannot_be_stored_are_refused(self, jobs: Jobs, text: str) -> None:
        args = {"source": {"location": text, "filters": {"include": ("*.py",)}}}
        with pytest.raises(SettingsError, match="not valid UTF-8, or has a NUL"):
            jobs.enqueue("index", "a", args)
        args["source"]["location"] = "/srv/é"
        assert jobs.enqueue("index", "a", args).args["source"]["location"] == "/srv/é"

    @pytest.fixture
    def jobs(self, emptied: str) -> Iterator[Jobs]:
        jobs = PostgresJobs(emptied, max_attempts=3)
        yield jobs
        jobs.close()

    @pytest.fixture
    def later(self, emptied: str) -> Callable[[float], None]:
        """Move what the tables hold into the past."""

        def passed(seconds: float) -> None:
            with psycopg.connect(emptied, autocommit=True) as db:
                db.execute("SET search_path = rag_jobs")
                for table, column in (
                    ("procrastinate_workers", "last_heartbeat"),
                    ("procrastinate_jobs", "scheduled_at"),
                ):
                    db.execute(
                        f"UPDATE {table} SET {column} = {column} - make_interval(secs => %s)", [seconds]
                    )

        return passed


def test_a_newer_procrastinate_brings_its_migrations(emptied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newest, steps = schema.pending("")
    assert steps and schema.pending(newest) == (newest, [])
    added = "ALTER TABLE procrastinate_jobs ADD COLUMN IF NOT EXISTS added_later text"
    monkeypatch.setattr(
        "rag.backends.queue.postgres.pending",
        lambda engine: ("99.00.00_01.sql", [added] if engine < "99" else []),
    )
    for _ in range(2):
        jobs = PostgresJobs(emptied)
        assert jobs.lease("w") is None
        jobs.close()
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        assert db.execute("SELECT engine FROM rag_queue").fetchall() == [("99.00.00_01.sql",)]
        assert db.execute("SELECT added_later FROM procrastinate_jobs").fetchall() == []


def test_a_queue_of_a_newer_version_is_refused(emptied: str) -> None:
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("UPDATE rag_jobs.schema_version SET version = 99")
        try:
            with pytest.raises(StoreTooNew, match="99"):
                PostgresJobs(emptied).jobs()
        finally:
            db.execute("UPDATE rag_jobs.schema_version SET version = 1")
