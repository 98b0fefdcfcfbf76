"""Find the files of stores."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from rag.database.format import read_header
from rag.database.parts import files_on_disk, is_store, segment_files
from rag.errors import StoreError
from rag.types import Source

_USED = ".used"
"""The suffix of an empty file whose time is that of the last use of a store."""
_MARKED_S = 60.0
"""A use within this time of the last one is not recorded."""


@lru_cache(maxsize=4096)
def store_path(home: Path, source: Source, *, embedder: str) -> Path:
    """Return the file of a store: one per source, ref, filters and embedder, whatever the folder's name.

    `embedder` is the name in the settings; a new version of it changes the fingerprint in the same file.
    """
    key = [source.location, source.ref, list(source.filters.include), list(source.filters.exclude), embedder]
    digest = hashlib.sha256(json.dumps(key).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", source.name).strip(".-")[:40] or "store"
    return home / "stores" / f"{readable}-{digest}.pkl"


def stores(home: Path) -> Iterator[tuple[Path, Mapping[str, Any] | StoreError]]:
    """Yield all stores in `home`, by name: the file, and its header or the error of reading it."""
    for path in sorted((home / "stores").glob("*.pkl")):
        if not is_store(path):
            continue
        try:
            yield path, read_header(path)
        except StoreError as error:
            yield path, error
        except FileNotFoundError:  # removed by another process meanwhile
            continue


def disk_bytes(file: Path) -> int:
    """Return the bytes that a file takes; a file that several stores share counts in part for each.

    Raises:
        FileNotFoundError: there is no such file.
    """
    status = file.stat()
    return status.st_size // max(status.st_nlink, 1)


def store_files(path: Path) -> tuple[Path, ...]:
    """Return the files of a store, which may not exist: the store first, then its parts."""
    return *segment_files(path), path.with_suffix(".lock"), path.with_suffix(_USED)


def mark_used(path: Path) -> None:
    """Record that a store is used now. A folder that cannot be written is no error."""
    marker = path.with_suffix(_USED)
    with suppress(OSError):
        if not marker.exists() or time.time() - marker.stat().st_mtime > _MARKED_S:
            marker.touch(mode=0o600)


def last_used(path: Path) -> float:
    """Return when a store was last used or written, in seconds since 1970; 0 if it does not exist.

    The times of parts are those of all stores that share them, so they do not count.
    """
    times = [0.0]
    for file in (path, path.with_suffix(".lock"), path.with_suffix(_USED)):
        with suppress(FileNotFoundError):
            times.append(file.stat().st_mtime)
    return max(times)


def remove(path: Path) -> int:
    """Remove a store and its other files; return the bytes freed. Removing it twice is not an error."""
    freed = 0
    parts = files_on_disk(path) if path.parent.exists() else []
    for file in dict.fromkeys((path, *parts, *store_files(path))):
        try:
            freed += disk_bytes(file)
            file.unlink()
        except FileNotFoundError:
            continue
    return freed
