"""A queue of jobs in one table of Postgres.

A lease is a number that no other attempt has. Every step of an attempt locks the row of its job and compares
the number, so a worker that was silent and comes back is fenced off. `now()` is the clock of the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import psycopg
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
from rag.backends.queue.schema import MIGRATIONS
from rag.errors import LeaseLost, NotFound
from rag.job_queue import Jobs, JobState, QueuedJob
from rag.turns.storage import repeated

Result = TypeVar("Result")

_MAX_ID = 2**63 - 1
_RETAINED_DAYS = 7
_PRUNE_EVERY_S = 600.0
_MAX_NAMESPACES = 20
"""How many namespaces one `lease` tries, if others take their jobs in the same moment."""

_COLUMNS = ", ".join(field.name for field in fields(QueuedJob))
_FIRST = """
    SELECT id, asked FROM job j WHERE state = 'waiting' AND namespace = {namespace} AND not_before <= now()
    AND NOT EXISTS (SELECT 1 FROM job o WHERE o.lock = j.lock AND o.state = 'running')
    ORDER BY asked DESC, id LIMIT 1
"""
_WAITING = f"""
WITH RECURSIVE waiting (namespace) AS (
    (SELECT namespace FROM job WHERE state = 'waiting' ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT j.namespace FROM job j WHERE j.state = 'waiting' AND j.namespace > w.namespace
            ORDER BY j.namespace LIMIT 1)
    FROM waiting w WHERE w.namespace IS NOT NULL
), busy AS (
    SELECT namespace, count(*) AS jobs FROM job WHERE state = 'running' GROUP BY namespace
)
SELECT namespace FROM waiting CROSS JOIN LATERAL ({_FIRST.format(namespace="waiting.namespace")}) first
LEFT JOIN served USING (namespace) LEFT JOIN busy USING (namespace)
WHERE namespace IS NOT NULL
ORDER BY first.asked DESC, coalesce(busy.jobs, 0), served.number NULLS FIRST, first.id LIMIT %s
"""
"""The namespaces that have a job to do, the next one first. Of each only the first job is read."""
_TAKE = f"""
UPDATE job SET state = 'running', lease = nextval('lease'), renewed = now(), worker = %s,
stage = '', done = 0, total = 0
WHERE id = (SELECT id FROM ({_FIRST.format(namespace="%s")} FOR UPDATE SKIP LOCKED) first)
RETURNING {_COLUMNS}
"""
_STALE = f"""
SELECT {_COLUMNS} FROM job WHERE state = 'running' AND renewed < now() - make_interval(secs => %s)
FOR UPDATE SKIP LOCKED
"""
_SERVED = """
INSERT INTO served VALUES (%s, %s) ON CONFLICT (namespace) DO UPDATE SET number = excluded.number
"""


class PostgresJobs(Jobs):
    """A `Jobs` queue in a schema of a Postgres database.

    Args:
        url: the address of the database, see `PostgresServer`.
        schema: the schema of the tables.
        lease_s: see `Jobs.lease_s`; all processes of a queue must use the same.
        first_backoff_s: how long a job waits after its first failed attempt; then twice as long each time.
        max_attempts: how often a job is attempted.

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
        self._server = PostgresServer(url, schema=schema, migrations=MIGRATIONS)
        self._lease_s, self._backoff_s, self._max_attempts = lease_s, first_backoff_s, max_attempts
        self._pruned = -_PRUNE_EVERY_S
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
            known = _found(db, "key = %s AND ended IS NULL AND NOT cancelling", key)
            if known is not None:
                return _changed(db, known, asked=True) if asked and not known.asked else known
            row = db.execute(
                "INSERT INTO job (key, lock, args, namespace, asked) VALUES (%s, %s, %s, %s, %s) "
                f"RETURNING {_COLUMNS}",
                [key, lock or key, Jsonb(dict(args)), namespace, asked],
            ).fetchone()
            assert row is not None
            return _noticed(db, QueuedJob(*row))

        return self._write(work)

    def lease(self, worker: str) -> QueuedJob | None:
        def work(db: Db) -> QueuedJob | None:
            for row in db.execute(_STALE, [self._lease_s]).fetchall():
                self._end_stale_lease(db, QueuedJob(*row))
            for (namespace,) in db.execute(_WAITING, [_MAX_NAMESPACES]).fetchall():
                row = db.execute(_TAKE, [worker, namespace]).fetchone()
                if row is not None:
                    job = _noticed(db, QueuedJob(*row))
                    db.execute(_SERVED, [namespace, job.lease])
                    return job
            return None

        leased = self._write(work)
        self._prune_sometimes()
        return leased

    def report(self, job: QueuedJob, stage: str, done: int, total: int) -> QueuedJob:
        is_new = (stage, done, total) != (job.stage, job.done, job.total)

        def work(db: Db) -> QueuedJob:
            db.execute("UPDATE job SET renewed = now() WHERE id = %s", [_held(db, job).id])
            return _changed(db, job, notify=is_new, stage=stage, done=done, total=total)

        return self._write(work)

    def complete(self, job: QueuedJob, result: Mapping[str, Any]) -> None:
        self._write(
            lambda db: _end(db, _held(db, job), "done", result=Jsonb(storable(dict(result))), error="")
        )

    def fail(self, job: QueuedJob, error: str, *, retry: bool) -> QueuedJob:
        return self._write(lambda db: self._failed(db, _held(db, job), shortened(error), retry=retry))

    def release(self, job: QueuedJob) -> None:
        def work(db: Db) -> QueuedJob:
            held = _held(db, job)
            return _end(db, held, "cancelled") if held.cancelling else _wait_again(db, held)

        self._write(work)

    def cancel(self, job_id: int) -> bool:
        def work(db: Db) -> bool:
            job = _found(db, "id = %s FOR UPDATE", job_id) if 0 < job_id <= _MAX_ID else None
            if job is None:
                raise _no_job(job_id)
            if job.state == "waiting":
                _end(db, job, "cancelled")
            elif not job.has_ended:
                _changed(db, job, cancelling=True)
            return not job.has_ended

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
        query = (
            f"SELECT {_COLUMNS} FROM job WHERE (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s)) "
            "AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s) "
            "AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s)) ORDER BY id DESC LIMIT %(limit)s"
        )
        given = {
            "ids": None if ids is None else list(ids),
            "namespace": namespace,
            "states": list(states) or None,
            "limit": limit,
        }
        return self._read(lambda db: [QueuedJob(*row) for row in db.execute(query, given).fetchall()])

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
        with self._server.writing(lambda db: None) as (db, _):
            return work(db)

    @repeated
    def _read(self, work: Callable[[Db], Result]) -> Result:
        with self._server.reading(lambda db: None) as (db, _):
            return work(db)

    def _failed(self, db: Db, job: QueuedJob, error: str, *, retry: bool, at_once: bool = False) -> QueuedJob:
        attempts = job.attempts + 1
        if job.cancelling:
            return _end(db, job, "cancelled", error=error, attempts=attempts)
        if not retry or attempts >= self._max_attempts:
            return _end(db, job, "failed", error=error, attempts=attempts)
        after_s = 0.0 if at_once else backoff_s(attempts, self._backoff_s)
        return _wait_again(db, job, after_s=after_s, error=error, attempts=attempts)

    def _end_stale_lease(self, db: Db, job: QueuedJob) -> None:
        lost = WORKER_LOST.format(worker=job.worker, lease_s=self._lease_s)
        self._failed(db, job, lost, retry=True, at_once=job.attempts == 0)

    def _prune_sometimes(self) -> None:
        """Delete jobs that ended long ago, at most every ten minutes."""
        if time.monotonic() - self._pruned < _PRUNE_EVERY_S:
            return
        self._pruned = time.monotonic()
        query = "DELETE FROM job WHERE ended < now() - make_interval(days => %s)"
        self._write(lambda db: db.execute(query, [_RETAINED_DAYS]))


