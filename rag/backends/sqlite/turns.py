"""Turns, messages and records in a SQLite file: the default memory. `schema` describes the tables.

When a call returns, its data survives `kill -9` and a power failure (see `file`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rag.backends import turn_errors as check
from rag.backends.sqlite.bindings import execute, text
from rag.backends.sqlite.conversations import (
    SqliteConversations,
    check_name,
    expiry,
    moment,
    store_conversation,
    view_of,
    write_to,
    written_ids,
)
from rag.backends.sqlite.items import (
    KINDS,
    Range,
    SqliteView,
    add_items,
    add_marks,
    count_items,
    edit_item,
    find_item,
    item_record,
    known_ids,
    made_space_key,
    newest_orders,
    origin_key,
    release,
    remove_items,
    shown_items,
    space_key,
    whole_item,
)
from rag.backends.sqlite.records import SqliteRecords
from rag.backends.sqlite.search import match_terms
from rag.backends.stored_turns import ConversationRecord, Item, Kind, StoredRecord
from rag.backends.turn_dump import Line, Restored, conversation_line, item_line, record_line, restored
from rag.ports import Marks, Matches
from rag.schema import Record, message_from_record, turn_from_record
from rag.types import DialogTurn, Message


class SqliteTurnStore(SqliteConversations, SqliteRecords):
    """A `MemoryStore` in one file. It is pickled as its path; several may have the same file open."""

    def __repr__(self) -> str:
        return f"SqliteTurnStore({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[SqliteTurnStore], tuple[Path]]:
        return SqliteTurnStore, (self.path,)

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation, see `TurnStore`."""
        return self.extend([turn], conversation=conversation, namespace=namespace)[0]

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Add turns at the end, all or none, see `TurnStore`."""
        with self._writing() as db:
            known, new = self._add(db, "turn", turns, conversation, namespace, version=1)
        records = known | new
        return [turn_from_record(records[turn.id]) for turn in turns]

    def turns(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        before: int | None = None,
        after: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[DialogTurn]:
        """Return the turns of a conversation, oldest first, see `TurnStore`."""
        check.check_last(last)
        with self._reading() as db:
            ranges = view_of(db, conversation, namespace).ranges(0, after, before)
            rows = shown_items(
                db,
                ranges,
                0,
                last=last,
                mark=check.marks_sought(mark),
                exclude_mark=check.marks_sought(exclude_mark),
            )
        with self._file.translated():
            return [turn_from_record(item_record(row)) for row in rows]

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        with self._reading() as db:
            return turn_from_record(item_record(_turn(db, turn_id, namespace)))

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """Return the stored turns with these ids, in the order given."""
        with self._reading() as db:
            space = space_key(db, namespace)
            found = ((each, find_item(db, "turn", each, space)) for each in dict.fromkeys(ids))
            return {each: turn_from_record(item_record(row)) for each, row in found if row is not None}

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id, see `TurnStore`."""
        with self._writing() as db:
            row = _turn(db, turn.id, namespace)
            record = item_record(row)
            edited = replace(
                turn,
                namespace=namespace,
                conversation_id=row["origin_id"],
                order=row["number"],
                version=record["version"] + 1,
                marks=tuple(record["marks"]),
            )
            item = Item.of(edited)
            edit_item(db, row, item)
        return item.turn()

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first. Raises NotFound."""
        with self._reading() as db:
            item = whole_item(db, _turn(db, turn_id, namespace))
        return [item.turn(version) for version in range(len(item.versions))]

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        with self._writing() as db:
            row = find_item(db, "turn", turn_id, space_key(db, namespace))
            return row is not None and remove_items(db, [row]) == 1

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file in any of their versions, ascending."""
        where = {"location": location, "path": path, "blob": blob or None}
        sought = {name: value for name, value in where.items() if value is not None}
        conditions = " AND ".join(["i.space = ?", *(f"f.{name} = ?" for name in sought)])
        cited = "FROM file f CROSS JOIN cited c ON c.file = f.key CROSS JOIN item i ON i.key = c.item"
        found = f"SELECT DISTINCT i.id {cited} WHERE {conditions} ORDER BY i.id"
        with self._reading() as db:
            return [row["id"] for row in execute(db, found, space_key(db, namespace), *sought.values())]

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end, all or none; return those that were stored."""
        with self._writing() as db:
            _, new = self._add(db, "message", messages, conversation, namespace)
        return [message_from_record(record) for record in new.values()]

    def messages(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[Message]:
        """Return the messages of a conversation, oldest first, see `TurnStore`."""
        check.check_last(last)
        marks, without = check.marks_sought(mark), check.marks_sought(exclude_mark)
        with self._reading() as db:
            ranges = view_of(db, conversation, namespace).ranges(1)
            rows = shown_items(db, ranges, 1, last=last, mark=marks, exclude_mark=without)
        with self._file.translated():
            return [message_from_record(item_record(row)) for row in rows]

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many."""
        wanted = frozenset(ids)
        with self._writing() as db:
            view = view_of(db, conversation, namespace)
            if len(wanted) < 1000:
                space, ranges = space_key(db, namespace), view.ranges(1)
                found = (find_item(db, "message", each, space) for each in wanted)
                return remove_items(db, [row for row in found if row is not None and _within(row, ranges)])
            rows = shown_items(db, view.ranges(1), 1)
            return remove_items(db, [row for row in rows if row["id"] in wanted])

    # ---- marks

    def update_marks(
        self,
        conversation: str,
        new: str | None,
        *,
        old: str | None = None,
        ids: Sequence[str] | None = None,
        namespace: str = "",
    ) -> int:
        """Add, replace or remove a mark; return how many turns and messages changed."""
        check.check_update(new, old)
        wanted = None if ids is None else frozenset(ids)
        with self._writing() as db:
            rows = _shown(db, view_of(db, conversation, namespace), None if old is None else (old,))
            chosen = [row for row in rows if wanted is None or row["id"] in wanted]
            marks = {row["key"]: set(item_record(row)["marks"]) for row in chosen}
            changed = [key for key, held in marks.items() if (held - {old}) | {new} - {None} != held]
            if old is not None:
                gone = [(key, text(old)) for key in changed]
                db.executemany("DELETE FROM mark WHERE item = ? AND mark = CAST(? AS TEXT)", gone)
            if new is not None:
                add_marks(db, [(key, new) for key in changed])
            return len(changed)

    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many."""
        with self._writing() as db:
            view = view_of(db, conversation, namespace)
            return remove_items(db, _shown(db, view, check.marks_sought(mark)))

    # ---- search

    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)
        with self._reading() as db:
            view = None if conversation is None else view_of(db, conversation, namespace)
            return match_terms(db, terms, space_key(db, namespace), view, limit)

    # ---- dump and restore

    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending."""
        held = """
            SELECT namespace FROM conversation
            UNION SELECT namespace FROM space WHERE key IN (SELECT space FROM record) ORDER BY namespace
        """
        with self._reading() as db:
            return [row["namespace"] for row in db.execute(held)]

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, see `MemoryStore`."""
        with self._reading() as db:
            for each in conversations or ():
                view_of(db, each, namespace)
            ids = written_ids(db, namespace)
            views = [
                view_of(db, each, namespace) for each in ids if conversations is None or each in conversations
            ]
            lines = [_conversation_line(db, view) for view in views]
            items: dict[int, Item] = {}
            for view in views:
                rows = sorted(_shown(db, view, None), key=lambda row: int(row["number"]))
                items.update((row["key"], whole_item(db, row)) for row in rows if row["key"] not in items)
            lines += map(item_line, items.values())
            if conversations is None:
                lines += _record_lines(db, namespace)
        return iter(lines)

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace, see `MemoryStore`."""
        found, now = restored(lines, namespace), self._clock()
        with self._writing() as db:
            return _restore(db, found, namespace, now)

    # ---- internal

    def _add(
        self,
        db: sqlite3.Connection,
        kind: Kind,
        values: Sequence[DialogTurn | Message],
        conversation: str,
        namespace: str,
        **begins: Any,
    ) -> tuple[dict[str, Record], dict[str, Record]]:
        """Store new items; return the records of existing and of new ones, by id."""
        view = view_of(db, conversation, namespace)
        space, order = view.space, view.next_number
        there = known_ids(db, kind, [one.id for one in values], space)
        rows = (find_item(db, kind, each, space) for each in there)
        known = {row["id"]: item_record(row) for row in rows if row is not None}
        new: dict[str, Record] = {}
        items: list[Item] = []
        for one in values:
            if one.id not in known and one.id not in new:
                placed = replace(
                    one, namespace=namespace, conversation_id=conversation, order=order, **begins
                )
                item, new[one.id] = Item.recorded(placed)
                items.append(item)
                order += 1
        if items:
            add_items(db, items, space, {conversation: view.origins[-1]})
            now = self._clock()
            write_to(db, conversation, order, now, expiry(view.conversation, now))
            if view.conversation.keep_last is not None:
                _trim(db, view, kind, view.conversation.keep_last)
        return known, new


