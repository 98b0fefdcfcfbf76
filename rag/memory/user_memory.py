"""Session, preferences and cached answers of users behind one door (`rag.service.agent` talks through it).

    memory = UnifiedMemory(store, cache=AnswerCache(store))
    memory.add_conversation("ada", "user", "Hello")
    memory.save_user_preference("ada", "language", "zh-CN")

A session is a conversation of the store with a time to live; its messages come oldest first, as they were
said. It is the same on every backend.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rag.errors import ConversationMismatch, NotFound
from rag.memory.preferences import Preferences
from rag.ports import MemoryStore
from rag.types import Conversation, Message

SESSION_TTL_S = 3_600.0
KEPT_MESSAGES = 100

Said = dict[str, Any]
"""A message as chat services take it: `{"role": …, "content": …}`."""


class CachedText(Protocol):
    """An answer that was kept."""

    @property
    def answer(self) -> str:
        """Its text."""
        ...


class QuestionCache(Protocol):
    """Answers by what a question means; `rag.answer_cache.cache.AnswerCache` is one."""

    def get(self, question: str, *, scope: Mapping[str, Any] | None = None) -> CachedText | None:
        """The answer to a question that means the same, in this scope; None when there is none."""
        ...

    def put(self, question: str, answer: str, *, scope: Mapping[str, Any] | None = None) -> Any:
        """Keep an answer."""
        ...

    def clear(self) -> int:
        """Remove all; return how many there were."""
        ...


class SessionMemory:
    """What was said lately with each user: forgotten after a while, and beyond so many messages.

    Args:
        store: where sessions are kept.
        namespace: a namespace never sees another's.
        keep_last: how many messages a session holds.
    """

    def __init__(self, store: MemoryStore, *, namespace: str = "", keep_last: int = KEPT_MESSAGES) -> None:
        self._store, self._namespace, self._keep_last = store, namespace, keep_last

    def add_message(self, user_id: str, role: str, content: Any, ttl: float = SESSION_TTL_S) -> None:
        """Store a message; the session lives `ttl` seconds from now."""
        self.add_messages(user_id, [{"role": role, "content": content}], ttl)

    def add_messages(
        self, user_id: str, messages: Sequence[Mapping[str, Any]], ttl: float = SESSION_TTL_S
    ) -> int:
        """Store messages in one round trip, all or none; return how many."""
        if not messages:
            return 0
        said = [Message(message["content"], role=message["role"]) for message in messages]
        session = self._begun(user_id, ttl)
        return len(self._store.add_messages(said, conversation=session.id, namespace=self._namespace))

    def get_recent_messages(self, user_id: str, n: int = 10) -> list[Said]:
        """The last n messages, oldest first; none when the session is over."""
        session = self._session(user_id)
        if session is None or n < 1:
            return []
        found = self._store.messages(session.id, namespace=self._namespace, last=n)
        return [{"role": message.role, "content": message.content} for message in found]

    def clear_session(self, user_id: str) -> int:
        """End a session; return how many messages went."""
        session = self._session(user_id)
        if session is None:
            return 0
        self._store.delete_conversation(session.id, namespace=self._namespace)
        return session.message_count

    def count(self, user_id: str) -> int:
        """How many messages a session holds."""
        session = self._session(user_id)
        return 0 if session is None else session.message_count

    def _session(self, user_id: str) -> Conversation | None:
        try:
            found = self._store.conversation(_name(user_id), namespace=self._namespace)
        except NotFound:
            return None
        return found if found.name == _name(user_id) else None

    def _begun(self, user_id: str, ttl_s: float) -> Conversation:
        """The session, with this time to live; one with another is made anew with what it held."""
        session = self._session(user_id)
        if session is not None and session.ttl_s == ttl_s:
            return session
        begun = self._store.create_conversation(
            namespace=self._namespace, ttl_s=ttl_s, keep_last=self._keep_last
        )
        if session is not None:
            self._move(session, begun)
        try:
            named = self._store.rename(begun.id, _name(user_id), namespace=self._namespace)
        except ConversationMismatch:  # another process began it meanwhile
            self._store.delete_conversation(begun.id, namespace=self._namespace)
            named = self._store.conversation(_name(user_id), namespace=self._namespace)
        if session is not None:
            with suppress(NotFound):
                self._store.delete_conversation(session.id, namespace=self._namespace)
        return named

    def _move(self, session: Conversation, begun: Conversation) -> None:
        """Copy what a session holds, and free its name: nothing is lost when this is broken off."""
        with suppress(NotFound):  # it has expired, or another process has made it anew
            held = self._store.messages(session.id, namespace=self._namespace)
            copies = [replace(message, id=str(uuid.uuid4())) for message in held]
            self._store.add_messages(copies, conversation=begun.id, namespace=self._namespace)
            self._store.rename(session.id, "", namespace=self._namespace)


class LongTermMemory(Preferences):
    """The preferences of users, under the names that agents on Redis use for them."""

    def save_preference(self, user_id: str, key: str, value: Any) -> None:
        """The same as `save`."""
        self.save(user_id, key, value)

    def get_preference(self, user_id: str, key: str) -> Any:
        """The value of a key, None where there is none."""
        return self.get(user_id, key)

    def get_all_preferences(self, user_id: str) -> dict[str, Any]:
        """The same as `get_all`."""
        return self.get_all(user_id)

    def delete_preference(self, user_id: str, key: str) -> bool:
        """The same as `delete`."""
        return self.delete(user_id, key)


@dataclass(slots=True)
class Looked:
    """How often something was looked for and found, since this memory was opened."""

    hits: int = 0
    misses: int = 0

    @property
    def rate(self) -> float:
        """The share that was found; 0 before the first."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def count(self, found: object) -> None:
        """Count one look-up."""
        if found:
            self.hits += 1
        else:
            self.misses += 1


