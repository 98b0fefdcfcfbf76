"""The queues keep what `rag.ports.Jobs` promises: in memory, and in a real Postgres server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from rag.backends.queue.memory import MemoryJobs
from rag.backends.queue.postgres import PostgresJobs
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
