"""The queues keep what `rag.job_queue.Jobs` promises, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from rag.backends.queue.postgres import _TAKE, _WAITING, PostgresJobs
from rag.backends.queue.schema import MIGRATIONS
from rag.errors import NotFound, SettingsError, StoreTooNew
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
        db.execute("TRUNCATE job, served")
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
                db.execute(
                    "UPDATE job SET renewed = renewed - make_interval(secs => %(s)s), "
                    "not_before = not_before - make_interval(secs => %(s)s)",
                    {"s": seconds},
                )

        return passed


def test_a_queue_of_a_newer_version_is_refused(emptied: str) -> None:
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("UPDATE rag_jobs.schema_version SET version = 99")
        try:
            with pytest.raises(StoreTooNew, match="99"):
                PostgresJobs(emptied).jobs()
        finally:
            db.execute("UPDATE rag_jobs.schema_version SET version = %s", [len(MIGRATIONS)])


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_lease_reads_few_of_many_waiting_jobs(emptied: str, is_analyzed: bool) -> None:
    """Whether Postgres has collected statistics or not; without an index each lease read all of them."""
    _add_waiting_jobs(emptied, 6000, namespaces=3)
    with psycopg.connect(emptied, autocommit=True) as db:
        db.execute("SET search_path = rag_jobs")
        if is_analyzed:
            db.execute("ANALYZE")
        for query, given in ((_WAITING, [20]), (_TAKE, ["w", "n1"])):
            ((plans,),) = db.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", given).fetchall()
            assert _rows_read(plans[0]["Plan"]) < 100, plans
        db.execute("TRUNCATE job")
        db.execute("ANALYZE")


def test_jobs_that_wait_in_the_tables_of_an_earlier_version_wait_on(postgres: LocalPostgres) -> None:
    """Its further kinds of jobs, and those that had ended or were to end, are gone."""
    rows = [(1, "todo", "index"), (2, "doing", "index"), (3, "succeeded", "index"), (4, "todo", "wiki")]
    with postgres.database("earlier") as url:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE SCHEMA rag_jobs")
            db.execute("SET search_path = rag_jobs")
            db.execute(EARLIER)
            for number, status, kind in rows:
                db.execute(
                    "INSERT INTO procrastinate_jobs VALUES (%s, %s, 'l' || %s)", [number, status, number]
                )
                db.execute(
                    "INSERT INTO rag_job VALUES (%s, %s, 'k' || %s, 'ann', true)", [number, kind, number]
                )
        queue = PostgresJobs(url)
        waiting = [(job.key, job.state, job.namespace, job.asked) for job in queue.jobs()]
        assert waiting == [("k2", "waiting", "ann", True), ("k1", "waiting", "ann", True)]
        leased = queue.lease("worker")
        assert leased is not None and (leased.key, leased.args) == ("k1", {"of": "a"})
        assert (leased.id, queue.job(2).key) == (1, "k2")
        for ended in (3, 4, 9):
            with pytest.raises(NotFound):
                queue.job(ended)
        assert queue.enqueue("k10", {}).id == 10
        queue.close()
        with psycopg.connect(url) as db:
            assert {name for (name,) in db.execute(NAMES)} == {"job", "served", "schema_version"}


NAMES = """
SELECT relname FROM pg_class WHERE relnamespace = 'rag_jobs'::regnamespace AND relkind IN ('r', 'c')
UNION SELECT proname FROM pg_proc WHERE pronamespace = 'rag_jobs'::regnamespace
UNION SELECT typname FROM pg_type WHERE typnamespace = 'rag_jobs'::regnamespace AND typtype = 'e'
"""
EARLIER = """
CREATE TABLE schema_version (version integer NOT NULL);
INSERT INTO schema_version VALUES (2);
CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing', 'succeeded');
CREATE TYPE procrastinate_job_to_defer AS (lock text);
CREATE TABLE procrastinate_jobs (id bigserial PRIMARY KEY, status procrastinate_job_status, lock text,
    args jsonb NOT NULL DEFAULT '{"of": "a"}', abort_requested boolean NOT NULL DEFAULT false);
SELECT setval('procrastinate_jobs_id_seq', 9);
CREATE TABLE procrastinate_events (job_id bigint REFERENCES procrastinate_jobs);
CREATE FUNCTION procrastinate_defer(jobs procrastinate_job_to_defer[]) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION procrastinate_noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER procrastinate_noted AFTER UPDATE ON procrastinate_jobs
    FOR EACH ROW EXECUTE PROCEDURE procrastinate_noted();
CREATE SEQUENCE rag_lease;
CREATE TABLE rag_job (id bigint, kind text, key text, namespace text, asked boolean,
    created timestamptz NOT NULL DEFAULT now());
CREATE TABLE rag_served (); CREATE TABLE rag_queue ();
"""
"""The columns that are read of it."""


def _rows_read(plan: dict[str, Any]) -> float:
    """Return how many rows the nodes of a plan have returned or rejected."""
    rejected = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    mine: float = plan["Actual Loops"] * (plan["Actual Rows"] + rejected)
    return mine + sum(_rows_read(inner) for inner in plan.get("Plans", ()))


def _add_waiting_jobs(url: str, count: int, namespaces: int) -> None:
    """Add jobs that wait in the namespaces n0, n1 …; much faster than one by one."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "INSERT INTO rag_jobs.job (key, lock, args, namespace, asked) "
            "SELECT g::text, g::text, '{}', 'n' || g %% %s, false FROM generate_series(1, %s) g",
            [namespaces, count],
        )
