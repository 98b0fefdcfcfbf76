"""Turns in a SQLite file: the default memory.

    conversation ──< conversation_source     the repositories it is about, in the order asked
         │
         └──< turn ──< citation              the sources shown, in the order shown

`turn.number` is the order within the conversation; `conversation.next_number` gives it and never goes
back, so a number is not used twice. `conversation.written` counts writes, so "last written to" needs no
clock. Columns carry the names of `rag.records`; metadata and globs are JSON text. Deleting a conversation
deletes what hangs on it.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rag.backends.sqlite_file import SqliteFile
from rag.backends.turn_errors import check_last, name_taken, no_conversation, no_turn
from rag.ports import Clock
from rag.records import Record, conversation_from_record, conversation_record, turn_from_record, turn_record
from rag.types import Conversation, DialogTurn, Source, now_utc

APPLICATION_ID = 0x52414754
"""`RAGT` in the file's header."""

MIGRATIONS = (
    (
        """
        CREATE TABLE conversation (
            id          TEXT PRIMARY KEY,
            namespace   TEXT NOT NULL,
            name        TEXT NOT NULL,
            created     TEXT NOT NULL,
            updated     TEXT NOT NULL,
            written     INTEGER NOT NULL,
            next_number INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        "CREATE UNIQUE INDEX conversation_name ON conversation (namespace, name) WHERE name <> ''",
        "CREATE UNIQUE INDEX conversation_written ON conversation (written)",
        """
        CREATE TABLE conversation_source (
            conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
            position     INTEGER NOT NULL,
            location     TEXT NOT NULL,
            ref          TEXT,
            include      TEXT NOT NULL,
            exclude      TEXT NOT NULL,
            PRIMARY KEY (conversation, position)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE turn (
            key                 INTEGER PRIMARY KEY,
            id                  TEXT NOT NULL,
            namespace           TEXT NOT NULL,
            conversation        TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
            number              INTEGER NOT NULL,
            parent              TEXT,
            question            TEXT,
            question_metadata   TEXT,
            standalone_question TEXT NOT NULL,
            answer              TEXT,
            answer_metadata     TEXT,
            complete            INTEGER NOT NULL,
            model               TEXT NOT NULL,
            prompt_hash         TEXT NOT NULL,
            prompt_tokens       INTEGER NOT NULL,
            answer_tokens       INTEGER NOT NULL,
            estimated           INTEGER NOT NULL,
            cost_usd            REAL,
            asked               TEXT,
            answered            TEXT,
            user_id             TEXT,
            metadata            TEXT,
            UNIQUE (namespace, id),
            UNIQUE (conversation, number)
        ) STRICT
        """,
        """
        CREATE TABLE citation (
            turn      INTEGER NOT NULL REFERENCES turn (key) ON DELETE CASCADE,
            position  INTEGER NOT NULL,
            n         INTEGER NOT NULL,
            repo      TEXT NOT NULL,
            path      TEXT NOT NULL,
            start     INTEGER NOT NULL,
            "end"     INTEGER NOT NULL,
            "commit"  TEXT,
            blob      TEXT NOT NULL,
            symbol    TEXT NOT NULL,
            span_hash TEXT NOT NULL,
            dirty     INTEGER NOT NULL,
            score     REAL NOT NULL,
            used      INTEGER NOT NULL,
            location  TEXT NOT NULL,
            PRIMARY KEY (turn, position)
        ) STRICT, WITHOUT ROWID
        """,
    ),
)
"""Each entry brings the schema one version on. Add entries; never change one that was released."""

_GLOBS = ("include", "exclude")
_JSON = ("question_metadata", "answer_metadata", "metadata")
_COUNTED = """
    SELECT *, (SELECT count(*) FROM turn WHERE conversation = conversation.id) AS turn_count
    FROM conversation
"""

Value = str | int | float | None


class SqliteTurnStore:
    """A `TurnStore` in one file. Pickles as its path; several may have the same file open.

    Args:
        path: the file, made when it is not there.
        clock: dates conversations.
        busy_timeout_s: how long to wait for another process that writes.

    Raises:
        StoreCorrupt, StoreTooNew, StoreUnwritable, StoreBusy: see `SqliteFile`; also from every method.
    """

    def __init__(self, path: Path, *, clock: Clock = now_utc, busy_timeout_s: float = 30.0) -> None:
        self._file = SqliteFile(
            Path(path),
            application_id=APPLICATION_ID,
            migrations=MIGRATIONS,
            busy_timeout_s=busy_timeout_s,
        )
        self._clock = clock

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def __repr__(self) -> str:
        return f"SqliteTurnStore({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[SqliteTurnStore], tuple[Path]]:
        return SqliteTurnStore, (self.path,)

    def create_conversation(
        self, *, namespace: str = "", name: str = "", sources: Sequence[Source] = ()
    ) -> Conversation:
        """Begin a conversation, see `TurnStore`."""
        now = self._clock()
        record = conversation_record(
            Conversation(str(uuid.uuid4()), namespace, name, tuple(sources), created=now, updated=now)
        )
        row = {key: record[key] for key in ("id", "namespace", "name", "created", "updated")}
        with self._file.write() as db:
            if name and (taken := _conversation(db, "name = ?", name, namespace)):
                raise name_taken(taken, sources)
            _insert(db, "conversation", {**row, "written": _next_written(db)})
            for position, source in enumerate(record["sources"]):
                _insert_source(db, row["id"], position, source)
        return conversation_from_record(record)

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation by its id, else by its name. Raises NotFound."""
        with self._file.read() as db:
            found = _conversation(db, "id = ?", id_or_name, namespace)
            if found is None and id_or_name:
                found = _conversation(db, "name = ?", id_or_name, namespace)
        if found is None:
            raise no_conversation(id_or_name)
        return found

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """All conversations, the one last written to first."""
        with self._file.read() as db:
            rows = _execute(db, f"{_COUNTED} WHERE namespace = ? ORDER BY written DESC", namespace)
            return [_as_conversation(db, row) for row in rows]

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Store a turn at the end of a conversation, see `TurnStore`."""
        with self._file.write() as db:
            number = _number_for_next(db, conversation, namespace)
            if stored := _turns(db, "namespace = ? AND id = ?", namespace, turn.id):
                return stored[0]
            placed = replace(turn, namespace=namespace, conversation_id=conversation, order=number)
            record = turn_record(placed)
            _insert_turn(db, record)
            _execute(
                db,
                "UPDATE conversation SET next_number = ?, written = ?, updated = ? WHERE id = ?",
                number + 1,
                _next_written(db),
                self._clock().astimezone(UTC).isoformat(timespec="microseconds"),
                conversation,
            )
        return turn_from_record(record)

    def turns(self, conversation: str, *, namespace: str = "", last: int | None = None) -> list[DialogTurn]:
        """Turns of a conversation, oldest first, see `TurnStore`."""
        check_last(last)
        with self._file.read() as db:
            _number_for_next(db, conversation, namespace)
            first = 0
            if last is not None:
                numbers = "SELECT number FROM turn WHERE conversation = ? ORDER BY number DESC LIMIT ?"
                first = min((row["number"] for row in _execute(db, numbers, conversation, last)), default=0)
            return _turns(db, "conversation = ? AND number >= ?", conversation, first) if last != 0 else []

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        with self._file.read() as db:
            found = _turns(db, "namespace = ? AND id = ?", namespace, turn_id)
        if not found:
            raise no_turn(turn_id)
        return found[0]

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete one turn; False when there was none. Orders of the others stay."""
        with self._file.write() as db:
            gone = _execute(db, "DELETE FROM turn WHERE namespace = ? AND id = ?", namespace, turn_id)
            return gone.rowcount > 0

    def delete_conversation(self, conversation: str, *, namespace: str = "") -> int:
        """Delete a conversation (by id) and its turns; return how many turns went. Raises NotFound."""
        with self._file.write() as db:
            _number_for_next(db, conversation, namespace)
            gone = _execute(db, "DELETE FROM turn WHERE conversation = ?", conversation).rowcount
            _execute(db, "DELETE FROM conversation WHERE id = ?", conversation)
            return gone

    def close(self) -> None:
        """Close the file. Closing twice is fine."""
        self._file.close()


def _execute(db: sqlite3.Connection, statement: str, *values: Value) -> sqlite3.Cursor:
    # Text is bound as bytes: it may carry lone surrogates, which Python's binding refuses in text.
    first, *rest = statement.split("?")
    marks = ("CAST(? AS TEXT)" if isinstance(value, str) else "?" for value in values)
    bound = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]
    return db.execute(first + "".join(map("".join, zip(marks, rest, strict=True))), bound)


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Value]) -> int:
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" * len(row))
    inserted = _execute(db, f"INSERT INTO {table} ({names}) VALUES ({marks})", *row.values())
    return inserted.lastrowid or 0


