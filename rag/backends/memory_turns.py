"""Turns in this process: gone when it ends."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rag.backends.turn_errors import check_last, name_taken, no_conversation, no_turn
from rag.ports import Clock
from rag.records import turn_from_record, turn_record
from rag.types import Conversation, DialogTurn, Source, now_utc


@dataclass(slots=True)
class _Kept:
    """A conversation as it is kept; its turns are JSON text by id, so that no caller holds a part of it."""

    conversation: Conversation
    turns: dict[str, str] = field(default_factory=dict)
    next_order: int = 0


class MemoryTurnStore:
    """A `TurnStore` in this process. Pickles with its turns."""

    def __init__(self, *, clock: Clock = now_utc) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}  # by id, the one last written to last
        self._conversation_of: dict[tuple[str, str], str] = {}  # (namespace, turn) → conversation
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return "MemoryTurnStore()"

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def create_conversation(
        self, *, namespace: str = "", name: str = "", sources: Sequence[Source] = ()
    ) -> Conversation:
        """Begin a conversation, see `TurnStore`."""
        with self._lock:
            if name and (taken := self._named(name, namespace)):
                raise name_taken(taken.conversation, sources)
            now = self._clock()
            made = Conversation(str(uuid.uuid4()), namespace, name, tuple(sources), created=now, updated=now)
            self._kept[made.id] = _Kept(made)
            return made

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation by its id, else by its name. Raises NotFound."""
        with self._lock:
            kept = self._kept.get(id_or_name)
            if kept is None or kept.conversation.namespace != namespace:
                kept = self._named(id_or_name, namespace) if id_or_name else None
            if kept is None:
                raise no_conversation(id_or_name)
            return _counted(kept)

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """All conversations, the one last written to first."""
        with self._lock:
            newest_first = reversed(self._kept.values())
            return [_counted(kept) for kept in newest_first if kept.conversation.namespace == namespace]

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Store a turn at the end of a conversation, see `TurnStore`."""
        with self._lock:
            kept = self._find(conversation, namespace)
            if (namespace, turn.id) in self._conversation_of:
                return self.turn(turn.id, namespace=namespace)
            placed = replace(turn, namespace=namespace, conversation_id=conversation, order=kept.next_order)
            kept.turns[turn.id] = json.dumps(turn_record(placed))
            kept.next_order += 1
            kept.conversation = replace(kept.conversation, updated=self._clock())
            self._conversation_of[namespace, turn.id] = conversation
            self._kept[conversation] = self._kept.pop(conversation)
            return _loaded(kept.turns[turn.id])

    def turns(self, conversation: str, *, namespace: str = "", last: int | None = None) -> list[DialogTurn]:
        """Turns of a conversation, oldest first, see `TurnStore`."""
        check_last(last)
        with self._lock:
            records = list(self._find(conversation, namespace).turns.values())
        first = 0 if last is None else max(0, len(records) - last)
        return [_loaded(record) for record in records[first:]]

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        with self._lock:
            conversation = self._conversation_of.get((namespace, turn_id))
            if conversation is None:
                raise no_turn(turn_id)
            return _loaded(self._kept[conversation].turns[turn_id])

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete one turn; False when there was none. Orders of the others stay."""
        with self._lock:
            conversation = self._conversation_of.pop((namespace, turn_id), None)
            if conversation is None:
                return False
            del self._kept[conversation].turns[turn_id]
            return True

    def delete_conversation(self, conversation: str, *, namespace: str = "") -> int:
        """Delete a conversation (by id) and its turns; return how many turns went. Raises NotFound."""
        with self._lock:
            gone = self._find(conversation, namespace).turns
            for turn_id in gone:
                del self._conversation_of[namespace, turn_id]
            del self._kept[conversation]
            return len(gone)

    def close(self) -> None:
        """Nothing is held."""

    def _find(self, conversation: str, namespace: str) -> _Kept:
        kept = self._kept.get(conversation)
        if kept is None or kept.conversation.namespace != namespace:
            raise no_conversation(conversation)
        return kept

    def _named(self, name: str, namespace: str) -> _Kept | None:
        wanted = (namespace, name)
        for kept in self._kept.values():
            if (kept.conversation.namespace, kept.conversation.name) == wanted:
                return kept
        return None


def _counted(kept: _Kept) -> Conversation:
    return replace(kept.conversation, turn_count=len(kept.turns))


def _loaded(record: str) -> DialogTurn:
    return turn_from_record(json.loads(record))