def _turn(db: sqlite3.Connection, turn_id: str, namespace: str) -> sqlite3.Row:
    row = find_item(db, "turn", turn_id, space_key(db, namespace))
    if row is None:
        raise check.no_turn(turn_id)
    return row


def _shown(db: sqlite3.Connection, view: SqliteView, mark: Sequence[str] | None) -> list[sqlite3.Row]:
    """Yield the turns, then the messages that a conversation shows."""
    return [row for kind in (0, 1) for row in shown_items(db, view.ranges(kind), kind, mark=mark)]


def _within(row: sqlite3.Row, ranges: Sequence[Range]) -> bool:
    return any(row["origin"] == origin and first <= row["number"] <= last for origin, first, last in ranges)


def _trim(db: sqlite3.Connection, view: SqliteView, kind: Kind, keep_last: int) -> None:
    """Remove the oldest items of a kind beyond `keep_last`."""
    code = KINDS[kind]
    newest = newest_orders(db, view.ranges(code), code, keep_last + 1)
    if len(newest) > keep_last:
        first = newest[keep_last - 1]
        execute(db, f"UPDATE conversation SET first_{kind} = ? WHERE id = ?", first, view.conversation.id)
        release(db, view.ranges(code, before=first), code)


def _conversation_line(db: sqlite3.Connection, view: SqliteView) -> Line:
    turns, messages, _ = count_items(db, view)
    counted = replace(view.conversation, turn_count=turns, message_count=messages)
    first: dict[Kind, int] = {"turn": view.first_turn, "message": view.first_message}
    return conversation_line(counted, ConversationRecord(counted, list(view.spans), view.next_number, first))