def _insert_source(db: sqlite3.Connection, conversation: str, position: int, source: Record) -> None:
    globs = {name: json.dumps(source[name]) for name in _GLOBS}
    _insert(
        db, "conversation_source", {"conversation": conversation, "position": position, **source, **globs}
    )


def _insert_turn(db: sqlite3.Connection, record: Record) -> None:
    row = {key: value for key, value in record.items() if key not in ("marks", "version")}
    citations, row["number"] = row.pop("citations"), row.pop("order")
    for name in _JSON:
        row[name] = None if row[name] is None else json.dumps(row[name])
    key = _insert(db, "turn", row)
    for position, citation in enumerate(citations):
        _insert(db, "citation", {"turn": key, "position": position, **citation})


def _turns(db: sqlite3.Connection, where: str, *values: Value) -> list[DialogTurn]:
    rows = _execute(db, f"SELECT * FROM turn WHERE {where} ORDER BY number", *values).fetchall()
    cited = (
        f"SELECT * FROM citation WHERE turn IN (SELECT key FROM turn WHERE {where}) ORDER BY turn, position"
    )
    citations = {
        key: [_citation(row) for row in group]
        for key, group in groupby(_execute(db, cited, *values), itemgetter("turn"))
    }
    return [_as_turn(row, citations.get(row["key"], [])) for row in rows]


