"""Functions that upgrade a file to the next version of the schema, beyond statements."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from rag.backends.sqlite.bindings import execute
from rag.backends.sqlite.items import cite, made_space_key, origin_key, posted, put_items
from rag.backends.sqlite.postings import AT_ONCE, post
from rag.backends.stored_turns import Item, cited_in
from rag.schema import turn_from_record

_JSON = ("question_metadata", "answer_metadata", "metadata")


def move_turns(db: sqlite3.Connection) -> None:
    """Convert the turns of version 1 to items, with each conversation showing its own."""
    for row in db.execute("SELECT id, namespace FROM conversation").fetchall():
        origin = origin_key(db, row["id"], row["namespace"])
        execute(db, "INSERT INTO span VALUES (?, 0, ?, NULL)", row["id"], origin)
        space = made_space_key(db, row["namespace"])
        put_items(db, list(_turns(db, row["id"])), space, {row["id"]: origin})


def index_items(db: sqlite3.Connection) -> None:
    """Rebuild the indexes of terms and of citations (version 4)."""
    last = 0
    some = "SELECT * FROM item WHERE key > ? ORDER BY key LIMIT ?"
    while rows := db.execute(some, (last, AT_ONCE)).fetchall():
        post(db, [posted(row) for row in rows])
        cite(db, [(row["key"], cited_in(json.loads(row["record"]))) for row in rows])
        last = rows[-1]["key"]
    earlier = db.execute("SELECT item, record FROM version").fetchall()
    cite(db, [(item, cited_in(json.loads(record))) for item, record in earlier])


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
