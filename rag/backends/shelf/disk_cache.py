"""Fetched generations on this machine, within a number of bytes.

    generations/<id>/manifest.json   the description of the generation; its time is that of the last use
    generations/<id>/files/…         its files; equal files of several generations are hard links
    incoming/<name>/                 a generation that is being fetched, with the same content
    last/<hash>.json                 the id that was fetched last, by shelf and key

A generation appears by a rename, when all its files are complete and synced. Space is reserved before a
download begins; the least recently used generations are removed for it. A download holds a lock of its
manifest, so what a killed process has left is recognised and removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rag.backends.shelf.generations import from_document, to_document
from rag.errors import StoreUnwritable
from rag.resources import make_private, sync_to_disk
from rag.store_shelf import ShelfFile, ShelfGeneration

_MANIFEST = "manifest.json"
Download = Callable[[ShelfFile, Path], None]
"""Writes a file of a generation, complete and verified, to a path."""


@dataclass(frozen=True, slots=True)
class CachedGeneration:
    """A generation in the cache, and when it was last used, in seconds since 1970."""

    generation: ShelfGeneration
    folder: Path
    used: float


class DiskCache:
    """The cache in a folder, which several processes may share.

    Args:
        folder: the folder, which is created when it is needed.
        max_bytes: the limit for all files.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes

    def find(self, generation: ShelfGeneration) -> Path | None:
        """Return the folder of the files of a generation, and mark it as used; None if it is not cached."""
        place = self._place(generation.id)
        if _incomplete(place, generation):
            return None
        with suppress(FileNotFoundError):
            (place / _MANIFEST).touch()
        return place / "files"

    def install(self, generation: ShelfGeneration, download: Download) -> tuple[Path, int]:
        """Return the folder of a generation's files, and how many bytes were downloaded for it.

        Raises:
            StoreUnwritable: the cache cannot be written, or is too small.
        """
        if found := self.find(generation):
            return found, 0
        with self._translated(), self._incoming(generation) as (place, missing):
            for file in missing:
                download(file, place / "files" / file.name)
            sync_to_disk(place / "files")
            self._commit(place, generation)
        return self._place(generation.id) / "files", sum(file.size_bytes for file in missing)

    def discard(self, generation_id: str) -> None:
        """Remove a generation from the cache, for example because its files are damaged."""
        with self._translated(), self._locked():
            self._remove(self._place(generation_id))

    def remember(self, shelf: str, generation: ShelfGeneration) -> None:
        """Record that a generation is the last one that was fetched of its key."""
        with self._translated():
            make_private(self.folder / "last")
            path = self._last(shelf, generation.key)
            temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
            temporary.write_text(generation.id, encoding="utf-8")
            temporary.replace(path)

    def last(self, shelf: str, key: str) -> CachedGeneration | None:
        """Return the generation of a key that was fetched last, if it is still cached."""
        with suppress(OSError, ValueError):
            found = self._read(self._place(self._last(shelf, key).read_text(encoding="utf-8")))
            if found is not None and found.generation.key == key and self.find(found.generation):
                return found
        return None

    def generations(self) -> list[CachedGeneration]:
        """Return the cached generations, the least recently used first."""
        folder = self.folder / "generations"
        places = sorted(folder.iterdir()) if folder.is_dir() else []
        found = [one for place in places if (one := self._read(place)) is not None]
        return sorted(found, key=lambda one: one.used)

    def _make_room(self, max_bytes: int, wanted: dict[str, int]) -> None:
        """Remove generations until the cache, with the wanted files, has at most this many bytes."""
        for place in sorted((self.folder / "incoming").glob("*")):
            if _is_abandoned(place):
                self._remove(place)
        for one in self.generations():
            if sum((self._held() | wanted).values()) <= max_bytes:
                break
            self._remove(self._place(one.generation.id))

    def _held(self) -> dict[str, int]:
        """Return the sizes, by hash, of all files that are cached or being downloaded."""
        held: dict[str, int] = {}
        for folder in ("generations", "incoming"):
            for place in (self.folder / folder).glob("*"):
                if found := self._read(place):
                    held |= {file.sha256: file.size_bytes for file in found.generation.files}
        return held

    @contextmanager
    def _incoming(self, generation: ShelfGeneration) -> Iterator[tuple[Path, list[ShelfFile]]]:
        """Reserve space and a folder for a generation; yield the folder, and the files that are not cached.

        The others are linked.
        """
        if generation.size_bytes > self.max_bytes:
            raise self._too_small(generation)
        place = self.folder / "incoming" / uuid.uuid4().hex
        try:
            with self._locked():
                make_private(place / "files")
                manifest = (place / _MANIFEST).open("xb")
                fcntl.flock(manifest, fcntl.LOCK_EX)
                missing = self._linked(generation, place / "files")
                wanted = {file.sha256: file.size_bytes for file in generation.files}
                self._make_room(self.max_bytes, wanted)
                if sum((self._held() | wanted).values()) > self.max_bytes:
                    raise self._too_small(generation)
                manifest.write(to_document(generation))
                manifest.flush()
                os.fsync(manifest.fileno())
            with manifest:
                yield place, missing
        finally:
            self._remove(place)

    def _linked(self, generation: ShelfGeneration, files: Path) -> list[ShelfFile]:
        """Link the files that other generations have; return those that none has."""
        known: dict[str, Path] = {}
        for one in self.generations():
            known |= {file.sha256: one.folder / file.name for file in one.generation.files}
        missing = []
        for file in generation.files:
            try:
                (files / file.name).hardlink_to(known[file.sha256])
                if (files / file.name).stat().st_size != file.size_bytes:
                    (files / file.name).unlink()
                    missing.append(file)
            except (KeyError, OSError):
                missing.append(file)
        return missing

    def _commit(self, place: Path, generation: ShelfGeneration) -> None:
        final = self._place(generation.id)
        with self._locked():
            if _incomplete(final, generation):
                self._remove(final)
                make_private(final.parent)
                place.rename(final)
                sync_to_disk(final.parent)

    def _remove(self, place: Path) -> None:
        """Remove a folder so that no reader sees a part of it; what a killed process leaves is abandoned."""
        removed = self.folder / "incoming" / f"removed-{uuid.uuid4().hex}"
        with suppress(FileNotFoundError):
            make_private(removed.parent)
            place.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def _place(self, generation_id: str) -> Path:
        return self.folder / "generations" / generation_id

    def _last(self, shelf: str, key: str) -> Path:
        digest = hashlib.sha256(f"{shelf}\0{key}".encode()).hexdigest()
        return self.folder / "last" / f"{digest[:32]}.txt"

    def _read(self, place: Path) -> CachedGeneration | None:
        """Return the generation in a folder; None if its description cannot be read."""
        try:
            used = (place / _MANIFEST).stat().st_mtime
            generation = from_document((place / _MANIFEST).read_bytes())
        except (OSError, ValueError):
            return None
        return CachedGeneration(generation, place / "files", used)

    def _too_small(self, generation: ShelfGeneration) -> StoreUnwritable:
        return StoreUnwritable(
            path=str(self.folder),
            why=f"the store {generation.key} takes {generation.size_bytes:,} bytes, and the cache may have "
            f"{self.max_bytes:,} with what is being fetched",
            fix="index the source here, without RAG_STORES",
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the cache. It is never held during a download."""
        make_private(self.folder)
        with (self.folder / ".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnwritable.of(self.folder, error) from error


def _incomplete(place: Path, generation: ShelfGeneration) -> bool:
    try:
        return (
            any((place / "files" / file.name).stat().st_size != file.size_bytes for file in generation.files)
            or not (place / _MANIFEST).is_file()
        )
    except OSError:
        return True


def _is_abandoned(place: Path) -> bool:
    """Whether the process that created an incoming folder has ended."""
    try:
        with (place / _MANIFEST).open("rb") as manifest:
            fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