def _as_turn(row: sqlite3.Row, citations: list[Record]) -> DialogTurn:
    record = {**row, "order": row["number"], "citations": citations, "estimated": bool(row["estimated"])}
    for name in _JSON:
        record[name] = None if record[name] is None else json.loads(record[name])
    return turn_from_record(record)


def _citation(row: sqlite3.Row) -> Record:
    return {**row, "dirty": bool(row["dirty"]), "used": bool(row["used"])}


def _conversation(db: sqlite3.Connection, where: str, value: str, namespace: str) -> Conversation | None:
    row = _execute(db, f"{_COUNTED} WHERE {where} AND namespace = ?", value, namespace).fetchone()
    return None if row is None else _as_conversation(db, row)


def _as_conversation(db: sqlite3.Connection, row: sqlite3.Row) -> Conversation:
    named = "SELECT * FROM conversation_source WHERE conversation = ? ORDER BY position"
    sources = [
        {**dict(found), **{name: json.loads(found[name]) for name in _GLOBS}}
        for found in _execute(db, named, row["id"])
    ]
    return conversation_from_record({**row, "sources": sources})


def _number_for_next(db: sqlite3.Connection, conversation: str, namespace: str) -> int:
    """The order of the turn that comes next. Raises NotFound when there is no such conversation."""
    known = "SELECT next_number FROM conversation WHERE id = ? AND namespace = ?"
    row = _execute(db, known, conversation, namespace).fetchone()
    if row is None:
        raise no_conversation(conversation)
    return int(row["next_number"])


def _next_written(db: sqlite3.Connection) -> int:
    (newest,) = _execute(db, "SELECT coalesce(max(written), 0) FROM conversation").fetchone()
    return int(newest) + 1
