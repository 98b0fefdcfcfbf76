"""Conversations in Postgres: create, fork, rewind, delete."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from rag.backends.postgres.items import (
    PostgresView,
    count_items,
    count_shown,
    hold_origins,
    made_space_key,
    origin_key,
    release,
    shown_items,
)
from rag.backends.postgres.server import Db, PostgresServer, PreconditionFailed, Result, Work
from rag.backends.postgres.text import slot
from rag.ports import Clock
from rag.schema import conversation_from_record, conversation_record
from rag.turns import checks as check
from rag.turns.model import ConversationRecord, TurnSpan, spans_until
from rag.types import Conversation, Source, now_utc

_NAMED = """
    FROM space n JOIN conversation c ON c.space = n.key JOIN origin mine ON mine.key = c.key
"""
_VIEWS = f"""
    SELECT c.key, c.space, c.record, c.updated, c.next_number, c.first_turn, c.first_message,
        s.first, s.last, o.key, o.id, mine.turns, mine.messages, mine.length, mine.tallied
    {_NAMED} JOIN span s ON s.conversation = c.key JOIN origin o ON o.key = s.origin
"""
_BY_ID = "WHERE n.slot = %b AND mine.slot = %b"
_BY_NAME = "WHERE n.slot = %b AND c.name = %b AND c.name <> ''"
_HAS_EXPIRED = """
    (EXISTS (SELECT 1 FROM conversation WHERE expires <= %s::timestamptz)
        OR EXISTS (SELECT 1 FROM record WHERE expires <= %s::timestamptz))
"""
_COUNTS = {"turn_count": 0, "message_count": 0}


class PostgresConversations:
    """The operations of the Postgres store on whole conversations.

    Args:
        url: the address of the database, see `PostgresServer`; the first call connects.
        clock: the source of times and expiries.
        schema: the schema of the tables.
        max_connections: the maximum number of concurrent calls; others wait.
        busy_timeout_s: how long a call waits for a connection, or for a concurrent write.

    Raises:
        SettingsError: the address is invalid.
        StoreError: from every method, if the server is unreachable, busy or full, or its tables are not
            ours.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = now_utc,
        schema: str = "rag",
        max_connections: int = 10,
        busy_timeout_s: float = 30.0,
    ) -> None:
        self._server = PostgresServer(
            url, schema=schema, max_connections=max_connections, busy_timeout_s=busy_timeout_s
        )
        self._clock = clock

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

        def work(db: Db) -> Conversation:
            check_name(db, name, made)
            store_conversation(db, ConversationRecord(made, [TurnSpan(made.id, 0, None)]), namespace)
            return view_of(db, made.id, namespace).conversation

        return self._write(work)

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation with its counts, by id or else by name. Raises NotFound."""

        def work(db: Db) -> Conversation:
            place = [slot(namespace), slot(id_or_name)]
            found = _views(db, _BY_ID, place) or _views(db, _BY_NAME, place)
            if not found:
                raise check.no_conversation(id_or_name)
            return counted(db, found[0])

        return self._read(work)

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        return self._read(lambda db: [counted(db, view) for view in views_of(db, namespace)[::-1]])

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation, see `TurnStore`."""

        def work(db: Db) -> Conversation:
            view = view_of(db, conversation, namespace, hold=True)
            check_name(db, name, view.conversation)
            renamed = _stored(replace(view.conversation, name=name))
            changed = "UPDATE conversation SET name = %b, record = %s WHERE key = %s"
            db.execute(changed, [slot(name), renamed, view.key])
            return counted(db, view_of(db, conversation, namespace))

        return self._write(work)

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after order `at`, see `TurnStore`."""

        def work(db: Db) -> Conversation:
            view = view_of(db, conversation, namespace, hold=True)
            hold_origins(db, view.origins)
            end = _last_order(db, view) if at is None else at
            if at not in (None, -1) and not any(count_items(db, view.ranges(after=end - 1, before=end + 1))):
                raise check.no_order(conversation, end)
            now = self._clock()
            made = replace(
                view.conversation,
                id=str(uuid.uuid4()),
                name=name,
                created=now,
                updated=now,
                parent=conversation,
                forked_at=end,
            )
            check_name(db, name, made)
            spans = [*spans_until(view.spans, end), TurnSpan(made.id, end + 1, None)]
            # What was removed after `end` in the other conversation is not what comes after `end` here.
            first = {"turn": min(view.first_turn, end + 1), "message": min(view.first_message, end + 1)}
            kept = ConversationRecord(made, spans, end + 1, first)  # type: ignore[arg-type]
            store_conversation(db, kept, namespace)
            return counted(db, view_of(db, made.id, namespace))

        return self._write(work)

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to`, see `TurnStore`; return the number of turns."""
        check.check_rewind(to)

        def work(db: Db) -> int:
            view = view_of(db, conversation, namespace, hold=True)
            _check_last_turn(db, view, last_turn)
            return _rewind(db, view, to)[0]

        return self._write(work)

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, but not the conversation; return the number of both."""
        return self._write(lambda db: sum(_rewind(db, view_of(db, conversation, namespace, hold=True), -1)))

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id), see `TurnStore`; return the number of turns."""

        def work(db: Db) -> int:
            view = view_of(db, conversation, namespace, hold=True)
            _check_last_turn(db, view, last_turn)
            return _delete(db, view)

        return self._write(work)

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._server.close()

    # ---- internal

    def _read(self, work: Work[Result]) -> Result:
        """Run a read transaction in which no conversation has expired."""
        while True:
            now = moment(self._clock())
            try:
                return self._server.read(work, unless=_expired(now))
            except PreconditionFailed:
                self._server.write(lambda db: _purge(db, now))  # noqa: B023

    def _write(self, work: Work[Result]) -> Result:
        """Run a write transaction in which no conversation has expired."""
        while True:
            now = moment(self._clock())
            try:
                return self._server.write(work, unless=_expired(now))
            except PreconditionFailed:
                self._server.write(lambda db: _purge(db, now))  # noqa: B023

    def _ask(self, query: LiteralString, values: Sequence[Any]) -> list[Any]:
        """Return the rows of a query, without expired ones; no row may start with None."""
        asked = f"SELECT {_HAS_EXPIRED}, found.* FROM (SELECT 1) AS one LEFT JOIN ({query}) AS found ON true"
        while True:
            now = moment(self._clock())
            rows = self._server.ask(asked, [now, now, *values])
            if not rows[0][0]:
                return [row[1:] for row in rows if row[1] is not None]
            self._server.write(lambda db: _purge(db, now))  # noqa: B023


