"""Bounds what a server keeps on disk for refs and URLs named in requests; evicts the least recently used.

Each ref or URL has an entry `HOME/refs/NAME.json` with its source, its clone, and the bytes of clone and
store. The file's mtime is the time of last use. Only sources with an entry are ever removed; those indexed by
the command line have none.

A server holds a shared lock on the entries it uses, and evicts an entry only under an exclusive lock, so two
servers with one home do not remove what the other reads; the system releases the locks of a dead process. The
locks for indexing and fetching are also held during removal. The freshness of citations can still be checked
later: their bytes are stored with the turns, and the repository is cloned again on request.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.corpus.acquire import clone_folder, locked
from rag.corpus.worktree import is_bare, work_tree
from rag.database.locate import remove
from rag.database.lock import building
from rag.database.parts import segment_files, size_on_disk
from rag.errors import ConfigError, SourceError, StoreError
from rag.resources import make_private
from rag.types import Filters, Source

_MAX_ENTRY_BYTES = 1 << 16
_IN_USE_S = 600.0
"""A source used within this time is not evicted, as it may be in use by a request."""


class RetentionFull(ConfigError):
    """The limit of refs and URLs on disk is reached. `count` and `size_bytes` are the current totals."""

    def __init__(self, message: str, *, count: int, size_bytes: int) -> None:
        super().__init__(message)
        self.count, self.size_bytes = count, size_bytes


@dataclass(slots=True)
class _Claim:
    """An entry that this process uses, with its lock and its running jobs."""

    handle: int
    source: Source
    jobs: int = 0
    used: float = 0.0


class RefRetention:
    """The entries of one home, for one server. Thread-safe.

    Args:
        home: the folder of the stores and clones.
        store_file: returns the path of a source's store.
        max_entries: the maximum number of entries on disk.
        max_bytes: the maximum size of their stores and clones together.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        home: Path,
        store_file: Callable[[Source], Path],
        *,
        max_entries: int,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._store_file = home, store_file
        self._max_entries, self._max_bytes, self._clock = max_entries, max_bytes, clock
        self._claims: dict[str, _Claim] = {}
        self._names: dict[Source, str] = {}
        """The names of the entries in use."""
        self._lock = threading.Lock()

    def begin(self, source: Source) -> list[Source]:
        """Register a source that is about to be fetched and indexed; return the sources evicted for it.

        Raises:
            RetentionFull: the limit is reached, and all entries are in use.
            OSError: the entry cannot be written.
        """
        with self._lock:
            name, evicted = self._name(source), []
            if name not in self._claims:
                if not self._entry(name).exists():
                    if self._has_other_owner(source):
                        return []
                    evicted = self._evict(self._max_entries - 1, self._max_bytes)
                    if len(self._entries()) >= self._max_entries:
                        limit = f"{self._max_entries:,} refs and URLs are kept on disk"
                        raise self._full(f"{limit}, and all are in use")
                self._claims[name] = _Claim(self._locked_entry(name, source), source)
                self._names[source] = name
            claim = self._claims[name]
            claim.jobs, claim.used = claim.jobs + 1, self._clock()
            return evicted

    def end(self, source: Source) -> list[Source]:
        """Register the end of a job, successful or not, and its size on disk; return the sources evicted.

        Raises:
            RetentionFull: the size exceeds the limit, together with entries in use. The source was removed.
        """
        with self._lock:
            name = self._name(source)
            claim = self._claims.get(name)
            if claim is None:
                return []
            claim.jobs -= 1
            size = self._size(source)
            if size == 0:  # nothing was written
                self._forget(name)
                return []
            self._write(claim.handle, source, size)
            evicted = self._evict(self._max_entries, self._max_bytes)
            if (total := self._total()) <= self._max_bytes:
                return evicted
            error = self._full(
                f"{source} takes {size:,} bytes on disk; with what is in use that is {total:,}, more than "
                f"max_refs_bytes ({self._max_bytes:,})"
            )
            if not claim.jobs:
                self._release(name)
                self._remove(name)
            raise error

    def used(self, source: Source) -> None:
        """Register a use of a source. Does not block, as the event loop calls it."""
        if claim := self._claims.get(self._names.get(source, "")):
            claim.used = self._clock()

    def release(self, source: Source) -> None:
        """Register that this server does not use a source any more; it stays on disk until space is needed.

        Does not block, like `used`. Has no effect while a job of the source is running.
        """
        name = self._names.get(source, "")
        claim = self._claims.get(name)
        if claim is not None and not claim.jobs:
            self._release(name)

    def close(self) -> None:
        """Release all entries."""
        with self._lock:
            for name in list(self._claims):
                self._release(name)

    def totals(self) -> tuple[int, int]:
        """Return the number of entries on disk, and their size in bytes."""
        with self._lock:
            return len(self._entries()), self._total()

    # ------------------------------------------------------------ eviction

    def _evict(self, max_entries: int, max_bytes: int) -> list[Source]:
        """Remove the least recently used entries down to these limits; entries in use are kept."""
        evicted: list[Source] = []
        entries = self._entries()
        total = sum(size for _, size in entries.values())
        for name in sorted(entries, key=lambda one: self._last_used(one, entries[one][0])):
            if len(entries) - len(evicted) <= max_entries and total <= max_bytes:
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
        """Remove an entry with its store and clone; return None if another process uses it."""
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
            make_private(clone.parent)  # the folder of the lock
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
        """Whether another entry uses another folder of the same clone."""
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
        """Return the time of last use and the size of each entry, by name."""
        found = {}
        for path in self._folder.glob("*.json"):
            with suppress(FileNotFoundError):
                size = _record(path.read_bytes()).get("bytes")
                found[path.stem] = (path.stat().st_mtime, size if isinstance(size, int) else 0)
        return found

    def _total(self) -> int:
        return sum(size for _, size in self._entries().values())

    def _locked_entry(self, name: str, source: Source) -> int:
        """Open an entry under a shared lock; create it if necessary."""
        make_private(self._folder)
        path = self._entry(name)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)  # an exclusive lock for removal is short
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    if os.fstat(handle).st_size == 0:
                        self._write(handle, source, 0)
                    return handle
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
        """Return when an entry was last used, in seconds since 1970; own uses are not on disk yet."""
        claim = self._claims.get(name)
        return noted if claim is None else time.time() - (self._clock() - claim.used)

    def _release(self, name: str) -> None:
        used = self._last_used(name, 0.0)
        claim = self._claims.pop(name, None)
        if claim is None:  # already released by another thread
            return
        self._names.pop(claim.source, None)
        with suppress(OSError):
            os.utime(claim.handle, times=(used, used))
        os.close(claim.handle)

    def _forget(self, name: str) -> None:
        """Remove the entry of a source that was not stored, unless a job is running."""
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
        return clone_of(source, self._home)

    def _has_other_owner(self, source: Source) -> bool:
        """Whether the command line created a store or clone of it."""
        clone = self._clone(source)
        return self._store_file(source).exists() or (clone.exists() and not self._is_shared("", clone))

    def _size(self, source: Source) -> int:
        """Return the bytes of a source's files; what it shares with other refs counts in full for each."""
        size = size_on_disk(segment_files(self._store_file(source)))
        for folder, _, files in os.walk(self._clone(source)):
            for name in files:
                with suppress(FileNotFoundError):
                    size += os.lstat(Path(folder, name)).st_size
        return size

    def _full(self, what: str) -> RetentionFull:
        count, size = len(self._entries()), self._total()
        advice = "try again later, or raise max_refs_bytes in the server's settings"
        return RetentionFull(f"{what}; {advice}", count=count, size_bytes=size)


def clone_of(source: Source, home: Path) -> Path:
    """Return the folder of a source's clone, which the folders of one repository share."""
    folder = Path(source.location)
    if not source.is_url and not is_bare(folder) and (top := work_tree(folder)) is not None:
        source = Source(str(top), source.ref)
    return clone_folder(source, home)


@contextmanager
def reserved(home: Path, name: str) -> Iterator[None]:
    """Hold the entry of a store against all servers, and remove it at the end; do nothing if it has none.

    Raises:
        BlockingIOError: a server uses it.
    """
    entry = home / "refs" / f"{name}.json"
    try:
        handle = os.open(entry, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        entry.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _record(text: bytes) -> dict[str, Any]:
    """Return the contents of an entry; empty if it is damaged."""
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
