"""The queues keep what `rag.job_queue.Jobs` promises, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from rag.backends.queue import schema
from rag.backends.queue.postgres import _TAKE, _WAITING, PostgresJobs, queue_of
from rag.errors import SettingsError, StoreTooNew
from rag.job_queue import Jobs
from tests.contracts.jobs import JobsContract
from tests.servers.postgres import LocalPostgres


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
            jobs.enqueue("a", args)
        args["source"]["location"] = "/srv/é"
        assert jobs.enqueue("a", args).args["source"]["location"] == "/srv/é"

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
            db.execute("UPDATE rag_jobs.schema_version SET version = %s", [len(schema.migrations())])


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_lease_reads_few_of_many_waiting_jobs(emptied: str, is_analyzed: bool) -> None:
    """Whether Postgres has collected statistics or not; without an index each lease read all of them."""
    _add_waiting_jobs(emptied, 6000, namespaces=3)
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        if is_analyzed:
            db.execute("ANALYZE")
        for query, given in ((_WAITING, [20]), (_TAKE, [None, queue_of("n1")])):
            ((plans,),) = db.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", given).fetchall()
            assert _rows_read(plans[0]["Plan"]) < 100, plans
        db.execute("TRUNCATE procrastinate_jobs CASCADE")
        db.execute("ANALYZE")


def test_a_waiting_job_of_a_kind_that_is_gone_is_cancelled_and_says_why(emptied: str) -> None:
    queue = PostgresJobs(emptied)
    old = queue.enqueue("app", {"name": "app"})
    wanted = queue.enqueue("web", {})
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("UPDATE rag_jobs.rag_job SET kind = 'wiki' WHERE id = %s", [old.id])
    queue.close()
    queue = PostgresJobs(emptied)
    leased = queue.lease("worker")
    assert leased is not None and leased.id == wanted.id
    ended = queue.job(old.id)
    assert ended.state == "cancelled" and "rag wiki" in ended.error
    queue.close()


def _rows_read(plan: dict[str, Any]) -> float:
    """Return how many rows the nodes of a plan have returned or rejected."""
    rejected = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    mine: float = plan["Actual Loops"] * (plan["Actual Rows"] + rejected)
    return mine + sum(_rows_read(inner) for inner in plan.get("Plans", ()))


def _add_waiting_jobs(url: str, count: int, namespaces: int) -> None:
    """Add jobs that wait in the namespaces n0, n1 …; much faster than one by one."""
    queues = [queue_of(f"n{number}") for number in range(namespaces)]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        db.execute(
            "WITH added AS (INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock) "
            "SELECT (%(queues)s::text[])[1 + g %% %(n)s], 'rag.index', g::text, g::text "
            "FROM generate_series(1, %(count)s) g RETURNING id, lock) "
            "INSERT INTO rag_job (id, kind, key, namespace, asked) "
            "SELECT id, 'index', lock, 'n' || lock::int %% %(n)s, false FROM added",
            {"queues": queues, "n": namespaces, "count": count},
        )
