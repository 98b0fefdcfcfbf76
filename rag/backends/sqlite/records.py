"""Small records in a SQLite file, see `RecordStore`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

from rag.backends.sqlite.bindings import execute, put_wanted, text
from rag.backends.sqlite.conversations import moment
from rag.backends.sqlite.items import made_space_key, space_key
from rag.backends.turn_errors import check_bounds, incremented
from rag.ports import Clock

_PUT = """
    INSERT INTO record (space, shelf, key, value, expires)
    VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)
    ON CONFLICT (space, shelf, key) DO UPDATE SET value = excluded.value, expires = excluded.expires
"""
_MAX_KEYS_PER_STATEMENT = 500
"""The maximum number of keys per statement."""
_WANTED = "(SELECT value FROM temp.wanted WHERE list = 2)"


class SqliteRecords(ABC):
    """A `RecordStore` in a SQLite file; the turn store adds the rest."""

    _clock: Clock

    @abstractmethod
    def _reading(self) -> AbstractContextManager[sqlite3.Connection]: ...

    @abstractmethod
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        check_bounds(ttl_s)
        expires = None if ttl_s is None else moment(self._clock() + timedelta(seconds=ttl_s))
        with self._writing() as db:
            space = made_space_key(db, namespace)
            rows = [(space, text(shelf), text(key), value, expires) for key, value in records.items()]
            db.executemany(_PUT, rows)

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        found = "SELECT value FROM record WHERE space = ? AND shelf = ? AND key = ?"
        with self._reading() as db:
            space = space_key(db, namespace)
            rows = ((key, execute(db, found, space, shelf, key).fetchone()) for key in keys)
            return {key: row[0] for key, row in rows if row is not None}

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        there: set[str] = set()
        with self._reading() as db:
            space = space_key(db, namespace)
            for n in range(0, len(keys), _MAX_KEYS_PER_STATEMENT):
                some = keys[n : n + _MAX_KEYS_PER_STATEMENT]
                wanted = ", ".join("?" * len(some))
                found = f"SELECT key FROM record WHERE space = ? AND shelf = ? AND key IN ({wanted})"
                there.update(row[0] for row in execute(db, found, space, shelf, *some))
        return there

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        found = """
            SELECT key, value FROM record WHERE space = ? AND shelf = ? AND key >= ?
            AND (? = 0 OR substr(CAST(key AS BLOB), 1, ?) = ?) ORDER BY key
        """
        start = prefix.encode("utf-8", "surrogatepass")
        with self._reading() as db:
            rows = execute(db, found, space_key(db, namespace), shelf, prefix, len(start), len(start), start)
            return [(row["key"], row["value"]) for row in rows]

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        with self._reading() as db:
            counted = "SELECT count(*) FROM record WHERE space = ? AND shelf = ?"
            return int(execute(db, counted, space_key(db, namespace), shelf).fetchone()[0])

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new`, see `RecordStore`."""
        with self._writing() as db:
            value, expires = _record(db, key, shelf, namespace)
            if value != old:
                return False
            if new is None:
                gone = "DELETE FROM record WHERE space = ? AND shelf = ? AND key = ?"
                execute(db, gone, space_key(db, namespace), shelf, key)
            else:
                _put(db, key, new, expires, shelf, namespace)
            return True

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes."""
        with self._writing() as db:
            value, expires = _record(db, key, shelf, namespace)
            whole = (value or b"") + more
            _put(db, key, whole, expires, shelf, namespace)
            return len(whole)

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, see `RecordStore`."""
        with self._writing() as db:
            value, expires = _record(db, key, shelf, namespace)
            total = incremented(value, by)
            _put(db, key, total, expires, shelf, namespace)
            return int(total)

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        gone = "DELETE FROM record WHERE space = ? AND shelf = ?"
        with self._writing() as db:
            if keys is not None:
                put_wanted(db, 2, keys)
                gone += f" AND key IN {_WANTED}"
            return execute(db, gone, space_key(db, namespace), shelf).rowcount


def _record(db: sqlite3.Connection, key: str, shelf: str, namespace: str) -> tuple[bytes | None, str | None]:
    found = "SELECT value, expires FROM record WHERE space = ? AND shelf = ? AND key = ?"
    row = execute(db, found, space_key(db, namespace), shelf, key).fetchone()
    return (None, None) if row is None else (row["value"], row["expires"])


def _put(
    db: sqlite3.Connection, key: str, value: bytes, expires: str | None, shelf: str, namespace: str
) -> None:
    db.execute(_PUT, (made_space_key(db, namespace), text(shelf), text(key), value, expires))
