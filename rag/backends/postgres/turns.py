"""Turns, messages and records in a Postgres database. `schema` describes the tables.

When a call returns, its data survives `kill -9` of this process and of the server (see `server`).
"""

from __future__ import annotations

from typing import Any

from rag.backends.postgres.server import PostgresServer
from rag.backends.postgres.storage import PostgresStorage
from rag.ports import Clock
from rag.turns.store import StoredTurns
from rag.types import now_utc


class PostgresTurnStore(StoredTurns):
    """A `MemoryStore` in a schema of a Postgres database. It is pickled as its address, with the password.

    Args:
        url: the address of the database, see `PostgresServer`; the first call connects.
        clock: the source of times and expiries.
        schema: the schema of the tables.
        max_connections: the maximum number of concurrent calls; others wait.
        busy_timeout_s: how long a call waits for a connection, or for a concurrent write.

    Raises:
        SettingsError: the address is invalid.
        StoreError: from every method, if the server is unreachable, busy or full, or its tables are not ours.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = now_utc,
        schema: str = "rag",
        max_connections: int = 10,
        busy_timeout_s: float = 30.0,
    ) -> None:
        self._server = PostgresServer(
            url, schema=schema, max_connections=max_connections, busy_timeout_s=busy_timeout_s
        )
        super().__init__(PostgresStorage(self._server), clock)

    def __repr__(self) -> str:
        return f"PostgresTurnStore({self._server.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._server.url, self._server.schema)


def _opened(url: str, schema: str) -> PostgresTurnStore:
    return PostgresTurnStore(url, schema=schema)
