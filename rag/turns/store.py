"""The turn store: turns, messages, marks, search, dump and restore over the storage of a backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, TypeVar

from rag.ports import Marks, Matches, Recalled
from rag.schema import Record
from rag.settings import KEYS_NAMESPACE
from rag.turns import checks as check
from rag.turns.conversations import counted, find, shown, trim
from rag.turns.dump import Line, conversation_line, record_line
from rag.turns.model import (
    KINDS,
    ConversationRecord,
    Item,
    Kind,
    StoredItem,
    stored_message,
    stored_turn,
)
from rag.turns.records import Records
from rag.turns.restore import ValidLines, restore_lines, valid_lines
from rag.turns.search import match_terms, rank_terms
from rag.turns.storage import Scope, Transaction, repeated
from rag.turns.values import MAX_ORDER
from rag.types import DialogTurn, Message

_ALL = -1, MAX_ORDER
_PAGE = 32
"""The number of conversations, of items of a kind, or of records that a dump reads at once."""
_T = TypeVar("_T")


class StoredTurns(Records):
    """A `MemoryStore` over the storage of a backend."""

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation, see `TurnStore`."""
        return self.extend([turn], conversation=conversation, namespace=namespace)[0]

    @repeated
    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Add turns at the end, all or none, see `TurnStore`."""
        ids = tuple(turn.id for turn in turns)
        with self._writing(Scope(namespace, conversation=conversation, ids=ids)) as tx:
            known, new = self._add(tx, "turn", turns, conversation, namespace, version=1)
        records = {**known, **new}
        return [stored_turn(records[turn.id]) for turn in turns]

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
        window = (-1 if after is None else after, MAX_ORDER if before is None else min(before, MAX_ORDER))
        read: Callable[[StoredItem], DialogTurn] = StoredItem.turn
        return self._shown(read, "turn", conversation, namespace, last, mark, exclude_mark, window)

    @repeated
    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        with self._reading(Scope(namespace, ids=(turn_id,))) as tx:
            return _turn(tx, turn_id, namespace).turn()

    @repeated
    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """Return the stored turns with these ids, in the order given."""
        with self._reading(Scope(namespace, ids=tuple(dict.fromkeys(ids)))) as tx:
            found = tx.items("turn", dict.fromkeys(ids), namespace)
            return {each: item.turn() for each, item in found.items()}

    @repeated
    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id, see `TurnStore`."""
        with self._writing(Scope(namespace, ids=(turn.id,))) as tx:
            item = _turn(tx, turn.id, namespace)
            edited, record = Item.recorded(
                replace(
                    turn,
                    namespace=namespace,
                    conversation_id=item.origin,
                    order=item.order,
                    version=item.turn().version + 1,
                    marks=item.marks,
                )
            )
            tx.edit(item, edited)
        return stored_turn(record)

    @repeated
    def finish_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Replace a turn that is "asked" by its answer, see `TurnStore`."""
        if turn.state == "asked":
            raise ValueError('a finished turn is "answered", "partial" or "failed", not "asked"')
        with self._writing(Scope(namespace, ids=(turn.id,))) as tx:
            item = _turn(tx, turn.id, namespace)
            asked = item.record()
            if asked.get("state") != "asked":
                raise check.already_finished(turn.id, asked.get("state", "answered"))
            kept: dict[str, Any] = {"order": item.order, "conversation_id": item.origin}
            kept["version"] = item.turn().version
            finished, record = Item.recorded(replace(turn, **kept, namespace=namespace, marks=item.marks))
            tx.delete([item])
            tx.add([finished], {item.origin: item.key >> 32})
        return stored_turn(record)

    @repeated
    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first. Raises NotFound."""
        with self._reading(Scope(namespace, ids=(turn_id,))) as tx:
            item = _turn(tx, turn_id, namespace)
            return [stored_turn(item.record(text)) for text in (*tx.versions(item), item.text)]

    @repeated
    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        with self._writing(Scope(namespace, ids=(turn_id,))) as tx:
            found = list(tx.items("turn", [turn_id], namespace).values())
            tx.delete(found)
            return bool(found)

    @repeated
    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file in any of their versions, ascending."""
        with self._reading(Scope(namespace)) as tx:
            return tx.citing(namespace, path, location, blob or None)

    # ---- messages

    @repeated
    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end, all or none; return those that were stored."""
        ids = tuple(message.id for message in messages)
        scope = Scope(namespace, conversation=conversation, kind="message", ids=ids)
        with self._writing(scope) as tx:
            _, new = self._add(tx, "message", messages, conversation, namespace)
        return [stored_message(record) for record in new.values()]

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
        return self._shown(StoredItem.message, "message", conversation, namespace, last, mark, exclude_mark)

    @repeated
    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many."""
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            kept = find(tx, conversation, namespace)
            found = tx.items("message", dict.fromkeys(ids), namespace).values()
            return _deleted(tx, [item for item in found if kept.shows(item)])

    # ---- marks

    @repeated
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
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            kept = find(tx, conversation, namespace)
            changed = []
            for item in _chosen(tx, kept, ids, namespace, marked=old is not None):
                if old is None or old in item.marks:
                    marks = set(item.marks) - {old} | ({new} if new is not None else set())
                    if marks != set(item.marks):
                        changed.append(item._replace(marks=tuple(sorted(marks))))
            tx.mark(changed)
            return len(changed)

    @repeated
    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many."""
        sought = check.marks_sought(mark)
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            items = _chosen(tx, find(tx, conversation, namespace), None, namespace, marked=True)
            return _deleted(tx, [item for item in items if item.passes(sought, None)])

    # ---- search

    @repeated
    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)
        scope = Scope(namespace, conversation=conversation or "", terms=tuple(terms))
        with self._reading(scope) as tx:
            kept = None if conversation is None else find(tx, conversation, namespace)
            return match_terms(tx, terms, namespace, kept, limit)

    @repeated
    def ranked(
        self,
        terms: Sequence[str],
        *,
        namespace: str = "",
        conversation: str | None = None,
        kind: Kind | None = None,
        k: int = 10,
        limit: int = 1000,
    ) -> list[Recalled]:
        """Return the best turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)
        scope = Scope(namespace, conversation=conversation or "", terms=tuple(terms))
        with self._reading(scope) as tx:
            kept = None if conversation is None else find(tx, conversation, namespace)
            return rank_terms(tx, terms, namespace, kept, kind, k, limit)

    # ---- dump and restore

    @repeated
    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending, see `MemoryStore`."""
        with self._reading(Scope("")) as tx:
            return [namespace for namespace in tx.namespaces() if namespace != KEYS_NAMESPACE]

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, see `MemoryStore`."""
        return self._dumped(self._kept(namespace, conversations), namespace, conversations is None)

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store the lines of a `dump` in this namespace, see `MemoryStore`."""
        with valid_lines(lines, namespace) as valid:
            return self._restore(valid, namespace)

    # ---- internal

    def _dumped(
        self, conversations: list[ConversationRecord], namespace: str, has_records: bool
    ) -> Iterator[Line]:
        """Yield the lines of conversations; each page of them is read in a transaction of its own."""
        for some in _pages(conversations):
            yield from self._conversation_lines(some, namespace)
        origins = Counter(number for kept in conversations for number in kept.numbers.values())
        seen: set[int] = set()  # items that several conversations show
        for kept in conversations:
            after = -1
            while after < MAX_ORDER:
                page, after = self._item_lines(kept, namespace, after)
                for key, line in page:
                    if key not in seen:
                        yield line
                        if origins[key >> 32] > 1:
                            seen.add(key)
        for shelf, keys in self._shelves(namespace) if has_records else ():
            for names in _pages(keys):
                yield from self._record_lines(shelf, names, namespace)

    @repeated
    def _kept(self, namespace: str, conversations: Sequence[str] | None) -> list[ConversationRecord]:
        with self._reading(Scope(namespace, is_loose=True)) as tx:
            for each in conversations or ():
                find(tx, each, namespace)
            kept = tx.conversations(namespace)
        return [each for each in kept if conversations is None or each.conversation.id in conversations]

    @repeated
    def _conversation_lines(self, some: Sequence[ConversationRecord], namespace: str) -> list[Line]:
        with self._reading(Scope(namespace, is_loose=True)) as tx:
            return [conversation_line(counted(tx, kept), kept) for kept in some]

    @repeated
    def _item_lines(
        self, kept: ConversationRecord, namespace: str, after: int
    ) -> tuple[list[tuple[int, Line]], int]:
        """Return the first lines of a conversation after an order, with their keys, and the last order."""
        with self._reading(Scope(namespace, is_loose=True)) as tx:
            until, found = MAX_ORDER, list[StoredItem]()
            for kind in KINDS:
                scans = (tx.scan(range_, limit=_PAGE) for range_ in kept.ranges(kind, after))
                items = list(islice(chain.from_iterable(scans), _PAGE))
                found += items
                if len(items) == _PAGE:
                    until = min(until, items[-1].order)
            page = sorted((item for item in found if item.order <= until), key=lambda item: item.order)
            return [(item.key, _item_line(tx, item)) for item in page], until

    @repeated
    def _shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        with self._reading(Scope(namespace, is_loose=True)) as tx:
            return tx.shelves(namespace)

    @repeated
    def _record_lines(self, shelf: str, keys: Sequence[str], namespace: str) -> list[Line]:
        with self._reading(Scope(namespace, shelf, ids=tuple(keys), is_loose=True)) as tx:
            found = tx.records((namespace, shelf), keys)
        return [record_line(shelf, key, record) for key, record in found.items()]

    @repeated
    def _restore(self, lines: ValidLines, namespace: str) -> int:
        now = self._clock()
        with self._writing(Scope(namespace)) as tx:
            return restore_lines(tx, lines, namespace, now)

    @repeated
    def _shown(
        self,
        read: Callable[[StoredItem], _T],
        kind: Kind,
        conversation: str,
        namespace: str,
        last: int | None,
        mark: Marks | None,
        exclude_mark: Marks | None,
        window: tuple[int, int] = _ALL,
    ) -> list[_T]:
        check.check_last(last)
        marks = check.marks_sought(mark), check.marks_sought(exclude_mark)
        limit = last if last is not None and marks == (None, None) else -1
        is_end = marks[0] is None and window == _ALL
        scope = Scope(namespace, conversation=conversation, kind=kind, last=limit if is_end else 0)
        with self._reading(scope) as tx:
            ranges = reversed(find(tx, conversation, namespace).ranges(kind, *window))
            scans = (
                tx.scan(range_, newest_first=True, limit=min(limit, MAX_ORDER), marked=marks[0] is not None)
                for range_ in ranges
            )
            found = (item for scan in scans for item in scan if item.passes(*marks))
            chosen = found if last is None else islice(found, min(last, MAX_ORDER))
            return [read(item) for item in chosen][::-1]

    def _add(
        self,
        tx: Transaction,
        kind: Kind,
        values: Sequence[DialogTurn | Message],
        conversation: str,
        namespace: str,
        **begins: Any,
    ) -> tuple[dict[str, Record], dict[str, Record]]:
        """Store new items; return the records of existing and of new ones, by id."""
        kept = find(tx, conversation, namespace)
        there = tx.items(kind, dict.fromkeys(one.id for one in values), namespace)
        known = {each: item.record() for each, item in there.items()}
        new: dict[str, Record] = {}
        items: list[Item] = []
        for one in values:
            if one.id not in known and one.id not in new:
                place = {"order": kept.next_order + len(items), "conversation": conversation, **begins}
                item, new[one.id] = Item.recorded(one, namespace=namespace, **place)
                items.append(item)
        if items:
            before = dict(kept.first)
            staying, released = trim(tx, kept, kind, items)
            kept.next_order += len(items)
            self._written(kept)
            tx.append(kept, staying)
            if kept.first != before:
                tx.put_conversation(kept)
                tx.delete(released)
        return known, new


def _turn(tx: Transaction, turn_id: str, namespace: str) -> StoredItem:
    found = tx.items("turn", [turn_id], namespace)
    if not found:
        raise check.no_turn(turn_id)
    return found[turn_id]


def _chosen(
    tx: Transaction, kept: ConversationRecord, ids: Sequence[str] | None, namespace: str, **filters: Any
) -> list[StoredItem]:
    """Return what a conversation shows, by order; only items with these ids, unless they are None."""
    if ids is None:
        every = (item for kind in KINDS for item in shown(tx, kept, kind, **filters))
    else:
        wanted = dict.fromkeys(ids)
        found = (item for kind in KINDS for item in tx.items(kind, wanted, namespace).values())
        every = (item for item in found if kept.shows(item))
    return sorted(every, key=lambda item: item.order)


def _deleted(tx: Transaction, items: list[StoredItem]) -> int:
    tx.delete(items)
    return len(items)


def _item_line(tx: Transaction, item: StoredItem) -> Line:
    if item.kind == "message":
        return {"message": item.record()}
    return {"turn": item.record(), "versions": [item.record(text) for text in tx.versions(item)]}


def _pages(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (values[n : n + _PAGE] for n in range(0, len(values), _PAGE))