def _record_lines(db: sqlite3.Connection, namespace: str) -> list[Line]:
    rows = execute(db, "SELECT * FROM record WHERE space = ? ORDER BY shelf, key", space_key(db, namespace))
    return [
        record_line(
            row["shelf"],
            row["key"],
            StoredRecord(row["value"], row["expires"] and datetime.fromisoformat(row["expires"])),
        )
        for row in rows
    ]


def _restore(db: sqlite3.Connection, found: Restored, namespace: str, now: datetime) -> int:
    fresh = [kept for kept in found.kept if kept.expires is None or kept.expires > now]
    there = "SELECT 1 FROM conversation WHERE id = ?"
    fresh = [kept for kept in fresh if execute(db, there, kept.conversation.id).fetchone() is None]
    for kept in fresh:
        check_name(db, kept.conversation.name, kept.conversation)
        store_conversation(db, kept, namespace)
    space = space_key(db, namespace)
    taken = "SELECT 1 FROM item i JOIN origin o ON o.key = i.origin WHERE o.id = ? AND i.number = ?"
    new: list[Item] = []
    for item in found.items:
        missing = find_item(db, item.kind, item.id, space) is None
        free = missing and execute(db, taken, item.origin, item.order).fetchone() is None
        if free and any(kept.shows(item) for kept in fresh):
            new.append(item)
    add_items(
        db, new, space, {each: origin_key(db, each, namespace) for each in {item.origin for item in new}}
    )
    for item in new:
        later = "UPDATE conversation SET next_number = max(next_number, ?) WHERE id = ?"
        execute(db, later, item.order + 1, item.origin)
    for shelf, key, record in found.records:
        if record.expires is None or record.expires > now:
            put = "INSERT OR REPLACE INTO record (space, shelf, key, value, expires) VALUES (?, ?, ?, ?, ?)"
            expires = None if record.expires is None else moment(record.expires)
            execute(db, put, made_space_key(db, namespace), shelf, key, record.value, expires)
    return len(fresh)
