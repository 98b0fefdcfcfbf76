"""The place of a shelf: named objects with atomic writes. A folder and object storage implement it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

PROBES = "probes/"
"""The prefix of objects that a place writes to test itself. They are of no use later."""


class ObjectState(NamedTuple):
    """An object's name, its size, and when it was last written, by the clock of the place."""

    name: str
    size_bytes: int
    modified: datetime


class ObjectContent(NamedTuple):
    """The bytes of a small object, and an id of this version of it."""

    content: bytes
    version: str


class ObjectMissing(Exception):
    """There is no such object."""


class Objects(Protocol):
    """Named objects. Names have the characters `A-Z a-z 0-9 . _ -`, and `/` between parts.

    Every method raises ShelfUnreachable or ShelfRefused, as `rag.store_shelf.StoreShelf`.
    """

    @property
    def name(self) -> str:
        """The address for messages, without credentials."""
        ...

    def read(self, name: str, *, max_bytes: int) -> ObjectContent | None:
        """Return a small object, at most `max_bytes + 1` bytes of it; None if there is none."""
        ...

    def swap(self, name: str, content: bytes, *, version: str | None) -> bool:
        """Write an object if it still has this version (None: if there is none); return whether it had.

        The write is atomic and durable. After ShelfUnreachable its outcome is unknown.
        """
        ...

    def upload(self, name: str, file: Path) -> None:
        """Write an object from a file; readers see the whole object or none.

        Raises:
            OSError: the file cannot be read.
        """
        ...

    def download(self, name: str, *, size_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of an object, at most about `size_bytes` of them.

        Raises:
            ObjectMissing: there is none.
        """
        ...

    def state(self, name: str) -> ObjectState | None:
        """Return the state of an object; None if there is none."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectState]:
        """Yield the objects whose names begin with a prefix, which ends with `/`."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that do not exist are no error."""
        ...
