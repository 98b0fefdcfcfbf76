"""Share the segments of a store with another work tree, clone or ref of the same repository.

A segment's file is never changed, only replaced. So a new store may begin as hard links to the segments of
another one, with a newest segment of its own that says which files differ: nothing is read, embedded or
written twice. What is live in the new store is decided by path and blob id, never by where a segment came
from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from rag.database.build import becomes_part
from rag.database.format import DAMAGE_ERRORS
from rag.database.lock import building
from rag.database.parts import is_store, part_path, place_part, remove_unlisted
from rag.database.segment import Segment, open_segment
from rag.database.store import Store
from rag.errors import StoreError, StoreUnwritable
from rag.types import Checkout, FileEntry

Elsewhere = Callable[[bool], Store | None]
"""Returns a verified store of the same repository from elsewhere, such as another machine, if there is one.

The argument is whether much of the source is to be indexed without it; it is not worth a long wait if not.
"""

_LEAST_SHARE = 0.75
"""The least share of the files, of the source and of the other store, that must be the same."""
_MOST_STORES = 20
"""How many stores of one repository are compared."""


def sharable(
    path: Path, wanted: Mapping[str, Any], checkout: Checkout, git_dir: str, files: Sequence[FileEntry]
) -> Store | None:
    """Return the store that has most of these files, over links to its parts for `path`; else None.

    Paths and sizes are compared; the caller compares the bytes. The caller holds the lock of `path`. A link
    that no store lists is removed by the next build.
    """
    sizes = {entry.path: entry.size_bytes for entry in files}
    best, most = None, 0
    for other in _related(path, wanted, checkout, git_dir):
        try:
            known = other.known_files()
            equal = sum(sizes.get(name) == size for name, (_, size, blob) in known.items() if blob)
        except DAMAGE_ERRORS:
            continue
        if equal > most and equal >= _LEAST_SHARE * max(len(sizes), other.file_count):
            best, most = other, equal
    return _linked(best, path, os.link) if best else None


def taken(store: Store, path: Path, wanted: Mapping[str, Any], files: Sequence[FileEntry]) -> Store | None:
    """Return a store from elsewhere over links to its parts, or copies of them, for `path`.

    None if it was not made as wanted, has too few of these files, or was replaced meanwhile.
    """
    sizes = {entry.path: entry.size_bytes for entry in files}
    try:
        known = store.known_files()
        equal = sum(sizes.get(name) == size for name, (_, size, blob) in known.items() if blob)
        enough = equal >= _LEAST_SHARE * max(len(sizes), store.file_count)
    except DAMAGE_ERRORS:
        return None
    if not enough or not _is_made_alike(store.header, wanted):
        return None
    return _linked(store, path, place_part)


def place_store(store: Store, path: Path, *, wait_s: float) -> None:
    """Make a store from elsewhere the store at `path`, as it is, with links to its files, or copies of them.

    Raises:
        StoreBusy: another process builds the store at `path`.
        StoreUnwritable: it cannot be written.
    """
    temporary = path.with_name(f".{path.stem}.{uuid4().hex}.tmp")
    with building(path, wait_s=wait_s):
        newest, *parts = store.segment_files
        try:
            for segment, file in zip(store.all_parts, parts, strict=True):
                link = part_path(path, segment.header["id"])
                if not link.exists():
                    place_part(file, link)
            place_part(newest, temporary)
            temporary.replace(path)
        except OSError as error:
            raise StoreUnwritable.of(path, error) from error
        finally:
            temporary.unlink(missing_ok=True)  # also there if both were already the same file
        remove_unlisted(path, [segment.header["id"] for segment in store.all_parts])


def _related(path: Path, wanted: Mapping[str, Any], checkout: Checkout, git_dir: str) -> Iterator[Store]:
    """Yield the newest stores of the same repository that were made alike, whatever their filters."""
    found: list[tuple[float, Path]] = []
    for file in path.parent.glob("*.pkl"):
        with suppress(OSError):
            found.append((file.stat().st_mtime, file))
    left = _MOST_STORES
    for _, file in sorted(found, reverse=True):
        if file == path or not is_store(file):
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


def _linked(store: Store, path: Path, link_file: Callable[[Path, Path], None]) -> Store | None:
    """Return the store over links to its parts, with its newest segment where that becomes a part.

    None if there can be none: the file system has no hard links, the store was replaced meanwhile, or
    something is damaged.
    """
    newest, *parts = store.segment_files
    files = dict(zip(store.all_parts, parts, strict=True))
    if becomes_part(store):
        files[store.segments[-1]] = newest
    try:
        links: dict[Segment, Segment] = {}
        for segment, file in files.items():
            link = part_path(path, segment.header["id"])
            if not link.exists():
                link_file(file, link)
            links[segment] = open_segment(link)
            if links[segment].header["id"] != segment.header["id"]:
                return None
        segments, archived = ([links.get(s, s) for s in own] for own in (store.segments, store.archived))
        linked = Store(path, segments, archived=archived)
        linked.verify()
    except (OSError, StoreError):
        return None
    return linked
