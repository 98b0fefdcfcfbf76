"""The history of a question, and the conversation that its turn is added to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from rag.errors import ConversationChanged, NotFound
from rag.ports import has_transactions
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.service.upkeep.retention import delete_conversation, delete_turn, forget, keep_cited, keep_prompt
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

    Attributes:
        asked: the turn of the question that is being answered, if it is stored already.
    """

    stores_questions = True
    """Whether a question is stored when it is asked, or only together with its answer."""
    keeps_stopped = True
    """Whether the text of an answer that was stopped is stored."""
    stores_as_shown = False
    """Whether an answer cut at its limit is stored with its last, unfinished sentence."""

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
        self.asked: DialogTurn | None = None
        self._asked_first = False

    @property
    def is_stored(self) -> bool:
        """Whether the stored conversation is the whole history, so that another process can read it."""
        return True

    def turns(self) -> list[DialogTurn]:
        """The turns before the question that have an answer, oldest first."""
        if self.conversation is None:
            return []
        found = self.engine.turns.turns(
            self.conversation.id, namespace=self.engine.settings.namespace, last=REMEMBERED_TURNS
        )
        return with_answers(found)

    def ask(self, turn: DialogTurn, repositories: Sequence[Repository]) -> DialogTurn | None:
        """Store a question before its answer, atomically, and return it as stored.

        The first question also creates the conversation. None if this history stores only answers.
        """
        if not self.stores_questions:
            return None
        is_first = self.conversation is None
        stored = self._append(turn, None, repositories)
        self.asked, self._asked_first = stored, is_first
        return stored

    def store(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        """Store a turn once, atomically, and return it as stored.

        Raises:
            NotFound: its question was stored, and was deleted since.
        """
        if self.asked is None:
            return self._append(turn, prompt, repositories)
        asked = self.asked
        turn = replace(turn, id=asked.id, user_query_timestamp=asked.user_query_timestamp)
        return self._finish(turn, prompt, repositories)

    def fail(self, turn: DialogTurn) -> None:
        """End the turn of the question without an answer; nothing if it was deleted since."""
        with suppress(NotFound):
            self.engine.turns.finish_turn(turn, namespace=turn.namespace)
        self.asked = None

    def withdraw(self) -> None:
        """Remove the question, and the conversation if this was its first question."""
        asked, self.asked = self.asked, None
        if asked is None or self.conversation is None:
            return
        store, conversation = self.engine.turns, self.conversation
        with suppress(NotFound):  # already removed
            if self._asked_first:
                with suppress(ConversationChanged):  # another question was asked in it
                    delete_conversation(store, conversation, last_turn=asked.id)
                    self.conversation = None
                    return
            delete_turn(store, asked)

    def _append(
        self, turn: DialogTurn, prompt: Prompt | None, repositories: Sequence[Repository]
    ) -> DialogTurn:
        sources = [repository.source for repository in repositories]
        if self.conversation is None and self._begin is not None:
            self.conversation = self._begin(sources)
        store = self.engine.turns
        with store.together() if has_transactions(store) else nullcontext():
            conversation = self.conversation or self.begin(sources)
            trimmed = self._trimmed_by_next(conversation)
            stored = store.append(turn, conversation=conversation.id, namespace=turn.namespace)
            if prompt is not None:
                self._keep(stored, prompt, repositories, conversation)
            forget(store, trimmed, turn.namespace)
        self.conversation = conversation
        return stored

    def _finish(self, turn: DialogTurn, prompt: Prompt, repositories: Sequence[Repository]) -> DialogTurn:
        store, conversation = self.engine.turns, self.conversation
        assert conversation is not None
        with store.together() if has_transactions(store) else nullcontext():
            stored = store.finish_turn(turn, namespace=turn.namespace)
            self._keep(stored, prompt, repositories, conversation)
        self.asked = None
        return stored

    def _keep(
        self,
        stored: DialogTurn,
        prompt: Prompt,
        repositories: Sequence[Repository],
        conversation: Conversation,
    ) -> None:
        """Keep the prompt of a turn, and the files that it cites."""
        keep_prompt(self.engine, stored, prompt, ttl_s=conversation.ttl_s)
        keep_cited(self.engine, repositories, stored.citations, conversation)

    def begin(self, sources: Sequence[Source]) -> Conversation:
        """Create the conversation in the engine's turn store."""
        return self.engine.begin_conversation(self.name, sources)

    def _trimmed_by_next(self, conversation: Conversation) -> list[DialogTurn]:
        """The oldest turn of a full conversation: the store removes it when the next one is appended."""
        if (limit := conversation.keep_last) is None:
            return []
        turns = self.engine.turns.turns(conversation.id, namespace=conversation.namespace, last=limit)
        return turns[:1] if len(turns) == limit else []


class WholeAnswers(History):
    """A conversation in which only whole answers are stored, so that a failed request can be repeated."""

    stores_questions = False
    keeps_stopped = False


def with_answers(turns: Sequence[DialogTurn]) -> list[DialogTurn]:
    """Return the turns that have an answer: those that a model is shown."""
    return [turn for turn in turns if turn.has_answer]