class UnifiedMemory:
    """Session, preferences and cached answers.

    Args:
        store: where all is kept.
        cache: answers by what a question means; None keeps no answers.
        namespace: a namespace never sees another's.
    """

    def __init__(
        self, store: MemoryStore, cache: QuestionCache | None = None, *, namespace: str = ""
    ) -> None:
        self.session = SessionMemory(store, namespace=namespace)
        self.preferences = LongTermMemory(store, namespace=namespace)
        self.cache = cache
        self.looked_session, self.looked_cache = Looked(), Looked()

    def add_conversation(self, user_id: str, role: str, content: Any, ttl: float = SESSION_TTL_S) -> None:
        """Store a message of a user's session."""
        self.session.add_message(user_id, role, content, ttl)

    def batch_save_messages(
        self, user_id: str, messages: Sequence[Mapping[str, Any]], ttl: float = SESSION_TTL_S
    ) -> int:
        """Store messages of a user's session in one round trip; return how many."""
        return self.session.add_messages(user_id, messages, ttl)

    def get_conversation_history(self, user_id: str, n: int = 10) -> list[Said]:
        """The last n messages of a user's session, oldest first."""
        found = self.session.get_recent_messages(user_id, n)
        self.looked_session.count(found)
        return found

    def save_user_preference(self, user_id: str, key: str, value: Any) -> None:
        """Keep what a user prefers. Raises TypeError or ValueError for what is not JSON."""
        self.preferences.save(user_id, key, value)

    def get_user_preference(self, user_id: str, key: str) -> Any:
        """What a user prefers; None when that was never said."""
        return self.preferences.get(user_id, key)

    def cache_qa(self, question: str, answer: str, scope: Mapping[str, Any] | None = None) -> None:
        """Keep an answer for questions that mean the same, in a scope: whatever else it depends on."""
        if self.cache is not None:
            self.cache.put(question, answer, scope=scope)

    def get_cached_answer(
        self, question: str, scope: Mapping[str, Any] | None = None, *, or_unscoped: bool = False
    ) -> str | None:
        """The answer kept for a question that means the same, in this scope; None when there is none.

        With `or_unscoped` one that was kept without a scope is given where this scope has none.
        """
        found = None if self.cache is None else self.cache.get(question, scope=scope)
        if found is None and or_unscoped and scope and self.cache is not None:
            found = self.cache.get(question)
        self.looked_cache.count(found)
        return None if found is None else found.answer

    def get_user_stats(self, user_id: str) -> dict[str, int]:
        """How many messages a user's session holds (`conversations`), and how many `preferences`."""
        preferences = len(self.preferences.get_all(user_id))
        return {"conversations": self.session.count(user_id), "preferences": preferences}

    def get_stats(self) -> dict[str, float]:
        """Hits, misses and hit rates of answers (`semantic_…`) and sessions (`session_…`)."""
        stats: dict[str, float] = {}
        for name, looked in (("semantic", self.looked_cache), ("session", self.looked_session)):
            stats[f"{name}_hits"] = looked.hits
            stats[f"{name}_misses"] = looked.misses
            stats[f"{name}_hit_rate"] = looked.rate
        return stats

    def report(self) -> str:
        """The same in words, two lines."""
        looked = (("cached answers", self.looked_cache), ("sessions", self.looked_session))
        return "\n".join(
            f"{name}: {one.hits} found, {one.misses} not ({one.rate:.1%})" for name, one in looked
        )


def _name(user_id: str) -> str:
    return f"session of {user_id}"
