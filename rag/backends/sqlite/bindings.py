"""Helpers for SQLite statements with arbitrary text.

Text may contain lone surrogates (from file names that are not valid text), which Python's binding refuses;
such text is bound as bytes and cast.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

Value = str | int | float | bytes | None


def text(value: str) -> str | bytes:
    """Return text in a form that can be bound; the statement casts it: `CAST(? AS TEXT)`."""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass")


def execute(db: sqlite3.Connection, statement: str, *values: Value) -> sqlite3.Cursor:
    """Execute a statement with values for its question marks."""
    if all(not isinstance(value, str) or value.isascii() for value in values):
        return db.execute(statement, values)
    first, *rest = statement.split("?")
    marks = ("CAST(? AS TEXT)" if isinstance(value, str) else "?" for value in values)
    bound = [text(value) if isinstance(value, str) else value for value in values]
    return db.execute(first + "".join(map("".join, zip(marks, rest, strict=True))), bound)


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Value]) -> int:
    """Insert a row; return its key."""
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" * len(row))
    inserted = execute(db, f"INSERT INTO {table} ({names}) VALUES ({marks})", *row.values())
    return inserted.lastrowid or 0
