"""The tables of jobs in a Postgres schema of their own: procrastinate's, and ours next to them.

    procrastinate_jobs ──  rag_job      what procrastinate does not store: key, progress, error, result
      └──< procrastinate_events         each change of a state, with its time
    procrastinate_workers               one row for each lease, with its last heartbeat
    rag_served                          when each namespace was last served
    rag_queue                           up to which of its migrations procrastinate's tables are

We add an index to its table, which finds the first job of each queue. So `lease` does not depend on how many
jobs wait.

procrastinate's tables are created by the installed version. A later one brings migrations of its own, which
are applied by the first process that has it (`pending`).
"""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

from procrastinate.schema import SchemaManager

_OURS: LiteralString = """
    CREATE TABLE rag_queue (engine text NOT NULL);
    CREATE TABLE rag_job (
        id        bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
        kind      text NOT NULL,
        key       text NOT NULL,
        namespace text NOT NULL,
        asked     boolean NOT NULL,
        attempts  integer NOT NULL DEFAULT 0,
        stage     text NOT NULL DEFAULT '',
        done      bigint NOT NULL DEFAULT 0,
        total     bigint NOT NULL DEFAULT 0,
        error     text NOT NULL DEFAULT '',
        result    jsonb NOT NULL DEFAULT '{}',
        worker    text NOT NULL DEFAULT '',
        created   timestamptz NOT NULL DEFAULT now(),
        ended     timestamptz
    );
    CREATE INDEX rag_job_key ON rag_job (key) WHERE ended IS NULL;
    CREATE INDEX rag_job_namespace ON rag_job (namespace, id);
    CREATE SEQUENCE rag_lease;
    CREATE TABLE rag_served (namespace text PRIMARY KEY, number bigint NOT NULL);
"""
_FIRST_OF_QUEUES: LiteralString = """
    CREATE INDEX rag_waiting ON procrastinate_jobs (queue_name, priority DESC, id) WHERE status = 'todo'
"""


def migrations() -> tuple[LiteralString, ...]:
    """Return the statements that create the schema, version by version."""
    newest = _files()[-1].name
    note = f"INSERT INTO rag_queue VALUES ('{newest}');"
    return (f"{SchemaManager.get_schema()}\n{_OURS}\n{note}", _FIRST_OF_QUEUES)


def pending(engine: str) -> tuple[str, list[LiteralString]]:
    """Return the name of procrastinate's newest migration, and the statements of those after `engine`."""
    files = _files()
    newer = [file.read_text(encoding="utf-8") for file in files if file.name > engine]
    return files[-1].name, newer


def _files() -> list[Path]:
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
