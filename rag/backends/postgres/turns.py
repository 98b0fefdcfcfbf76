"""Turns, messages and records in a Postgres database. `schema` describes the tables.

When a call returns, its data survives `kill -9` of this process and of the server (see `server`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rag.backends.postgres.conversations import (
    PostgresConversations,
    check_name,
    counted,
    expiry,
    known_conversations,
    moment,
    store_conversation,
    view_of,
    views_of,
)
from rag.backends.postgres.items import (
    FIND_ITEM,
    FIND_ITEMS,
    KINDS,
    ItemRow,
    PostgresView,
    add_items,
    edit_item,
    find_items,
    first_of_newest,
    hold_origins,
    made_space_key,
    mark_items,
    origin_key,
    release,
    remove_item,
    remove_shown,
    shown_items,
    space_key,
    taken_places,
    whole_items,
)
from rag.backends.postgres.records import PostgresRecords, put_all, record_lines
from rag.backends.postgres.search import citing_ids, match_terms
from rag.backends.postgres.server import Db
from rag.backends.postgres.term_counts import STEP, tally_anew, tally_items
from rag.backends.postgres.text import slot
from rag.ports import Marks, Matches
from rag.schema import Record, message_from_record, turn_from_record
from rag.turns import checks as check
from rag.turns.dump import Restored, conversation_line, item_line, restored
from rag.turns.model import ConversationRecord, Item, Kind
from rag.types import DialogTurn, Message

_BATCH = 1000
"""The maximum number of items per statement of a restore."""


class PostgresTurnStore(PostgresConversations, PostgresRecords):
    """A `MemoryStore` in a schema of a Postgres database. It is pickled as its address, with the password."""

    def __repr__(self) -> str:
        return f"PostgresTurnStore({self._server.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._server.url, self._server.schema)

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation, see `TurnStore`."""
        return self.extend([turn], conversation=conversation, namespace=namespace)[0]

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Add turns at the end, all or none, see `TurnStore`."""
        first = [replace(turn, version=1) for turn in turns]
        known, new = self._write(lambda db: self._add(db, "turn", first, conversation, namespace))
        records = {**known, **{item.id: item.record() for item in new}}
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
        marks, without = check.marks_sought(mark), check.marks_sought(exclude_mark)

        def work(db: Db) -> list[ItemRow]:
            ranges = view_of(db, conversation, namespace).ranges(0, after=after, before=before)
            return shown_items(db, ranges, last=last, mark=marks, exclude_mark=without)

        return [turn_from_record(row.record()) for row in self._read(work)]

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        for row in self._ask(FIND_ITEM, [slot(namespace), KINDS["turn"], slot(turn_id)]):
            return turn_from_record(ItemRow._make(row).record())
        raise check.no_turn(turn_id)

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """Return the stored turns with these ids, in the order given, in one round trip."""
        rows = self._ask(FIND_ITEMS, [slot(namespace), KINDS["turn"], list(map(slot, ids))])
        found = {turn.id: turn for row in rows for turn in [turn_from_record(ItemRow._make(row).record())]}
        return {each: found[each] for each in dict.fromkeys(ids) if each in found}

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id, see `TurnStore`."""

        def work(db: Db) -> Item:
            row = _turn(db, turn.id, namespace, hold=True)
            record = row.record()
            edited = replace(
                turn,
                namespace=namespace,
                conversation_id=record["conversation"],
                order=row.number,
                version=record["version"] + 1,
                marks=tuple(record["marks"]),
            )
            item = Item.of(edited)
            edit_item(db, row, space_key(db, namespace), item)
            return item

        return self._write(work).turn()

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first. Raises NotFound."""

        def work(db: Db) -> Item:
            return whole_items(db, [_turn(db, turn_id, namespace)], namespace)[0]

        item = self._read(work)
        return [item.turn(version) for version in range(len(item.versions))]

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        return self._write(lambda db: remove_item(db, "turn", turn_id, space_key(db, namespace))) == 1

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file in any of their versions, ascending."""
        where = {"location": location, "path": path, "blob": blob or None}
        sought = {name: value for name, value in where.items() if value is not None}
        return self._read(lambda db: citing_ids(db, space_key(db, namespace), sought))

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end, all or none; return those that were stored."""
        _, new = self._write(lambda db: self._add(db, "message", messages, conversation, namespace))
        return [item.message() for item in new]

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

        def work(db: Db) -> list[ItemRow]:
            ranges = view_of(db, conversation, namespace).ranges(1)
            return shown_items(db, ranges, last=last, mark=marks, exclude_mark=without)

        return [message_from_record(row.record()) for row in self._read(work)]

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many."""

        def work(db: Db) -> int:
            return remove_shown(db, view_of(db, conversation, namespace, hold=True).ranges(1), ids=ids)

        return self._write(work)

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

        def work(db: Db) -> int:
            return mark_items(db, view_of(db, conversation, namespace, hold=True).ranges(), new, old, ids)

        return self._write(work)

    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many."""
        sought = check.marks_sought(mark)

        def work(db: Db) -> int:
            return remove_shown(db, view_of(db, conversation, namespace, hold=True).ranges(), mark=sought)

        return self._write(work)

    # ---- search

    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)

        def work(db: Db) -> Matches:
            view = None if conversation is None else view_of(db, conversation, namespace)
            return match_terms(db, terms, space_key(db, namespace), view, limit)

        return self._read(work)

    # ---- dump and restore

    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending."""
        return self._read(held_namespaces)

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, see `MemoryStore`."""

        def work(db: Db) -> list[dict[str, Any]]:
            for each in conversations or ():
                view_of(db, each, namespace)
            views = [
                view
                for view in views_of(db, namespace)
                if conversations is None or view.conversation.id in conversations
            ]
            lines = [_conversation_line(db, view) for view in views]
            rows: dict[int, ItemRow] = {}
            for view in views:
                rows.update((row.key, row) for row in shown_items(db, view.ranges()) if row.key not in rows)
            lines += map(item_line, whole_items(db, list(rows.values()), namespace))
            if conversations is None:
                lines += record_lines(db, space_key(db, namespace))
            return lines

        return iter(self._read(work))

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace, see `MemoryStore`."""
        found, now = restored(lines, namespace), self._clock()
        return self._write(lambda db: _restore(db, found, namespace, now))

    # ---- internal

    def _add(
        self,
        db: Db,
        kind: Kind,
        values: Sequence[DialogTurn | Message],
        conversation: str,
        namespace: str,
    ) -> tuple[dict[str, Record], list[Item]]:
        """Store new items; return the records of existing ones by id, and the new items."""
        view = view_of(db, conversation, namespace, hold=True)
        there = (row.record() for row in find_items(db, kind, [one.id for one in values], view.space))
        known = {record["id"]: record for record in there}
        new: dict[str, Item] = {}
        for one in values:
            if one.id not in known and one.id not in new:
                order = view.next_number + len(new)
                placed = replace(one, namespace=namespace, conversation_id=conversation, order=order)
                new[one.id] = Item.of(placed)
        if new:
            add_items(db, list(new.values()), view.space, {conversation: view.key})
            if view.next_number + len(new) - view.tallied >= STEP:
                tally_items(db, view.key)
            now = self._clock()
            db.execute(
                "UPDATE conversation SET next_number = %s, written = nextval('write_number'), updated = %s, "
                "expires = %s WHERE key = %s",
                [view.next_number + len(new), moment(now), expiry(view.conversation, now), view.key],
            )
            if view.conversation.keep_last is not None:
                _trim(db, view, KINDS[kind], view.conversation.keep_last)
        return known, list(new.values())


