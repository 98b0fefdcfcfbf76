"""What several servers share in addition to turns and jobs, in a schema of a Postgres database.

    rag_rate     the requests of each name in the current and the previous period
    locks        advisory locks, held by transactions
    events       NOTIFY on the channel `rag_events`

A lock holds a connection for as long as it is held, and ends with its process. Rates follow the clock of the
database, so servers whose clocks differ count alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, LiteralString

import psycopg

from rag.backends.postgres.server import Db, PostgresServer
from rag.ports import SharedState
from rag.turns.storage import repeated

_MAX_EVENT_BYTES = 7_900
_MAX_CONNECTIONS = 20
_UNUSED = "1 day"
_MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE rag_rate (
        name     text PRIMARY KEY,
        period   bigint NOT NULL,
        current  bigint NOT NULL,
        previous bigint NOT NULL,
        used     timestamptz NOT NULL DEFAULT now()
    );
    """,
)


class PostgresSharedState(SharedState):
    """A `SharedState` in a Postgres database.

    Args:
        url: the address of the database, see `PostgresServer`.
        schema: the schema of the tables.

    Raises:
        SettingsError: the address is invalid.
    """

    def __init__(self, url: str, *, schema: str = "rag_shared") -> None:
        self._server = PostgresServer(
            url, schema=schema, migrations=_MIGRATIONS, max_connections=_MAX_CONNECTIONS
        )
        self._listener: Db | None = None

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        key = int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)
        with self._server.writing(lambda db: db.execute("SELECT pg_advisory_xact_lock(%s)", [key])):
            yield

    @repeated
    def hit(self, name: str, *, amount: int, period_s: float) -> float:
        with self._server.writing(lambda db: _rate(db, name)) as (db, found):
            row = found.fetchone()
            assert row is not None
            now, period, current, previous = float(row[0]), row[1], row[2], row[3]
            number = math.floor(now / period_s)
            if period != number:
                current, previous = 0, current if period == number - 1 else 0
            left = 1.0 - (now / period_s - number)
            """The share of the previous period that still counts."""
            if current + previous * left + 1 > amount:
                return _wait_s(current, previous, amount, left, period_s)
            db.execute(
                "UPDATE rag_rate SET period = %s, current = %s, previous = %s, used = now() WHERE name = %s",
                [number, current + 1, previous, name],
            )
            return 0.0

    def publish(self, event: str) -> None:
        if len(event.encode()) > _MAX_EVENT_BYTES:
            raise ValueError(f"an event has at most {_MAX_EVENT_BYTES} bytes")
        with self._server.writing(lambda db: db.execute("SELECT pg_notify('rag_events', %s)", [event])):
            pass

    def listen(self, timeout_s: float) -> list[str] | None:
        try:
            if self._listener is None:
                self._listener = self._server.connected()
                self._listener.execute("LISTEN rag_events")
                return None
            return [found.payload for found in self._listener.notifies(timeout=timeout_s, stop_after=1)]
        except psycopg.Error as error:
            self._stop_listening()
            raise self._server.translated(error) from error

    def prune(self) -> None:
        query = f"DELETE FROM rag_rate WHERE used < now() - interval '{_UNUSED}'"
        with self._server.writing(lambda db: db.execute(query)):
            pass

    def close(self) -> None:
        self._stop_listening()
        self._server.close()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


def _rate(db: Db, name: str) -> psycopg.Cursor[Any]:
    """Lock the row of a rate, which is created if necessary, and read it with the time."""
    db.execute("INSERT INTO rag_rate VALUES (%s, 0, 0, 0) ON CONFLICT DO NOTHING", [name])
    return db.execute(
        "SELECT extract(epoch FROM clock_timestamp()), period, current, previous FROM rag_rate "
        "WHERE name = %s FOR UPDATE",
        [name],
    )


def _wait_s(current: int, previous: int, amount: int, left: float, period_s: float) -> float:
    """Return after how many seconds one more request is accepted, if no other comes."""
    if current < amount and previous:  # in this period, when less of the previous one counts
        wait = left - (amount - 1 - current) / previous
    else:  # in the next one, of which this one is the previous
        wait = left + max(0.0, 1 - (amount - 1) / current)
    return max(0.001, wait * period_s)
