"""Small records of a turn store, see `RecordStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC

from rag.turns.checks import check_bounds, incremented
from rag.turns.conversations import Conversations, expiry
from rag.turns.model import StoredRecord
from rag.turns.storage import Scope, Shelf, Transaction, repeated


class Records(Conversations):
    """The operations of a turn store on records."""

    @repeated
    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        check_bounds(ttl_s)
        expires = expiry(self._clock().astimezone(UTC), ttl_s)
        stored = {key: StoredRecord(bytes(value), expires) for key, value in records.items()}
        with self._writing(Scope(namespace, shelf)) as tx:
            tx.put_records((namespace, shelf), stored)

    @repeated
    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        with self._reading(Scope(namespace, shelf, ids=tuple(keys))) as tx:
            return {key: record.value for key, record in tx.records((namespace, shelf), keys).items()}

    @repeated
    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        with self._reading(Scope(namespace, shelf)) as tx:
            return tx.record_keys((namespace, shelf), keys)

    @repeated
    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        with self._reading(Scope(namespace, shelf)) as tx:
            return tx.scan_records((namespace, shelf), prefix)

    @repeated
    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        with self._reading(Scope(namespace, shelf)) as tx:
            return tx.count_records((namespace, shelf))

    @repeated
    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new`, see `RecordStore`."""
        where = (namespace, shelf)
        with self._writing(Scope(namespace, shelf, ids=(key,))) as tx:
            there = tx.records(where, [key]).get(key)
            if (None if there is None else there.value) != old:
                return False
            if new is None:
                tx.delete_records(where, [key])
            else:
                tx.put_records(where, {key: StoredRecord(bytes(new), there and there.expires)})
            return True

    @repeated
    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes."""
        with self._writing(Scope(namespace, shelf, ids=(key,))) as tx:
            there = _record(tx, (namespace, shelf), key)
            whole = there._replace(value=there.value + more)
            tx.put_records((namespace, shelf), {key: whole})
            return len(whole.value)

    @repeated
    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, see `RecordStore`."""
        with self._writing(Scope(namespace, shelf, ids=(key,))) as tx:
            there = _record(tx, (namespace, shelf), key, b"0")
            total = there._replace(value=incremented(there.value, by))
            tx.put_records((namespace, shelf), {key: total})
            return int(total.value)

    @repeated
    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        with self._writing(Scope(namespace, shelf)) as tx:
            return tx.delete_records((namespace, shelf), None if keys is None else list(dict.fromkeys(keys)))


def _record(tx: Transaction, shelf: Shelf, key: str, default: bytes = b"") -> StoredRecord:
    return tx.records(shelf, [key]).get(key, StoredRecord(default))
