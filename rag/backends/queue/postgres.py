"""A queue of jobs in Postgres, on the tables and functions of procrastinate.

Why procrastinate (3.10) and not PgQueuer (1.6), read and tried on 2026-11-24: both are MIT, maintained
(releases this year) and 1.6 to 1.8 MB. procrastinate needs psycopg 3, which we have; PgQueuer needs pydantic,
anyio, croniter, tabulate and its own typer. What decided:

- procrastinate has two locks in its tables, a unique index each: one job of a key waits, and one of a lock
  runs. PgQueuer has a key against duplicates, and no lock between running jobs.
- An ended job stays with its state and events, and a running one can be asked to stop. PgQueuer moves ended
  jobs to a log.
- Its steps are SQL functions with version numbers (defer, finish, retry, cancel, heartbeat), so they run in
  our transactions, on our connections, together with what we add: progress, errors and results.
- Neither shares workers fairly between namespaces. Here each namespace is a queue of its own, and
  `lease` chooses from which one it takes the first job. It does not use procrastinate's function for that,
  which compares all waiting jobs of the queue with each other's locks (`make bench ONLY=jobs`).

procrastinate's own worker is not used: it runs jobs inside the process, and the progress and the fencing that
`Jobs` promises need our transactions. A lease is a row in its table of workers, so its heartbeat is that of
one attempt, and its id fences off a worker that was silent and comes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
from procrastinate.sql import queries
from psycopg.types.json import Jsonb

from rag.backends.postgres.server import Db, PostgresServer
from rag.backends.queue.limits import (
    BACKOFF_S,
    LEASE_S,
    MAX_ATTEMPTS,
    WORKER_LOST,
    backoff_s,
    checked_key,
    checked_text,
    shortened,
    storable,
)
from rag.backends.queue.schema import migrations, pending
from rag.errors import LeaseLost, NotFound
from rag.job_queue import Jobs, JobState, QueuedJob
from rag.turns.storage import repeated

Result = TypeVar("Result")

_KIND = "index"
_ASKED = 10
"""The priority of jobs that somebody waits for; that of others is 0."""
_MAX_ID = 2**63 - 1
_RETAINED_HOURS = 7 * 24
_PRUNE_EVERY_S = 600.0
_MAX_QUEUES = 20
"""How many queues one `lease` tries, if others take their jobs in the same moment."""
_ENGINE_LOCK = 0x5241474A  # "RAGJ"

_STATES: Mapping[str, JobState] = {
    "todo": "waiting",
    "doing": "running",
    "succeeded": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "aborting": "cancelled",
    "aborted": "cancelled",
}
_JOB = (
    "SELECT j.id, r.key, j.args, r.created, r.namespace, j.status::text, r.asked, r.attempts, "
    "r.stage, r.done, r.total, r.error, r.result, r.worker, r.ended, "
    "j.abort_requested AND j.status = 'doing', "
    "CASE j.status WHEN 'doing' THEN coalesce(j.worker_id, 0) ELSE 0 END "
    "FROM procrastinate_jobs j JOIN rag_job r USING (id) "
)
_FIRST = """
    SELECT j.id, j.priority FROM procrastinate_jobs j
    WHERE j.status = 'todo' AND j.queue_name = {queue} AND coalesce(j.scheduled_at <= now(), true)
    AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs o WHERE o.lock = j.lock AND o.status = 'doing')
    ORDER BY j.priority DESC, j.id LIMIT 1
