"""The queues keep what `rag.ports.Jobs` promises: in memory, and in a real Postgres server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from rag.backends.queue import schema
from rag.backends.queue.memory import MemoryJobs
from rag.backends.queue.postgres import PostgresJobs
from rag.errors import StoreTooNew
from rag.ports import Jobs
from rag.testing.clock import SteppedClock
from rag.testing.jobs import JobsContract
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
