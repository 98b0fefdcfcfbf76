"""What some stores can say about their durability, and transactions over several calls."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

PersistenceKind = Literal["none", "rdb", "aof", "aof-always", "rdb+aof", "rdb+aof-always"]
"""What a server writes to disk: snapshots at intervals (rdb), a log of every write that is synced each
second (aof) or before a write is acknowledged (aof-always), both, or nothing."""


class Persistence(NamedTuple):
    """The persistence settings and state of a server.

    `snapshots` is the schedule: pairs of seconds and writes, "" for never. `log` is the sync mode of the
    append log ("always", "everysec", "no"), "" for no log. `unsaved` is the number of writes since the last
    snapshot, made at `saved`. `busy` means that a snapshot or log rewrite is running; `failed`, that the last
    one failed.
    """

    server: str
    snapshots: str
    log: str
    unsaved: int
    saved: datetime
    busy: bool
    failed: bool


@runtime_checkable
class PersistentStore(Protocol):
    """A store on a server whose persistence can be read and set."""

    def persistence(self) -> Persistence:
        """Return the persistence of the server."""
        ...

    def set_persistence(self, kind: PersistenceKind) -> bool:
        """Set the persistence; return whether the setting survives a restart of the server.

        It does not on a server without a configuration file.
        """
        ...

    def save(self, *, background: bool) -> None:
        """Write a snapshot: in the background, or now, which blocks all other clients."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A memory store with transactions."""

    def together(self) -> AbstractContextManager[None]:
        """Run all calls of this thread in one transaction: committed at the end, rolled back on an error.

        An error that is caught inside only rolls back the call that raised it, if the call was wrong; an
        error of the storage (a full disk) rolls back everything, and the block raises it.
        """
        ...


def has_transactions(store: object) -> TypeGuard[Grouping]:
    """Whether a memory store has transactions (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(store, "together")
