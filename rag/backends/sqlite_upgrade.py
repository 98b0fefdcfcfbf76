"""From version 1 of the schema, whose turns were rows of columns, to version 2."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from rag.backends.sqlite_items import add_items, origin_key
from rag.backends.sqlite_sql import execute
from rag.backends.turn_items import Item
from rag.records import turn_from_record

_JSON = ("question_metadata", "answer_metadata", "metadata")


def move_turns(db: sqlite3.Connection) -> None:
    """Make items of the turns of version 1, each conversation showing its own."""
    for row in db.execute("SELECT id, namespace FROM conversation").fetchall():
        origin = origin_key(db, row["id"], row["namespace"])
        execute(db, "INSERT INTO span VALUES (?, 0, ?, NULL)", row["id"], origin)
        add_items(db, list(_turns(db, row["id"])))


def _turns(db: sqlite3.Connection, conversation: str) -> Iterator[Item]:
    rows = execute(db, "SELECT * FROM turn WHERE conversation = ? ORDER BY number", conversation).fetchall()
    for row in rows:
        record: dict[str, Any] = {**row, "order": row["number"], "estimated": bool(row["estimated"])}
        for name in _JSON:
            record[name] = None if record[name] is None else json.loads(record[name])
        cited = execute(db, "SELECT * FROM citation WHERE turn = ? ORDER BY position", row["key"])
        record["citations"] = [
            {**one, "dirty": bool(one["dirty"]), "used": bool(one["used"])} for one in cited
        ]
        yield Item.of(turn_from_record(record))
