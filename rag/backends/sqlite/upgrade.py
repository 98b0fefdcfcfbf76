"""Functions that upgrade a file to the next version of the schema, beyond statements."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from rag.backends.sqlite.bindings import execute, insert
from rag.backends.sqlite.storage import SqliteTransaction
from rag.schema import Record, conversation_from_record, message_from_record, turn_from_record
from rag.turns.model import ConversationRecord, Item, TurnSpan, reads_stored

_GLOBS = ("include", "exclude")
_RENAMED = ("conversation", "item", "version")
_EMPTIED = ("mark", "old_version", "old_item", "span", "origin", "conversation_source", "old_conversation")
_AT_ONCE = 1_000
"""The number of items that are added at a time."""


def set_aside(db: sqlite3.Connection) -> None:
    """Rename the tables of an earlier version to `old_…`, and remove those that are made again."""
    if not _has(db, "conversation"):
        return
    for table in _RENAMED:
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for table in ("cited", "file", "pending", "posting", "segment"):
        db.execute(f"DROP TABLE IF EXISTS {table}")


def _has(db: sqlite3.Connection, table: str) -> bool:
    return bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())


@reads_stored
def move_items(db: sqlite3.Connection) -> None:
    """Move conversations and items of version 4 (`old_…`), if there are any, to the tables of version 5."""
    if not _has(db, "old_conversation"):
        return
    tx = SqliteTransaction(db)
    spaces = {row["key"]: row["namespace"] for row in db.execute("SELECT * FROM space")}
    origins = {row["key"]: row for row in db.execute("SELECT * FROM origin ORDER BY key")}
    numbers: dict[int, int] = {}
    for key, row in origins.items():
        numbers[key] = insert(db, "conversation", {"id": row["id"], "space": row["space"]})
    for row in db.execute("SELECT * FROM old_conversation ORDER BY written").fetchall():
        tx.put_conversation(_conversation(db, row, origins))
    last = 0
    some = "SELECT * FROM old_item WHERE key > ? ORDER BY key LIMIT ?"
    while rows := db.execute(some, (last, _AT_ONCE)).fetchall():
        for space in {row["space"] for row in rows}:
            items = [_item(db, row, spaces[space]) for row in rows if row["space"] == space]
            tx.add(items, {row["id"]: numbers[key] for key, row in origins.items()})
        last = rows[-1]["key"]
    for table in _EMPTIED:
        db.execute(f"DROP TABLE {table}")


def _conversation(
    db: sqlite3.Connection, row: sqlite3.Row, origins: dict[int, sqlite3.Row]
) -> ConversationRecord:
    named = "SELECT * FROM conversation_source WHERE conversation = ? ORDER BY position"
    sources = [
        {**dict(source), **{name: json.loads(source[name]) for name in _GLOBS}}
        for source in execute(db, named, row["id"])
    ]
    spans = execute(db, "SELECT * FROM span WHERE conversation = ? ORDER BY first", row["id"])
    kept = ConversationRecord(
        conversation_from_record({**row, "sources": sources, "turn_count": 0}),
        [TurnSpan(origins[span["origin"]]["id"], span["first"], span["last"]) for span in spans],
        row["next_number"],
        {"turn": row["first_turn"], "message": row["first_message"]},
    )
    kept.expires = row["expires"] and datetime.fromisoformat(row["expires"])
    return kept


def _item(db: sqlite3.Connection, row: sqlite3.Row, namespace: str) -> Item:
    marks = [mark for (mark,) in db.execute("SELECT mark FROM mark WHERE item = ?", (row["key"],))]
    record: Record = {**json.loads(row["record"]), "marks": marks, "namespace": namespace}
    item = Item.of(message_from_record(record) if row["kind"] else turn_from_record(record))
    earlier = db.execute("SELECT record FROM old_version WHERE item = ? ORDER BY version", (row["key"],))
    for n, (text,) in enumerate(earlier.fetchall()):
        old = Item.of(turn_from_record({**json.loads(text), "marks": [], "namespace": namespace}))
        item.versions.insert(n, old.versions[0])
        item.cited |= old.cited
    return item
