"""Small records in memory, see `RecordStore`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rag.backends.stored_turns import StoredRecord
from rag.backends.turn_errors import check_bounds, incremented
from rag.ports import Clock


@dataclass(slots=True)
class RecordTable:
    """Records by key; none expires before `soonest`."""

    records: dict[str, StoredRecord] = field(default_factory=dict)
    soonest: datetime | None = None

    def put(self, key: str, record: StoredRecord) -> None:
        """Store a record, replacing the old one."""
        self.records[key] = record
        if record.expires is not None and (self.soonest is None or record.expires < self.soonest):
            self.soonest = record.expires

    def expire(self, now: datetime) -> None:
        """Remove expired records."""
        if self.soonest is not None and self.soonest <= now:
            kept = {key: it for key, it in self.records.items() if it.expires is None or it.expires > now}
            self.records = kept
            self.soonest = min((it.expires for it in kept.values() if it.expires), default=None)


class MemoryRecords:
    """A `RecordStore` in memory; the turn store adds the rest."""

    _clock: Clock
    _lock: threading.RLock

    def __init__(self) -> None:
        self._shelves: dict[tuple[str, str], RecordTable] = {}  # by namespace and name

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        check_bounds(ttl_s)
        with self._lock:
            expires = None if ttl_s is None else self._clock() + timedelta(seconds=ttl_s)
            here = self._shelf(shelf, namespace)
            for key, value in records.items():
                here.put(key, StoredRecord(bytes(value), expires))

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        with self._lock:
            kept = self._shelf(shelf, namespace).records
            return {key: kept[key].value for key in keys if key in kept}

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        with self._lock:
            kept = self._shelf(shelf, namespace).records
            return {key for key in keys if key in kept}

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        with self._lock:
            kept = self._shelf(shelf, namespace).records
            return [(key, kept[key].value) for key in sorted(kept) if key.startswith(prefix)]

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        with self._lock:
            return len(self._shelf(shelf, namespace).records)

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new`, see `RecordStore`."""
        with self._lock:
            here = self._shelf(shelf, namespace)
            there = here.records.get(key)
            if (None if there is None else there.value) != old:
                return False
            if new is None:
                here.records.pop(key, None)
            else:
                here.put(key, StoredRecord(bytes(new), there and there.expires))
            return True

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes."""
        with self._lock:
            here = self._shelf(shelf, namespace)
            there = here.records.get(key, StoredRecord(b""))
            here.put(key, there._replace(value=there.value + more))
            return len(here.records[key].value)

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, see `RecordStore`."""
        with self._lock:
            here = self._shelf(shelf, namespace)
            there = here.records.get(key, StoredRecord(b"0"))
            here.put(key, there._replace(value=incremented(there.value, by)))
            return int(here.records[key].value)

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        with self._lock:
            kept = self._shelf(shelf, namespace).records
            gone = list(kept) if keys is None else [key for key in dict.fromkeys(keys) if key in kept]
            for key in gone:
                del kept[key]
            return len(gone)

    def _shelf(self, shelf: str, namespace: str) -> RecordTable:
        """Return the records of a shelf without expired ones."""
        here = self._shelves.setdefault((namespace, shelf), RecordTable())
        here.expire(self._clock())
        return here
