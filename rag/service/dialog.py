"""A conversation about repositories: preparing for a question, remembering its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

from rag.answer.not_found import not_found, warning
from rag.corpus.acquire import committed
from rag.errors import ConfigError, ProviderError, StoreCorrupt
from rag.memory.freshness import State, check_turns
from rag.memory.recent_turns import turn_tokens, window
from rag.ports import Grouping, takes_bags
from rag.prompt.background import Known
from rag.prompt.compose import compose
from rag.prompt.templates import load_template, render_condense, render_reword
from rag.retrieval.answerability import judge, titled
from rag.retrieval.context import AnswerPlace, Exchange
from rag.retrieval.expand_definitions import other_parts
from rag.retrieval.question import understand
from rag.retrieval.question_language import is_foreign
from rag.retrieval.relations import is_relation
from rag.retrieval.search import RetrievalResult, search
from rag.service.engine import Engine, Repository
from rag.service.recall import known_of, language_for, recall_older
from rag.service.retention import KeptFiles, forget, keep_cited, keep_prompt
from rag.service.snapshots import FolderState
from rag.types import (
    Answer,
    AssistantResponse,
    Citation,
    Confidence,
    Conversation,
    DialogTurn,
    Prepared,
    Prompt,
    Source,
    UserQuery,
    not_indexed,
    now_utc,
    with_turn,
)

Begin = Callable[[Sequence[Source]], Conversation]

_HISTORY_SHARE = 0.25
_CALLED_SO = 0.1
"""From here on (see `titled`) a definition is called by the question's words."""
_ROOM_SHARE = 0.2
"""What of the room older and latest turns take together: less than a prompt gives turns before sources."""
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
        self._begin = begin

    def _begin_stored(self, sources: Sequence[Source]) -> Conversation:
        return self.engine.begin_conversation(self.name, sources)

    @property
    def is_plain(self) -> bool:
        """Whether engine, repositories and conversation are all there is to it, so that another process can
        prepare a question as this one would. Only a dialog that says so is one beside this class itself."""
        return type(self) is Dialog

    def rebuild(self, damage: StoreCorrupt) -> None:
        """Index the repository again whose store turned out to be damaged. Raises as `Engine.rebuilt`."""
        self.repositories = self.engine.rebuilt(self.repositories, damage)

    def turns(self) -> list[DialogTurn]:
        """The turns so far, oldest first."""
        if self.conversation is None:
            return []
        return self.engine.turns.turns(
            self.conversation.id, namespace=self.engine.settings.namespace, last=REMEMBERED_TURNS
        )

    def past(self) -> list[DialogTurn]:
        """The turns so far, each with what became of its sources in the repositories as they are now."""
        return check_turns(self.turns(), self._now())

    def known(self) -> Known:
        """What every prompt is told, whatever was said: preferences and facts, as they are now."""
        return known_of(self.engine, None, self.repositories, self._now(), [], [])

    def _now(self) -> dict[str, State | str]:
        """The repositories as they are now, by location, or why one cannot be told."""
        kept = KeptFiles(self.engine.turns, self.engine.settings.namespace)
        now: dict[str, State | str] = {}
        for repository in self.repositories:
            location = repository.source.location
            if location in now:
                now[location] = "several versions of the repository are asked together"
            else:
                now[location] = FolderState(repository.checkout, kept, store=repository.store)
        return now

    def search(
        self, question: str, *, k: int = 10, turns: Sequence[DialogTurn] | None = None
    ) -> RetrievalResult:
        """Retrieval alone, in the light of the turns."""
        past = [_exchange(turn) for turn in _to_go_on_with(self.past() if turns is None else turns)]
        return search([r.searcher for r in self.repositories], question, past=past, k=k)

    def prepare(self, question: str, *, standalone: str | None = None, k: int = 12) -> Prepared:
        """Steps 1 to 3: the turns that matter, the hits, the prompt with exactly the sources that fitted.

        `standalone` is the question as a model put it: on its own, or with more words where there are no
        turns. It is then searched for it, unless the repository seems to hold no answer to it and one to the
        question as typed.

        Raises:
            ContextTooSmall, TemplateError: the prompt cannot be made.
            ConfigError: the question is empty.
        """
        if not question.strip():
            raise ConfigError("the question is empty; ask, for instance, where something is done")
        began = time.perf_counter()
        settings = self.engine.settings
        now = self._now()
        turns = check_turns(self.turns(), now)
        found, confidence = self._found(question, standalone, turns, k)
        for remark in found.remarks:
            self.engine.notice(remark)
        searched = time.perf_counter()
        older, shown = self._remembered(found.sought.standalone, turns)
        known = known_of(self.engine, self.conversation, self.repositories, now, turns, shown)
        prompt = compose(
            template=load_template(settings.template, settings.home),
            question=question,
            standalone_question=found.sought.standalone,
            hits=found.hits,
            turns=[*check_turns(older, now), *shown],
            counter=self.engine.counter,
            context_tokens=settings.context_tokens,
            answer_tokens=settings.answer_tokens,
            language=language_for(settings.language, known),
            repositories=[r.source.name for r in self.repositories],
            parts=other_parts([r.searcher for r in self.repositories], found.hits),
            known=known,
            warning=warning(confidence, found.hits),
            missing_words=confidence.missing_words if confidence else (),
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

    def _remembered(
        self, question: str, turns: Sequence[DialogTurn]
    ) -> tuple[list[DialogTurn], list[DialogTurn]]:
        """The older turns that bear on a question, and the latest ones, which make room for them."""
        counter, settings = self.engine.counter, self.engine.settings
        latest = window(turns, budget_tokens=int(settings.context_tokens * _HISTORY_SHARE), counter=counter)
        older = recall_older(self.engine, self.conversation, question, turns, latest)
        if older:
            room = int((settings.context_tokens - settings.answer_tokens) * _ROOM_SHARE)
            room -= sum(turn_tokens(turn, counter) for turn in older)
            latest = window(turns, budget_tokens=room, counter=counter)
        return older, latest

    def _found(
        self, question: str, standalone: str | None, turns: Sequence[DialogTurn], k: int
    ) -> tuple[RetrievalResult, Confidence | None]:
        """What is found, and how sure it is that an answer is among it; None where that is not judged.

        A model's words have to stand alone to be used. They are searched in the light of the turns all the
        same: a small model often repeats the question, or says only half of what it leans on.
        """
        searchers = [repository.searcher for repository in self.repositories]
        if not self.engine.settings.gate:
            return self.search(standalone or question, k=k, turns=turns), None
        if standalone and not _to_go_on_with(turns) and not self.is_foreign(question):
            return self._found_with_more_words(question, standalone, k)
        if standalone:
            alone = search(searchers, standalone, k=k)
            confidence = judge(searchers, alone)
            if confidence.is_sure:
                return self.search(standalone, k=k, turns=turns), confidence
        found = self.search(question, k=k, turns=turns)
        judged = judge(searchers, found)
        if standalone and not judged.is_sure:
            return alone, confidence
        return found, judged

    def _found_with_more_words(self, question: str, words: str, k: int) -> tuple[RetrievalResult, Confidence]:
        """What is found with a model's words; whether it is an answer, the question's own words say.

        A model has words for everything, so what it adds proves nothing.
        """
        searchers = [repository.searcher for repository in self.repositories]
        typed = search(searchers, question, k=k)
        confidence = judge(searchers, typed)
        return (search(searchers, words, k=k) if confidence.found else typed), confidence

    def condensing(self, question: str) -> str | None:
        """The prompt that asks a model for the standalone question; None where it stands alone.

        That is where there is no history, unless it is not in English. None also for "And who calls it?":
        that is answered along the relation, better than by any words.
        """
        if not question.strip() or is_relation(understand(question)):
            return None
        turns = window(
            _to_go_on_with(self.past()),
            budget_tokens=int(self.engine.settings.context_tokens * _HISTORY_SHARE),
            counter=self.engine.counter,
        )
        if not turns and not self.is_foreign(question):
            return None
        return render_condense(self.engine.settings.home, question=question, turns=turns)

    def is_foreign(self, question: str) -> bool:
        """Whether a question is not in English, while its words alone are searched."""
        return takes_bags(self.engine.embedder) and is_foreign(question, self.engine.embedder)

    def rewording(self, question: str) -> str | None:
        """The prompt that asks a model in which words code may put a first question.

        None where that is not wanted, there are turns to go on with, the question is not answered anyway, or
        what is found is called by its own words: others would only lead away from it.
        """
        if not self.engine.settings.reword or not question.strip() or _to_go_on_with(self.turns()):
            return None
        found, confidence = self._found(question, None, (), 10)
        if titled(found) >= _CALLED_SO or (confidence and not confidence.found):
            return None
        repositories = [repository.source.name for repository in self.repositories]
        return render_reword(self.engine.settings.home, question=question, repositories=repositories)

    def not_rewritten(self, error: ProviderError) -> None:
        """Say that a question is searched as it is; a model that fails here costs no answer."""
        self.engine.notice(f"the question was not rewritten by the model ({error})")

    def not_found(self, prepared: Prepared) -> Answer:
        """The answer where nothing was found; a note names what was not looked into."""
        submodules = [path for r in self.repositories if r.report for path in r.report.submodules]
        answer = not_found(prepared)
        return replace(answer, notes=(*answer.notes, not_indexed(submodules))) if submodules else answer

    def remember(self, prepared: Prepared, answer: Answer) -> Answer:
        """Step 5: store the turn, once, atomically; the conversation is begun with its first turn."""
        sources = [repository.source for repository in self.repositories]
        if self.conversation is None and self._begin is not None:
            self.conversation = self._begin(sources)
        answered = now_utc()
        turn = DialogTurn(
            user_query=UserQuery(answer.question),
            assistant_response=AssistantResponse(answer.text),
            user_query_timestamp=answered - timedelta(seconds=sum(answer.seconds.values())),
            assistant_response_timestamp=answered,
            namespace=self.engine.settings.namespace,
            standalone_question=prepared.standalone_question,
            citations=self._at_commit(answer.sources),
            model=answer.model,
            prompt_hash=answer.prompt_hash or prepared.prompt.hash,
            usage=answer.usage,
            complete=answer.complete,
            metadata={"cached": answer.cached} if answer.cached else None,
        )
        store = self.engine.turns
        with store.together() if isinstance(store, Grouping) else nullcontext():
            conversation = self.conversation or self._begin_stored(sources)
            stored = self._stored(turn, conversation, prepared.prompt)
        self.conversation = conversation
        return self.with_coverage(with_turn(answer, stored))

    def with_coverage(self, answer: Answer) -> Answer:
        """The answer, saying what of the repositories it rests on; a note where files are not indexed yet."""
        coverage = tuple(repository.coverage for repository in self.repositories)
        notes = (one.note for one in coverage)
        return replace(answer, coverage=coverage, notes=(*answer.notes, *(note for note in notes if note)))

    def _stored(self, turn: DialogTurn, conversation: Conversation, prompt: Prompt) -> DialogTurn:
        """The turn as it was stored; what it cites is kept, so that it can be compared later."""
        store = self.engine.turns
        trimmed = self._about_to_be_trimmed(conversation)
        stored = store.append(turn, conversation=conversation.id, namespace=turn.namespace)
        keep_prompt(self.engine, stored, prompt, ttl_s=conversation.ttl_s)
        keep_cited(self.engine, self.repositories, stored.citations, conversation)
        forget(store, trimmed, turn.namespace)
        return stored

    def _about_to_be_trimmed(self, conversation: Conversation) -> list[DialogTurn]:
        """The oldest turn of a conversation that is full: the store takes it back for the next."""
        if (most := conversation.keep_last) is None:
            return []
        turns = self.engine.turns.turns(conversation.id, namespace=conversation.namespace, last=most)
        return turns[:1] if len(turns) == most else []

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
        told = (((c.location, c.path) in dirty, c) for c in citations)
        return tuple(c if c.dirty is is_dirty else replace(c, dirty=is_dirty) for is_dirty, c in told)


def _to_go_on_with(turns: Sequence[DialogTurn]) -> list[DialogTurn]:
    """The turns that a follow-up may lean on."""
    return [turn for turn in turns if not _went_unanswered(turn)]


def _went_unanswered(turn: DialogTurn) -> bool:
    """Whether nothing was found then: such a turn is no subject that a follow-up could go on about."""
    return not turn.model and not turn.citations


def _exchange(earlier: DialogTurn) -> Exchange:
    turn = earlier.at_present()
    used = [c for c in turn.citations if c.used] or list(turn.citations)
    best_first = sorted(used, key=lambda citation: -citation.score)
    return Exchange(turn.question, tuple(_place(c) for c in best_first))


def _place(citation: Citation) -> AnswerPlace:
    """A citation names what it shows in full: `Outer.Inner.name`."""
    scope, _, symbol = citation.symbol.rpartition(".")
    return AnswerPlace(citation.path, symbol, scope)
