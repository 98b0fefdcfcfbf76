"""A SQLite file for several processes and threads, with safe opening and migration.

Each process has one connection for writing and one for reading, each with a lock, so a read never waits for a
write, not even for one that waits for another process. SQLite's locks and write-ahead log synchronize
processes. A write starts with BEGIN IMMEDIATE: it waits for others at its start and is never restarted.
`synchronous` is FULL: when a call returns, its data is on disk and survives a power failure.

If the file is deleted or replaced while it is open, the next call reopens it.

After a fork, the child must not use its parent's connection, nor close it during a transaction: a hook takes
all locks before the fork, so that no transaction is open, and the child opens its own connections.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from json import JSONDecodeError
from pathlib import Path

from rag.errors import (
    RagError,
    SettingsError,
    StoreBusy,
    StoreCorrupt,
    StoreReadOnly,
    StoreTooNew,
    StoreUnwritable,
)
from rag.quoting import visible
from rag.resources import file_identity, make_private
from rag.turns.model import RecordCorrupt

OLDEST_SQLITE = (3, 37, 0)
"""The first version with STRICT tables."""

Step = str | Callable[[sqlite3.Connection], None]
"""A statement, or a function that may execute several."""

_FIX_CORRUPT = (
    "nothing was changed; restore a copy, or move the file away to start an empty one "
    "(`sqlite3 FILE .recover` prints what can still be read)"
)
_FIX_TABLES = (
    "it was written by a development version of rag. Export it with that version (`rag turns export --all`), "
    "or move it away to start an empty one"
)
_OTHER_TABLES = re.compile(
    r"no such (fts5 )?(table|column|index)|has no column|already exists|has \d+ columns"
)
_FIX_TOO_NEW = "or point --memory or RAG_MEMORY at another file"

_READING, _WRITING = "BEGIN", "BEGIN IMMEDIATE"

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_UNWRITABLE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_NOLFS,
)

NO_SHARED_MEMORY = (
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
"""The errors of a database whose file of shared memory cannot be made: the disk is full."""

_COMPUTES = re.compile(r"(?i)\bcheck\b|\bdefault\b(?!\s+[\d'])")
"""What computes a value in the SQL of a table: a constraint, or a default that is no number and no text."""

_FILES: weakref.WeakSet[SqliteFile] = weakref.WeakSet()
_OPENING = threading.RLock()
_FORKING = threading.RLock()
_held: list[SqliteFile] = []
_inherited: list[sqlite3.Connection] = []
_forks_guarded = False


def foreign_code(connection: sqlite3.Connection) -> str | None:
    """Return the name of something in a file that runs the SQL of its author; None if there is nothing.

    A view without end, or a column of a gigabyte, stops every program that reads the table of its name; an
    index, a constraint or a default that computes something costs a gigabyte for each row. A table that is
    not STRICT can hold values of other types than rag writes.
    """
    found = connection.execute(
        """
        SELECT CAST(name AS BLOB), CAST(sql AS BLOB), type, type IN ('view', 'trigger') OR type = 'table'
            AND EXISTS (SELECT 1 FROM pragma_table_xinfo(sqlite_master.name) WHERE hidden IN (2, 3))
            OR name NOT LIKE 'sqlite_%' AND name IN (
                SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict
            )
        FROM sqlite_master
        """
    )
    for name, sql, kind, is_code in found:
        text = bytes(sql or b"").decode("utf-8", "replace")
        if is_code or (text.count("(") > 1 if kind == "index" else _COMPUTES.search(text)):
            return bytes(name).decode("utf-8", "replace")
    return None


def _is_frozen(path: Path) -> bool:
    """Return whether this user cannot write a file, or make one in its folder: the locks need one."""
    file = Path(os.path.realpath(path))
    try:
        folder = next(parent for parent in file.parents if parent.exists())
        is_open = os.access(folder, os.W_OK) and (not file.exists() or os.access(file, os.W_OK))
        return folder.is_dir() and not is_open
    except OSError:
        return False


class _Link:
    """A connection of this process, its lock, and the identity of the open file."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: sqlite3.Connection | None = None
        self.file: tuple[int, int] | None = None
        self.is_brief = False
        """Whether it is closed after each transaction: it keeps all others out, as there is no room for the
        file that they share; or it reads without locks what the owner may write."""

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection, self.is_brief = None, False


