"""Turns, messages and records in memory. The reference implementation for other backends.

`stored_turns` describes the data model and how forks share items.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from rag.backends import turn_errors as check
from rag.backends.memory.conversations import MemoryConversations
from rag.backends.memory.records import MemoryRecords
from rag.backends.stored_turns import Item, Kind
from rag.backends.turn_dump import conversation_line, item_line, record_line, restored
from rag.ports import Holder, Marks, Matches
from rag.types import DialogTurn, Message


class MemoryTurnStore(MemoryConversations, MemoryRecords):
    """A `MemoryStore` in memory. It can be pickled with its contents."""

    def __repr__(self) -> str:
        return "MemoryTurnStore()"

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation, see `TurnStore`."""
        return self.extend([turn], conversation=conversation, namespace=namespace)[0]

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Add turns at the end, all or none, see `TurnStore`."""
        with self._now():
            first = [replace(turn, version=1) for turn in turns]
            return [item.turn() for item, _ in self._add("turn", first, conversation, namespace)]

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

        def wanted(item: Item) -> bool:
            return (before is None or item.order < before) and (after is None or item.order > after)

        marks = check.marks_sought(mark), check.marks_sought(exclude_mark)
        return [item.turn() for item in self._shown("turn", conversation, namespace, last, marks, wanted)]

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        with self._now():
            return self._turn(turn_id, namespace).turn()

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """Return the stored turns with these ids, in the order given."""
        with self._now():
            items = (self._items.find(namespace, "turn", each) for each in dict.fromkeys(ids))
            return {item.id: item.turn() for item in items if item is not None}

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id, see `TurnStore`."""
        with self._now():
            item = self._turn(turn.id, namespace)
            edited = replace(
                turn,
                namespace=namespace,
                conversation_id=item.origin,
                order=item.order,
                version=len(item.versions) + 1,
            )
            self._items.edit(item, Item.of(edited))
            return item.turn()

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first. Raises NotFound."""
        with self._now():
            item = self._turn(turn_id, namespace)
            return [item.turn(version) for version in range(len(item.versions))]

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        with self._now():
            item = self._items.find(namespace, "turn", turn_id)
            if item is not None:
                self._items.remove(item)
            return item is not None

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file in any of their versions, ascending."""

        def is_meant(cited: tuple[str, str, str]) -> bool:
            return path in (None, cited[0]) and location in (None, cited[1]) and blob in ("", cited[2])

        with self._now():
            return sorted(item.id for item in self._items.of(namespace) if any(map(is_meant, item.cited)))

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end, all or none; return those that were stored."""
        with self._now():
            added = self._add("message", messages, conversation, namespace)
            return [item.message() for item, new in added if new]

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
        marks = check.marks_sought(mark), check.marks_sought(exclude_mark)
        return [item.message() for item in self._shown("message", conversation, namespace, last, marks)]

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many."""
        with self._now():
            kept = self._find(conversation, namespace)
            found = (self._items.find(namespace, "message", one) for one in dict.fromkeys(ids))
            return self._remove([item for item in found if item is not None and kept.shows(item)])

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
        changed = 0
        with self._now():
            for item in self._items.shown(self._find(conversation, namespace)):
                if (wanted is None or item.id in wanted) and (old is None or old in item.marks):
                    marks = (item.marks - {old}) | ({new} if new is not None else set())
                    changed += marks != item.marks
                    item.marks = marks
        return changed

    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many."""
        sought = check.marks_sought(mark)
        with self._now():
            shown = self._items.shown(self._find(conversation, namespace))
            return self._remove([item for item in shown if item.passes(sought, None)])

    # ---- search

    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)
        with self._now():
            kept = None if conversation is None else self._find(conversation, namespace)
            searched = self._items.of(namespace) if kept is None else self._items.shown(kept)
            lengths = [item.length for item in searched]
            holders, found = [], dict[Item, None]()
            for term in terms:
                holding = (item for item, _ in self._items.holding(namespace, term))
                items = [item for item in holding if kept is None or kept.shows(item)]
                holders.append(len(items))
                found.update(dict.fromkeys(heapq.nsmallest(limit, items, key=lambda it: (-it.order, it.id))))
        ordered = sorted(found, key=lambda item: (item.origin, item.order))
        return Matches(
            items=len(lengths),
            length=sum(lengths),
            holders=tuple(holders),
            found=tuple(
                Holder(
                    it.id, it.kind, it.origin, it.order, it.length, tuple(it.counts.get(t, 0) for t in terms)
                )
                for it in ordered
            ),
        )

    # ---- dump and restore

    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending."""
        with self._now():
            found = {kept.conversation.namespace for kept in self._kept.values()}
            for namespace, shelf in list(self._shelves):
                if self._shelf(shelf, namespace).records:
                    found.add(namespace)
            return sorted(found)

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, see `MemoryStore`."""
        with self._now():
            if conversations is None:
                chosen = [it for it in self._kept.values() if it.conversation.namespace == namespace]
                shelves = {
                    name: self._shelf(name, where) for where, name in self._shelves if where == namespace
                }
            else:
                wanted = {self._find(each, namespace).conversation.id for each in conversations}
                chosen = [kept for each, kept in self._kept.items() if each in wanted]
                shelves = {}
            lines = [conversation_line(self._counted(kept), kept) for kept in chosen]
            lines += map(item_line, dict.fromkeys(it for kept in chosen for it in self._items.shown(kept)))
            for name, shelf in sorted(shelves.items()):
                lines += [record_line(name, key, record) for key, record in sorted(shelf.records.items())]
        return iter(lines)

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace, see `MemoryStore`."""
        with self._now() as now:
            found = restored(lines, namespace)
            fresh = [kept for kept in found.kept if kept.conversation.id not in self._kept]
            fresh = [kept for kept in fresh if kept.expires is None or kept.expires > now]
            for kept in fresh:
                self._check_name(kept.conversation.name, kept.conversation)
            shown = [item for item in found.items if any(kept.shows(item) for kept in fresh)]
            for kept in fresh:
                self._keep(kept)
            for item in shown:
                taken = self._items.find(namespace, item.kind, item.id) or self._items.at(
                    item.origin, item.order
                )
                if taken is None:
                    self._items.add(item)
                    origin = self._kept.get(item.origin)
                    if origin is not None:
                        origin.next_order = max(origin.next_order, item.order + 1)
            for shelf, key, record in found.records:
                if record.expires is None or record.expires > now:
                    self._shelf(shelf, namespace).put(key, record)
            return len(fresh)

    def close(self) -> None:
        """Do nothing."""

    # ---- internal

    def _turn(self, turn_id: str, namespace: str) -> Item:
        item = self._items.find(namespace, "turn", turn_id)
        if item is None:
            raise check.no_turn(turn_id)
        return item

    def _shown(
        self,
        kind: Kind,
        conversation: str,
        namespace: str,
        last: int | None,
        marks: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
        wanted: Callable[[Item], bool] = lambda item: True,
    ) -> list[Item]:
        check.check_last(last)
        with self._now():
            kept = self._find(conversation, namespace)
            found = (
                item
                for item in self._items.shown(kept, newest_first=True)
                if item.kind == kind and item.passes(*marks) and wanted(item)
            )
            return list(islice(found, last))[::-1]

    def _add(
        self, kind: Kind, values: Sequence[DialogTurn | Message], conversation: str, namespace: str
    ) -> list[tuple[Item, bool]]:
        """Return the item of each turn or message, and whether it is new; store all or none."""
        kept = self._find(conversation, namespace)
        items: dict[str, tuple[Item, bool]] = {}
        order = kept.next_order
        for one in values:
            if one.id in items:
                continue
            known = self._items.find(namespace, kind, one.id)
            if known is None:
                placed = replace(one, namespace=namespace, conversation_id=conversation, order=order)
                order += 1
                items[one.id] = (Item.of(placed), True)
            else:
                items[one.id] = (known, False)
        if order > kept.next_order:
            for item, new in items.values():
                if new:
                    self._items.add(item)
            kept.next_order = order
            self._written(kept)
            self._trim(kept, kind)
        return [items[one.id] for one in values] if kind == "turn" else list(items.values())
