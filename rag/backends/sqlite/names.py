"""Read the names in a file of turns for shell completion: at once, without locks, migrations or writes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_TIMEOUT_S = 0.1
_MAX_NAMES = 500


def conversation_names(path: Path, namespace: str) -> list[str]:
    """Return the names of conversations, the most recently written first.

    Raises:
        sqlite3.Error: the file does not exist or cannot be read now.
    """
    return _column(
        path,
        "SELECT name FROM conversation JOIN space ON space.key = space WHERE namespace = ? AND name <> ''"
        " ORDER BY written DESC LIMIT ?",
        namespace,
    )


def mark_names(path: Path, namespace: str) -> list[str]:
    """Return the marks of turns in alphabetical order. Raises what `conversation_names` raises."""
    return _column(
        path,
        "SELECT DISTINCT value FROM space JOIN item ON space = space.key, json_each(marks)"
        " WHERE namespace = ? AND marks IS NOT NULL ORDER BY value LIMIT ?",
        namespace,
    )


def source_locations(path: Path, namespace: str) -> list[str]:
    """Return the folders and URLs that conversations are about. Raises what `conversation_names` raises."""
    return _column(
        path,
        "SELECT DISTINCT json_extract(value, '$.location') FROM space"
        " JOIN conversation ON space = space.key AND written IS NOT NULL, json_each(record, '$.sources')"
        " WHERE namespace = ? LIMIT ?",
        namespace,
    )


def _column(path: Path, statement: str, namespace: str) -> list[str]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_TIMEOUT_S)) as db:
        return [name for (name,) in db.execute(statement, (namespace, _MAX_NAMES))]
