"""Conversations in Redis or Valkey: create, fork, rewind, delete.

Every call is one script, and therefore atomic; `scripts` describes the data.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from rag.backends.redis.calls import SOURCE
from rag.backends.redis.hash_tags import RedisPlaces
from rag.backends.redis.scripts import FORMAT, KEYS
from rag.backends.redis.server import Script, coded, decoded
from rag.backends.redis.values import duration, head, kept_of, micros
from rag.errors import StoreTooNew
from rag.turns import checks as check
from rag.turns.model import ConversationRecord
from rag.types import Conversation, Source

SCRIPT = Script.of(SOURCE, KEYS)


class RedisConversations(RedisPlaces):
    """The operations of the Redis store on whole conversations.

    Args:
        url: the address of the server, see `address`.
        clock: the source of times and expiries.

    Raises:
        SettingsError: the URL is invalid.
        BackendMissing: the client library is not installed.
        StoreUnreachable, StoreUnwritable, StoreError: see `RedisServer`; from every method, but not from
        here.
    """

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
        self._put_down(namespace, again=True)
        given = (coded(name), head(sources, ttl_s), duration(ttl_s), keep_last or 0)
        word, reply = self._call(namespace, "begin", str(uuid.uuid4()), *given, writes=True)
        return self._made(word, reply, namespace, sources)

    def conversation(self, id_or_name: str, *, namespace: str = "") -> Conversation:
        """Return a conversation with its counts, by id or else by name. Raises NotFound."""
        return kept_of(self._of(id_or_name, namespace, "find"), namespace).conversation

    def conversations(self, *, namespace: str = "") -> list[Conversation]:
        """Return all conversations, the most recently written first."""
        return [kept.conversation for kept in reversed(self._views(namespace))]

    def rename(self, conversation: str, name: str, *, namespace: str = "") -> Conversation:
        """Rename a conversation, see `TurnStore`."""
        word, reply = self._call(namespace, "rename", coded(conversation), coded(name), writes=True)
        if word == "gone":
            raise check.no_conversation(conversation)
        return self._made(word, reply, namespace, conversation)

    def fork(
        self, conversation: str, *, at: int | None = None, name: str = "", namespace: str = ""
    ) -> Conversation:
        """Create a conversation that continues another one after order `at`, see `TurnStore`."""
        given = (str(uuid.uuid4()), coded(name), coded(conversation), "" if at is None else at)
        word, reply = self._call(namespace, "fork", *given, writes=True)
        if word == "gone":
            raise check.no_conversation(conversation)
        if word == "nothing":
            raise check.no_order(conversation, -1 if at is None else at)
        return self._made(word, reply, namespace, conversation)

    def rewind(self, conversation: str, *, to: int, namespace: str = "", last_turn: str | None = None) -> int:
        """Remove everything after order `to`, see `TurnStore`; return the number of turns."""
        check.check_rewind(to)
        return int(self._unless_changed(conversation, namespace, last_turn, "rewind", to)[0])

    def clear(self, conversation: str, *, namespace: str = "") -> int:
        """Remove all turns and messages, but not the conversation; return the number of both."""
        return sum(self._of(conversation, namespace, "rewind", -1, writes=True))

    def delete_conversation(
        self, conversation: str, *, namespace: str = "", last_turn: str | None = None
    ) -> int:
        """Delete a conversation (by id), see `TurnStore`; return the number of turns."""
        return int(self._unless_changed(conversation, namespace, last_turn, "drop"))

    # ---- internal

    def _call(self, namespace: str, call: str, *args: Any, writes: bool = False) -> tuple[str, Any]:
        """Run a call in a namespace; return its status word and its result."""
        return self._calls(namespace, [(call, *args)], writes=writes)[0]

    def _calls(
        self, namespace: str, calls: Sequence[tuple[Any, ...]], *, writes: bool = False
    ) -> list[tuple[str, Any]]:
        """Run calls in a namespace in one round trip; return the status word and the result of each."""
        now, tag = micros(self._clock()), self._tag(namespace)
        sent = [(SCRIPT, tag, (call, now, *args)) for call, *args in calls]
        answers = self._server.run_each(sent, writes=writes)
        for word, reply in answers:
            if word == b"foreign":
                where, fix = str(self._server.address), "or choose another prefix= in the address"
                raise StoreTooNew(path=where, found=int(reply), supported=FORMAT, fix=fix)
        return [(word.decode(), reply) for word, reply in answers]

    def _of(self, conversation: str, namespace: str, call: str, *args: Any, writes: bool = False) -> Any:
        """Return the result of a call on a conversation. Raises NotFound."""
        word, reply = self._call(namespace, call, coded(conversation), *args, writes=writes)
        if word == "gone":
            raise check.no_conversation(conversation)
        return reply

    def _unless_changed(
        self, conversation: str, namespace: str, last_turn: str | None, call: str, *args: Any
    ) -> Any:
        """Return the result of a call that removes turns. Raises NotFound, ConversationChanged."""
        expected = () if last_turn is None else (coded(last_turn),)
        word, reply = self._call(namespace, call, coded(conversation), *args, *expected, writes=True)
        if word == "gone":
            raise check.no_conversation(conversation)
        if word == "changed":
            raise check.changed(conversation, last_turn or "", decoded(reply))
        return reply

    def _views(self, namespace: str) -> list[ConversationRecord]:
        """Return all conversations, the most recently written last."""
        return [kept_of(state, namespace) for state in self._call(namespace, "views")[1]]

    def _made(self, word: str, reply: Any, namespace: str, asked: str | Sequence[Source]) -> Conversation:
        """Return the created or renamed conversation. Raises ConversationMismatch if its name is taken."""
        conversation = kept_of(reply, namespace).conversation
        if word == "taken":
            if isinstance(asked, str):
                asked = self.conversation(asked, namespace=namespace).sources
            raise check.name_taken(conversation, asked)
        return conversation
