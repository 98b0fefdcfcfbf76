"""Functions that upgrade a file to the next version of the schema, beyond statements."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rag.backends.sqlite.bindings import execute, insert
from rag.backends.sqlite.storage import SqliteTransaction
from rag.schema import Record, conversation_from_record, message_from_record, turn_from_record, turn_record
from rag.turns.model import ConversationRecord, Item, TurnSpan, reads_stored

_JSON = ("question_metadata", "answer_metadata", "metadata")
_GLOBS = ("include", "exclude")
_AT_ONCE = 1_000
"""The number of items that are added at a time."""


@reads_stored
def move_turns(db: sqlite3.Connection) -> None:
    """Convert the turns of version 1 to items, with each conversation showing its own."""
    for row in db.execute("SELECT id, namespace FROM conversation").fetchall():
        execute(db, "INSERT OR IGNORE INTO space (namespace) VALUES (?)", row["namespace"])
        (space,) = execute(db, "SELECT key FROM space WHERE namespace = ?", row["namespace"]).fetchone()
        origin = insert(db, "origin", {"id": row["id"], "space": space})
        execute(db, "INSERT INTO span VALUES (?, 0, ?, NULL)", row["id"], origin)
        for record in _turns(db, row["id"]):
            item = {"space": space, "kind": 0, "id": record["id"], "origin": origin}
            insert(db, "item", {**item, "number": record["order"], "length": 0, "record": json.dumps(record)})


@reads_stored
def move_items(db: sqlite3.Connection) -> None:
    """Move conversations and items of version 4 (`old_…`) to the tables of version 5."""
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


def _turns(db: sqlite3.Connection, conversation: str) -> Iterator[Record]:
    rows = execute(db, "SELECT * FROM turn WHERE conversation = ? ORDER BY number", conversation).fetchall()
    for row in rows:
        record: dict[str, Any] = {**row, "order": row["number"], "estimated": bool(row["estimated"])}
        for name in _JSON:
            record[name] = None if record[name] is None else json.loads(record[name])
        cited = execute(db, "SELECT * FROM citation WHERE turn = ? ORDER BY position", row["key"])
        record["citations"] = [
            {**one, "dirty": bool(one["dirty"]), "used": bool(one["used"])} for one in cited
        ]
        yield turn_record(turn_from_record(record))
