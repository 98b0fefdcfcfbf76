"""The history of a question, and the conversation that its turn is added to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from rag.ports import has_transactions
from rag.service.engine import Engine, Repository
from rag.service.retention import forget, keep_cited, keep_prompt
from rag.types import Conversation, DialogTurn, Prompt, Source

Begin = Callable[[Sequence[Source]], Conversation]

REMEMBERED_TURNS = 50


class History:
    """A stored conversation that is continued at its end.

    Args:
        engine: its turn store contains the conversation.
        conversation: the one to continue; None creates one together with its first turn.
        name: the name of a new conversation.
        begin: creates the new conversation; by default in the engine's turn store.
    """

    def __init__(
        self,
        engine: Engine,
        conversation: Conversation | None = None,
        *,
        name: str = "",
        begin: Begin | None = None,
    ) -> None:
        self.engine, self.conversation, self.name = engine, conversation, name
        self._begin = begin

    @property
    def is_stored(self) -> bool:
        """Whether the stored conversation is the whole history, so that another process can read it."""
        return True

    def turns(self) -> list[DialogTurn]:
        """The turns before the question, oldest first."""
        if self.conversation is None:
            return []
        return self.engine.turns.turns(
            self.conversation.id, namespace=self.engine.settings.namespace, last=REMEMBERED_TURNS
        )

    def store(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        """Store a turn once, atomically, and return it as stored."""
        sources = [repository.source for repository in repositories]
        if self.conversation is None and self._begin is not None:
            self.conversation = self._begin(sources)
        store = self.engine.turns
        with store.together() if has_transactions(store) else nullcontext():
            conversation = self.conversation or self.begin(sources)
            trimmed = self._trimmed_by_next(conversation)
            stored = store.append(turn, conversation=conversation.id, namespace=turn.namespace)
            keep_prompt(self.engine, stored, prompt, ttl_s=conversation.ttl_s)
            keep_cited(self.engine, repositories, stored.citations, conversation)
            forget(store, trimmed, turn.namespace)
        self.conversation = conversation
        return stored

    def begin(self, sources: Sequence[Source]) -> Conversation:
        """Create the conversation in the engine's turn store."""
        return self.engine.begin_conversation(self.name, sources)

    def _trimmed_by_next(self, conversation: Conversation) -> list[DialogTurn]:
        """The oldest turn of a full conversation: the store removes it when the next one is appended."""
        if (limit := conversation.keep_last) is None:
            return []
        turns = self.engine.turns.turns(conversation.id, namespace=conversation.namespace, last=limit)
        return turns[:1] if len(turns) == limit else []