def held_namespaces(db: Db) -> list[str]:
    """Return the namespaces that hold a conversation or a record, ascending."""
    held = """
        SELECT n.namespace FROM space n WHERE EXISTS (SELECT 1 FROM conversation c WHERE c.space = n.key)
        OR EXISTS (SELECT 1 FROM record r WHERE r.space = n.key)
    """
    return sorted(json.loads(namespace) for (namespace,) in db.execute(held))


def _opened(url: str, schema: str) -> PostgresTurnStore:
    return PostgresTurnStore(url, schema=schema)


def _turn(db: Db, turn_id: str, namespace: str, *, hold: bool = False) -> ItemRow:
    for row in find_items(db, "turn", [turn_id], space_key(db, namespace), hold=hold):
        return row
    raise check.no_turn(turn_id)


def _trim(db: Db, view: PostgresView, kind: int, keep_last: int) -> None:
    """Remove the oldest items of a kind beyond `keep_last`."""
    first = first_of_newest(db, view.ranges(kind), keep_last)
    if first is not None:
        hold_origins(db, view.origins)
        column = "first_message" if kind else "first_turn"
        db.execute(f"UPDATE conversation SET {column} = %s WHERE key = %s", [first, view.key])
        release(db, view.ranges(kind, before=first))


def _conversation_line(db: Db, view: PostgresView) -> dict[str, Any]:
    first: dict[Kind, int] = {"turn": view.first_turn, "message": view.first_message}
    conversation = counted(db, view)
    return conversation_line(
        conversation, ConversationRecord(conversation, list(view.spans), view.next_number, first)
    )


def _restore(db: Db, found: Restored, namespace: str, now: datetime) -> int:
    living = {it.conversation.id: it for it in found.kept if it.expires is None or it.expires > now}
    there = known_conversations(db, list(living))
    fresh = [kept for kept in living.values() if kept.conversation.id not in there]
    for kept in fresh:
        check_name(db, kept.conversation.name, kept.conversation)
        store_conversation(db, kept, namespace)
    space = space_key(db, namespace)
    by_id = {(item.kind, item.id): item for item in found.items}
    shown = [item for item in by_id.values() if any(kept.shows(item) for kept in fresh)]
    origins = {each: origin_key(db, each, space) for each in sorted({item.origin for item in shown})}
    for begin in range(0, len(shown), _BATCH):
        _restore_items(db, shown[begin : begin + _BATCH], space, origins)
    tally_anew(db, sorted(origins.values()))
    for origin in origins.values():
        db.execute(
            "UPDATE conversation SET next_number = greatest(next_number, "
            "(SELECT max(number) + 1 FROM item WHERE origin = %s AND kind IN (0, 1))) WHERE key = %s",
            [origin, origin],
        )
    records = [each for each in found.records if each[2].expires is None or each[2].expires > now]
    if records:
        put_all(db, made_space_key(db, namespace), records)
    return len(fresh)


def _restore_items(db: Db, items: Sequence[Item], space: int, origins: dict[str, int]) -> None:
    """Insert those items whose id and place are free."""
    known = {
        (kind, row.record()["id"])
        for kind in KINDS
        for row in find_items(db, kind, [item.id for item in items if item.kind == kind], space)
    }
    taken = taken_places(db, [(origins[item.origin], item.order) for item in items])
    free = [
        item
        for item in items
        if (item.kind, item.id) not in known and (origins[item.origin], item.order) not in taken
    ]
    add_items(db, free, space, origins)
