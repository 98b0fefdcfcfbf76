"""A conversation about repositories: preparing for a question, remembering its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rag.corpus.acquire import committed
from rag.errors import ConfigError, ProviderError
from rag.memory.freshness import State, check_turns
from rag.memory.window import window
from rag.prompt.compose import compose
from rag.prompt.templates import load_template, render_condense
from rag.retrieval.confidence import judge
from rag.retrieval.context import Exchange, Place
from rag.retrieval.search import Found, search
from rag.retrieval.whole import other_parts
from rag.service.engine import Engine, Repository
from rag.service.kept import KeptFiles, keep_cited
from rag.service.states import FolderState
from rag.types import (
    Answer,
    AssistantResponse,
    Citation,
    Confidence,
    Conversation,
    DialogTurn,
    Prepared,
    Source,
    UserQuery,
    with_turn,
)

Begin = Callable[[Sequence[Source]], Conversation]

_HISTORY_SHARE = 0.25
REMEMBERED_TURNS = 50


class Dialog:
    """A conversation about one or more repositories.

    Args:
        engine: what is open.
        repositories: what is asked.
        conversation: go on with this one; None begins one, which is stored with its first turn.
        name: what the new one is called.
        begin: makes the new one; by default the engine's turn store does.
    """

    def __init__(
        self,
        engine: Engine,
        repositories: Sequence[Repository],
        conversation: Conversation | None = None,
        *,
        name: str = "",
        begin: Begin | None = None,
    ) -> None:
        self.engine, self.repositories = engine, tuple(repositories)
        self.conversation = conversation
        self.name = name
        self._begin = begin or self._begin_stored

    def _begin_stored(self, sources: Sequence[Source]) -> Conversation:
        return self.engine.begin_conversation(self.name, sources)

    def turns(self) -> list[DialogTurn]:
        """The turns so far, oldest first."""
        if self.conversation is None:
            return []
        return self.engine.turns.turns(
            self.conversation.id, namespace=self.engine.settings.namespace, last=REMEMBERED_TURNS
        )

    def past(self) -> list[DialogTurn]:
        """The turns so far, each with what became of its sources in the repositories as they are now."""
        turns = self.turns()
        kept = KeptFiles(self.engine.turns, self.engine.settings.namespace)
        now: dict[str, State | str] = {}
        for repository in self.repositories:
            location = repository.source.location
            if location in now:
                now[location] = "several versions of the repository are asked together"
            else:
                now[location] = FolderState(repository.checkout, kept, store=repository.store)
        return check_turns(turns, now)

    def search(self, question: str, *, k: int = 10, turns: Sequence[DialogTurn] | None = None) -> Found:
        """Retrieval alone, in the light of the turns."""
        past = [_exchange(t) for t in (self.past() if turns is None else turns) if not _went_unanswered(t)]
        return search([r.searcher for r in self.repositories], question, past=past, k=k)

    def prepare(self, question: str, *, standalone: str | None = None, k: int = 12) -> Prepared:
        """Steps 1 to 3: the turns that matter, the hits, the prompt with exactly the sources that fitted.

        `standalone` is the question as a model put it, so that it needs no history; it is then searched
        as it is, unless the repository seems to hold no answer to it and one to the question in context.

        Raises:
            ContextTooSmall, TemplateError: the prompt cannot be made.
            ConfigError: the question is empty.
        """
        if not question.strip():
            raise ConfigError("the question is empty; ask, for instance, where something is done")
        began = time.perf_counter()
        settings = self.engine.settings
        turns = self.past()
        found, confidence = self._found(question, standalone, turns, k)
        searched = time.perf_counter()
        shown = window(
            turns,
            budget_tokens=int(settings.context_tokens * _HISTORY_SHARE),
            counter=self.engine.counter,
        )
        prompt = compose(
            template=load_template(settings.template, settings.home),
            question=question,
            standalone_question=found.sought.standalone,
            hits=found.hits,
            turns=shown,
            counter=self.engine.counter,
            context_tokens=settings.context_tokens,
            answer_tokens=settings.answer_tokens,
            language=settings.language,
            repositories=[r.source.name for r in self.repositories],
            parts=other_parts([r.searcher for r in self.repositories], found.hits),
        )
        return Prepared(
            question=question,
            standalone_question=found.sought.standalone,
            conversation=self.conversation,
            hits=found.hits,
            prompt=prompt,
            seconds={"search": searched - began, "prompt": time.perf_counter() - searched},
            confidence=confidence,
        )

    def _found(
        self, question: str, standalone: str | None, turns: Sequence[DialogTurn], k: int
    ) -> tuple[Found, Confidence | None]:
        """What is found, and how sure it is that an answer is among it; None where that is not judged."""
        searchers = [repository.searcher for repository in self.repositories]
        gated = self.engine.settings.gate
        if standalone:
            found = search(searchers, standalone, k=k)
            confidence = judge(searchers, found) if gated else None
            if confidence is None or confidence.found:
                return found, confidence
        in_context = self.search(question, k=k, turns=turns)
        judged = judge(searchers, in_context) if gated else None
        if standalone and judged and not judged.found:
            return found, confidence
        return in_context, judged

    def condensing(self, question: str) -> str | None:
        """The prompt that asks a model for the standalone question; None when there is no history."""
        if not question.strip():
            return None
        turns = window(
            [turn for turn in self.past() if not _went_unanswered(turn)],
            budget_tokens=int(self.engine.settings.context_tokens * _HISTORY_SHARE),
            counter=self.engine.counter,
        )
        return render_condense(self.engine.settings.home, question=question, turns=turns) if turns else None

    def not_condensed(self, error: ProviderError) -> None:
        """Say that a follow-up is searched as it is; a model that fails here costs no answer."""
        self.engine.notice(f"the follow-up was not rewritten by the model ({error})")

    def remember(self, prepared: Prepared, answer: Answer) -> Answer:
        """Step 5: store the turn, once, atomically; the conversation is begun with its first turn."""
        engine = self.engine
        namespace = engine.settings.namespace
        if self.conversation is None:
            self.conversation = self._begin([r.source for r in self.repositories])
        turn = DialogTurn(
            user_query=UserQuery(answer.question),
            assistant_response=AssistantResponse(answer.text),
            conversation_id=self.conversation.id,
            namespace=namespace,
            standalone_question=prepared.standalone_question,
            citations=self._at_commit(answer.sources),
            model=answer.model,
            prompt_hash=answer.prompt_hash or prepared.prompt.hash,
            usage=answer.usage,
            complete=answer.complete,
            metadata={"cached": answer.cached} if answer.cached else None,
        )
        return with_turn(answer, self._stored(turn, self.conversation))

    def _stored(self, turn: DialogTurn, conversation: Conversation) -> DialogTurn:
        """The turn as it was stored; what it cites is kept, so that it can be compared later."""
        stored = self.engine.turns.append(turn, conversation=conversation.id, namespace=turn.namespace)
        keep_cited(self.engine, self.repositories, stored.citations)
        return stored

    def _at_commit(self, citations: Sequence[Citation]) -> tuple[Citation, ...]:
        """Citations that say whether their bytes are those of the commit."""
        dirty: set[tuple[str, str]] = set()
        for repository in self.repositories:
            if not repository.checkout.dirty:
                continue
            location = repository.source.location
            blobs = {c.path: c.blob for c in citations if c.location == location}
            there = committed(repository.checkout, blobs)
            dirty |= {(location, path) for path, blob in blobs.items() if there.get(path) != blob}
        return tuple(replace(c, dirty=(c.location, c.path) in dirty) for c in citations)


def _went_unanswered(turn: DialogTurn) -> bool:
    """Whether nothing was found then: such a turn is no subject that a follow-up could go on about."""
    return not turn.model and not turn.citations


def _exchange(earlier: DialogTurn) -> Exchange:
    turn = earlier.at_present()
    used = [c for c in turn.citations if c.used] or list(turn.citations)
    return Exchange(turn.question, tuple(_place(c) for c in used))


def _place(citation: Citation) -> Place:
    """A citation names what it shows in full: `Outer.Inner.name`."""
    scope, _, symbol = citation.symbol.rpartition(".")
    return Place(citation.path, symbol, scope)
