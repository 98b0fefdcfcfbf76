"""Bounded reading of recordings: JSON, JSON lines and SQLite databases that any program may have written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag.parsing import parse_json
from rag.ports import Skip
from rag.resources import read_regular

Json = dict[str, Any]

MAX_FILES = 200_000
MAX_FILE_BYTES = 64 << 20
_MAX_LINE_BYTES = 16 << 20
_MAX_LINES_BYTES = 256 << 20
"""The limit of a file that is read line by line."""
_MAX_STEPS = 2_000_000_000
"""The limit of the work of one query, in steps of SQLite's machine; a table may be a view."""


def files_in(place: Path, ending: str, skip: Skip) -> Iterator[Path]:
    """Yield the regular files with an ending in a folder and its subfolders, by path; or the file itself.

    Links are not followed.
    """
    if not is_own(place):
        return
    if place.is_file():
        yield place
    count = 0
    for folder, names, files in os.walk(place):
        names.sort()
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(ending) and not path.is_symlink():
                count += 1
                if count > MAX_FILES:
                    skip(f"more than {MAX_FILES:,} files")
                    return
                yield path


def is_own(path: Path) -> bool:
    """Whether a path, within a folder without links, leads to nothing outside of it."""
    return os.path.realpath(path) == os.path.normpath(path)


def json_lines(path: Path, skip: Skip) -> Iterator[Json]:
    """Yield the objects of a file with one per line."""
    read = 0
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            while line := file.readline(_MAX_LINE_BYTES + 1):
                read += len(line)
                if read > _MAX_LINES_BYTES:
                    return skip("a file that is too large")
                if len(line) > _MAX_LINE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = file.readline(_MAX_LINE_BYTES)
                        read += len(line)
                    skip("a line that is too long")
                elif line.strip() and (found := json_object(line, skip)):
                    yield found
    except OSError:
        skip("an unreadable file")


def json_object(text: object, skip: Skip) -> Json:
    """Return a JSON object; {} for anything else."""
    try:
        found = parse_json(text if isinstance(text, str | bytes) else b"")
    except ValueError:
        skip("a damaged line")
        return {}
    return found if isinstance(found, dict) else {}


def json_file(path: Path, skip: Skip) -> Any:
    """Return the JSON of a file; None if there is none."""
    try:
        return parse_json(read_regular(path, max_bytes=MAX_FILE_BYTES))
    except OSError:
        skip("an unreadable file")
    except ValueError:
        skip("a damaged file")
    return None


def rows(path: Path, query: str, values: Sequence[str], skip: Skip) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query on a database that another program may be using; nothing is written to it."""
    used = 0

    def step() -> bool:
        nonlocal used
        used += 1_000_000
        return used > _MAX_STEPS

    # Without a log the database is not in use; only then it can be read without files for locks.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as db:
            db.text_factory = lambda text: text.decode("utf-8", "replace")
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_FILE_BYTES)
            db.execute("PRAGMA trusted_schema=OFF")
            db.set_progress_handler(step, 1_000_000)
            yield from db.execute(query, values)
    except (sqlite3.Error, OverflowError):
        skip("an unreadable database")


def moment(value: Any) -> datetime | None:
    """Return the time that a recording has as ISO 8601, or as milliseconds since 1970; None for no time."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return (found if found.tzinfo else found.astimezone()).astimezone(UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def modified(path: Path) -> datetime | None:
    """Return when a file was last written."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None


def objects(value: Any) -> Iterator[Json]:
    """Yield the objects of a list; nothing for another value."""
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def part(value: Any, *names: str) -> Any:
    """Return a value within nested objects; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_in(value: Any, *names: str) -> str:
    """Return a text within nested objects, without lone surrogates; "" for anything else."""
    found = part(value, *names)
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""
