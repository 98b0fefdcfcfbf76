"""The shelf on which machines share stores: its values, and the port that `rag/backends/shelf` implements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol


class ShelfFile(NamedTuple):
    """A file of a generation: its name there, the SHA-256 of its bytes in hexadecimal, and its size."""

    name: str
    sha256: str
    size_bytes: int


class ShelfGeneration(NamedTuple):
    """A set of files that was published under a key. It never changes.

    `id` is derived from the key, the files and `about`, so publishing the same again gives the same id.
    `about` are facts that a reader wants before it fetches, such as the commit. `published` is the
    publisher's time and is only for display.
    """

    id: str
    key: str
    files: tuple[ShelfFile, ...]
    about: Mapping[str, str]
    published: datetime

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size_bytes for file in self.files)


class Published(NamedTuple):
    """The result of `StoreShelf.publish`: the current generation, and what had to be transferred for it."""

    generation: ShelfGeneration
    uploaded_files: int
    uploaded_bytes: int


class Fetched(NamedTuple):
    """A generation on this machine: all its files are in `folder`, under their names, and are complete.

    The files are read-only. The folder may be removed by a later fetch that needs its space: open the files
    at once, and fetch again on FileNotFoundError. What is open or linked elsewhere stays valid.
    """

    generation: ShelfGeneration
    folder: Path
    downloaded_bytes: int


class Collected(NamedTuple):
    """What `StoreShelf.collect_garbage` removed."""

    objects: int
    size_bytes: int


class Verified(NamedTuple):
    """What `StoreShelf.verify` found: the files that it read, and those of the current generations that are
    missing or had other bytes, as (key, name of the file)."""

    files: int
    size_bytes: int
    damaged: tuple[tuple[str, str], ...]


class StoreShelf(Protocol):
    """Published generations of stores, by key, which several machines share.

    A key names one repository at one ref, see `rag.service.repositories.shared_stores`: 1 to 200 of the
    characters `A-Z a-z 0-9 . _ -`, of which the first is a letter or a digit. A reader sees either the
    previous generation or the next one, never parts of both, whenever a publisher ends or is killed. Equal
    files of all generations are stored once. All methods may be used by several threads and processes.

    Every method raises a ShelfError: ShelfUnreachable if the service does not answer in time or fails,
    ShelfRefused if it refuses the login or has no such bucket or folder. No message has a credential.
    """

    @property
    def name(self) -> str:
        """The address for messages, without credentials."""
        ...

    def current(self, key: str) -> ShelfGeneration | None:
        """Return the current generation of a key; None if nothing is published. Nothing is downloaded."""
        ...

    def publish(
        self, key: str, files: Mapping[str, Path], *, about: Mapping[str, str], expect: str | None
    ) -> Published:
        """Upload the files that the shelf does not have yet, and make them the current generation.

        Files of the current generation that were lost are uploaded again.

        Args:
            key: the key.
            files: by name. They must not change during the call.
            about: see `ShelfGeneration`.
            expect: the id of the current generation that this one replaces; None if there must be none, or
                one whose description is damaged.

        Raises:
            ShelfConflict: the current generation is another one. It stays current.
        """
        ...

    def fetch(self, key: str) -> Fetched:
        """Return the current generation on this machine; files that are not in the disk cache are downloaded.

        Raises:
            NotFound: nothing is published under the key.
            ShelfDamaged: a file is missing or has other bytes, also when it was downloaded again.
            StoreUnwritable: the disk cache cannot be written, or is too small for this generation.
        """
        ...

    def last_fetched(self, key: str) -> Fetched | None:
        """Return the generation that was fetched last, if it is still in the disk cache.

        The service is not asked, so there may be a newer one.
        """
        ...

    def keys(self, prefix: str = "") -> list[str]:
        """Return the published keys that begin with a prefix, ascending."""
        ...

    def delete(self, key: str) -> bool:
        """Remove a key; return whether there was one. Its files are removed by `collect_garbage`."""
        ...

    def collect_garbage(self, *, grace_s: float = 86_400.0) -> Collected:
        """Remove the files that no current generation has, and that were uploaded longer ago than `grace_s`.

        Args:
            grace_s: longer than a publication may take. Files are shared, so a publisher uploads those again
                that may be removed while it runs.
        """
        ...

    def verify(self) -> Verified:
        """Read all files of the current generations; remove those that have other bytes than were published.

        They are lost files then, which the next publication of the generation uploads again. `publish` itself
        compares only sizes.

        Raises:
            ShelfDamaged: a description is damaged, so that its files are not known.
        """
        ...
