"""In-memory conversations: create, fork, rewind, delete.

`stored_turns` describes the data model and how forks share items.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rag.backends import turn_errors as check
from rag.backends.memory.items import Items
from rag.backends.stored_turns import ConversationRecord, Item, Kind, TurnSpan, spans_until
from rag.ports import Clock
from rag.types import Conversation, Source, now_utc


class MemoryConversations:
    """The operations of the in-memory store on whole conversations."""

    def __init__(self, *, clock: Clock = now_utc) -> None:
        super().__init__()
        self._clock = clock
        self._kept: dict[str, ConversationRecord] = {}  # by id, the most recently written last
        self._viewers: dict[str, set[str]] = {}  # origin → conversations that have or had a span of it
        self._items = Items()
        self._soonest: datetime | None = None  # the earliest expiry of a conversation
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    # ---- conversations

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
        with self._now():
            made = Conversation(
                str(uuid.uuid4()), namespace, name, tuple(sources), ttl_s=ttl_s, keep_last=keep_last
            )
            return self._begin(ConversationRecord(made, [TurnSpan(made.id, 0, None)]))

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation by id or else by name. Raises NotFound."""
        with self._now():
            kept = self._kept.get(id_or_name)
            if kept is None or kept.conversation.namespace != namespace:
                kept = self._named(id_or_name, namespace) if id_or_name else None
            if kept is None:
                raise check.no_conversation(id_or_name)
            return self._counted(kept)

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        with self._now():
            newest_first = reversed(self._kept.values())
            return [self._counted(kept) for kept in newest_first if kept.conversation.namespace == namespace]

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation, see `TurnStore`."""
        with self._now():
            kept = self._find(conversation, namespace)
            self._check_name(name, kept.conversation)
            kept.conversation = replace(kept.conversation, name=name)
            return self._counted(kept)

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after order `at`, see `TurnStore`."""
        with self._now():
            kept = self._find(conversation, namespace)
            if at is None:
                at = next((item.order for item in self._items.shown(kept, newest_first=True)), -1)
            elif at != -1 and not self._shows(kept, at):
                raise check.no_order(conversation, at)
            made = replace(
                kept.conversation, id=str(uuid.uuid4()), name=name, parent=conversation, forked_at=at
            )
            spans = [*spans_until(kept.spans, at), TurnSpan(made.id, at + 1, None)]
            # What was removed after `at` in the other conversation is not what comes after `at` here.
            first = {kind: min(order, at + 1) for kind, order in kept.first.items()}
            return self._begin(ConversationRecord(made, spans, at + 1, first))

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to`, see `TurnStore`; return the number of turns."""
        check.check_rewind(to)
        with self._now():
            kept = self._find(conversation, namespace)
            self._check_last_turn(kept, last_turn)
            return self._rewind(kept, to)["turn"]

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, but not the conversation; return the number of both."""
        with self._now():
            return self._rewind(self._find(conversation, namespace), -1).total()

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id), see `TurnStore`; return the number of turns."""
        with self._now():
            kept = self._find(conversation, namespace)
            self._check_last_turn(kept, last_turn)
            return self._delete(kept)

    # ---- internal

    @contextmanager
    def _now(self) -> Iterator[datetime]:
        """Lock the store and remove expired conversations."""
        with self._lock:
            now = self._clock()
            if self._soonest is not None and self._soonest <= now:
                for kept in [kept for kept in self._kept.values() if kept.expires and kept.expires <= now]:
                    self._delete(kept)
                self._soonest = min(
                    (kept.expires for kept in self._kept.values() if kept.expires), default=None
                )
            yield now

    def _begin(self, kept: ConversationRecord) -> Conversation:
        now = self._clock()
        kept.conversation = replace(kept.conversation, created=now)
        self._check_name(kept.conversation.name, kept.conversation)
        self._written(kept)
        return self._counted(kept)

    def _written(self, kept: ConversationRecord) -> None:
        now, ttl_s = self._clock(), kept.conversation.ttl_s
        kept.conversation = replace(kept.conversation, updated=now)
        kept.expires = None if ttl_s is None else now + timedelta(seconds=ttl_s)
        self._keep(kept)

    def _keep(self, kept: ConversationRecord) -> None:
        self._kept.pop(kept.conversation.id, None)
        self._kept[kept.conversation.id] = kept
        for span in kept.spans:
            self._viewers.setdefault(span.origin, set()).add(kept.conversation.id)
        if kept.expires is not None and (self._soonest is None or kept.expires < self._soonest):
            self._soonest = kept.expires

    def _find(self, conversation: str, namespace: str) -> ConversationRecord:
        kept = self._kept.get(conversation)
        if kept is None or kept.conversation.namespace != namespace:
            raise check.no_conversation(conversation)
        return kept

    def _named(self, name: str, namespace: str) -> ConversationRecord | None:
        wanted = (namespace, name)
        for kept in self._kept.values():
            if (kept.conversation.namespace, kept.conversation.name) == wanted:
                return kept
        return None

    def _check_name(self, name: str, asked: Conversation) -> None:
        taken = self._named(name, asked.namespace) if name else None
        if taken is not None and taken.conversation.id != asked.id:
            raise check.name_taken(taken.conversation, asked.sources)

    def _counted(self, kept: ConversationRecord) -> Conversation:
        counts = self._items.count(kept)
        return replace(kept.conversation, turn_count=counts["turn"], message_count=counts["message"])

    def _shows(self, kept: ConversationRecord, order: int) -> bool:
        places = (self._items.at(span.origin, order) for span in kept.spans)
        return any(item is not None and kept.shows(item) for item in places)

    def _trim(self, kept: ConversationRecord, kind: Kind) -> None:
        """Remove the oldest items of a kind beyond `keep_last`."""
        keep_last = kept.conversation.keep_last
        if keep_last is not None:
            shown = [item for item in self._items.shown(kept) if item.kind == kind]
            gone = shown[:-keep_last]
            if gone:
                kept.first[kind] = shown[-keep_last].order
                self._release(gone)

    def _check_last_turn(self, kept: ConversationRecord, expected: str | None) -> None:
        if expected is not None:
            turns = [item.id for item in self._items.shown(kept) if item.kind == "turn"]
            check.check_last_turn(kept.conversation, expected, turns[-1] if turns else "")

    def _rewind(self, kept: ConversationRecord, to: int) -> Counter[Kind]:
        """Remove everything after an order; return the number of items of each kind."""
        gone = [item for item in self._items.shown(kept) if item.order > to]
        own, inherited = kept.spans[-1], kept.spans[:-1]
        spans, kept.spans = kept.spans, []
        staying = set(gone) - set(self._release(gone))
        if any(own.origin == item.origin and own.holds(item.order) for item in staying):
            kept.spans = [*spans_until(spans, to), own._replace(first=kept.next_order)]
        else:
            kept.spans = [*spans_until(inherited, to), own]
        return Counter(item.kind for item in gone)

    def _delete(self, kept: ConversationRecord) -> int:
        del self._kept[kept.conversation.id]
        for span in kept.spans:
            self._viewers.get(span.origin, set()).discard(kept.conversation.id)
        gone = list(self._items.shown(kept))
        self._release(gone)
        return sum(item.kind == "turn" for item in gone)

    def _release(self, items: list[Item]) -> list[Item]:
        """Remove and return the items that no conversation shows any more."""
        gone = []
        for item in items:
            viewers = (self._kept.get(each) for each in self._viewers.get(item.origin, ()))
            if not any(viewer is not None and viewer.shows(item) for viewer in viewers):
                gone.append(item)
        self._remove(gone)
        return gone

    def _remove(self, items: list[Item]) -> int:
        for item in items:
            self._items.remove(item)
        return len(items)
