"""What is on disk in the data folder, and removal of what can be made again: indexes, clones,
fetched indexes, vectors.

Turns, facts and settings are listed but never removed here. Indexes and clones are removed in the order of
their last use, an index before its clone; those that a server holds are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rag.backends import FETCHED
from rag.backends.shelf.disk_cache import DiskCache
from rag.corpus.acquire import locked, resolve
from rag.database.locate import disk_bytes, last_used, remove, store_files, stores
from rag.database.lock import building
from rag.errors import ConfigError, SourceError, StoreError
from rag.resources import user_path
from rag.service.repositories.ref_retention import clone_of, reserved
from rag.settings import Settings
from rag.types import Source

StorageKind = Literal[
    "index", "clone", "fetched", "vectors", "renames", "turns", "wikis", "settings", "other"
]
IN_USE_S = 600.0
"""What was used within this time is only removed by name: a process may read it."""
LINEAGES = "lineage"
"""The folder of cached histories of renames."""
_SQLITE_SUFFIXES = ("", "-wal", "-shm")
_SETTINGS = frozenset(
    {"config.toml", "keys.toml", "prices.toml", "templates", "told_hosts", "token_factors", "thought_habits"}
)
_ADVICE: dict[StorageKind, str] = {
    "turns": "rag turns delete, rag memory delete",
    "wikis": "its frontend",
}


@dataclass(frozen=True, slots=True)
class StorageItem:
    """A part of the data folder.

    `name` is what removes it by name; `location` is that of the repository, "" for none. `used` is when it
    was last used, or written where that is not known. `removable` says whether it can be made again;
    `remove_with` names what removes it where it is not.
    """

    kind: StorageKind
    name: str
    file: str
    size_bytes: int
    used: datetime
    removable: bool = False
    remove_with: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """What the data folder holds, the largest items first. `cap_bytes` is the limit, None for none."""

    home: str
    size_bytes: int
    cap_bytes: int | None
    items: tuple[StorageItem, ...]


def storage(settings: Settings) -> DataFolder:
    """Return what the data folder holds; nothing if there is none."""
    home = settings.home
    indexes, clones = _indexes(home)
    items = [*indexes, *_clones(home, clones), *_fetched(settings), *_rest(settings)]
    items.sort(key=lambda one: (-one.size_bytes, one.name))
    return DataFolder(
        str(home), sum(one.size_bytes for one in items), settings.storage_cap_bytes, tuple(items)
    )


def unused_since(found: DataFolder, before: datetime) -> list[StorageItem]:
    """Return the removable items that were last used before a time, the oldest first."""
    return [one for one in _oldest_first(found) if one.used < before]


def beyond(found: DataFolder, max_bytes: int, now: datetime) -> list[StorageItem]:
    """Return the items to remove so that the data folder takes at most `max_bytes`, the oldest first.

    What was used in the last minutes stays, even if the folder is then larger.
    """
    left, chosen = found.size_bytes, []
    for item in _oldest_first(found):
        if left <= max_bytes:
            break
        if (now - item.used).total_seconds() >= IN_USE_S:
            left -= item.size_bytes
            chosen.append(item)
    return chosen


def named_items(found: DataFolder, name: str) -> list[StorageItem]:
    """Return the removable items of a name: a repository, a file, or a folder of the data folder.

    Raises:
        ConfigError: there is none, or it is nothing that can be made again.
    """
    places = {str(user_path(name))}
    with suppress(SourceError):  # a folder that is gone, or a file
        places.add(resolve(name).location)
    named = [
        one
        for one in _oldest_first(found, all_items=True)
        if name in (one.name, Path(one.file).name, one.location) or places & {one.file, one.location}
    ]
    if not named:
        raise ConfigError(f"nothing in {found.home} is named {name!r}; `rag storage` lists what there is")
    for one in named:
        if not one.removable:
            how = one.remove_with or f"remove {one.file} yourself"
            raise ConfigError(f"{one.name} cannot be rebuilt, so it stays; to remove it: {how}")
    return named


def prune(settings: Settings, items: Sequence[StorageItem]) -> list[StorageItem]:
    """Remove items with what belongs to them; return those removed. Those in use are left."""
    return [item for item in items if _REMOVERS[item.kind](settings.home, Path(item.file))]


def within_cap(settings: Settings, keep: Sequence[Path], now: datetime) -> list[StorageItem]:
    """Remove what was not used longest until the data folder is within its cap; return what was removed.

    Args:
        settings: name the cap; without one nothing is removed.
        keep: stores that are open.
        now: the current time.
    """
    if settings.storage_cap_bytes is None:
        return []
    found = storage(settings)
    kept = {str(path) for path in keep}
    items = tuple(replace(one, removable=one.removable and one.file not in kept) for one in found.items)
    return prune(settings, beyond(replace(found, items=items), settings.storage_cap_bytes, now))


def _oldest_first(found: DataFolder, *, all_items: bool = False) -> list[StorageItem]:
    items = [one for one in found.items if one.removable or all_items]
    return sorted(items, key=lambda one: (one.used, one.kind != "index", one.name))


# ---------------------------------------------------------------- what there is


def _indexes(home: Path) -> tuple[list[StorageItem], dict[Path, list[StorageItem]]]:
    """Return the indexes, and which of them use each clone."""
    found, clones = [], dict[Path, list[StorageItem]]()
    for path, header in stores(home):
        source = None
        if not isinstance(header, StoreError):
            source = Source(str(header["location"]), None if header["ref"] is None else str(header["ref"]))
        item = StorageItem(
            "index",
            str(source) if source else path.name,
            str(path),
            sum(disk_bytes(file) for file in store_files(path) if file.exists()),
            datetime.fromtimestamp(last_used(path), UTC),
            removable=True,
            location=source.location if source else "",
        )
        found.append(item)
        if source is not None:
            clones.setdefault(clone_of(source, home), []).append(item)
    return found, clones


def _clones(home: Path, of: dict[Path, list[StorageItem]]) -> Iterator[StorageItem]:
    for folder in _entries(home / "repos"):
        if not folder.is_dir() or folder.is_symlink():
            continue
        users = of.get(folder, [])
        used = max((item.used for item in users), default=_written(folder))
        name = users[0].name if users else folder.name
        location = users[0].location if users else ""
        yield StorageItem("clone", name, str(folder), _size(folder), used, removable=True, location=location)


def _fetched(settings: Settings) -> Iterator[StorageItem]:
    """Yield the shared indexes that were fetched; what local indexes use too counts in part for each."""
    for one in _cache(settings.home).generations():
        size = sum(disk_bytes(file) for file in one.folder.iterdir())
        about = one.generation.about
        name, location = str(one.generation.key), about.get("url", "")
        used = datetime.fromtimestamp(one.used, UTC)
        yield StorageItem(
            "fetched", name, str(one.folder.parent), size, used, removable=True, location=location
        )


def _cache(home: Path) -> DiskCache:
    return DiskCache(home / FETCHED, max_bytes=0)


def _rest(settings: Settings) -> Iterator[StorageItem]:
    home = settings.home
    own = {f"turns.db{suffix}" for suffix in _SQLITE_SUFFIXES}
    vectors = {f"hit_vectors.db{suffix}" for suffix in _SQLITE_SUFFIXES}
    groups: dict[tuple[StorageKind, str], list[Path]] = {}
    for path in _entries(home):
        if path.name in ("stores", "repos", FETCHED):
            continue
        key: tuple[StorageKind, str] = ("other", path.name)
        if path.name in own:
            key = "turns", "turns.db"
        elif path.name in vectors:
            key = "vectors", "hit_vectors.db"
        elif path.name == LINEAGES:
            key = "renames", path.name
        elif path.name == "deepwiki":
            key = "wikis", path.name
        elif path.name in _SETTINGS:
            key = "settings", path.name
        groups.setdefault(key, []).append(path)
    for (kind, name), paths in groups.items():
        size, used = sum(map(_size, paths)), max(map(_written, paths))
        can = kind in ("vectors", "renames")
        yield StorageItem(kind, name, str(home / name), size, used, can, _ADVICE.get(kind, ""))


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _size(path: Path) -> int:
    """Return the bytes of a file or of all files in a folder; links are not followed."""
    total = 0
    with suppress(FileNotFoundError):
        total = os.lstat(path).st_size if path.is_symlink() or not path.is_dir() else 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                total += os.lstat(Path(folder, name)).st_size
    return total


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(os.lstat(path).st_mtime, UTC)


# ---------------------------------------------------------------- removal


def _remove_index(home: Path, path: Path) -> bool:
    try:
        with reserved(home, path.stem), building(path, wait_s=0):
            remove(path)
    except (BlockingIOError, StoreError):
        return False
    return True


def _remove_clone(home: Path, folder: Path) -> bool:
    """Remove a clone, unless an index still uses it."""
    users = _indexes(home)[1].get(folder, [])
    if users:
        return False
    try:
        with locked(folder, 0):
            shutil.rmtree(folder, ignore_errors=True)
    except SourceError:
        return False
    return not folder.exists()


def _remove_fetched(home: Path, folder: Path) -> bool:
    _cache(home).discard(folder.name)
    return not folder.exists()


def _remove_vectors(home: Path, path: Path) -> bool:
    for suffix in _SQLITE_SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return True


def _remove_renames(home: Path, path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


_REMOVERS: dict[str, Callable[[Path, Path], bool]] = {
    "index": _remove_index,
    "clone": _remove_clone,
    "fetched": _remove_fetched,
    "vectors": _remove_vectors,
    "renames": _remove_renames,
}
