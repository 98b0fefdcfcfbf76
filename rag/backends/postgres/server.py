"""Connections to a Postgres database, and transactions on them.

A few connections are kept open and lent to one call at a time, the last one given back first; none is made
before the first call. They are a list under a lock rather than `psycopg_pool`, whose threads a fork loses and
which tells the reason why a server cannot be reached only to the log. A child never uses its parent's: after
a fork it forgets them, unclosed, as a farewell on the shared socket would end the parent's session.

A call is one transaction and is run again from its start when Postgres had to break it off for another's sake
(a deadlock, or a row that both made), and when a kept connection turns out to be dead before anything was
done on it. Nothing else is sent twice: whether a commit that broke off was carried out cannot be known.

`synchronous_commit` is at least on: what a call has returned is in the server's log on its disk, and
survives `kill -9` of this process or of the server, and the loss of power (unless the server itself was told
`fsync = off`). With synchronous replicas named on the server it is on theirs, too.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rag.backends.postgres import errors as failed
from rag.backends.postgres.schema import MIGRATIONS
from rag.errors import SettingsError, StoreBusy

Db = psycopg.Connection[Any]
Result = TypeVar("Result")
Work = Callable[[Db], Result]

_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
_ATTEMPTS = 12
_DEFAULTS = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 60_000}
_MIGRATING = 0x52414754  # "RAGT"; the key of the lock

_SERVERS: weakref.WeakSet[PostgresServer] = weakref.WeakSet()
_inherited: list[Db] = []
_forks_guarded = False


class PreconditionFailed(Exception):
    """What a transaction was not to begin with is so; nothing was done."""


class PostgresServer:
    """A schema of ours in a database, made and brought up to date by the first call.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=…`, all parts optional, as libpq takes it.
        schema: where the tables are.
        most_connections: calls beyond so many at once wait for one another.
        busy_timeout_s: how long a call waits for a connection, or for a row that another holds.

    Raises:
        SettingsError: the address cannot be read.
    """

    _lock: threading.Lock
    _slots: threading.BoundedSemaphore
    _idle: list[Db]
    _ready: bool

    def __init__(
        self, url: str, *, schema: str = "rag", most_connections: int = 10, busy_timeout_s: float = 30.0
    ) -> None:
        self.url, self.schema, self.busy_timeout_s = url, schema, busy_timeout_s
        self.path = _shown(url)
        self._most_connections = most_connections
        self._closed = False
        self._forget()
        _guard_forks()
        _SERVERS.add(self)

    def read(self, work: Work[Result], *, unless: str = "false") -> Result:
        """What `work` reads in one transaction: all its queries see the same moment.

        Args:
            work: is called with the connection; once more when the transaction had to be broken off.
            unless: a condition in SQL under which nothing is done, and `PreconditionFailed` raised.

        Raises:
            StoreError: the server cannot be reached, is busy, full, or holds what is not ours.
        """
        return self._run(work, f"{_READ}; SELECT {unless}")

    def write(self, work: Work[Result], *, unless: str = "false") -> Result:
        """One transaction that writes: all of it is stored, or on any error nothing; else as `read`."""

        def pipelined(db: Db) -> Result:
            with db.pipeline():  # what is not asked for is not waited for
                result = work(db)
                db.execute("COMMIT")
            return result

        return self._run(pipelined, f"{_WRITE}; SELECT {unless}")

    def ask(self, query: LiteralString, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows that one query reads, in one round trip. Raises StoreError, as `read`."""
        try:
            with self._turn():
                db, rows = self._first(lambda db: db.execute(query, values).fetchall())
                self._give_back(db)
                return rows
        except psycopg.Error as error:
            raise self._translated(error) from error

    def close(self) -> None:
        """Close the connections that are kept; one that is lent is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    # ---- inside

    def _run(self, work: Work[Result], begin: str) -> Result:
        attempt = 0
        while True:
            attempt += 1
            try:
                with self._begun(begin) as db:
                    result = work(db)
                    if not _is_idle(db):
                        db.execute("COMMIT")
                    return result
            except _AGAIN as error:
                if attempt == _ATTEMPTS:
                    raise self._translated(error) from error
            except psycopg.Error as error:
                raise self._translated(error) from error

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Db]:
        """A connection after these statements, of which the last told a truth that must not be."""

        def refused(db: Db) -> bool:
            cursor = db.execute(begin, prepare=False)
            cursor.nextset()
            row = cursor.fetchone()
            return bool(row and row[0])

        with self._turn():
            db, no = self._first(refused)
            try:
                if no:
                    raise PreconditionFailed
                yield db
            finally:
                self._give_back(db)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The right to one of the connections."""
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
        """A connection, after the first work on it, which changes nothing: kept ones may have died."""
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            db = kept or self._connected()
            try:
                return db, work(db)
            except psycopg.OperationalError:
                db.close()
                if kept is None:
                    raise
            except BaseException:
                db.close()
                raise

    def _give_back(self, db: Db) -> None:
        if not db.closed and not _is_idle(db):
            _roll_back(db)
        with self._lock:
            if not self._closed and not db.closed and _is_idle(db):
                self._idle.append(db)
                return
        db.close()

    def _connected(self) -> Db:
        db = _connect(self.url)
        try:
            timeout_ms = max(1, round(self.busy_timeout_s * 1000))
            db.execute(
                f"SELECT set_config('search_path', {_literal(self.schema)}, false), "
                f"set_config('lock_timeout', '{timeout_ms}', false), "
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

    def _migrate(self, db: Db) -> None:
        """Bring the schema up to date, one process at a time; do not write where it is."""
        if self._version(db) == len(MIGRATIONS):
            return
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
            version = self._version(db)  # another process may have been faster
            if version is None:
                db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
                db.execute("CREATE TABLE schema_version (version integer NOT NULL)")
                db.execute("INSERT INTO schema_version VALUES (0)")
                version = 0
            for step in MIGRATIONS[version:]:
                db.execute(step)
            db.execute("UPDATE schema_version SET version = %s", [len(MIGRATIONS)])

    def _version(self, db: Db) -> int | None:
        """The version of the schema; None where there is none, or nothing in it."""
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
        if version > len(MIGRATIONS):
            raise failed.too_new(self.path, version, len(MIGRATIONS))
        return version

    def _translated(self, error: psycopg.Error) -> Exception:
        return failed.translated(error, path=self.path, waited_s=self.busy_timeout_s)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._most_connections)
        self._idle = []
        self._ready = False


def _connect(url: str) -> Db:
    given: dict[str, Any] = {**_DEFAULTS, "application_name": "rag"}
    given |= {name: value for name, value in conninfo_to_dict(url).items() if value}
    return psycopg.connect(make_conninfo(**{**given, "client_encoding": "UTF8"}), autocommit=True)


def _is_idle(db: Db) -> bool:
    return db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _roll_back(db: Db) -> None:
    try:
        db.execute("ROLLBACK")
    except psycopg.Error:
        db.close()  # the server rolls back what it cannot ask about


def _literal(schema: str) -> str:
    quoted = '"' + schema.replace('"', '""') + '"'
    return "'" + quoted.replace("'", "''") + "'"


def _shown(url: str) -> str:
    """The address without what is secret in it."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {"port": "unreadable"}
    user, host, port, name = (str(parts.get(each) or "") for each in ("user", "host", "port", "dbname"))
    if "@" in name or not set(port) <= set("0123456789,"):  # a password with a slash or an @ in it
        raise SettingsError(
            "the memory is no address of a Postgres database; it is "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX"
        )
    host = f"[{host}]" if ":" in host else quote(host, safe=",.-_")
    return f"postgresql://{user and user + '@'}{host}{port and ':' + port}/{name or user}"


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
