"""Share the base of a store with another work tree, clone or ref of the same repository.

A store's base file is never changed, only replaced. So a new store may begin as a hard link to the base of
another one, with a delta of its own that says which files differ: nothing is read, embedded or written twice.
What is live in the new store is decided by path and blob id, never by where the base came from.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rag.database.format import DAMAGE_ERRORS
from rag.database.segment import open_segment
from rag.database.store import Store
from rag.errors import StoreError
from rag.types import Checkout, FileEntry

_LEAST_SHARE = 0.75
"""The least share of the files, of the source and of the base, that must be the same."""
_MOST_STORES = 20
"""How many stores of one repository are compared."""


def sharable(
    path: Path, wanted: Mapping[str, Any], checkout: Checkout, git_dir: str, files: Sequence[FileEntry]
) -> Store | None:
    """Return the store that has most of these files in its base, as a link next to `path`; else None.

    Paths and sizes are compared; the caller compares the bytes. The caller holds the lock of `path`, and
    moves the link to `path` when the delta is written (`keep_link`); a link that is left is removed as other
    temporary files are.
    """
    sizes = {entry.path: entry.size_bytes for entry in files}
    best, most = None, 0
    for other in _related(path, wanted, checkout, git_dir):
        base = other.segments[0]
        try:
            known = zip(base.paths, base.columns["file_size"].tolist(), strict=True)
            equal = sum(sizes.get(name) == size for name, size in known)
        except DAMAGE_ERRORS:
            continue
        if equal > most and equal >= _LEAST_SHARE * max(len(sizes), base.file_count):
            best, most = other, equal
    return _linked(best, path) if best else None


def keep_link(store: Store, path: Path) -> None:
    """Make the base of a sharable store that of `path`."""
    store.path.replace(path)


def _related(path: Path, wanted: Mapping[str, Any], checkout: Checkout, git_dir: str) -> Iterator[Store]:
    """Yield the newest stores of the same repository that were made alike, whatever their filters."""
    found: list[tuple[float, Path]] = []
    for file in path.parent.glob("*.pkl"):
        with suppress(OSError):
            found.append((file.stat().st_mtime, file))
    left = _MOST_STORES
    for _, file in sorted(found, reverse=True):
        if file == path or file.name.endswith(".delta.pkl"):
            continue
        try:
            other = Store.open(file)
        except (StoreError, FileNotFoundError):
            continue
        if _is_same_repository(other.header, checkout, git_dir) and _is_made_alike(other.header, wanted):
            yield other
            left -= 1
        if not left:
            return


def _is_same_repository(header: Mapping[str, Any], checkout: Checkout, git_dir: str) -> bool:
    pairs = (
        (header.get("location"), checkout.source.location),
        (header.get("remote"), checkout.remote),
        (header.get("commit"), checkout.commit),
        (header.get("git_dir"), git_dir),
    )
    return any(theirs and theirs == ours for theirs, ours in pairs)


def _is_made_alike(header: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    made = header.get("fingerprint")
    return isinstance(made, dict) and {**made, "filters": None} == {**wanted, "filters": None}


def _linked(store: Store, path: Path) -> Store | None:
    """Return the store over a link to its base; None if there can be none.

    That is: the file system has no hard links, the base was replaced meanwhile, or something is damaged.
    """
    link = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        os.link(store.path, link)
        linked = Store(link, (open_segment(link), *store.segments[1:]))
        if linked.segments[0].header["id"] == store.segments[0].header["id"]:
            linked.verify()
            return linked
    except (OSError, StoreError):
        pass
    link.unlink(missing_ok=True)
    return None
