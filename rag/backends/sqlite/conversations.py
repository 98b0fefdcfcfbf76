"""Conversations in a SQLite file: create, fork, rewind, delete."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag.backends import turn_errors as check
from rag.backends.sqlite.bindings import execute, insert
from rag.backends.sqlite.file import InvalidRows, SqliteFile
from rag.backends.sqlite.items import SqliteView, count_items, origin_key, release, shown_items
from rag.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS
from rag.backends.stored_turns import ConversationRecord, TurnSpan, spans_until
from rag.ports import Clock
from rag.schema import Record, conversation_from_record, conversation_record
from rag.types import Conversation, Source, now_utc

_GLOBS = ("include", "exclude")
_NEXT_WRITTEN = "(SELECT coalesce(max(written), 0) + 1 FROM conversation)"
_EXPIRED = """
    SELECT EXISTS (SELECT 1 FROM conversation WHERE expires <= ?)
    OR EXISTS (SELECT 1 FROM record WHERE expires <= ?)
"""


class SqliteConversations:
    """The operations of the SQLite store on whole conversations.

    Args:
        path: the file, created if missing.
        clock: the source of times and expiries.
        busy_timeout_s: how long to wait for another process that writes.

    Raises:
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
        self._is_swept = False  # set by `together`, for its thread only

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def create_conversation(
        self,
        *,
        namespace: str = "",
        name: str = "",
        sources: Sequence[Source] = (),
        ttl_s: float | None = None,
        keep_last: int | None = None,
    ) -> Conversation:
        """Create a conversation, see `TurnStore`."""
        check.check_bounds(ttl_s, keep_last)
        now = self._clock()
        made = Conversation(
            str(uuid.uuid4()),
            namespace,
            name,
            tuple(sources),
            created=now,
            updated=now,
            ttl_s=ttl_s,
            keep_last=keep_last,
        )
        with self._writing() as db:
            check_name(db, name, made)
            store_conversation(db, ConversationRecord(made, [TurnSpan(made.id, 0, None)]), namespace)
        return conversation_from_record(conversation_record(made))

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation with its counts, by id or else by name. Raises NotFound."""
        with self._reading() as db:
            by_name = "SELECT id FROM conversation WHERE namespace = ? AND name = ? AND name <> ''"
            if not _is_there(db, id_or_name, namespace):
                row = execute(db, by_name, namespace, id_or_name).fetchone()
                if row is None:
                    raise check.no_conversation(id_or_name)
                id_or_name = row["id"]
            return _counted(db, view_of(db, id_or_name, namespace))

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        with self._reading() as db:
            views = (view_of(db, each, namespace) for each in written_ids(db, namespace)[::-1])
            return [_counted(db, view) for view in views]

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation, see `TurnStore`."""
        with self._writing() as db:
            check_name(db, name, view_of(db, conversation, namespace).conversation)
            execute(db, "UPDATE conversation SET name = ? WHERE id = ?", name, conversation)
            return _counted(db, view_of(db, conversation, namespace))

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after order `at`, see `TurnStore`."""
        with self._writing() as db:
            view = view_of(db, conversation, namespace)
            if at is None:
                at = _last_order(db, view)
            elif at != -1 and not _shows(db, view, at):
                raise check.no_order(conversation, at)
            now = self._clock()
            made = replace(
                view.conversation,
                id=str(uuid.uuid4()),
                name=name,
                created=now,
                updated=now,
                parent=conversation,
                forked_at=at,
            )
            check_name(db, name, made)
            spans = [*spans_until(view.spans, at), TurnSpan(made.id, at + 1, None)]
            # What was removed after `at` in the other conversation is not what comes after `at` here.
            first = {"turn": min(view.first_turn, at + 1), "message": min(view.first_message, at + 1)}
            store_conversation(db, ConversationRecord(made, spans, at + 1, first), namespace)  # type: ignore[arg-type]
            return _counted(db, view_of(db, made.id, namespace))

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to`, see `TurnStore`; return the number of turns."""
        check.check_rewind(to)
        with self._writing() as db:
            view = view_of(db, conversation, namespace)
            _check_last_turn(db, view, last_turn)
            return _rewind(db, view, to)[0]

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, but not the conversation; return the number of both."""
        with self._writing() as db:
            return sum(_rewind(db, view_of(db, conversation, namespace), -1))

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id), see `TurnStore`; return the number of turns."""
        with self._writing() as db:
            view = view_of(db, conversation, namespace)
            _check_last_turn(db, view, last_turn)
            return _delete(db, view)

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._file.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Implements `rag.ports.Grouping`: one transaction, with one wait for the disk.

        Expired conversations are removed once, at the start.
        """
        with self._file.together():
            before = self._is_swept
            try:
                if not before:
                    with self._writing():
                        self._is_swept = True
                yield
            finally:
                self._is_swept = before

    # ---- internal

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Run a read transaction; conversations that expired before it (or its group) are removed."""
        with self._file.read() as db:
            is_swept = self._is_swept and self._file.is_together
            expired = not is_swept and _has_expired(db, self._moment())
            if not expired:
                yield db
        if expired:
            with self._writing() as db:
                yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Like `_reading`, for a write transaction."""
        with self._file.write() as db:
            if not self._is_swept and _has_expired(db, now := self._moment()):
                _purge(db, now)
            yield db

    def _moment(self) -> str:
        return moment(self._clock())


def moment(time: datetime) -> str:
    """Return a time in its stored form."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def view_of(db: sqlite3.Connection, conversation: str, namespace: str) -> SqliteView:
    """Return a conversation (by id) without its counts. Raises NotFound."""
    found = "SELECT * FROM conversation WHERE id = ? AND namespace = ?"
    row = execute(db, found, conversation, namespace).fetchone()
    if row is None:
        raise check.no_conversation(conversation)
    shown = """
        SELECT o.id, s.first, s.last, s.origin, o.space FROM span s JOIN origin o ON o.key = s.origin
        WHERE s.conversation = ? ORDER BY s.first
    """
    spans = execute(db, shown, conversation).fetchall()
    if not spans:
        raise InvalidRows(f"the conversation {conversation} has no beginning")
    named = "SELECT * FROM conversation_source WHERE conversation = ? ORDER BY position"
    sources = [
        {**dict(source), **{name: json.loads(source[name]) for name in _GLOBS}}
        for source in execute(db, named, conversation)
    ]
    return SqliteView(
        conversation=conversation_from_record({**row, "sources": sources, "turn_count": 0}),
        next_number=row["next_number"],
        first_turn=row["first_turn"],
        first_message=row["first_message"],
        spans=tuple(TurnSpan(span["id"], span["first"], span["last"]) for span in spans),
        origins=tuple(span["origin"] for span in spans),
        space=spans[-1]["space"],
    )


