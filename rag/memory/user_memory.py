"""A facade over the session, preferences and cached answers of users (used by `rag.service.loop.agent`).

    memory = UnifiedMemory(store, cache=AnswerCache(store))
    memory.add_conversation("ada", "user", "Hello")
    memory.save_user_preference("ada", "language", "zh-CN")

A session is a conversation in the store with a time to live; its messages are returned oldest first. All
backends behave the same.
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

ChatMessage = dict[str, Any]
"""A message in the format of chat services: `{"role": …, "content": …}`."""


class CachedText(Protocol):
    """A cached answer."""

    @property
    def answer(self) -> str:
        """The text of the answer."""
        ...


class QuestionCache(Protocol):
    """A cache of answers by the meaning of questions, such as `rag.answer_cache.cache.AnswerCache`."""

    def get(self, question: str, *, scope: Mapping[str, Any] | None = None) -> CachedText | None:
        """Return the answer to a question with the same meaning in this scope, or None."""
        ...

    def put(self, question: str, answer: str, *, scope: Mapping[str, Any] | None = None) -> Any:
        """Store an answer."""
        ...

    def clear(self) -> int:
        """Remove all answers; return how many."""
        ...


class SessionMemory:
    """The recent messages of each user, limited in time and number.

    Args:
        store: stores the sessions.
        namespace: isolated from other namespaces.
        keep_last: the maximum number of messages in a session.
    """

    def __init__(self, store: MemoryStore, *, namespace: str = "", keep_last: int = KEPT_MESSAGES) -> None:
        self._store, self._namespace, self._keep_last = store, namespace, keep_last

    def add_message(self, user_id: str, role: str, content: Any, ttl: float = SESSION_TTL_S) -> None:
        """Store a message; the session expires `ttl` seconds from now."""
        self.add_messages(user_id, [{"role": role, "content": content}], ttl)

    def add_messages(
        self, user_id: str, messages: Sequence[Mapping[str, Any]], ttl: float = SESSION_TTL_S
    ) -> int:
        """Store messages in one round trip, all or none; return how many."""
        if not messages:
            return 0
        items = [Message(message["content"], role=message["role"]) for message in messages]
        session = self._begun(user_id, ttl)
        return len(self._store.add_messages(items, conversation=session.id, namespace=self._namespace))

    def get_recent_messages(self, user_id: str, n: int = 10) -> list[ChatMessage]:
        """Return the last n messages, oldest first; none if the session has expired."""
        session = self._session(user_id)
        if session is None or n < 1:
            return []
        found = self._store.messages(session.id, namespace=self._namespace, last=n)
        return [{"role": message.role, "content": message.content} for message in found]

    def clear_session(self, user_id: str) -> int:
        """Delete a session; return the number of its messages."""
        session = self._session(user_id)
        if session is None:
            return 0
        self._store.delete_conversation(session.id, namespace=self._namespace)
        return session.message_count

    def count(self, user_id: str) -> int:
        """Return the number of messages in a session."""
        session = self._session(user_id)
        return 0 if session is None else session.message_count

    def _session(self, user_id: str) -> Conversation | None:
        try:
            found = self._store.conversation(_name(user_id), namespace=self._namespace)
        except NotFound:
            return None
        return found if found.name == _name(user_id) else None

    def _begun(self, user_id: str, ttl_s: float) -> Conversation:
        """Return the session with this time to live; if it differs, replace the session by a copy."""
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
        except ConversationMismatch:  # another process has just created it
            self._store.delete_conversation(begun.id, namespace=self._namespace)
            named = self._store.conversation(_name(user_id), namespace=self._namespace)
        if session is not None:
            with suppress(NotFound):
                self._store.delete_conversation(session.id, namespace=self._namespace)
        return named

    def _move(self, session: Conversation, begun: Conversation) -> None:
        """Copy the messages of a session, then free its name, so that an interruption loses nothing."""
        with suppress(NotFound):  # it has expired, or another process has replaced it
            held = self._store.messages(session.id, namespace=self._namespace)
            copies = [replace(message, id=str(uuid.uuid4())) for message in held]
            self._store.add_messages(copies, conversation=begun.id, namespace=self._namespace)
            self._store.rename(session.id, "", namespace=self._namespace)


class LongTermMemory(Preferences):
    """User preferences, with the method names of agents that use Redis."""

    def save_preference(self, user_id: str, key: str, value: Any) -> None:
        """Like `save`."""
        self.save(user_id, key, value)

    def get_preference(self, user_id: str, key: str) -> Any:
        """Return the value of a key, or None."""
        return self.get(user_id, key)

    def get_all_preferences(self, user_id: str) -> dict[str, Any]:
        """Like `get_all`."""
        return self.get_all(user_id)

    def delete_preference(self, user_id: str, key: str) -> bool:
        """Like `delete`."""
        return self.delete(user_id, key)


@dataclass(slots=True)
class LookupStats:
    """Hits and misses of look-ups since this memory was opened."""

    hits: int = 0
    misses: int = 0

    @property
    def rate(self) -> float:
        """The share of hits; 0 without look-ups."""
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
        store: stores everything.
        cache: answers by the meaning of questions; None caches no answers.
        namespace: isolated from other namespaces.
    """

    def __init__(
        self, store: MemoryStore, cache: QuestionCache | None = None, *, namespace: str = ""
    ) -> None:
        self.session = SessionMemory(store, namespace=namespace)
        self.preferences = LongTermMemory(store, namespace=namespace)
        self.cache = cache
        self.session_lookups, self.cache_lookups = LookupStats(), LookupStats()

    def add_conversation(self, user_id: str, role: str, content: Any, ttl: float = SESSION_TTL_S) -> None:
        """Add a message to a user's session."""
        self.session.add_message(user_id, role, content, ttl)

    def batch_save_messages(
        self, user_id: str, messages: Sequence[Mapping[str, Any]], ttl: float = SESSION_TTL_S
    ) -> int:
        """Add messages to a user's session in one round trip; return how many."""
        return self.session.add_messages(user_id, messages, ttl)

    def get_conversation_history(self, user_id: str, n: int = 10) -> list[ChatMessage]:
        """Return the last n messages of a user's session, oldest first."""
        found = self.session.get_recent_messages(user_id, n)
        self.session_lookups.count(found)
        return found

    def save_user_preference(self, user_id: str, key: str, value: Any) -> None:
        """Store a user's preference. Raises TypeError or ValueError if it is not JSON."""
        self.preferences.save(user_id, key, value)

    def get_user_preference(self, user_id: str, key: str) -> Any:
        """Return a user's preference, or None."""
        return self.preferences.get(user_id, key)

    def cache_qa(self, question: str, answer: str, scope: Mapping[str, Any] | None = None) -> None:
        """Cache an answer for questions with the same meaning; `scope` is whatever else it depends on."""
        if self.cache is not None:
            self.cache.put(question, answer, scope=scope)

    def get_cached_answer(
        self, question: str, scope: Mapping[str, Any] | None = None, *, or_unscoped: bool = False
    ) -> str | None:
        """Return the cached answer to a question with the same meaning in this scope, or None.

        With `or_unscoped`, fall back to an answer that was stored without a scope.
        """
        found = None if self.cache is None else self.cache.get(question, scope=scope)
        if found is None and or_unscoped and scope and self.cache is not None:
            found = self.cache.get(question)
        self.cache_lookups.count(found)
        return None if found is None else found.answer

    def get_user_stats(self, user_id: str) -> dict[str, int]:
        """Return the number of messages in a user's session (`conversations`) and of `preferences`."""
        preferences = len(self.preferences.get_all(user_id))
        return {"conversations": self.session.count(user_id), "preferences": preferences}

    def get_stats(self) -> dict[str, float]:
        """Return hits, misses and hit rates of answers (`semantic_…`) and sessions (`session_…`)."""
        stats: dict[str, float] = {}
        for name, lookups in (("semantic", self.cache_lookups), ("session", self.session_lookups)):
            stats[f"{name}_hits"] = lookups.hits
            stats[f"{name}_misses"] = lookups.misses
            stats[f"{name}_hit_rate"] = lookups.rate
        return stats

    def report(self) -> str:
        """Return the statistics as text in two lines."""
        lookups = (("cached answers", self.cache_lookups), ("sessions", self.session_lookups))
        return "\n".join(
            f"{name}: {one.hits} hits, {one.misses} misses ({one.rate:.1%})" for name, one in lookups
        )


def _name(user_id: str) -> str:
    return f"session of {user_id}"
