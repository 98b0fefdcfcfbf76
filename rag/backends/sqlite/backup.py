"""Backup of a memory to one file: a SQLite file with the tables of `schema` and their checksum.

It is self-contained (without a write-ahead log) and opens as a memory, `--memory sqlite:///FILE`. The table
`backup` holds the time of the backup and a checksum of all other tables, so that damage, and later writes,
are detected before anything is restored.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from rag.backends.sqlite.file import NO_SHARED_MEMORY, foreign_code
from rag.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from rag.errors import StoreCorrupt, StoreTooNew, StoreUnwritable
from rag.quoting import visible
from rag.types import Backup

_NO_BACKUP = "create one with `rag turns backup FILE`"
_DAMAGED = "nothing was restored; use another backup"


def copy_database(source: Path, target: Path) -> None:
    """Write the committed state of a SQLite file to a new one, while others may write to it.

    Raises:
        StoreCorrupt: the file is damaged.
        StoreUnwritable: there is no space for the new file.
    """
    with _translated(source, target):
        try:
            _copy(source, target)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in NO_SHARED_MEMORY:
                raise
            _copy(source, target, exclusive=True)  # the disk of the source is full, which is no obstacle


def _copy(source: Path, target: Path, *, exclusive: bool = False) -> None:
    with closing(sqlite3.connect(source, isolation_level=None)) as db:
        if exclusive:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("SELECT count(*) FROM sqlite_master")  # whose error names what is missing
        db.execute("VACUUM INTO ?", [str(target)])


def seal(file: Path, made: datetime) -> None:
    """Turn a copy of a SQLite memory into a backup: self-contained, with the checksum of its tables."""
    with _translated(file, file), closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        db.execute("DROP TABLE IF EXISTS backup")
        db.execute("CREATE TABLE backup (made TEXT NOT NULL, checksum BLOB NOT NULL) STRICT")
        db.execute("INSERT INTO backup VALUES (?, ?)", [made.isoformat(), _checksum(db)])
        db.execute("COMMIT")


def verify(file: Path) -> Backup:
    """Verify a backup and return its contents.

    Raises:
        StoreCorrupt: the file is not a backup, is damaged, or was modified after the backup.
        StoreTooNew: a newer version of rag wrote it.
    """
    address = f"{file.absolute().as_uri()}?mode=ro"
    with _translated(file, file), closing(sqlite3.connect(address, uri=True, isolation_level=None)) as db:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreCorrupt(path=str(file), why="it is not a backup of turns", fix=_NO_BACKUP)
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(MIGRATIONS):
            raise StoreTooNew(path=str(file), found=version, supported=len(MIGRATIONS), fix=_DAMAGED)
        if name := foreign_code(db):
            why = f"it has SQL that rag does not write: {visible(name)[:80]}"
            raise StoreCorrupt(path=str(file), why=why, fix=_DAMAGED)
        if "backup" not in _tables(db):
            raise StoreCorrupt(path=str(file), why="it is a memory, not a backup", fix=_NO_BACKUP)
        if (found := str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])) != "ok":
            raise StoreCorrupt(path=str(file), why=f"it is damaged ({found})", fix=_DAMAGED)
        made, checksum = db.execute("SELECT made, checksum FROM backup").fetchone()
        if _checksum(db) != checksum:
            why = "it is damaged, or was modified after the backup"
            raise StoreCorrupt(path=str(file), why=why, fix=_DAMAGED)
        counts = [int(db.execute(f"SELECT count(*) FROM {rows}").fetchone()[0]) for rows in _COUNTED]
        return Backup(datetime.fromisoformat(made), *counts)


_COUNTED = ("conversation WHERE written IS NOT NULL", "item WHERE kind = 0", "item WHERE kind = 1", "record")


def _checksum(db: sqlite3.Connection) -> bytes:
    """Return the SHA-256 over the rows of all tables but `backup`, by table name and key order."""
    digest = hashlib.sha256()
    before, db.text_factory = db.text_factory, bytes
    for table in _tables(db):
        if table != "backup":
            digest.update(f"\0{table}\0".encode())
            for row in db.execute(f'SELECT * FROM "{table}" NOT INDEXED'):
                digest.update(repr(row).encode())
    db.text_factory = before
    return digest.digest()


def _tables(db: sqlite3.Connection) -> list[str]:
    named = """
        SELECT CAST(name AS BLOB) FROM sqlite_master
        WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%'
    """
    return sorted(bytes(name).decode() for (name,) in db.execute(named))


@contextmanager
def _translated(read: Path, written: Path) -> Iterator[None]:
    """Translate SQLite errors to ours, for the file that is read or for the one that is written."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", -1) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            raise StoreUnwritable(path=str(written), why=str(error), fix="choose another place") from error
        raise StoreCorrupt(path=str(read), why=str(error), fix=_DAMAGED) from error
    except (ValueError, TypeError, LookupError) as error:
        raise StoreCorrupt(path=str(read), why=f"it is damaged ({error})", fix=_DAMAGED) from error