def written_ids(db: sqlite3.Connection, namespace: str) -> list[str]:
    """Return the ids of the conversations of a namespace, the most recently written last."""
    rows = execute(db, "SELECT id FROM conversation WHERE namespace = ? ORDER BY written", namespace)
    return [row["id"] for row in rows]


def check_name(db: sqlite3.Connection, name: str, asked: Conversation) -> None:
    """Raise ConversationMismatch if another conversation of the namespace has this name."""
    if not name:
        return
    taken = "SELECT id FROM conversation WHERE namespace = ? AND name = ? AND name <> '' AND id <> ?"
    row = execute(db, taken, asked.namespace, name, asked.id).fetchone()
    if row is not None:
        there = view_of(db, row["id"], asked.namespace).conversation
        raise check.name_taken(there, asked.sources)


def store_conversation(db: sqlite3.Connection, kept: ConversationRecord, namespace: str) -> None:
    """Insert a conversation, as the most recently written one."""
    record = conversation_record(kept.conversation)
    columns = ("id", "name", "created", "updated", "ttl_s", "keep_last", "parent", "forked_at")
    row = {
        **{name: record[name] for name in columns},
        "namespace": namespace,
        "written": db.execute(f"SELECT {_NEXT_WRITTEN}").fetchone()[0],
        "next_number": kept.next_order,
        "first_turn": kept.first["turn"],
        "first_message": kept.first["message"],
        "expires": expiry(kept.conversation, kept.conversation.updated),
    }
    insert(db, "conversation", row)
    for position, source in enumerate(record["sources"]):
        _insert_source(db, row["id"], position, source)
    _add_spans(db, kept.conversation.id, kept.spans, namespace)


def put_spans(db: sqlite3.Connection, conversation: str, spans: Sequence[TurnSpan], namespace: str) -> None:
    """Make a conversation show exactly the items within these spans."""
    execute(db, "DELETE FROM span WHERE conversation = ?", conversation)
    _add_spans(db, conversation, spans, namespace)


def _add_spans(db: sqlite3.Connection, conversation: str, spans: Sequence[TurnSpan], namespace: str) -> None:
    for span in spans:
        origin = origin_key(db, span.origin, namespace)
        execute(db, "INSERT INTO span VALUES (?, ?, ?, ?)", conversation, span.first, origin, span.last)


