"""Conversations of a turn store: create, fork, rewind, trim, expire, delete. `model` describes the data."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rag.identifiers import composed
from rag.ports import Clock
from rag.turns import checks as check
from rag.turns.model import (
    KINDS,
    ConversationRecord,
    Item,
    Kind,
    Range,
    StoredItem,
    TurnSpan,
    spans_until,
)
from rag.turns.storage import Scope, Storage, Transaction, repeated
from rag.turns.values import MAX_ORDER
from rag.types import Conversation, Source


class Conversations:
    """The operations of a turn store on whole conversations.

    Args:
        storage: where everything is stored.
        clock: the source of times and expiries.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    @repeated
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
        check.check_sources(sources)
        name = composed(name)
        made = Conversation(
            str(uuid.uuid4()), namespace, name, tuple(sources), ttl_s=ttl_s, keep_last=keep_last
        )
        with self._writing(Scope(namespace, conversation=made.id, name=name)) as tx:
            return self._begin(tx, ConversationRecord(made, [TurnSpan(made.id, 0, None)]))

    @repeated
    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation with its counts, by id or else by name. Raises NotFound."""
        name = composed(id_or_name)
        with self._reading(Scope(namespace, conversation=id_or_name, name=name)) as tx:
            kept = tx.conversation(id_or_name)
            if kept is None or kept.conversation.namespace != namespace:
                kept = tx.named(namespace, name) if name else None
            if kept is None:
                raise check.no_conversation(id_or_name)
            return counted(tx, kept)

    @repeated
    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        with self._reading(Scope(namespace)) as tx:
            return [counted(tx, kept) for kept in reversed(tx.conversations(namespace))]

    @repeated
    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation, see `TurnStore`."""
        name = composed(name)
        with self._writing(Scope(namespace, conversation=conversation, name=name)) as tx:
            kept = find(tx, conversation, namespace)
            check_name(tx, name, kept.conversation)
            kept.conversation = replace(kept.conversation, name=name)
            tx.put_conversation(kept)
            return counted(tx, kept)

    @repeated
    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after order `at`, see `TurnStore`."""
        name = composed(name)
        with self._writing(Scope(namespace, conversation=conversation, name=name)) as tx:
            kept = find(tx, conversation, namespace)
            if at is None:
                newest = [next(shown(tx, kept, kind, newest_first=True, limit=1), None) for kind in KINDS]
                at = max((item.order for item in newest if item is not None), default=-1)
            elif at != -1 and not any(
                tx.count(range_)[0] for kind in KINDS for range_ in kept.ranges(kind, at - 1, at + 1)
            ):
                raise check.no_order(conversation, at)
            made = replace(
                kept.conversation, id=str(uuid.uuid4()), name=name, parent=conversation, forked_at=at
            )
            spans = [*spans_until(kept.spans, at), TurnSpan(made.id, at + 1, None)]
            # What was removed after `at` in the other conversation is not what comes after `at` here.
            first = {kind: min(order, at + 1) for kind, order in kept.first.items()}
            return self._begin(tx, ConversationRecord(made, spans, at + 1, first))

    @repeated
    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to`, see `TurnStore`; return the number of turns."""
        check.check_rewind(to)
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            kept = find(tx, conversation, namespace)
            _check_last_turn(tx, kept, last_turn)
            return _rewind(tx, kept, to)[0]

    @repeated
    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, but not the conversation; return the number of both."""
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            return sum(_rewind(tx, find(tx, conversation, namespace), -1))

    @repeated
    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id), see `TurnStore`; return the number of turns."""
        with self._writing(Scope(namespace, conversation=conversation)) as tx:
            kept = find(tx, conversation, namespace)
            _check_last_turn(tx, kept, last_turn)
            return _delete(tx, [kept])

    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""
        self._storage.close()

    # ---- internal

    @contextmanager
    def _reading(self, scope: Scope) -> Iterator[Transaction]:
        """Run a transaction that reads; conversations that expired before it are removed."""
        with self._storage.reading(scope) as tx:
            expired = not self._storage.is_swept and tx.has_expired(self._clock())
            if not expired:
                yield tx
        if expired:
            with self._writing(scope) as tx:
                yield tx

    @contextmanager
    def _writing(self, scope: Scope) -> Iterator[Transaction]:
        """Like `_reading`, for a transaction that writes."""
        with self._storage.writing(scope) as tx:
            if not self._storage.is_swept and tx.has_expired(now := self._clock()):
                _delete(tx, tx.expired(now))
                tx.expire_records(now)
                tx.settle()
            yield tx

    def _begin(self, tx: Transaction, kept: ConversationRecord) -> Conversation:
        check_name(tx, kept.conversation.name, kept.conversation)
        self._written(kept)
        kept.conversation = replace(kept.conversation, created=kept.conversation.updated)
        tx.put_conversation(kept)
        return counted(tx, kept)

    def _written(self, kept: ConversationRecord) -> None:
        """Set the times of a conversation that is written now."""
        now, ttl_s = self._clock().astimezone(UTC), kept.conversation.ttl_s
        kept.conversation = replace(kept.conversation, updated=now)
        kept.expires = expiry(now, ttl_s)


def expiry(now: datetime, ttl_s: float | None) -> datetime | None:
    """Return when something that is written now expires."""
    return None if ttl_s is None else now + timedelta(seconds=ttl_s)


