"""Restore of a dump in bounded memory: its lines wait in a temporary file, and are stored in batches.

All lines are validated before the transaction begins, so that it does not wait for the sender; and it
can be repeated.
"""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any

import numpy as np

from rag.errors import StoreUnwritable
from rag.turns import checks as check
from rag.turns.conversations import check_name
from rag.turns.dump import RecordLine, parsed
from rag.turns.model import KINDS, ConversationRecord, Item, Range, StoredRecord
from rag.turns.storage import Shelf, Transaction
from rag.turns.values import MAX_ORDER

_IN_MEMORY_BYTES = 8 << 20
_BATCH_BYTES = 4 << 20
_Batch = list[Item | RecordLine]


class ValidLines:
    """The lines of a dump, in the format of a dump; from `valid_lines`."""

    def __init__(self, lines: Iterable[Mapping[str, Any]], namespace: str, file: IO[bytes]) -> None:
        self.conversations: list[ConversationRecord] = []
        self._namespace, self._file = namespace, file
        keys = array("q")
        for line in lines:
            part = parsed(line, namespace)
            if isinstance(part, ConversationRecord):
                self.conversations.append(part)
                continue
            if isinstance(part, Item):
                keys.extend(map(hash, _keys(part)))
            with _written():
                file.write(json.dumps(line).encode() + b"\n")
        with _written():
            file.flush()
        found = np.sort(np.frombuffer(keys, np.int64))
        self._repeated = set(found[1:][found[1:] == found[:-1]].tolist())

    def batches(self) -> Iterator[_Batch]:
        """Yield the items and records, in their order."""
        batch: _Batch = []
        read = 0
        self._file.seek(0)
        for line in self._file:
            part = parsed(json.loads(line), self._namespace)
            assert not isinstance(part, ConversationRecord)
            batch.append(part)
            read += len(line)
            if read > _BATCH_BYTES:
                yield batch
                batch, read = [], 0
        yield batch

    def repeated_keys(self, item: Item) -> list[tuple[str, str | int]]:
        """Return those keys of an item that another item may have too."""
        return [key for key in _keys(item) if hash(key) in self._repeated]


@contextmanager
def valid_lines(lines: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[ValidLines]:
    """Read all lines.

    Raises:
        ValueError: a line is not in the format of a dump.
        StoreUnwritable: there is no space for the temporary file.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        yield ValidLines(lines, namespace, file)


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = "make space there, or name another folder with TMPDIR"
        why = f"a temporary file cannot be written: {error.strerror}"
        raise StoreUnwritable(path=tempfile.gettempdir(), why=why, fix=fix) from error


def restore_lines(tx: Transaction, lines: ValidLines, namespace: str, now: datetime) -> int:
    """Store lines in a transaction; return the number of new conversations."""
    new = _new_conversations(tx, lines.conversations, now)
    for kept in new:
        tx.put_conversation(kept)
    items = _NewItems(tx, lines, new, namespace)
    for batch in lines.batches():
        items.add([part for part in batch if isinstance(part, Item)])
        records: dict[Shelf, dict[str, StoredRecord]] = {}
        for part in batch:
            if not isinstance(part, Item):
                shelf, key, record = part
                if record.expires is None or record.expires > now:
                    records.setdefault((namespace, shelf), {})[key] = record
        for place, held in records.items():
            tx.put_records(place, held)
    return len(new)


def _new_conversations(
    tx: Transaction, found: Iterable[ConversationRecord], now: datetime
) -> list[ConversationRecord]:
    living = [kept for kept in found if kept.expires is None or kept.expires > now]
    new = [kept for kept in living if tx.conversation(kept.conversation.id) is None]
    names: dict[str, ConversationRecord] = {}
    for kept in new:
        check_name(tx, name := kept.conversation.name, kept.conversation)
        if name and names.setdefault(name, kept) is not kept:
            raise check.name_taken(names[name].conversation, kept.conversation.sources)
    return new


class _NewItems:
    """The items that new conversations show and that are not stored yet.

    A transaction does not read what it has changed, so what an earlier batch has added is remembered, as far
    as the lines repeat it.
    """

    def __init__(
        self, tx: Transaction, lines: ValidLines, new: Iterable[ConversationRecord], namespace: str
    ) -> None:
        self._tx, self._lines, self._namespace = tx, lines, namespace
        self._viewers: dict[str, list[ConversationRecord]] = {}
        self._numbers: dict[str, int] = {}
        for kept in new:
            self._numbers |= kept.numbers
            for origin in kept.numbers:
                self._viewers.setdefault(origin, []).append(kept)
        self._known: set[tuple[str, str | int]] = set()
        self._read_origins: set[str] = set()

    def add(self, batch: Iterable[Item]) -> None:
        """Store those of a batch that are new."""
        shown = [
            item for item in batch if any(kept.shows(item) for kept in self._viewers.get(item.origin, ()))
        ]
        for origin in dict.fromkeys(item.origin for item in shown):
            self._read_places(origin)
        stored = {
            (kind, id_)
            for kind in KINDS
            for id_ in self._tx.items(kind, [item.id for item in shown if item.kind == kind], self._namespace)
        }
        new = []
        for item in shown:
            if stored.isdisjoint(_keys(item)) and self._known.isdisjoint(_keys(item)):
                new.append(item)
                self._known.update(self._lines.repeated_keys(item))
        if new:
            self._tx.add(new, self._numbers)

    def _read_places(self, origin: str) -> None:
        """Read once which orders of an origin are used."""
        if origin not in self._read_origins:
            self._read_origins.add(origin)
            for kind in KINDS:
                whole = Range(origin, self._numbers[origin], kind, 0, MAX_ORDER - 1)
                self._known.update((origin, item.order) for item in self._tx.scan(whole))


def _keys(item: Item) -> tuple[tuple[str, str], tuple[str, int]]:
    """Return what no other stored item has: kind and id, and its place."""
    return (item.kind, item.id), (item.origin, item.order)
