"""Turns, messages and records in a Postgres database. `schema` describes the tables.

When a call returns, its data survives `kill -9` of this process and of the server (see `server`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from rag.backends.postgres.server import PostgresServer, Undone
from rag.backends.postgres.storage import PostgresStorage
from rag.ports import Clock
from rag.turns.store import StoredTurns
from rag.types import now_utc

_ATTEMPTS = 12

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _repeated(
    method: Callable[Concatenate[StoredTurns, Arguments], Result],
) -> Callable[Concatenate[StoredTurns, Arguments], Result]:
    """Return a method that is repeated while its transaction is undone because of another one."""

    @wraps(method)
    def repeated(self: StoredTurns, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for _ in range(_ATTEMPTS - 1):
            try:
                return method(self, *args, **kwargs)
            except Undone:
                continue
        return method(self, *args, **kwargs)

    return repeated


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

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace, see `MemoryStore`."""
        return self._restore(list(lines), namespace=namespace)

    _restore = _repeated(StoredTurns.restore)
    create_conversation = _repeated(StoredTurns.create_conversation)
    rename = _repeated(StoredTurns.rename)
    fork = _repeated(StoredTurns.fork)
    rewind = _repeated(StoredTurns.rewind)
    clear = _repeated(StoredTurns.clear)
    delete_conversation = _repeated(StoredTurns.delete_conversation)
    extend = _repeated(StoredTurns.extend)
    edit_turn = _repeated(StoredTurns.edit_turn)
    delete_turn = _repeated(StoredTurns.delete_turn)
    add_messages = _repeated(StoredTurns.add_messages)
    delete_messages = _repeated(StoredTurns.delete_messages)
    update_marks = _repeated(StoredTurns.update_marks)
    delete_by_mark = _repeated(StoredTurns.delete_by_mark)
    put_records = _repeated(StoredTurns.put_records)
    swap_record = _repeated(StoredTurns.swap_record)
    append_record = _repeated(StoredTurns.append_record)
    increment_record = _repeated(StoredTurns.increment_record)
    delete_records = _repeated(StoredTurns.delete_records)


def _opened(url: str, schema: str) -> PostgresTurnStore:
    return PostgresTurnStore(url, schema=schema)
