"""User preferences: JSON values by key, stored until they are deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag.parsing import parse_json
from rag.ports import RecordStore

SHELF = "preferences"
LANGUAGE = "language"
"""The preference for the language of answers: a code such as `zh-CN`."""


class Preferences:
    """The preferences of users in a store.

    Args:
        store: stores the preferences.
        namespace: isolated from other namespaces.
    """

    def __init__(self, store: RecordStore, *, namespace: str = "") -> None:
        self._store, self._namespace = store, namespace

    def save(self, user: str, key: str, value: Any) -> None:
        """Store a value, replacing the old one.

        Raises:
            TypeError, ValueError: it is not JSON.
        """
        self.save_all(user, {key: value})

    def save_all(self, user: str, values: Mapping[str, Any]) -> None:
        """Store several values, all or none."""
        records = {_key(user, key): _written(value) for key, value in values.items()}
        if records:
            self._store.put_records(records, shelf=SHELF, namespace=self._namespace)

    def get(self, user: str, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        sought = _key(user, key)
        found = self._store.records([sought], shelf=SHELF, namespace=self._namespace)
        return _value(found[sought], default) if sought in found else default

    def get_all(self, user: str) -> dict[str, Any]:
        """Return all values of a user, sorted by key; damaged ones are left out."""
        found = {key: _value(record, _DAMAGED) for key, record in self._records(user)}
        return {key: value for key, value in found.items() if value is not _DAMAGED}

    def delete(self, user: str, key: str) -> bool:
        """Delete a value; return False if there was none."""
        gone = self._store.delete_records([_key(user, key)], shelf=SHELF, namespace=self._namespace)
        return gone > 0

    def clear(self, user: str) -> int:
        """Delete all values of a user; return how many."""
        keys = [_key(user, key) for key, _ in self._records(user)]
        return self._store.delete_records(keys, shelf=SHELF, namespace=self._namespace) if keys else 0

    def _records(self, user: str) -> list[tuple[str, bytes]]:
        before = _key(user, "")
        kept = self._store.scan_records(shelf=SHELF, namespace=self._namespace, prefix=before)
        return [(key.removeprefix(before), record) for key, record in kept]


_DAMAGED = object()


def _value(record: bytes, default: Any) -> Any:
    """Return the value of a record; `default` if it is damaged."""
    try:
        return parse_json(record)
    except ValueError:
        return default


def _key(user: str, key: str) -> str:
    """Join user and key unambiguously, by prefixing the length of the user."""
    return f"{len(user)}:{user}:{key}"


def _written(value: Any) -> bytes:
    written = json.dumps(value, allow_nan=False)
    if json.loads(written) != value:
        raise TypeError(f"{value!r} is not JSON; use text, numbers, lists, or dicts with text keys")
    return written.encode()