class SqliteFile:
    """A database file with one of our schemas.

    Args:
        path: the file; created if missing (mode 0600, missing folders 0700).
        application_id: identifies our files (`PRAGMA application_id`).
        migrations: steps for each version of the schema, statements or functions of the connection;
            version n is reached by the first n.
        busy_timeout_s: how long to wait for another process that writes.

    Raises:
        StoreCorrupt: the file is not a database, is damaged, or belongs to another program.
        StoreTooNew: a newer version of rag wrote it.
        StoreUnwritable: it cannot be created or written.
        StoreBusy: another process held it for longer than `busy_timeout_s`.
        SettingsError: Python's SQLite is older than `OLDEST_SQLITE`, or has no FTS5.
    """

    def __init__(
        self,
        path: Path,
        *,
        application_id: int,
        migrations: Sequence[Sequence[Step]],
        busy_timeout_s: float = 30.0,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise SettingsError(
                f"this Python has SQLite {sqlite3.sqlite_version}, but "
                f"{'.'.join(map(str, OLDEST_SQLITE))} is required; use a newer Python, or --memory memory:"
            )
        self.path = path.absolute()
        self._application_id = application_id
        self._migrations = migrations
        self._busy_timeout_s = busy_timeout_s
        self._writer, self._reader = _Link(), _Link()
        self._together_in: int | None = None  # a thread; set while holding the writer's lock
        self._closed = False
        with _OPENING:
            _guard_forks()
            _FILES.add(self)
        self._is_frozen = _is_frozen(self.path)
        first = self._reader if self._is_frozen else self._writer
        with first.lock, self.translated():
            self._connected(first)
            self._let_others_in(first)

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """Run a write transaction: on any error nothing is stored."""
        return self._transaction(_WRITING)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Run a read transaction: all its queries see the same snapshot."""
        return self._transaction(_READING)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run everything that this thread reads and writes within the block in one transaction.

        A block within a block that fails and is caught is rolled back alone, and so is a call that wrote
        nothing before it failed; any other error rolls back everything.
        """
        if self.is_together:
            connection = self._connected(self._writer)
            self._check_open(connection)
            with _part(connection):
                yield
                self._check_open(connection)
            return
        with self._transaction(_WRITING) as connection:
            self._together_in = threading.get_ident()
            try:
                yield
            finally:
                self._together_in = None
            self._check_open(connection)

    @property
    def is_together(self) -> bool:
        """Whether this thread is within `together`."""
        return self._together_in == threading.get_ident()

    def close(self) -> None:
        """Close the connections of this process. Closing twice is allowed; using them afterwards is not."""
        self._closed = True
        for link in (self._reader, self._writer):
            with link.lock:
                link.close()

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if self._is_frozen and begin != _READING:
            raise StoreReadOnly(path=str(self.path), why="it is read-only for this user")
        link = self._reader if begin == _READING and not self.is_together else self._writer
        with link.lock, self.translated():
            connection = self._connected(link)
            if self.is_together:
                self._check_open(connection)
                with nullcontext() if begin == _READING else _unharmed(connection):
                    yield connection
                return
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._let_others_in(link)

    def _let_others_in(self, link: _Link) -> None:
        if link.is_brief:
            link.close()

    def _check_open(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            raise StoreUnwritable(path=str(self.path), why="SQLite rolled back the transaction")

    def _connected(self, link: _Link) -> sqlite3.Connection:
        if self._closed:
            raise ValueError(f"the store {self.path} is closed")
        lost = not self.is_together and link.file != file_identity(self.path)
        if link.connection is not None and lost and not link.connection.in_transaction:
            # Writes to a file that was deleted or replaced would be acknowledged, and lost.
            link.close()
        if link.connection is None:
            try:
                link.connection = self._prepared()
                link.is_brief = self._is_frozen and self.path.exists()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in NO_SHARED_MEMORY:
                    raise
                # Without the file of shared memory, what is stored can still be read, by one at a time.
                link.connection, link.is_brief = self._prepared(exclusive=True), True
            link.file = file_identity(self.path)
        return link.connection

    def _prepared(self, *, exclusive: bool = False) -> sqlite3.Connection:
        connection = self._opened()
        try:
            if exclusive:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self) -> sqlite3.Connection:
        if self._is_frozen:
            return sqlite3.connect(self._frozen_uri, uri=True, isolation_level=None, check_same_thread=False)
        with _OPENING:
            try:
                make_private(self.path.parent)
                # Only when it is new: closing any descriptor of a file drops this process's locks on it.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                pass
            except OSError as error:
                raise StoreUnwritable.of(self.path, error) from error
        return sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )

    @property
    def _frozen_uri(self) -> str:
        """What is read of a file that cannot be written: nothing if it is missing. A log needs the locks."""
        if not self.path.exists():
            return "file::memory:"
        log = self.path.with_name(f"{self.path.name}-wal")
        is_logged = log.exists() and log.stat().st_size
        return f"{self.path.as_uri()}?mode=ro" + ("" if is_logged else "&immutable=1")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        connection.text_factory = _decode
        connection.execute("PRAGMA cache_size = -32000")  # in KiB: the upper pages of a large file's indexes
        version = self._version(connection)
        if self._is_frozen and self.path.exists():
            if version < len(self._migrations):
                why = "it has an older version, and is read-only"
                raise StoreReadOnly(path=str(self.path), why=why)
            return
        if not self._is_frozen and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self._write_ahead(connection)
        if version < len(self._migrations):
            self._migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the schema, 0 for an empty file."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application_id != self._application_id and (application_id or version or tables):
            why = "it is the SQLite database of another program"
            raise StoreCorrupt(path=str(self.path), why=why, fix="nothing was changed; name another file")
        if name := foreign_code(connection):
            why = f"it has SQL that rag does not write: {visible(name)[:80]}"
            raise StoreCorrupt(path=str(self.path), why=why, fix=_FIX_CORRUPT)
        if version > len(self._migrations):
            raise StoreTooNew(
                path=str(self.path), found=version, supported=len(self._migrations), fix=_FIX_TOO_NEW
            )
        return int(version)

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait for others here, whatever the timeout. A file system without shared memory
        # keeps the older journal, which is as safe.
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)  # another process may have migrated it
            for steps in self._migrations[version:]:
                for step in steps:
                    if callable(step):
                        step(connection)
                    else:
                        connection.execute(step)
            connection.execute(f"PRAGMA user_version = {len(self._migrations)}")
            connection.execute(f"PRAGMA application_id = {self._application_id}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate SQLite errors, and errors from reading damaged data, to ours."""
        try:
            yield
        except sqlite3.Error as error:
            if (ours := self._translation(error)) is None:
                raise
            raise ours from error
        except RecordCorrupt as error:
            raise StoreCorrupt(path=str(self.path), why=error.why, fix=_FIX_CORRUPT) from error
        except RagError:
            raise
        except (ValueError, LookupError, TypeError, zlib.error) as error:
            if (why := self._damage(error)) is None:
                raise
            raise StoreCorrupt(path=str(self.path), why=why, fix=_FIX_CORRUPT) from error

    def _damage(self, error: Exception) -> str | None:
        """Return what is wrong with the file if its data cannot be read; None if it is intact."""
        if isinstance(error, UnicodeDecodeError | JSONDecodeError | zlib.error):
            return f"its contents are invalid ({error})"
        connection = self._writer.connection or self._reader.connection
        if connection is None:
            return None
        try:
            found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
        except (sqlite3.Error, UnicodeDecodeError) as worse:
            return str(worse)
        return None if found == "ok" else found

    def _translation(self, error: sqlite3.Error) -> RagError | None:
        """Return our error for one of SQLite's, None for a mistake in our own statements."""
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            return None
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _CORRUPT or "integer overflow" in str(error):  # a sum of what rag did not write
            return StoreCorrupt(path=str(self.path), why=str(error), fix=_FIX_CORRUPT)
        if code in _BUSY:
            return StoreBusy(path=str(self.path), waited_s=self._busy_timeout_s, doing="writing")
        if code in _UNWRITABLE:
            kind = StoreReadOnly if self._is_frozen else StoreUnwritable
            return kind(path=str(self.path), why=str(error))
        if "no such module" in str(error):
            return SettingsError(
                f"the SQLite of this Python was built without FTS5 ({error}); use another Python, or "
                "--memory memory:"
            )
        if code != sqlite3.SQLITE_ERROR or _OTHER_TABLES.search(str(error)):
            why = f"its tables are not those of version {len(self._migrations)} ({error})"
            return StoreCorrupt(path=str(self.path), why=why, fix=_FIX_TABLES)
        return None

    def _abandon(self) -> None:
        """Drop the parent's connections without closing them, which could modify the parent's files."""
        for link in (self._reader, self._writer):
            if link.connection is not None:
                _inherited.append(link.connection)
                link.connection = None


@contextmanager
def _unharmed(connection: sqlite3.Connection) -> Iterator[None]:
    """Roll back the whole transaction if a call in it fails after it has written something.

    Calls check before they write, so a savepoint for each of them would cost more than it saves.
    """
    before = connection.total_changes
    try:
        yield
    except BaseException:
        if connection.in_transaction and connection.total_changes != before:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _part(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a part of a transaction, which is rolled back alone if it fails."""
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite ends it itself if, for example, the disk is full
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


def _decode(raw: bytes) -> str:
    # File names may contain bytes that are not text; Python represents them as lone surrogates.
    return raw.decode("utf-8", "surrogatepass")


def _guard_forks() -> None:
    global _forks_guarded
    register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
    if register is not None and not _forks_guarded:
        register(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
    _forks_guarded = True


def _before_fork() -> None:
    # A file's lock is always taken before _OPENING, so check again for files opened in the meantime.
    _FORKING.acquire()
    while True:
        _OPENING.acquire()
        new = [file for file in _FILES if file not in _held]
        if not new:
            return
        _OPENING.release()
        for file in new:
            file._reader.lock.acquire()
            file._writer.lock.acquire()
        _held.extend(new)


def _after_fork() -> None:
    _OPENING.release()
    for file in _held:
        file._writer.lock.release()
        file._reader.lock.release()
    _held.clear()
    _FORKING.release()


def _after_fork_in_child() -> None:
    for file in _held:
        file._abandon()
    _after_fork()
