"""What a server keeps on disk for refs and URLs that requests name: counted, bounded, evicted by last use.

Each has an entry `HOME/refs/NAME.json`: of which source, which clone, how many bytes clone and store take.
The entry's time is when it was used last. Only what has an entry is ever removed: what the command line
indexes has none. Older servers wrote no entries: the first server that starts in a home writes them for the
stores that requests to it could have made (`adopt`). That happens once, so that what the command line indexes
later stays exempt.

A server holds a shared lock on the entries it uses, and evicts one only under an exclusive lock, so that two
servers with one home do not remove what the other reads; the system frees the locks of a process that died.
The locks of the builder and of the fetcher are held too while files are removed. What conversations cite can
be checked later: its bytes are kept with the turns, and its repository is cloned again when somebody asks.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.corpus.acquire import clone_folder, locked
from rag.corpus.worktree import is_bare, work_tree
from rag.database.locate import remove, stores
from rag.database.lock import building
from rag.database.store import delta_path
from rag.errors import ConfigError, SourceError, StoreError
from rag.resources import make_private
from rag.types import Filters, Source

_MAX_ENTRY_BYTES = 1 << 16
_ADOPTED = ".adopted"
"""The file that notes that the stores of older servers have entries."""
_IN_USE_S = 600.0
"""What was asked so recently may still be answered from."""


class RetentionFull(ConfigError):
    """No more refs and URLs can be kept on disk. `count` and `size_bytes` are what there is."""

    def __init__(self, message: str, *, count: int, size_bytes: int) -> None:
        super().__init__(message)
        self.count, self.size_bytes = count, size_bytes


@dataclass(slots=True)
class _Claim:
    """An entry that this process uses: its lock, and what for."""

    handle: int
    source: Source
    jobs: int = 0
    used: float = 0.0


class RefRetention:
    """The entries of one home, as one server sees them. Every method may be called from any thread.

    Args:
        home: of the stores and clones.
        store_file: where the store of a source is, or would be.
        most: entries on disk.
        most_bytes: what their stores and clones may take together.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        home: Path,
        store_file: Callable[[Source], Path],
        *,
        most: int,
        most_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._store_file = home, store_file
        self._most, self._most_bytes, self._clock = most, most_bytes, clock
        self._claims: dict[str, _Claim] = {}
        self._names: dict[Source, str] = {}
        """Of the sources that are claimed."""
        self._lock = threading.Lock()

    def adopt(self, requestable: Callable[[str, str | None], Iterable[Source]]) -> list[Source]:
        """Write entries for what older servers left without, once for each home; return what was evicted.

        A store counts as used last when it was written last.

        Args:
            requestable: the sources of a location and ref that a request could have named.

        Raises:
            OSError: an entry cannot be written.
        """
        with self._lock:
            if (self._folder / _ADOPTED).exists():
                return []
            make_private(self._folder)
            for path, header in stores(self._home):
                if isinstance(header, StoreError):
                    continue
                ref = header.get("ref")
                for source in requestable(str(header.get("location")), None if ref is None else str(ref)):
                    if self._store_file(source) == path and not self._entry(self._name(source)).exists():
                        self._adopt_store(source, path)
            (self._folder / _ADOPTED).touch(mode=0o600)
            return self._evict(self._most, self._most_bytes)

    def begin(self, source: Source) -> list[Source]:
        """Note that a source is about to be fetched and indexed; return what was evicted to make room.

        Raises:
            RetentionFull: as many as there may be are kept, and all are in use.
            OSError: the entry cannot be written.
        """
        with self._lock:
            name, evicted = self._name(source), []
            if name not in self._claims:
                if not self._entry(name).exists():
                    if self._is_anothers(source):
                        return []
                    evicted = self._evict(self._most - 1, self._most_bytes)
                    if len(self._entries()) >= self._most:
                        raise self._full(f"{self._most:,} refs and URLs are kept on disk, and all are in use")
                self._claims[name] = _Claim(self._locked_entry(name, source), source)
                self._names[source] = name
            claim = self._claims[name]
            claim.jobs, claim.used = claim.jobs + 1, self._clock()
            return evicted

    def end(self, source: Source) -> list[Source]:
        """Note that a job has ended, however it did, and what it left; return what was evicted.

        Raises:
            RetentionFull: it takes more bytes than there may be together with what is in use. It was removed.
        """
        with self._lock:
            name = self._name(source)
            claim = self._claims.get(name)
            if claim is None:
                return []
            claim.jobs -= 1
            size = self._size(source)
            if size == 0:  # nothing was made
                self._forget(name)
                return []
            self._write(claim.handle, source, size)
            evicted = self._evict(self._most, self._most_bytes)
            if (total := self._total()) <= self._most_bytes:
                return evicted
            error = self._full(
                f"{source} takes {size:,} bytes on disk; with what is in use that is {total:,}, more than "
                f"max_refs_bytes ({self._most_bytes:,})"
            )
            if not claim.jobs:
                self._release(name)
                self._remove(name)
            raise error

    def used(self, source: Source) -> None:
        """Note that a source is asked. It waits for nothing: the event loop calls it."""
        if claim := self._claims.get(self._names.get(source, "")):
            claim.used = self._clock()

    def release(self, source: Source) -> None:
        """Note that this server has no use for a source; it stays on disk until others need the room.

        It waits for nothing, as `used`. While a job of the source is under way it does nothing.
        """
        name = self._names.get(source, "")
        claim = self._claims.get(name)
        if claim is not None and not claim.jobs:
            self._release(name)

    def close(self) -> None:
        """Release all."""
        with self._lock:
            for name in list(self._claims):
                self._release(name)

    def totals(self) -> tuple[int, int]:
        """How many entries there are on disk, and how many bytes they take."""
        with self._lock:
            return len(self._entries()), self._total()

    # ------------------------------------------------------------ eviction

    def _evict(self, most: int, most_bytes: int) -> list[Source]:
        """Remove the longest unused until there are no more than so many; what is in use stays."""
        evicted: list[Source] = []
        entries = self._entries()
        total = sum(size for _, size in entries.values())
        for name in sorted(entries, key=lambda one: self._last_used(one, entries[one][0])):
            if len(entries) - len(evicted) <= most and total <= most_bytes:
                break
            claim, size = self._claims.get(name), entries[name][1]
            if claim is not None:
                if claim.jobs or self._clock() - claim.used < _IN_USE_S:
                    continue
                self._release(name)
            if (source := self._remove(name)) is not None:
                evicted.append(source)
                total -= size
        return evicted

    def _remove(self, name: str) -> Source | None:
        """Remove an entry and what was made for it; None where another process uses it."""
        try:
            handle = os.open(self._entry(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            source = self._read(handle)
            if source is None:
                self._entry(name).unlink(missing_ok=True)
                return None
            store, clone = self._store_file(source), self._clone(source)
            make_private(clone.parent)  # where the lock is
            with building(store, wait_s=0), locked(clone, 0):
                remove(store)
                if not self._is_shared(name, clone):
                    shutil.rmtree(clone, ignore_errors=True)
            self._entry(name).unlink(missing_ok=True)
            return source
        except (BlockingIOError, StoreError, SourceError):
            return None
        finally:
            os.close(handle)

    def _is_shared(self, name: str, clone: Path) -> bool:
        """Whether another entry is of another folder of the same clone."""
        for other in self._folder.glob("*.json"):
            if other.stem != name:
                with suppress(FileNotFoundError):
                    if _record(other.read_bytes()).get("clone") == clone.name:
                        return True
        return False

    # ------------------------------------------------------------ entries

    @property
    def _folder(self) -> Path:
        return self._home / "refs"

    def _name(self, source: Source) -> str:
        return self._store_file(source).stem

    def _entry(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _entries(self) -> dict[str, tuple[float, int]]:
        """When each was used last, and its bytes, by name."""
        found = {}
        for path in self._folder.glob("*.json"):
            with suppress(FileNotFoundError):
                size = _record(path.read_bytes()).get("bytes")
                found[path.stem] = (path.stat().st_mtime, size if isinstance(size, int) else 0)
        return found

    def _total(self) -> int:
        return sum(size for _, size in self._entries().values())

    def _locked_entry(self, name: str, source: Source) -> int:
        """The entry, open under a shared lock; made where there is none."""
        make_private(self._folder)
        path = self._entry(name)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)  # whoever removes it is soon done
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    if os.fstat(handle).st_size == 0:
                        self._write(handle, source, 0)
                    return handle
            os.close(handle)

    def _adopt_store(self, source: Source, path: Path) -> None:
        written = path.stat().st_mtime
        handle = self._locked_entry(self._name(source), source)
        try:
            self._write(handle, source, self._size(source))
            os.utime(handle, times=(written, written))
        finally:
            os.close(handle)

    def _write(self, handle: int, source: Source, size: int) -> None:
        record = {
            "location": source.location,
            "ref": source.ref,
            "include": source.filters.include,
            "exclude": source.filters.exclude,
            "clone": self._clone(source).name,
            "bytes": size,
        }
        text = json.dumps(record).encode()
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))

    def _read(self, handle: int) -> Source | None:
        record = _record(os.pread(handle, _MAX_ENTRY_BYTES, 0))
        try:
            filters = Filters(tuple(record["include"]), tuple(record["exclude"]))
            return Source(str(record["location"]), record["ref"], filters)
        except (KeyError, TypeError):
            return None

    def _last_used(self, name: str, noted: float) -> float:
        """When an entry was used last, in seconds since 1970; what is used here is noted at its release."""
        claim = self._claims.get(name)
        return noted if claim is None else time.time() - (self._clock() - claim.used)

    def _release(self, name: str) -> None:
        used = self._last_used(name, 0.0)
        claim = self._claims.pop(name, None)
        if claim is None:  # somebody else was faster
            return
        self._names.pop(claim.source, None)
        with suppress(OSError):
            os.utime(claim.handle, times=(used, used))
        os.close(claim.handle)

    def _forget(self, name: str) -> None:
        """Remove the entry of what was not made, unless somebody makes it."""
        if not self._claims[name].jobs:
            self._release(name)
            with suppress(FileNotFoundError):
                handle = os.open(self._entry(name), os.O_RDWR | os.O_CLOEXEC)
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._entry(name).unlink(missing_ok=True)
                os.close(handle)

    # ------------------------------------------------------------ files

    def _clone(self, source: Source) -> Path:
        folder = Path(source.location)
        if not source.is_url and not is_bare(folder) and (top := work_tree(folder)) is not None:
            source = Source(str(top), source.ref)
        return clone_folder(source, self._home)

    def _is_anothers(self, source: Source) -> bool:
        """Whether the command line made a store or clone of it."""
        clone = self._clone(source)
        return self._store_file(source).exists() or (clone.exists() and not self._is_shared("", clone))

    def _size(self, source: Source) -> int:
        store = self._store_file(source)
        size = sum(file.stat().st_size for file in (store, delta_path(store)) if file.exists())
        for folder, _, files in os.walk(self._clone(source)):
            for name in files:
                with suppress(FileNotFoundError):
                    size += os.lstat(Path(folder, name)).st_size
        return size

    def _full(self, what: str) -> RetentionFull:
        count, size = len(self._entries()), self._total()
        advice = "come again later, or raise max_refs and max_refs_bytes in the server's settings"
        return RetentionFull(f"{what}; {advice}", count=count, size_bytes=size)


def _record(text: bytes) -> dict[str, Any]:
    """What an entry says; nothing where it is damaged."""
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