def _found(db: Db, condition: str, value: object) -> QueuedJob | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM job WHERE {condition}", [value]).fetchone()
    return None if row is None else QueuedJob(*row)


def _held(db: Db, job: QueuedJob) -> QueuedJob:
    """Lock the row of a job that this attempt runs, and return the job as it is now. Raises LeaseLost."""
    held = _found(db, "id = %s FOR UPDATE", job.id)
    if held is None or held.state != "running" or held.lease != job.lease:
        raise LeaseLost(f"job {job.id} is not run by this worker any more; nothing was changed")
    return held


def _changed(db: Db, job: QueuedJob, *, notify: bool = True, **values: Any) -> QueuedJob:
    """Set columns of a job, and return the job as it is then."""
    sets = ", ".join(f"{name} = %({name})s" for name in values)
    query = f"UPDATE job SET {sets} WHERE id = %(id)s RETURNING {_COLUMNS}"
    row = db.execute(query, {**values, "id": job.id}).fetchone()
    assert row is not None
    changed = QueuedJob(*row)
    return _noticed(db, changed) if notify else changed


def _end(db: Db, job: QueuedJob, state: JobState, **values: Any) -> QueuedJob:
    db.execute("UPDATE job SET ended = now() WHERE id = %s", [job.id])
    return _changed(db, job, state=state, lease=0, cancelling=False, **values)


def _wait_again(db: Db, job: QueuedJob, *, after_s: float = 0.0, **values: Any) -> QueuedJob:
    db.execute(
        "UPDATE job SET not_before = now() + make_interval(secs => %s) WHERE id = %s", [after_s, job.id]
    )
    return _changed(db, job, state="waiting", lease=0, worker="", stage="", done=0, total=0, **values)


def _noticed(db: Db, job: QueuedJob) -> QueuedJob:
    """Notify those that `wait` of a job that was added or has changed."""
    db.execute("SELECT pg_notify('rag_jobs', %s)", [str(job.id)])
    return job


def _no_job(job_id: int) -> NotFound:
    return NotFound(f"there is no job {job_id}; `rag jobs list` lists the jobs")
