"""The storage of a turn store: what a backend implements, so that `rag.turns` can do the rest.

A backend stores conversations, items (turns and messages) and records, and the terms of items. What they mean
(forks, rewinds, expiry, versions, filters, search) is in this package, once. A transaction sees one state;
what a `writing` one changes is stored at its end, or not at all. `rag.turns` checks before it writes, so a
call that raises because of its arguments has written nothing; and it does not read what it has changed in
the same transaction, so that a backend may send all changes at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import wraps
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rag.errors import StoreBusy
from rag.turns.model import ConversationRecord, Item, Kind, Range, StoredItem, StoredRecord

Keys = npt.NDArray[np.int64]

Postings = tuple[Keys, Keys]
"""The keys of the items that contain a term, and the count of the term in each; in any order."""

Shelf = tuple[str, str]
"""A namespace and a shelf of records in it."""


_PATIENCE_S = 30.0
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Scope(NamedTuple):
    """What a transaction is for: the conversations of a namespace, or with `shelf` only its records there.

    `has_expired`, `expired` and `expire_records` may be limited to it. The other fields say what the
    transaction begins with, so that a backend on a server can read it at once; they need not be right.
    """

    namespace: str
    shelf: str | None = None
    conversation: str = ""
    name: str = ""
    kind: Kind = "turn"
    ids: tuple[str, ...] = ()
    """Items that are read by their ids; or the keys of records."""
    last: int = 0
    """The number of the newest items of the conversation that are read; -1 is all."""
    terms: tuple[str, ...] | None = None
    """What is searched for."""
    is_loose: bool = False
    """Whether what it reads need not be of one state."""


class Conflict(Exception):
    """What a transaction has read was changed by another one before its end. Nothing was written."""


def repeated(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Repeat a call with one transaction after each `Conflict`; raises StoreBusy if that takes too long."""

    @wraps(call)
    def until_done(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return call(*args, **kwargs)
            except Conflict as conflict:
                if time.monotonic() > deadline:
                    raise StoreBusy(path=str(conflict), waited_s=_PATIENCE_S, doing="writing") from conflict

    return until_done


class Transaction(Protocol):
    """Reads and writes of one transaction."""

    # ---- conversations

    def conversation(self, conversation: str) -> ConversationRecord | None:
        """Return a conversation by its id."""
        ...

    def named(self, namespace: str, name: str) -> ConversationRecord | None:
        """Return the conversation of this name, which is not ""."""
        ...

    def conversations(self, namespace: str) -> list[ConversationRecord]:
        """Return the conversations of a namespace, the most recently written last."""
        ...

    def viewers(self, number: int) -> list[ConversationRecord]:
        """Return the conversations that have a span of this origin."""
        ...

    def put_conversation(self, kept: ConversationRecord) -> None:
        """Store a conversation. A new one is the most recently written; its `numbers` are filled in."""
        ...

    def delete_conversation(self, kept: ConversationRecord) -> None:
        """Delete a conversation; it remains an origin while it has items."""
        ...

    def has_expired(self, now: datetime) -> bool:
        """Whether a conversation or record has expired."""
        ...

    def expired(self, now: datetime) -> list[ConversationRecord]:
        """Return the conversations that have expired."""
        ...

    def settle(self) -> None:
        """Make what was changed so far visible to what the transaction reads from now on."""
        ...

    # ---- items

    def items(self, kind: Kind, ids: Iterable[str], namespace: str) -> dict[str, StoredItem]:
        """Return the items with these ids, by id, in their order."""
        ...

    def scan(
        self, range_: Range, *, newest_first: bool = False, limit: int = -1, marked: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the items in a range; at most `limit` (-1: all), or only those with a mark."""
        ...

    def count(self, range_: Range) -> tuple[int, int]:
        """Return the number of items in a range, and of their terms."""
        ...

    def append(self, kept: ConversationRecord, items: Sequence[Item]) -> None:
        """Add items to a conversation, which becomes the most recently written.

        Of the conversation, `next_order`, `updated` and `expires` are stored.
        """
        ...

    def add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Add items to origins with these numbers; an origin that is a conversation continues after them."""
        ...

    def edit(self, item: StoredItem, edited: Item) -> None:
        """Add a version to an item."""
        ...

    def mark(self, items: Iterable[StoredItem]) -> None:
        """Store the marks of these items."""
        ...

    def delete(self, items: Sequence[StoredItem]) -> None:
        """Delete items with all their versions, citations and terms."""
        ...

    def versions(self, item: StoredItem) -> list[str]:
        """Return the texts of the earlier versions of an item, oldest first."""
        ...

    def citing(self, namespace: str, path: str | None, location: str | None, blob: str | None) -> list[str]:
        """Return the ids of the turns that cite a file, ascending; None matches everything."""
        ...

    # ---- search

    def totals(self, namespace: str) -> tuple[int, int]:
        """Return the number of items of a namespace, and of their terms."""
        ...

    def match(self, namespace: str, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term in a namespace."""
        ...

    def ids(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of the items with these keys."""
        ...

    def lengths(self, keys: Sequence[int]) -> Keys:
        """Return the number of terms of the items with these keys, shape (keys,)."""
        ...

    def origins(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of the origins with these numbers."""
        ...

    # ---- records

    def records(self, shelf: Shelf, keys: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records with these keys, in their order."""
        ...

    def record_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a record."""
        ...

    def scan_records(self, shelf: Shelf, prefix: str) -> list[tuple[str, bytes]]:
        """Return the records whose key starts with a prefix, by key."""
        ...

    def count_records(self, shelf: Shelf) -> int:
        """Return the number of records on a shelf."""
        ...

    def put_records(self, shelf: Shelf, records: Mapping[str, StoredRecord]) -> None:
        """Store records."""
        ...

    def delete_records(self, shelf: Shelf, keys: Sequence[str] | None) -> int:
        """Delete these records, or all for None; return how many existed."""
        ...

    def expire_records(self, now: datetime) -> None:
        """Delete the records that have expired."""
        ...

    def shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the shelves of a namespace and the keys of their records, both ascending."""
        ...

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record, ascending."""
        ...


class Storage(Protocol):
    """A place for turns."""

    def reading(self, scope: Scope) -> AbstractContextManager[Transaction]:
        """Run a transaction that only reads; it never waits for one that writes. May raise Conflict."""
        ...

    def writing(self, scope: Scope) -> AbstractContextManager[Transaction]:
        """Run a transaction that writes; the others wait for it, or one of them raises Conflict."""
        ...

    @property
    def is_swept(self) -> bool:
        """Whether this thread is in a group of transactions, before which expired data was removed."""
        ...

    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""
        ...
