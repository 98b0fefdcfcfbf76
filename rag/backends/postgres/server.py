"""Connections to a Postgres database, and transactions on them.

A few connections are kept open and used by one call at a time, the last one returned first; the first call
opens the first one. They are a list with a lock instead of `psycopg_pool`, whose threads do not survive a
fork, and which only logs why a server is unreachable. A child process never uses its parent's connections:
after a fork it drops them without closing them, as that would end the parent's session on the shared socket.

A call is one transaction. If Postgres aborted it because of another one (a deadlock, or a row inserted by
both), it raises `Conflict`, and the store repeats the call. If a kept connection turns out to be dead before
any work was done, another one is used. With several hosts, a call whose server was lost before the commit is
repeated, too. Nothing else is repeated, as the outcome of an interrupted commit is unknown.

`synchronous_commit` is at least on: when a call returns, its data is in the log on the server's disk, and
survives `kill -9` of this process or of the server, and a power failure (unless the server has `fsync =
off`). If the server has synchronous replicas, it is on theirs, too.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from rag.backends.postgres import errors as failed
from rag.backends.postgres.connection import ServerSilent, WatchedConnection
from rag.backends.postgres.schema import MIGRATIONS
from rag.errors import SettingsError, StoreBusy, StoreUnreachable
from rag.turns.storage import Conflict

Db = psycopg.Connection[Any]
Result = TypeVar("Result")
Work = Callable[[Db], Result]

_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
_DEFAULTS = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 60_000}
_WRITABLE = ("read-write", "primary")
_PAUSE_S = 0.1
_OUTAGE_S = 2.0
"""How long calls fail at once after one that has waited for a server in vain."""
_MIGRATING = 0x52414754  # "RAGT"; the key of the lock

# Its warnings repeat the errors that it raises; without a handler Python would print them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_SERVERS: weakref.WeakSet[PostgresServer] = weakref.WeakSet()
_inherited: list[Db] = []
_forks_guarded = False


class PostgresServer:
    """Our schema in a database, created and migrated by the first call.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=…`, all parts optional, as in libpq. Of
            several hosts (`HOST1:PORT,HOST2:PORT`) the one that accepts writes is used, unless
            `target_session_attrs` names another kind; while there is none, calls wait.
        schema: the schema of the tables.
        max_connections: the maximum number of concurrent calls; others wait.
        busy_timeout_s: how long a call waits for a connection, for a locked row, or for a server that
            accepts writes.
        migrations: the statements that create the schema, version by version; by default those of turns.

    Raises:
        SettingsError: the address is invalid.
    """

    _lock: threading.Lock
    _slots: threading.BoundedSemaphore
    _idle: list[Db]
    _ready: bool
    _outage: tuple[float, str]
    """When a call found the server cut off, and its error."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "rag",
        max_connections: int = 10,
        busy_timeout_s: float = 30.0,
        migrations: Sequence[LiteralString] = MIGRATIONS,
    ) -> None:
        self.url, self.schema, self.busy_timeout_s = url, schema, busy_timeout_s
        self._migrations = migrations
        self.path = _shown(url)
        self._options = _options(url)
        self._awaits_primary = self._options.get("target_session_attrs") in _WRITABLE
        self._most_connections = max_connections
        self._closed = False
        self._forget()
        _guard_forks()
        _SERVERS.add(self)

    @contextmanager
    def reading(self, ahead: Work[Result]) -> Iterator[tuple[Db, Result]]:
        """Run a read transaction, in which all queries see the same snapshot.

        Args:
            ahead: is called with the connection to execute the first queries, which are sent with the
                beginning; their rows can be fetched later. It is called again if the connection was dead.

        Raises:
            StoreError: the server is unreachable, busy, full, or contains data that is not ours.
        """
        with self._begun(_READ, ahead) as (db, asked):
            yield db, asked
            db.pgconn.send_query(b"COMMIT")  # whose answer is read by the next call

    @contextmanager
    def writing(self, ahead: Work[Result]) -> Iterator[tuple[Db, Result]]:
        """Like `reading`, for a write transaction: on any error nothing is stored.

        Raises:
            Conflict: another transaction came in between; nothing was stored.
        """
        # In a pipeline, what is not asked for is not waited for.
        with self._begun(_WRITE, ahead) as (db, asked), db.pipeline():
            with self._uncommitted(db):
                yield db, asked
            db.execute("COMMIT")

    def connected(self) -> Db:
        """Return a new connection outside any transaction, for example to listen. The caller closes it.

        Raises:
            StoreError: the server is unreachable, or its schema is not ours.
        """
        try:
            return self._connected()
        except psycopg.Error as error:
            raise self.translated(error) from error

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    # ---- internal

    @contextmanager
    def _begun(self, begin: LiteralString, ahead: Work[Result]) -> Iterator[tuple[Db, Result]]:
        """Begin a transaction with this statement and the first queries."""

        def begun(db: Db) -> Result:
            with db.pipeline():
                db.execute(begin)
                return ahead(db)

        with self._turn():
            try:
                db, asked = self._first(begun)
                try:
                    yield db, asked
                finally:
                    self._give_back(db)
            except _AGAIN as error:
                raise Conflict(self.path) from error
            except psycopg.Error as error:
                self._note_outage(error)
                raise self.translated(error) from error

    @contextmanager
    def _uncommitted(self, db: Db) -> Iterator[None]:
        """Raise Conflict if the primary is lost before the commit: nothing was stored."""
        try:
            yield
        except psycopg.Error as error:
            is_lost = db.broken or isinstance(error, errors.ReadOnlySqlTransaction)
            if not (self._awaits_primary and is_lost):
                raise
            db.close()
            raise Conflict(self.path) from error

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for the permission to use a connection."""
        if self._closed:
            raise ValueError(f"the store {self.path} is closed")
        slots = self._slots
        if not slots.acquire(timeout=self.busy_timeout_s):
            raise StoreBusy(path=self.path, waited_s=self.busy_timeout_s, doing="using all connections to")
        try:
            yield
        finally:
            slots.release()

    def _first(self, work: Work[Result]) -> tuple[Db, Result]:
        """Return a connection after its first work, which changes nothing: kept connections may be dead."""
        self._check_outage()
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            db = kept or self._connected()
            try:
                _settle(db)
                return db, work(db)
            except BaseException as error:
                was_dead = kept is not None and db.broken
                db.close()
                if isinstance(error, ServerSilent) or not (
                    was_dead and isinstance(error, psycopg.OperationalError)
                ):
                    raise

    def _check_outage(self) -> None:
        """Raise the error of a call that has just found the server cut off, so that no others wait for it."""
        at, why = self._outage
        if time.monotonic() < at + _OUTAGE_S:
            raise StoreUnreachable(path=self.path, why=why)

    def _note_outage(self, error: psycopg.Error) -> None:
        """Remember that a server did not answer in time, unless another host may take over."""
        is_silent = isinstance(error, (ServerSilent, errors.ConnectionTimeout))
        if is_silent and not self._awaits_primary:
            self._outage = (time.monotonic(), str(error))

    def _give_back(self, db: Db) -> None:
        done = (TransactionStatus.IDLE, TransactionStatus.ACTIVE)  # or about to be done
        if not db.closed and db.info.transaction_status not in done:
            _roll_back(db)
        with self._lock:
            if not self._closed and not db.closed and db.info.transaction_status in done:
                self._idle.append(db)
                return
        db.close()

    def _connected(self) -> Db:
        db = self._opened()
        try:
            timeout_ms = max(1, round(self.busy_timeout_s * 1000))
            db.execute(
                f"SELECT set_config('search_path', {_literal(self.schema)}, false), "
                f"set_config('lock_timeout', '{timeout_ms}', false), set_config('jit', 'off', false), "
                "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') "
                "THEN set_config('synchronous_commit', 'on', false) END"
            )
            if not self._ready:
                self._migrate(db)
                self._ready = True
        except BaseException:
            db.close()
            raise
        return db

    def _opened(self) -> Db:
        """Return a new connection; if it must accept writes, wait for a server that does."""
        address = make_conninfo(**self._options)
        deadline = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                db = WatchedConnection.connect(address, autocommit=True)
                db.options = self._options
                return db
            except psycopg.OperationalError as error:
                if not self._awaits_primary or time.monotonic() >= deadline or failed.is_refused(error):
                    raise
                time.sleep(_PAUSE_S)

    def _migrate(self, db: Db) -> None:
        """Migrate the schema, one process at a time; writes nothing if it is up to date."""
        if self._version(db) == len(self._migrations):
            return
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
            version = self._version(db)  # another process may have migrated it
            if version is None:
                db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
                db.execute("CREATE TABLE schema_version (version integer NOT NULL)")
                db.execute("INSERT INTO schema_version VALUES (0)")
                version = 0
            for step in self._migrations[version:]:
                db.execute(step)
            db.execute("UPDATE schema_version SET version = %s", [len(self._migrations)])

    def _version(self, db: Db) -> int | None:
        """Return the version of the schema; None if it does not exist or is empty."""
        found = db.execute(
            "SELECT count(*), count(*) FILTER (WHERE c.relname = 'schema_version') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s",
            [self.schema],
        ).fetchone()
        if found is None or not found[0]:
            return None
        if not found[1]:
            raise failed.foreign_schema(self.path, self.schema)
        row = db.execute("SELECT max(version) FROM schema_version").fetchone()
        version = int(row[0]) if row is not None and row[0] is not None else 0
        if version > len(self._migrations):
            raise failed.too_new(self.path, version, len(self._migrations))
        return version

    def translated(self, error: psycopg.Error) -> Exception:
        """Return our error for one of the client library."""
        return failed.translated(error, path=self.path, waited_s=self.busy_timeout_s)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._most_connections)
        self._idle = []
        self._ready = False
        self._outage = (-_OUTAGE_S, "")


def _options(url: str) -> dict[str, Any]:
    """Return the connection options of an address; of several hosts, the one that accepts writes is used."""
    given: dict[str, Any] = {**_DEFAULTS, "application_name": "rag"}
    given |= {name: value for name, value in conninfo_to_dict(url).items() if value}
    if "," in str(given.get("host", "")):
        given.setdefault("target_session_attrs", "read-write")
    return {**given, "client_encoding": "UTF8"}


def _settle(db: Db) -> None:
    """Read the answer to the end of the last transaction; other threads go on while it is not there."""
    if db.info.transaction_status == TransactionStatus.ACTIVE:
        db.wait(_settled(db.pgconn))


def _settled(connection: PGconn) -> Generator[Wait, Ready | int, None]:
    while connection.transaction_status == TransactionStatus.ACTIVE:
        while connection.is_busy():
            if (yield Wait.R):
                connection.consume_input()
        connection.get_result()


def _roll_back(db: Db) -> None:
    try:
        db.rollback()  # also forgets statements that were to be prepared in the transaction
    except psycopg.Error:
        db.close()  # the server rolls back transactions of closed connections


def _literal(schema: str) -> str:
    quoted = '"' + schema.replace('"', '""') + '"'
    return "'" + quoted.replace("'", "''") + "'"


def _shown(url: str) -> str:
    """Return the address without secrets."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {"port": "unreadable"}
    user, host, port, name = (str(parts.get(each) or "") for each in ("user", "host", "port", "dbname"))
    if "@" in name or not set(port) <= set("0123456789,"):  # a password with a slash or an @ in it
        raise SettingsError(
            "the memory is not a Postgres address; use "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX"
        )
    hosts, ports = host.split(","), port.split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports + [""] * (len(hosts) - len(ports))
    each = ((f"[{at}]" if ":" in at else quote(at, safe=".-_")) for at in hosts)
    places = ",".join(at + (number and f":{number}") for at, number in zip(each, ports, strict=False))
    return f"postgresql://{user and user + '@'}{places}/{name or user}"


def _guard_forks() -> None:
    global _forks_guarded
    register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
    if register is not None and not _forks_guarded:
        register(after_in_child=_after_fork_in_child)
    _forks_guarded = True


def _after_fork_in_child() -> None:
    for server in list(_SERVERS):
        _inherited.extend(server._idle)
        server._forget()