def expiry(conversation: Conversation, written: datetime) -> str | None:
    """Return when a conversation that was written at this time expires."""
    ttl_s = conversation.ttl_s
    return None if ttl_s is None else moment(written + timedelta(seconds=ttl_s))


def write_to(
    db: sqlite3.Connection, conversation: str, next_number: int, now: datetime, expires: str | None
) -> None:
    """Record a write to a conversation, which makes it the most recently written one."""
    written = f"""
        UPDATE conversation SET next_number = ?, written = {_NEXT_WRITTEN}, updated = ?, expires = ?
        WHERE id = ?
    """
    execute(db, written, next_number, moment(now), expires, conversation)


def _insert_source(db: sqlite3.Connection, conversation: str, position: int, source: Record) -> None:
    globs = {name: json.dumps(source[name]) for name in _GLOBS}
    insert(db, "conversation_source", {"conversation": conversation, "position": position, **source, **globs})


def _is_there(db: sqlite3.Connection, conversation: str, namespace: str) -> bool:
    known = "SELECT 1 FROM conversation WHERE id = ? AND namespace = ?"
    return execute(db, known, conversation, namespace).fetchone() is not None


def _counted(db: sqlite3.Connection, view: SqliteView) -> Conversation:
    turns, messages, _ = count_items(db, view)
    return replace(view.conversation, turn_count=turns, message_count=messages)


def _last_order(db: sqlite3.Connection, view: SqliteView) -> int:
    last = [shown_items(db, view.ranges(kind), kind, last=1) for kind in (0, 1)]
    return max((row["number"] for rows in last for row in rows), default=-1)


def _shows(db: sqlite3.Connection, view: SqliteView, order: int) -> bool:
    exactly = [view.ranges(kind, after=order - 1, before=order + 1) for kind in (0, 1)]
    return any(shown_items(db, ranges, kind) for kind, ranges in enumerate(exactly))


def _check_last_turn(db: sqlite3.Connection, view: SqliteView, expected: str | None) -> None:
    if expected is not None:
        found = shown_items(db, view.ranges(0), 0, last=1)
        check.check_last_turn(view.conversation, expected, found[0]["id"] if found else "")


def _rewind(db: sqlite3.Connection, view: SqliteView, to: int) -> tuple[int, int]:
    """Remove everything after an order; return the number of turns and messages."""
    taken = [view.ranges(kind, after=to) for kind in (0, 1)]
    before = count_items(db, view)
    own, conversation = view.spans[-1], view.conversation
    until = spans_until(view.spans, to)
    put_spans(db, conversation.id, until, conversation.namespace)
    for kind in (0, 1):
        release(db, taken[kind], kind)
    left = "SELECT 1 FROM item WHERE origin = ? AND kind IN (0, 1) AND number >= ? LIMIT 1"
    if execute(db, left, view.origins[-1], max(own.first, to + 1)).fetchone() is None:
        spans = [*spans_until(view.spans[:-1], to), own]
    else:  # a fork shows it, so the next items start after it
        spans = [*until, own._replace(first=view.next_number)]
    put_spans(db, conversation.id, spans, conversation.namespace)
    after = count_items(db, view_of(db, conversation.id, conversation.namespace))
    return before[0] - after[0], before[1] - after[1]


def _delete(db: sqlite3.Connection, view: SqliteView) -> int:
    """Delete a conversation; return the number of turns that it showed."""
    turns, _, _ = count_items(db, view)
    shown = [view.ranges(kind) for kind in (0, 1)]
    execute(db, "DELETE FROM conversation WHERE id = ?", view.conversation.id)
    for kind in (0, 1):
        release(db, shown[kind], kind)
    for origin in view.origins:
        unused = "DELETE FROM origin WHERE key = ? AND turns = 0 AND messages = 0"
        execute(db, f"{unused} AND key NOT IN (SELECT origin FROM span)", origin)
    return turns


def _has_expired(db: sqlite3.Connection, now: str) -> bool:
    return bool(db.execute(_EXPIRED, (now, now)).fetchone()[0])


def _purge(db: sqlite3.Connection, now: str) -> None:
    gone = execute(db, "SELECT id, namespace FROM conversation WHERE expires <= ?", now).fetchall()
    for row in gone:
        _delete(db, view_of(db, row["id"], row["namespace"]))
    execute(db, "DELETE FROM record WHERE expires <= ?", now)
