"""What a shelf means, over named objects: pointers of keys, and files by the hash of their bytes.

    keys/<key>.json              the current generation of a key: the only object that is ever replaced
    objects/<aa>/<sha256>        a file of one or more generations

A publisher uploads the missing files and then swaps the pointer, so a killed one changes nothing for readers.
Files of the current generation that were lost are missing too, so publishing it again repairs it. A file with
other bytes of the same length is found by those who fetch it, and by `verify`, which removes it.
`collect_garbage` may remove a file that no pointer names once it is old. A publisher therefore uploads a file
again that is neither in the generation it replaces nor recent; if that generation is replaced meanwhile, the
swap fails.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from rag.backends.shelf.disk_cache import DiskCache
from rag.backends.shelf.generations import (
    MAX_DOCUMENT_BYTES,
    checked_key,
    described,
    from_document,
    is_key,
    to_document,
)
from rag.backends.shelf.objects import PROBES, ObjectMissing, Objects
from rag.errors import NotFound, ShelfConflict, ShelfDamaged, ShelfUnreachable, StoreUnreadable
from rag.ports import Clock
from rag.store_shelf import Collected, Fetched, Published, ShelfFile, ShelfGeneration, Verified
from rag.types import now_utc

_KEYS = "keys/"
_OBJECTS = "objects/"
_POINTER = ".json"
_RECENT = timedelta(hours=6)
"""An uploaded file is used again without a second upload for this time. Far less than the grace period."""
_TRIES = 3
_BLOCK = 1 << 20


class ObjectShelf:
    """Implements `rag.store_shelf.StoreShelf` over a folder or object storage, with a disk cache."""

    def __init__(self, objects: Objects, cache: DiskCache, *, clock: Clock = now_utc) -> None:
        self._objects, self._cache, self._clock = objects, cache, clock

    @property
    def name(self) -> str:
        """The address of the place."""
        return self._objects.name

    @property
    def cache(self) -> DiskCache:
        """The disk cache."""
        return self._cache

    def current(self, key: str) -> ShelfGeneration | None:
        """Return the current generation of a key."""
        return self._pointer(key)[0]

    def publish(
        self, key: str, files: Mapping[str, Path], *, about: Mapping[str, str], expect: str | None
    ) -> Published:
        """Upload the files that are missing, and swap the pointer."""
        present, version = self._replaceable(key)
        found = None if present is None else present.id
        new = described(key, [_hashed(name, file) for name, file in files.items()], about, self._clock())
        if found not in (expect, new.id):
            raise ShelfConflict(shelf=self.name, key=key, expected=expect, found=found)
        named = set() if present is None else {file.sha256 for file in present.files}
        uploaded = []
        for file in {file.sha256: file for file in new.files}.values():
            if not self._is_kept(file, is_named=file.sha256 in named):
                self._upload(file, files[file.name])
                uploaded.append(file.size_bytes)
        if present is not None and found == new.id:  # also the second try of a call with unknown outcome
            return Published(present, len(uploaded), sum(uploaded))
        if not self._swapped(new, version):
            present = self.current(key)
            if present is None or present.id != new.id:
                found = None if present is None else present.id
                raise ShelfConflict(shelf=self.name, key=key, expected=expect, found=found)
        return Published(new, len(uploaded), sum(uploaded))

    def fetch(self, key: str) -> Fetched:
        """Return the current generation, from the disk cache or downloaded.

        If a file is gone because the generation was replaced meanwhile, the new one is fetched.
        """
        missing = ""
        for _ in range(_TRIES):
            generation = self.current(key)
            if generation is None:
                raise NotFound(f"nothing is published as {key} at {self.name}")
            if missing == generation.id:
                break
            try:
                folder, downloaded = self._cache.install(generation, self._download)
            except ObjectMissing:
                missing = generation.id
                continue
            self._cache.remember(self.name, generation)
            return Fetched(generation, folder, downloaded)
        raise ShelfDamaged(shelf=self.name, why=f"a file of {key} is missing")

    def last_fetched(self, key: str) -> Fetched | None:
        """Return the generation that was fetched last."""
        found = self._cache.last(self.name, checked_key(key))
        return None if found is None else Fetched(found.generation, found.folder, 0)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the published keys that begin with a prefix. Objects of other programs are left out."""
        names = (state.name.removeprefix(_KEYS) for state in self._objects.list(_KEYS))
        keys = (name.removesuffix(_POINTER) for name in names if name.endswith(_POINTER))
        return sorted(key for key in keys if key.startswith(prefix) and is_key(key))

    def delete(self, key: str) -> bool:
        """Remove the pointer of a key."""
        found = self._objects.state(_pointer_name(key)) is not None
        self._objects.delete([_pointer_name(key)])
        return found

    def collect_garbage(self, *, grace_s: float = 86_400.0) -> Collected:
        """Remove old files that no pointer names.

        The files are listed before the pointers are read: a file that a later publication uses is recent.
        """
        if grace_s < 2 * _RECENT.total_seconds():
            raise ValueError(f"the grace period must be at least {2 * _RECENT.total_seconds():.0f} seconds")
        before = self._clock() - timedelta(seconds=grace_s)
        old = {
            state.name: state.size_bytes
            for prefix in (_OBJECTS, PROBES)
            for state in self._objects.list(prefix)
            if state.modified < before
        }
        for key in self.keys() if old else ():
            generation = self.current(key)
            for file in generation.files if generation is not None else ():
                old.pop(_object_name(file.sha256), None)
        self._objects.delete(old)
        return Collected(len(old), sum(old.values()))

    def verify(self) -> Verified:
        """Read all files of the current generations; remove those with wrong bytes."""
        good: dict[str, bool] = {}
        damaged, size_bytes = [], 0
        for key in self.keys():
            generation = self.current(key)
            for file in generation.files if generation is not None else ():
                if file.sha256 not in good:
                    good[file.sha256] = self._is_sound(file)
                    size_bytes += file.size_bytes
                if not good[file.sha256]:
                    damaged.append((key, file.name))
        return Verified(len(good), size_bytes, tuple(damaged))

    def _is_sound(self, file: ShelfFile) -> bool:
        """Return whether a file is there with its bytes; remove it if it has others, also at a second try."""
        name = _object_name(file.sha256)
        for _ in range(2):
            digest = hashlib.sha256()
            try:
                for block in self._objects.download(name, size_bytes=file.size_bytes):
                    digest.update(block)
            except ObjectMissing:
                return False
            if digest.hexdigest() == file.sha256:
                return True
        self._objects.delete([name])
        return False

    def _pointer(self, key: str) -> tuple[ShelfGeneration | None, str | None]:
        """Return the current generation, and the version of the pointer."""
        found = self._objects.read(_pointer_name(key), max_bytes=MAX_DOCUMENT_BYTES)
        if found is None:
            return None, None
        try:
            return _checked(key, found.content), found.version
        except ValueError as error:
            raise ShelfDamaged(shelf=self.name, why=f"{key}: {error}") from error

    def _replaceable(self, key: str) -> tuple[ShelfGeneration | None, str | None]:
        """As `_pointer`; an invalid pointer counts as none, so that a publisher can replace it."""
        found = self._objects.read(_pointer_name(key), max_bytes=MAX_DOCUMENT_BYTES)
        generation = None
        if found is not None:
            with suppress(ValueError):
                generation = _checked(key, found.content)
        return generation, None if found is None else found.version

    def _swapped(self, new: ShelfGeneration, version: str | None) -> bool:
        """Swap the pointer. A swap that failed is tried again, unless it is found to have succeeded."""
        name = _pointer_name(new.key)
        try:
            return self._objects.swap(name, to_document(new), version=version)
        except ShelfUnreachable:
            present = self._replaceable(new.key)[0]
            if present is not None and present.id == new.id:
                return True
            return self._objects.swap(name, to_document(new), version=version)

    def _is_kept(self, file: ShelfFile, *, is_named: bool) -> bool:
        """Return whether the place has a file and keeps it: the current pointer names it, or it is new."""
        state = self._objects.state(_object_name(file.sha256))
        return (
            state is not None
            and state.size_bytes == file.size_bytes
            and (is_named or self._clock() - state.modified < _RECENT)
        )

    def _upload(self, file: ShelfFile, path: Path) -> None:
        try:
            self._objects.upload(_object_name(file.sha256), path)
        except OSError as error:
            raise _unreadable(path, error) from error

    def _download(self, file: ShelfFile, path: Path) -> None:
        """Write a file to a path and verify it; wrong bytes are downloaded once more."""
        for _ in range(2):
            digest, size = hashlib.sha256(), 0
            with path.open("wb") as target:
                for block in self._objects.download(_object_name(file.sha256), size_bytes=file.size_bytes):
                    digest.update(block)
                    target.write(block)
                    size += len(block)
                target.flush()
                os.fsync(target.fileno())
            if size == file.size_bytes and digest.hexdigest() == file.sha256:
                return
            path.unlink()
        why = f"{file.name} ({file.sha256[:12]}) has other bytes than were published"
        raise ShelfDamaged(shelf=self.name, why=f"{why}: {size:,} of {file.size_bytes:,} or a wrong hash")


def _checked(key: str, document: bytes) -> ShelfGeneration:
    """Return the generation that the pointer of a key describes. Raises ValueError if it is invalid."""
    generation = from_document(document)
    if generation.key != key:
        raise ValueError(f"it is the description of {generation.key}")
    return generation


def _pointer_name(key: str) -> str:
    return f"{_KEYS}{checked_key(key)}{_POINTER}"


def _object_name(sha256: str) -> str:
    return f"{_OBJECTS}{sha256[:2]}/{sha256}"


def _hashed(name: str, path: Path) -> ShelfFile:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return ShelfFile(name, digest, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> StoreUnreadable:
    return StoreUnreadable(path=str(path), why=error.strerror or str(error))