def moment(time: datetime) -> str:
    """Return a time in its stored form."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def view_of(db: Db, conversation: str, namespace: str, *, hold: bool = False) -> PostgresView:
    """Return a conversation (by id) without its counts; `hold` locks it for writing. Raises NotFound."""
    place = [slot(namespace), slot(conversation)]
    if hold:  # first, so that what is read next is what the last writer left
        db.execute(f"SELECT 1 {_NAMED} {_BY_ID} FOR UPDATE OF c", place)
    for view in _views(db, _BY_ID, place):
        return view
    raise check.no_conversation(conversation)


def views_of(db: Db, namespace: str) -> list[PostgresView]:
    """Return the conversations of a namespace without their counts, the most recently written last."""
    return _views(db, "WHERE n.slot = %b", [slot(namespace)])


def known_conversations(db: Db, ids: Sequence[str]) -> set[str]:
    """Return those of these ids that are ids of conversations in any namespace."""
    found = "SELECT o.id FROM origin o JOIN conversation c ON c.key = o.key WHERE o.slot = ANY(%b::bytea[])"
    return {json.loads(each) for (each,) in db.execute(found, [[slot(one) for one in ids]])}


def counted(db: Db, view: PostgresView) -> Conversation:
    """Return the conversation with its counts."""
    turns, messages, _ = count_shown(db, view)
    return replace(view.conversation, turn_count=turns, message_count=messages)


def check_name(db: Db, name: str, asked: Conversation) -> None:
    """Raise ConversationMismatch if another conversation of the namespace has this name."""
    for taken in _views(db, _BY_NAME, [slot(asked.namespace), slot(name)]):
        if taken.conversation.id != asked.id:
            raise check.name_taken(taken.conversation, asked.sources)


def store_conversation(db: Db, kept: ConversationRecord, namespace: str) -> None:
    """Insert a conversation, as the most recently written one."""
    made = kept.conversation
    space = made_space_key(db, namespace)
    added = """
        INSERT INTO conversation
            (key, space, name, record, updated, expires, next_number, first_turn, first_message)
        VALUES (%s, %s, %b, %s, %s, %s, %s, %s, %s)
    """
    key = origin_key(db, made.id, space)
    expires = expiry(made, made.updated)
    row = [key, space, slot(made.name), _stored(made), moment(made.updated), expires]
    db.execute(added, [*row, kept.next_order, kept.first["turn"], kept.first["message"]])
    put_spans(db, key, kept.spans, space)


def put_spans(db: Db, conversation: int, spans: Sequence[TurnSpan], space: int) -> None:
    """Make a conversation (by key) show exactly the items within these spans."""
    db.execute("DELETE FROM span WHERE conversation = %s", [conversation])
    for span in spans:
        row = [conversation, span.first, origin_key(db, span.origin, space), span.last]
        db.execute("INSERT INTO span (conversation, first, origin, last) VALUES (%s, %s, %s, %s)", row)


def expiry(conversation: Conversation, written: datetime) -> datetime | None:
    """Return when a conversation that was written at this time expires."""
    ttl_s = conversation.ttl_s
    return None if ttl_s is None else written + timedelta(seconds=ttl_s)


def _stored(conversation: Conversation) -> str:
    return json.dumps(conversation_record(conversation) | _COUNTS)


def _views(db: Db, where: str, values: Sequence[Any]) -> list[PostgresView]:
    """Return the conversations that match a condition, the most recently written last."""
    found: dict[int, PostgresView] = {}
    for row in db.execute(f"{_VIEWS} {where} ORDER BY c.written, s.first", values):
        key, space, record, updated, next_number, first_turn, first_message = row[:7]
        first, last, origin, said_in = row[7:11]
        span = TurnSpan(json.loads(said_in), first, last)
        view = found.get(key)
        if view is None:
            conversation = conversation_from_record({**json.loads(record), "updated": updated})
            numbers = (next_number, first_turn, first_message)
            found[key] = PostgresView(
                key, space, conversation, *numbers, (span,), (origin,), row[11:14], row[14]
            )
        else:
            found[key] = view._replace(spans=(*view.spans, span), origins=(*view.origins, origin))
    return list(found.values())


def _last_order(db: Db, view: PostgresView) -> int:
    last = [shown_items(db, view.ranges(kind), last=1) for kind in (0, 1)]
    return max((row.number for rows in last for row in rows), default=-1)


def _check_last_turn(db: Db, view: PostgresView, expected: str | None) -> None:
    if expected is not None:
        found = shown_items(db, view.ranges(0), last=1)
        check.check_last_turn(view.conversation, expected, found[0].record()["id"] if found else "")


def _rewind(db: Db, view: PostgresView, to: int) -> tuple[int, int]:
    """Remove everything after an order; return the number of turns and messages."""
    hold_origins(db, view.origins)
    taken = view.ranges(after=to)
    turns, messages, _ = count_items(db, taken)
    own, until = view.spans[-1], spans_until(view.spans, to)
    put_spans(db, view.key, until, view.space)
    release(db, taken)
    left = "SELECT 1 FROM item WHERE origin = %s AND kind IN (0, 1) AND number >= %s LIMIT 1"
    if db.execute(left, [view.key, max(own.first, to + 1)]).fetchone() is None:
        spans = [*spans_until(view.spans[:-1], to), own]
    else:  # a fork shows it, so the next items start after it
        spans = [*until, own._replace(first=view.next_number)]
    put_spans(db, view.key, spans, view.space)
    _forget_origins(db, view)
    return turns, messages


def _delete(db: Db, view: PostgresView) -> int:
    """Delete a conversation; return the number of turns that it showed."""
    hold_origins(db, view.origins)
    turns, _, _ = count_items(db, view.ranges(0))
    db.execute("DELETE FROM conversation WHERE key = %s", [view.key])
    release(db, view.ranges())
    _forget_origins(db, view)
    return turns


def _forget_origins(db: Db, view: PostgresView) -> None:
    """Delete those of the locked origins that have no items and that no conversation shows."""
    unused = "DELETE FROM origin o WHERE o.key = ANY(%s) AND o.turns = 0 AND o.messages = 0"
    shown = "EXISTS (SELECT 1 FROM span s WHERE s.origin = o.key)"
    db.execute(f"{unused} AND NOT {shown}", [list(view.origins)])


def _expired(now: str) -> str:
    tables = (
        f"EXISTS (SELECT 1 FROM {table} WHERE expires <= '{now}')" for table in ("conversation", "record")
    )
    return " OR ".join(tables)


def _purge(db: Db, now: str) -> None:
    held = "SELECT key FROM conversation WHERE expires <= %s::timestamptz ORDER BY key FOR UPDATE"
    keys = [key for (key,) in db.execute(held, [now])]
    for view in _views(db, "WHERE c.key = ANY(%s)", [keys]):
        _delete(db, view)
    db.execute("DELETE FROM record WHERE expires <= %s::timestamptz", [now])
