"""The files of a store: its newest segment, `NAME.pkl`, and the parts that it lists, `NAME.<id>.part.pkl`.

A part is a segment that was the newest one before, or was written from such. It is never changed, only linked
and removed: the newest segment says which of its files are dead, and lists parts without a live file as
archived. Replacing `NAME.pkl` is the only step that changes a store, so a killed or failed build leaves the
store as it was, and perhaps files that no store lists (`remove_unlisted`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rag.database.format import read_header
from rag.database.segment import Segment, open_segment
from rag.errors import StoreCorrupt, StoreError, StoreUnwritable

_SUFFIX = ".part.pkl"
_ID = re.compile(r"[0-9a-f]{32}")
_OLDER = ".delta.pkl"
"""The suffix of a file that older versions of rag wrote for a store."""

FileState = tuple[int, int, int]


def part_path(path: Path, part_id: str) -> Path:
    """Return the file of a part of the store at `path`."""
    return path.with_name(f"{path.stem}.{part_id}{_SUFFIX}")


def is_store(file: Path) -> bool:
    """Return whether a `.pkl` file is a store, not one of its parts."""
    return not file.name.endswith((_SUFFIX, _OLDER))


def belongs(file: str, path: Path) -> bool:
    """Return whether a file is the store at `path` or one of its parts."""
    return file == str(path) or part_path(path, _id_in(Path(file).name)) == Path(file)


def part_ids(path: Path, header: Mapping[str, Any]) -> list[str]:
    """Return the ids of the parts that the header of a store lists, the archived ones at the end.

    Raises:
        StoreCorrupt: it is no list of ids.
    """
    ids = [*_ids(path, header, "parts"), *archived_ids(path, header)]
    if len(set(ids)) != len(ids):
        raise _invalid_list(path)
    return ids


def archived_ids(path: Path, header: Mapping[str, Any]) -> list[str]:
    """Return the ids of the archived parts; raises as `part_ids`."""
    return _ids(path, header, "archived")


def _ids(path: Path, header: Mapping[str, Any], key: str) -> list[str]:
    found = header.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) and _ID.fullmatch(one) for one in found):
        raise _invalid_list(path)
    return found


def _invalid_list(path: Path) -> StoreCorrupt:
    return StoreCorrupt(path=str(path), why="its list of parts is invalid")


def segment_files(path: Path) -> list[Path]:
    """Return the files of the store at `path`, the newest segment first; that alone if unreadable."""
    try:
        return [path, *(part_path(path, one) for one in part_ids(path, read_header(path)))]
    except (FileNotFoundError, StoreError):
        return [path]


def file_state(file: Path) -> FileState | None:
    """Return the inode, time and size of a file; None if there is none."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def size_on_disk(files: Iterable[Path]) -> int:
    """Return the bytes of those of the files that exist: another process may replace a store meanwhile."""
    return sum(state[2] for state in map(file_state, files) if state is not None)


def files_on_disk(path: Path) -> list[Path]:
    """Return the files of parts that exist for the store at `path`, listed by it or not, by name."""
    names = [entry.name for entry in os.scandir(path.parent) if entry.name.startswith(f"{path.stem}.")]
    found = [path.with_name(name) for name in names if name == part_path(path, _id_in(name)).name]
    older = path.with_suffix(_OLDER)
    return sorted([*found, *([older] if older.exists() else [])])


def _id_in(name: str) -> str:
    return name.removesuffix(_SUFFIX)[-32:]


def open_segments(path: Path) -> list[Segment]:
    """Map the files of a store: the parts in the order of `part_ids`, then the newest segment.

    Raises:
        FileNotFoundError: there is no store.
        StoreCorrupt, StoreTooNew, StoreOutdated: as `open_segment`; or a part is missing or another one.
    """
    newest = open_segment(path)
    while True:
        try:
            return [*(_open_part(path, one, newest) for one in part_ids(path, newest.header)), newest]
        except FileNotFoundError as error:
            known, newest = newest.header["id"], open_segment(path)
            if newest.header["id"] == known:  # else another process has just replaced the store
                raise StoreCorrupt(path=str(path), why=f"its part {error.filename} is missing") from error


def _open_part(path: Path, part_id: str, newest: Segment) -> Segment:
    part = open_segment(part_path(path, part_id))
    if part.header["id"] != part_id:
        raise StoreCorrupt(path=str(part_path(path, part_id)), why="it is another part than its name says")
    if part.columns["vector_codes"].shape[1] != newest.columns["vector_codes"].shape[1]:
        raise StoreCorrupt(path=str(part_path(path, part_id)), why="its vectors are of another width")
    return part


def keep_as_part(path: Path, part_id: str) -> None:
    """Make the newest segment of the store at `path` a part too: as a link, or a copy if there are no links.

    Raises:
        StoreUnwritable: it cannot be written.
    """
    part = part_path(path, part_id)
    try:
        place_part(path, part)
    except OSError as error:
        raise StoreUnwritable.of(part, error) from error


def place_part(file: Path, part: Path) -> None:
    """Make a file a part: as a link, or a copy if there are no links between the two. Raises OSError."""
    try:
        os.link(file, part)
    except OSError:
        _copy(file, part)


def _copy(path: Path, part: Path) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{part.name}.", suffix=".tmp", dir=part.parent)
    try:
        with os.fdopen(handle, "wb") as copy, path.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        Path(temporary).replace(part)
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_unlisted(path: Path, listed: Collection[str]) -> None:
    """Remove the files of parts that are not listed. Call only while holding the lock of the store."""
    keep = {part_path(path, one) for one in listed}
    for file in files_on_disk(path):
        if file not in keep:
            file.unlink(missing_ok=True)