def find(tx: Transaction, conversation: str, namespace: str) -> ConversationRecord:
    """Return a conversation by id. Raises NotFound."""
    kept = tx.conversation(conversation)
    if kept is None or kept.conversation.namespace != namespace:
        raise check.no_conversation(conversation)
    return kept


def check_name(tx: Transaction, name: str, asked: Conversation) -> None:
    """Raise ConversationMismatch if another conversation of the namespace has this name."""
    taken = tx.named(asked.namespace, name) if name else None
    if taken is not None and taken.conversation.id != asked.id:
        raise check.name_taken(taken.conversation, asked.sources)


def shown(
    tx: Transaction, kept: ConversationRecord, kind: Kind, *, newest_first: bool = False, **filters: Any
) -> Iterator[StoredItem]:
    """Yield the items of a kind that a conversation shows; `filters` are those of `scan`."""
    ranges = kept.ranges(kind)
    for range_ in reversed(ranges) if newest_first else ranges:
        yield from tx.scan(range_, newest_first=newest_first, **filters)


def sums(tx: Transaction, kept: ConversationRecord) -> tuple[int, int, int]:
    """Return the number of turns and messages that a conversation shows, and of their terms."""
    if kept.is_whole:
        return kept.totals
    counts = {kind: [tx.count(range_) for range_ in kept.ranges(kind)] for kind in KINDS}
    turns, messages = (sum(count for count, _ in counts[kind]) for kind in KINDS)
    return turns, messages, sum(length for each in counts.values() for _, length in each)


def counted(tx: Transaction, kept: ConversationRecord) -> Conversation:
    """Return a conversation with its counts."""
    turns, messages, _ = sums(tx, kept)
    return replace(kept.conversation, turn_count=turns, message_count=messages)


def trim(
    tx: Transaction, kept: ConversationRecord, kind: Kind, added: Sequence[Item]
) -> tuple[Sequence[Item], list[StoredItem]]:
    """Raise the first order of a kind so that `keep_last` items are left with those that are added.

    Return those that are to be added, and the stored ones that no conversation shows any more.
    """
    keep_last, before = kept.conversation.keep_last, kept.first[kind]
    if keep_last is None:
        return added, []
    here = kept.ranges(kind)
    left = keep_last - len(added)
    if left < 0:
        added, left = added[-left:], 0
        kept.first[kind] = added[0].order
    first = added[0].order
    for range_ in reversed(here):
        for item in tx.scan(range_, newest_first=True, limit=left + 1):
            if left == 0:
                kept.first[kind] = first
                break
            left, first = left - 1, item.order
    if kept.first[kind] == before:
        return added, []
    return added, _released(tx, [range_ for range_ in here if range_.first < first], [kept], first)


def _check_last_turn(tx: Transaction, kept: ConversationRecord, expected: str | None) -> None:
    if expected is not None:
        last = next(shown(tx, kept, "turn", newest_first=True, limit=1), None)
        check.check_last_turn(kept.conversation, expected, last.id if last else "")


def _rewind(tx: Transaction, kept: ConversationRecord, to: int) -> tuple[int, int]:
    """Remove everything after an order; return the number of turns and messages."""
    gone = [kept.ranges(kind, after=to) for kind in KINDS]
    turns, messages = (sum(tx.count(range_)[0] for range_ in ranges) for ranges in gone)
    released = _released(tx, [range_ for ranges in gone for range_ in ranges], [kept])
    own, inherited = kept.spans[-1], kept.spans[:-1]
    start = max(own.first, to + 1)
    after = [Range(own.origin, kept.numbers[own.origin], kind, start, kept.next_order) for kind in KINDS]
    staying = sum(tx.count(range_)[0] for range_ in after)
    staying -= sum(item.origin == own.origin and item.order >= start for item in released)
    if staying:  # a fork shows it
        kept.spans = [*spans_until(kept.spans, to), own._replace(first=kept.next_order)]
    else:
        kept.spans = [*spans_until(inherited, to), own]
    tx.put_conversation(kept)
    tx.delete(released)
    return turns, messages


def _delete(tx: Transaction, gone: Sequence[ConversationRecord]) -> int:
    """Delete conversations; return the number of turns that they showed."""
    turns = sum(sums(tx, kept)[0] for kept in gone)
    ranges = [range_ for kept in gone for kind in KINDS for range_ in kept.ranges(kind)]
    released = _released(tx, ranges, gone)
    for kept in gone:
        tx.delete_conversation(kept)
    tx.delete(released)
    return turns


def _released(
    tx: Transaction, ranges: Sequence[Range], gone: Sequence[ConversationRecord], before: int = MAX_ORDER
) -> list[StoredItem]:
    """Return the items in ranges, below an order, that no conversation shows except those of `gone`."""
    ids = {kept.conversation.id for kept in gone}
    found: dict[int, StoredItem] = {}
    for number in {range_.number: None for range_ in ranges}:
        others = [viewer for viewer in tx.viewers(number) if viewer.conversation.id not in ids]
        for range_ in ranges:
            if range_.number == number:
                items = tx.scan(range_._replace(last=min(range_.last, before - 1)))
                found.update(
                    (item.key, item) for item in items if not any(other.shows(item) for other in others)
                )
    return list(found.values())
