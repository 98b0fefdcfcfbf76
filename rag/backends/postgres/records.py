"""Small records in Postgres, see `RecordStore`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from rag.backends.postgres.items import columns, made_space_key, space_key
from rag.backends.postgres.server import Db, Result, Work
from rag.backends.postgres.text import slot, slots_of_prefix
from rag.ports import Clock
from rag.turns.checks import check_bounds, incremented
from rag.turns.dump import Line, record_line
from rag.turns.model import StoredRecord

_PUT = """
    INSERT INTO record (space, shelf, key, shelf_name, key_name, value, expires)
    SELECT %s, * FROM unnest(%b::bytea[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::timestamptz[])
    ON CONFLICT (space, shelf, key) DO UPDATE SET value = excluded.value, expires = excluded.expires
"""
_PLACE = "WHERE space = %s AND shelf = %b"
_PLACED = "WHERE space = (SELECT key FROM space WHERE slot = %b) AND shelf = %b"

_There = tuple[bytes, datetime | None] | None


class PostgresRecords(ABC):
    """A `RecordStore` in Postgres; the turn store adds the rest."""

    _clock: Clock

    @abstractmethod
    def _ask(self, query: LiteralString, values: Sequence[Any]) -> list[Any]: ...

    @abstractmethod
    def _write(self, work: Work[Result]) -> Result: ...

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        check_bounds(ttl_s)
        expires = None if ttl_s is None else self._clock() + timedelta(seconds=ttl_s)
        kept = [(shelf, key, StoredRecord(value, expires)) for key, value in records.items()]
        if kept:
            self._write(lambda db: put_all(db, made_space_key(db, namespace), kept))

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        sought = [slot(key) for key in keys]
        found = f"SELECT key, value FROM record {_PLACED} AND key = ANY(%b::bytea[])"
        values = dict(self._ask(found, [slot(namespace), slot(shelf), sought]))
        return {key: values[where] for key, where in zip(keys, sought, strict=True) if where in values}

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        sought = [slot(key) for key in keys]
        found = f"SELECT key FROM record {_PLACED} AND key = ANY(%b::bytea[])"
        there = {where for (where,) in self._ask(found, [slot(namespace), slot(shelf), sought])}
        return {key for key, where in zip(keys, sought, strict=True) if where in there}

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        found = f"SELECT key_name, value FROM record {_PLACED} AND key BETWEEN %b AND %b"
        rows = self._ask(found, [slot(namespace), slot(shelf), *slots_of_prefix(prefix)])
        named = ((json.loads(name), value) for name, value in rows)
        return sorted((key, value) for key, value in named if key.startswith(prefix))

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        counted = f"SELECT count(*) FROM record {_PLACED}"
        return int(self._ask(counted, [slot(namespace), slot(shelf)])[0][0])

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new`, see `RecordStore`."""

        def work(db: Db) -> bool:
            space = made_space_key(db, namespace)
            there = _held(db, space, shelf, key)
            if (None if there is None else there[0]) != old:
                return False
            if new is not None:
                _put(db, space, shelf, key, new, there)
            elif there is not None:
                db.execute(f"DELETE FROM record {_PLACE} AND key = %b", [space, slot(shelf), slot(key)])
            return True

        return self._write(work)

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes."""

        def work(db: Db) -> int:
            space = made_space_key(db, namespace)
            there = _held(db, space, shelf, key)
            whole = (there[0] if there else b"") + more
            _put(db, space, shelf, key, whole, there)
            return len(whole)

        return self._write(work)

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, see `RecordStore`."""

        def work(db: Db) -> int:
            space = made_space_key(db, namespace)
            there = _held(db, space, shelf, key)
            total = incremented(there[0] if there else None, by)
            _put(db, space, shelf, key, total, there)
            return int(total)

        return self._write(work)

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        chosen = "" if keys is None else " AND key = ANY(%b::bytea[])"
        gone = f"WITH gone AS (DELETE FROM record {_PLACE}{chosen} RETURNING 1) SELECT count(*) FROM gone"
        sought = [] if keys is None else [[slot(key) for key in keys]]
        return self._write(lambda db: _number(db, gone, [space_key(db, namespace), slot(shelf), *sought]))


def put_all(db: Db, space: int, records: Sequence[tuple[str, str, StoredRecord]]) -> None:
    """Store records by shelf and key, replacing existing ones; of equal keys the last one counts."""
    rows = {
        (slot(shelf), slot(key)): (json.dumps(shelf), json.dumps(key), bytes(record.value), record.expires)
        for shelf, key, record in records
    }
    in_order = [(*place, *rows[place]) for place in sorted(rows)]  # to avoid deadlocks of two writers
    if in_order:
        db.execute(_PUT, [space, *columns(in_order, 6)])


def record_lines(db: Db, space: int) -> list[Line]:
    """Yield the dump lines of the records of a namespace, sorted by shelf and key."""
    rows = db.execute("SELECT shelf_name, key_name, value, expires FROM record WHERE space = %s", [space])
    named = ((json.loads(shelf), json.loads(key), *rest) for shelf, key, *rest in rows)
    return [record_line(shelf, key, StoredRecord(*rest)) for shelf, key, *rest in sorted(named, key=_place)]


def _place(record: Sequence[object]) -> tuple[object, object]:
    return record[0], record[1]


def _held(db: Db, space: int, shelf: str, key: str) -> _There:
    """Return the value of a record, locked until the end."""
    found = f"SELECT value, expires FROM record {_PLACE} AND key = %b FOR UPDATE"
    there: _There = db.execute(found, [space, slot(shelf), slot(key)]).fetchone()
    return there


def _put(db: Db, space: int, shelf: str, key: str, value: bytes, there: _There) -> None:
    if there is None:  # if another transaction inserts it first, this one is retried
        added = "INSERT INTO record VALUES (%s, %b, %b, %s, %s, %b)"
        db.execute(added, [space, slot(shelf), slot(key), json.dumps(shelf), json.dumps(key), bytes(value)])
    else:
        changed = f"UPDATE record SET value = %b {_PLACE} AND key = %b"
        db.execute(changed, [bytes(value), space, slot(shelf), slot(key)])


def _number(db: Db, query: str, values: Sequence[object]) -> int:
    row = db.execute(query, values).fetchone()
    return 0 if row is None else int(row[0])