"""
_WAITING = f"""
WITH RECURSIVE queue (name) AS (
    (SELECT queue_name FROM procrastinate_jobs WHERE status = 'todo' ORDER BY queue_name LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue_name FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queue_name > q.name
            ORDER BY j.queue_name LIMIT 1)
    FROM queue q WHERE q.name IS NOT NULL
), busy AS (
    SELECT r.namespace, count(*) AS jobs FROM procrastinate_jobs j JOIN rag_job r USING (id)
    WHERE j.status = 'doing' GROUP BY r.namespace
)
SELECT queue.name, r.namespace FROM queue CROSS JOIN LATERAL ({_FIRST.format(queue="queue.name")}) first
JOIN rag_job r USING (id) LEFT JOIN rag_served s ON s.namespace = r.namespace
LEFT JOIN busy ON busy.namespace = r.namespace
WHERE queue.name IS NOT NULL
ORDER BY first.priority DESC, coalesce(busy.jobs, 0), s.number NULLS FIRST, first.id LIMIT %s
"""
"""The queues that have a job to do, the next one first. Of each queue only the first job is read."""
_TAKE = (
    "UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s WHERE id = (SELECT id FROM ("
    + _FIRST.format(queue="%s")
    + " FOR UPDATE OF j SKIP LOCKED) first) RETURNING id"
)
_STALE = (
    "SELECT j.id, coalesce(j.worker_id, 0), r.worker, r.attempts, j.abort_requested "
    "FROM procrastinate_jobs j JOIN rag_job r USING (id) "
    "LEFT JOIN procrastinate_workers w ON w.id = j.worker_id "
    "WHERE j.status = 'doing' AND coalesce(w.last_heartbeat < now() - make_interval(secs => %s), true) "
    "FOR UPDATE OF j SKIP LOCKED"
)
_ENQUEUE = (
    "SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[ROW(%s, %s, %s, %s, %s, %s, NULL)"
    "::procrastinate_job_to_defer_v1]))"
)
_CANCEL_OTHER_KINDS = """
WITH other AS (
    UPDATE procrastinate_jobs j SET status = 'cancelled' FROM rag_job r
    WHERE r.id = j.id AND j.status = 'todo' AND r.kind <> 'index' RETURNING j.id
)
UPDATE rag_job SET ended = now(), error = %s WHERE id IN (SELECT id FROM other)
"""
"""Versions before 0.3 had further kinds of jobs; one of these must not be run as another."""


class PostgresJobs(Jobs):
    """A `Jobs` queue in a schema of a Postgres database.

    Args:
        url: the address of the database, see `PostgresServer`.
        schema: the schema of the tables.
        lease_s: see `Jobs.lease_s`; all processes of a queue must use the same.
        first_backoff_s, max_attempts: see `MemoryJobs`.

    Raises:
        SettingsError: the address is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "rag_jobs",
        lease_s: float = LEASE_S,
        first_backoff_s: float = BACKOFF_S,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self._server = PostgresServer(url, schema=schema, migrations=migrations())
        self._lease_s, self._backoff_s, self._max_attempts = lease_s, first_backoff_s, max_attempts
        self._pruned = -_PRUNE_EVERY_S
        self._is_current = False
        self._listening = threading.Lock()
        self._listener: Db | None = None

    def __repr__(self) -> str:
        return f"PostgresJobs({self._server.path!r})"

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
        checked_text(args)

        def work(db: Db) -> QueuedJob:
            known = db.execute(
                _JOB + "WHERE r.key = %s AND r.ended IS NULL AND NOT j.abort_requested ORDER BY j.id LIMIT 1",
                [key],
            ).fetchone()
            if known is not None:
                if asked and not known[6]:
                    self._ask(db, known[0])
                return self._read(db, known[0])
            row = db.execute(
                _ENQUEUE,
                [
                    queue_of(namespace),
                    _KIND,
                    _ASKED if asked else 0,
                    f"rag:{lock or key}",
                    f"rag:{key}",
                    Jsonb(dict(args)),
                ],
            ).fetchone()
            assert row is not None
            db.execute(
                "INSERT INTO rag_job (id, kind, key, namespace, asked) VALUES (%s, %s, %s, %s, %s)",
                [row[0], _KIND, key, namespace, asked],
            )
            _notify(db, row[0])
            return self._read(db, row[0])

        return self._write(work)

    def lease(self, worker: str) -> QueuedJob | None:
        def work(db: Db) -> QueuedJob | None:
            self._end_stale_leases(db)
            queues = db.execute(_WAITING, [_MAX_QUEUES]).fetchall()
            if not queues:
                return None
            registered = db.execute(queries["register_worker"]).fetchone()
            assert registered is not None
            lease = registered[0]
            for queue, namespace in queues:
                row = db.execute(_TAKE, [lease, queue]).fetchone()
                if row is None:
                    continue
                db.execute(
                    "UPDATE rag_job SET worker = %s, stage = '', done = 0, total = 0 WHERE id = %s",
                    [worker, row[0]],
                )
                db.execute(
                    "INSERT INTO rag_served VALUES (%s, nextval('rag_lease')) "
                    "ON CONFLICT (namespace) DO UPDATE SET number = excluded.number",
                    [namespace],
                )
                _notify(db, row[0])
                return self._read(db, row[0])
            db.execute(queries["unregister_worker"], {"worker_id": lease})
            return None

        leased = self._write(work)
        self._prune_sometimes()
        return leased

    def report(self, job: QueuedJob, stage: str, done: int, total: int) -> QueuedJob:
        def work(db: Db) -> QueuedJob:
            self._held(db, job)
            db.execute(queries["update_heartbeat"], {"worker_id": job.lease})
            db.execute(
                "UPDATE rag_job SET stage = %s, done = %s, total = %s WHERE id = %s",
                [stage, done, total, job.id],
            )
            if (stage, done, total) != (job.stage, job.done, job.total):
                _notify(db, job.id)
            return self._read(db, job.id)

        return self._write(work)

    def complete(self, job: QueuedJob, result: Mapping[str, Any]) -> None:
        def work(db: Db) -> None:
            self._held(db, job)
            db.execute(
                "UPDATE rag_job SET result = %s, error = '' WHERE id = %s",
                [Jsonb(storable(dict(result))), job.id],
            )
            self._end(db, job.id, job.lease, "succeeded")

        self._write(work)

    def fail(self, job: QueuedJob, error: str, *, retry: bool) -> QueuedJob:
        def work(db: Db) -> QueuedJob:
            attempts, is_cancelled = self._held(db, job)
            self._failed(
                db, job.id, job.lease, shortened(error), attempts + 1, retry=retry, is_cancelled=is_cancelled
            )
            return self._read(db, job.id)

        return self._write(work)

    def release(self, job: QueuedJob) -> None:
        def work(db: Db) -> None:
            _, is_cancelled = self._held(db, job)
            if is_cancelled:
                self._end(db, job.id, job.lease, "aborted")
            else:
                self._wait_again(db, job.id, job.lease, after_s=0.0)

        self._write(work)

    def cancel(self, job_id: int) -> bool:

        self.job(job_id)

        def work(db: Db) -> bool:
            arguments = {"job_id": job_id, "abort": True, "delete_job": False}
            row = db.execute(queries["cancel_job"], arguments).fetchone()
            if row is None or row[0] is None:
                return False
            db.execute(
                "UPDATE rag_job SET ended = now() WHERE id = %s AND EXISTS (SELECT 1 FROM procrastinate_jobs "
                "j WHERE j.id = %s AND j.status = 'cancelled')",
                [job_id, job_id],
            )
            _notify(db, job_id)
            return True

        return self._write(work)

    def job(self, job_id: int) -> QueuedJob:
        found = self.jobs(ids=[job_id], limit=1) if 0 < job_id <= _MAX_ID else []
        if not found:
            raise _no_job(job_id)
        return found[0]

    def jobs(
        self,
        *,
        ids: Sequence[int] | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
    ) -> list[QueuedJob]:
        wanted = [status for status, state in _STATES.items() if not states or state in states]
        query = _JOB + (
            "WHERE (%(ids)s::bigint[] IS NULL OR j.id = ANY(%(ids)s)) "
            "AND (%(namespace)s::text IS NULL OR r.namespace = %(namespace)s) "
            "AND j.status::text = ANY(%(states)s) ORDER BY j.id DESC LIMIT %(limit)s"
        )
        given = {
            "ids": None if ids is None else list(ids),
            "namespace": namespace,
            "states": wanted,
            "limit": limit,
        }
        return self._read_all(lambda db: [_job(row) for row in db.execute(query, given).fetchall()])

    def wait(self, timeout_s: float) -> list[int]:
        with self._listening:
            try:
                if self._listener is None:
                    self._listener = self._server.connected()
                    self._listener.execute("LISTEN rag_jobs")
                found = self._listener.notifies(timeout=timeout_s, stop_after=1)
                return [int(notice.payload) for notice in found if notice.payload.isdigit()]
            except psycopg.Error as error:
                self._stop_listening()
                raise self._server.translated(error) from error

    def close(self) -> None:
        self._stop_listening()
        self._server.close()

    # ---- internal

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    @repeated
    def _write(self, work: Callable[[Db], Result]) -> Result:
        with self._server.writing(self._prepare) as (db, _):
            return work(db)

    @repeated
    def _read_all(self, work: Callable[[Db], Result]) -> Result:
        if not self._is_current:
            self._write(lambda db: None)
        with self._server.reading(lambda db: None) as (db, _):
            return work(db)

    def _prepare(self, db: Db) -> None:
        """Apply the migrations of a newer procrastinate and end jobs of other kinds, once per process."""
        if self._is_current:
            return
        db.execute("SELECT pg_advisory_xact_lock(%s)", [_ENGINE_LOCK])
        row = db.execute("SELECT max(engine) FROM rag_queue").fetchone()
        newest, steps = pending("" if row is None or row[0] is None else row[0])
        for step in steps:
            db.execute(step)
        if steps:
            db.execute("UPDATE rag_queue SET engine = %s", [newest])
        db.execute(
            _CANCEL_OTHER_KINDS,
            ["jobs of this kind ended with 0.3; use `rag index`, `rag wiki` or `rag eval`"],
        )
        self._is_current = True

    def _read(self, db: Db, job_id: int) -> QueuedJob:
        row = db.execute(_JOB + "WHERE j.id = %s", [job_id]).fetchone()
        if row is None:
            raise _no_job(job_id)
        return _job(row)

    def _held(self, db: Db, job: QueuedJob) -> tuple[int, bool]:
        """Lock a job that this attempt runs; return its failed attempts, and whether it is cancelled."""
        row = db.execute(
            "SELECT r.attempts, j.abort_requested FROM procrastinate_jobs j JOIN rag_job r USING (id) "
            "WHERE j.id = %s AND j.status = 'doing' AND j.worker_id = %s FOR UPDATE OF j",
            [job.id, job.lease],
        ).fetchone()
        if row is None:
            raise LeaseLost(f"job {job.id} is not run by this worker any more; nothing was changed")
        return row[0], row[1]

    def _ask(self, db: Db, job_id: int) -> None:
        db.execute(
            "UPDATE procrastinate_jobs SET priority = %s WHERE id = %s AND status = 'todo'", [_ASKED, job_id]
        )
        db.execute("UPDATE rag_job SET asked = true WHERE id = %s", [job_id])
        _notify(db, job_id)

    def _failed(
        self, db: Db, job_id: int, lease: int, error: str, attempts: int, *, retry: bool, is_cancelled: bool
    ) -> None:
        db.execute("UPDATE rag_job SET error = %s, attempts = %s WHERE id = %s", [error, attempts, job_id])
        if is_cancelled:
            self._end(db, job_id, lease, "aborted")
        elif not retry or attempts >= self._max_attempts:
            self._end(db, job_id, lease, "failed")
        else:
            self._wait_again(db, job_id, lease, after_s=backoff_s(attempts, self._backoff_s))

    def _end(self, db: Db, job_id: int, lease: int, status: str) -> None:
        db.execute(queries["finish_job"], {"job_id": job_id, "status": status, "delete_job": False})
        db.execute("UPDATE rag_job SET ended = now() WHERE id = %s", [job_id])
        db.execute(queries["unregister_worker"], {"worker_id": lease})
        _notify(db, job_id)

    def _wait_again(self, db: Db, job_id: int, lease: int, *, after_s: float) -> None:
        row = db.execute("SELECT now() + make_interval(secs => %s)", [after_s]).fetchone()
        assert row is not None
        names = ("new_priority", "new_queue_name", "new_lock")
        db.execute(queries["retry_job"], {"job_id": job_id, "retry_at": row[0], **dict.fromkeys(names)})
        db.execute("UPDATE rag_job SET worker = '', stage = '', done = 0, total = 0 WHERE id = %s", [job_id])
        db.execute(queries["unregister_worker"], {"worker_id": lease})
        _notify(db, job_id)

    def _end_stale_leases(self, db: Db) -> None:
        for job_id, lease, worker, attempts, is_cancelled in db.execute(_STALE, [self._lease_s]).fetchall():
            error = WORKER_LOST.format(worker=worker, lease_s=self._lease_s)
            if attempts or is_cancelled:
                self._failed(db, job_id, lease, error, attempts + 1, retry=True, is_cancelled=is_cancelled)
                continue
            db.execute("UPDATE rag_job SET error = %s, attempts = 1 WHERE id = %s", [error, job_id])
            self._wait_again(db, job_id, lease, after_s=0.0)

    def _prune_sometimes(self) -> None:
        """Delete jobs that ended long ago, at most every ten minutes."""
        if time.monotonic() - self._pruned < _PRUNE_EVERY_S:
            return
        self._pruned = time.monotonic()
        ended = ["succeeded", "failed", "cancelled", "aborted"]
        given = {"nb_hours": _RETAINED_HOURS, "queue": None, "statuses": ended}
        self._write(lambda db: db.execute(queries["delete_old_jobs"], given))


def queue_of(namespace: str) -> str:
    """Return the name of the queue; procrastinate makes it part of the name of a channel, of 63 bytes."""
    return f"{_KIND}-{sha256(namespace.encode()).hexdigest()[:16]}"


def _notify(db: Db, job_id: int) -> None:
    db.execute("SELECT pg_notify('rag_jobs', %s)", [str(job_id)])


def _no_job(job_id: int) -> NotFound:
    return NotFound(f"there is no job {job_id}; `rag jobs list` lists the jobs")


def _job(row: Sequence[Any]) -> QueuedJob:
    number, key, args, created, namespace, status, *more = row
    return QueuedJob(number, key, args, created, namespace, _STATES[status], *more)
