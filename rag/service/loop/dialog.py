"""A conversation about repositories: prepare the prompt of a question, store its answer."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rag.agent.look import Look
from rag.answer.not_found import FOREIGN, no_subject, not_found, warning
from rag.answer.references import with_places
from rag.corpus.acquire import committed
from rag.database.locate import mark_used
from rag.errors import ConfigError, NotFound, ProviderError, RagError, StoreCorrupt, StoreReadOnly
from rag.memory.asked import asked_by
from rag.memory.freshness import State, check_turns
from rag.memory.recent_turns import turn_tokens, window
from rag.memory.small_talk import answer_small_talk, is_small_talk
from rag.ports import takes_bags
from rag.prompt.background import Known
from rag.prompt.compose import PromptInput, compose
from rag.prompt.templates import load_template, render_instructions
from rag.retrieval.answerability import judge
from rag.retrieval.context import lacks_subject, subject_of
from rag.retrieval.expand_definitions import other_parts
from rag.retrieval.follow_ups import listed_in, setting_in
from rag.retrieval.phrasings import best_confidence, with_phrasings
from rag.retrieval.question import parse_question
from rag.retrieval.question_language import is_foreign
from rag.retrieval.search import RetrievalResult, search
from rag.retrieval.shown_code import ShownCode, cited_code, lines_of_facts, shown_code
from rag.retrieval.working_set import Exchange
from rag.service.checks.propose_facts import note_statements, proposal_note
from rag.service.checks.recall import known_of, language_for, recall_older
from rag.service.checks.snapshots import FolderState
from rag.service.loop.anchors import with_anchors
from rag.service.loop.history import History
from rag.service.loop.place_notes import noted
from rag.service.loop.spending import Spending
from rag.service.loop.subjects import find_subject
from rag.service.loop.trace import trace
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.service.tools.definition_history import with_history
from rag.service.tools.frame import frames_of
from rag.service.tools.missing_files import missing_file
from rag.service.tools.overview import quoted_overview, with_overview
from rag.service.tools.search import (
    SearchOutcome,
    SearchQuery,
    check_question,
    nothing_within,
    search_repositories,
    within,
)
from rag.service.tools.unread import is_part, missing_note, pending_notes, with_unread
from rag.service.upkeep.retention import kept_files
from rag.settings import Steps
from rag.types import (
    Answer,
    AssistantResponse,
    Citation,
    Confidence,
    Conversation,
    DialogTurn,
    GenerationOptions,
    Hit,
    Prepared,
    Rewording,
    SearchFilter,
    Subject,
    UserQuery,
    not_indexed,
    now_utc,
    with_turn,
)

HISTORY_SHARE = 0.25
"""The share of a prompt for the latest turns."""
_ROOM_SHARE = 0.2
"""The share of the prompt for older and latest turns together; less than a prompt gives to turns."""
SHOWN_HITS = 12
AS_TYPED = Rewording()
_SOURCE_CHARS = 13_000
"""How much a model is shown of the sources after the first: about 3,200 tokens of code."""
STOPPED = "stopped before the answer began"
"""The error of a turn that was stopped before the first word of its answer."""
_CACHED_SEARCHES = 2
_LEADS, _LEADS_TOKENS, _LEADS_SHARE = 4, 1_000, 0.7
"""How many places are shown with their text to a model that looks further, about their tokens together, and
the share of the context window for the prompt."""


@dataclass(frozen=True, slots=True)
class HitSelection:
    """A selection of the hits to show, instead of the best ones for the question.

    Attributes:
        choose: selects the hits to show from those found, at most the given number.
        about: the text to search for instead of the question and its turns; "" for the question.
        depth: how many times more hits are searched than shown.
        is_judged: whether to judge if the repository contains an answer.
    """

    choose: Callable[[Sequence[Hit], int], Sequence[Hit]]
    about: str = ""
    depth: int = 1
    is_judged: bool = True


class Dialog:
    """A conversation about one or more repositories.

    Args:
        engine: provides the settings, the stores and the embedder.
        repositories: the repositories to search.
        conversation: the one to continue; None creates one together with its first turn.
        name: the name of a new conversation.
        history: the turns before the question, and where its own turn is stored; by default the end of
            `conversation`.
        selection: which hits are shown; by default the best.

    Attributes:
        subject: what the next question is about, if the user set it.
        options: what the caller asks of the model for the next answers.
        metadata: what the caller wants stored with the next turns.
        steps: how many times the model may look again before it answers; "auto" leaves it to the model.
        is_quoted: whether `prepare` makes no text of a prompt, as lines are quoted and no model reads one.
        leads: whether `prepare` shows only the best places with their text, for a model that looks further.
        spending: the tokens of the question that is asked.
        remarks: sentences for the person who asks, which the notes of the answers have.
        rewording: how the next question is searched, so that no model is asked for it; None if it may be.
    """

    def __init__(
        self,
        engine: Engine,
        repositories: Sequence[Repository],
        conversation: Conversation | None = None,
        *,
        name: str = "",
        history: History | None = None,
        selection: HitSelection | None = None,
    ) -> None:
        self.engine, self.repositories = engine, tuple(repositories)
        self.history = history or History(engine, conversation, name=name)
        self.selection = selection
        self.only = SearchFilter()
        for repository in self.repositories:  # a server keeps them open for longer than a cap keeps them
            mark_used(repository.store.path)
        self._searched: tuple[Sequence[Repository], list[Repository]] | None = None
        self.subject: Subject | None = None
        self.options = GenerationOptions()
        self.metadata: Mapping[str, str] = {}
        self.steps: Steps = engine.settings.steps
        self.leads = self.is_quoted = False
        self.spending = Spending(engine.counter)
        self.remarks: tuple[str, ...] = ()
        self.rewording: Rewording | None = None
        self._searches: OrderedDict[tuple[Any, ...], RetrievalResult] = OrderedDict()

    @property
    def conversation(self) -> Conversation | None:
        """The stored conversation; None before its first turn."""
        return self.history.conversation

    def remark(self, sentence: str) -> None:
        """Add a sentence for the person who asks, once."""
        self.remarks = tuple(dict.fromkeys((*self.remarks, sentence)))

    @property
    def is_plain(self) -> bool:
        """Whether engine, repositories and conversation determine everything, so that another process can
        prepare a question with the same result."""
        return self.history.is_stored and self.selection is None and not self.only and self.subject is None

    @property
    def searched(self) -> list[Repository]:
        """The repositories with only the files that may be searched."""
        if self._searched is None or self._searched[0] is not self.repositories:
            self._searched = self.repositories, within(self.repositories, self.only)
        return self._searched[1]

    def restrict(self, only: SearchFilter) -> None:
        """Search only the files that a filter allows from now on.

        Raises:
            NotFound: it allows no indexed file.
            SearchInvalid, SourceError: the filter is invalid.
        """
        self.only, self._searched = only, None
        self._searches.clear()
        if only and not any(repository.store.live_count for repository in self.searched):
            raise NotFound(nothing_within(only))

    def about(self, name: str) -> Subject:
        """Set what the next question is about: a definition or a file. Raises NotFound."""
        self.subject = find_subject(self.repositories, name)
        return self.subject

    def next_subject(self) -> Subject | None:
        """Return what "it" means in the next question."""
        return self.subject or subject_of(self.exchanges(self.turns()))

    def exchanges(self, turns: Sequence[DialogTurn]) -> list[Exchange]:
        """Return what a search takes from turns, oldest first, and the subject that the user set."""
        past = [_exchange(turn) for turn in answered(turns)]
        return [*past, Exchange.about(self.subject)] if self.subject else past

    def rebuild(self, damage: StoreCorrupt) -> None:
        """Re-index the repository whose store is damaged. Raises what `Engine.rebuilt` raises."""
        self.repositories = self.engine.rebuilt(self.repositories, damage)

    def turns(self) -> list[DialogTurn]:
        """Return the turns so far, oldest first."""
        return self.history.turns()

    def past(self) -> list[DialogTurn]:
        """Return the turns so far, with the freshness of their sources in the current repositories."""
        return check_turns(self.turns(), self._now())

    def known(self) -> Known:
        """Return the memory that every prompt shows: preferences and facts, in their current state."""
        return known_of(self.engine, None, self.repositories, self._now(), [], [])

    def _now(self) -> dict[str, State | str]:
        """Return the current state of the repositories by location, or why it is unknown."""
        kept = kept_files(self.engine)
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
        """Search in the context of the turns, by default those of the history."""
        return self._search(question, self.past() if turns is None else turns, k)

    def find(self, query: SearchQuery) -> SearchOutcome:
        """Search for a question in the context of the turns, for a string, or for an expression.

        Raises:
            SearchInvalid, SourceError: the pattern or the filter is invalid.
        """

        def ask(chosen: Sequence[Repository]) -> RetrievalResult:
            other = Dialog(self.engine, chosen, history=self.history) if query.only else self
            return other.search(query.text, k=query.depth)

        return search_repositories(self.repositories, query, ask, reach=self.engine.reach)

    def _search(self, question: str, turns: Sequence[DialogTurn], k: int) -> RetrievalResult:
        """Search once for the same question, turns and stores; the last few results are cached."""
        past = self.exchanges(turns)
        stores = tuple(repository.store.header["id"] for repository in self.repositories)
        key = (question, tuple((each.question, each.places, each.subject) for each in past), k, stores)
        found = self._searches.get(key)
        if found is None:
            searchers, has_model = [r.searcher for r in self.searched], self.engine.settings.has_model
            found = search(searchers, question, past=past, k=k, with_further=has_model)
            found = with_history(self.searched, found, k, self.engine.on_missing_files)
            found = with_overview(self.searched, found, k)
            found = with_unread(self.searched, found, reach=self.engine.reach)
            self._searches[key] = found
            if len(self._searches) > _CACHED_SEARCHES:
                self._searches.popitem(last=False)
        return found

    def prepare(
        self, question: str, rewording: Rewording = AS_TYPED, *, looked: Look | None = None
    ) -> Prepared:
        """Prepare a question: find the relevant turns and the hits, and render the prompt.

        `rewording` is the question as rewritten by a model. Its standalone form is searched instead, unless
        the repository seems to answer only the question as typed; its phrasings are searched besides. A
        second look that has ended adds what it found. With `leads`, the prompt leaves room for such places.

        Raises:
            ContextTooSmall, TemplateError: the prompt cannot be rendered.
            QuestionEmpty, QuestionTooLong: as `check_question`.
        """
        check_question(question)
        began, settings, now = time.perf_counter(), self.engine.settings, self._now()
        turns = check_turns(self.turns(), now)
        found, confidence = self._found(question, rewording, turns, SHOWN_HITS)
        has_looked = looked is not None and bool(looked.hits(()))
        as_found = has_looked or not settings.has_model
        if looked:
            found = replace(found, hits=tuple(looked.hits(found.hits)))
        leads = self.leads and looked is None
        for remark in () if looked else found.remarks:
            self.engine.notice(remark)
        searched = time.perf_counter()
        seconds = _seconds_of_model(rewording, looked) | {"search": searched - began}
        older, shown = self._remembered(found.sought.standalone, turns)
        known = known_of(self.engine, self.conversation, self.repositories, now, turns, shown)
        code = self._to_show(found, turns, as_found=as_found, leads=leads)
        confidence, warned = self._warned(confidence, found, has_looked or is_small_talk(question))
        prompt = compose(
            PromptInput(
                question=question,
                standalone_question=found.sought.standalone,
                hits=code.blocks,
                places=code.places,
                turns=[with_places(turn) for turn in (*check_turns(older, now), *shown)],
                repositories=[r.source.name for r in self.repositories],
                instructions=self._instructions(),
                language=language_for(settings.language, known),
                frames=frames_of(self.repositories, with_names=False) if settings.has_model else [],
                outlines=code.outlines,
                known=known,
                warning=warned,
                missing_words=confidence.missing_words if confidence else (),
                code_facts=found.code_facts,
            ),
            template=None if self.is_quoted else load_template(settings.template, settings.home),
            counter=self.engine.counter,
            context_tokens=int(settings.context_tokens * (_LEADS_SHARE if leads else 1)),
            answer_tokens=self._answer_tokens(),
            source_chars=None if as_found else _SOURCE_CHARS,
        )
        prepared = Prepared(
            question=question,
            standalone_question=found.sought.standalone,
            conversation=self.conversation,
            hits=found.hits,
            prompt=prompt,
            seconds=seconds | {"prompt": time.perf_counter() - searched},
            confidence=confidence,
            code_facts=found.code_facts,
            subject=found.sought.subject if found.sought.says_it else None,
            options=self.options,
            steps=tuple(looked.steps) if looked else (),
            warning=warned,
            rewording=rewording,
        )
        return prepared if settings.has_model else self._noted(prepared)

    def _noted(self, prepared: Prepared) -> Prepared:
        """Return a prepared question with what an answer without a model needs."""
        return quoted_overview(self.searched, prepared) or noted(self.repositories, prepared)

    def _to_show(
        self, found: RetrievalResult, turns: Sequence[DialogTurn], *, as_found: bool, leads: bool
    ) -> ShownCode:
        """Return the code that the prompt shows, the most important first.

        What a model has asked to read is shown `as_found`, and so is what is quoted without a model. A model
        that looks further is shown `leads`, the first places: it reads the others if they matter.
        """
        searchers = [repository.searcher for repository in self.searched]
        if as_found:
            facts = lines_of_facts(searchers, found.code_facts) if self.engine.settings.has_model else ()
            return ShownCode([*found.hits, *other_parts(searchers, found.hits)], facts)
        code = shown_code(searchers, found, cited_code(searchers, turns))
        return ShownCode(self._first(code.blocks), code.places) if leads else code

    def _first(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the first hits, and as many as there is room for in the first request of a look."""
        room, first = _LEADS_TOKENS, list[Hit]()
        for hit in hits[:_LEADS]:
            room -= self.engine.counter.count(hit.text)
            if room >= 0 or not first:
                first.append(hit)
        return first

    def _warned(
        self, confidence: Confidence | None, found: RetrievalResult, is_answered: bool
    ) -> tuple[Confidence | None, str]:
        """Return the confidence, without an answer where a question is about a file that is not there, and
        the warning before the answer; none if the question is answered.
        """
        if is_answered:
            return confidence, ""
        missing = None if found.code_facts else missing_file(self.searched, found)
        if missing is None:
            return confidence, self._warning(confidence, found)
        found_it = confidence is not None and confidence.found and not missing.is_subject
        return confidence and replace(confidence, found=found_it), missing.sentence

    def _warning(self, confidence: Confidence | None, found: RetrievalResult) -> str:
        """Return the warning before an answer of which something was not found; "" if not needed."""
        if lacks_subject(found.sought):
            return no_subject(found.sought.document)
        if confidence is None or confidence.is_sure:
            return ""
        if not confidence.found:  # a model that looks further gets the doubt, else this is the answer
            return warning(replace(confidence, found=True), found.hits) if self.leads else ""
        named, reach = found.sought.question.names, self.engine.reach
        unread = missing_note(self.repositories, confidence, named, reach=reach)
        return warning(confidence, found.hits, unread, is_part=any(map(is_part, self.repositories)))

    def _answer_tokens(self) -> int:
        """Return the tokens reserved for the answer: as the caller asks, at most half of the context."""
        settings, asked = self.engine.settings, self.options.max_tokens
        if asked is None or not settings.has_model:
            return settings.answer_tokens
        return min(asked, settings.context_tokens // 2)

    def _instructions(self) -> str:
        """Return the part of the system prompt with the caller's instructions; "" if there are none."""
        options = self.options
        if not (options.instructions.strip() or options.is_json):
            return ""
        return render_instructions(
            self.engine.settings.home, instructions=options.instructions, is_json=options.is_json
        )

    def _remembered(
        self, question: str, turns: Sequence[DialogTurn]
    ) -> tuple[list[DialogTurn], list[DialogTurn]]:
        """Return the older turns relevant to a question, and the latest turns, shortened to make room."""
        counter, settings = self.engine.counter, self.engine.settings
        latest = window(turns, budget_tokens=int(settings.context_tokens * HISTORY_SHARE), counter=counter)
        older = recall_older(self.engine, self.conversation, question, turns, latest)
        if older:
            room = int((settings.context_tokens - settings.answer_tokens) * _ROOM_SHARE)
            room -= sum(turn_tokens(turn, counter) for turn in older)
            latest = window(turns, budget_tokens=room, counter=counter)
        return older, latest

    def _found(
        self, question: str, rewording: Rewording, turns: Sequence[DialogTurn], k: int
    ) -> tuple[RetrievalResult, Confidence | None]:
        """Return the selected hits, and the confidence that they contain an answer; None if not judged."""
        selection = self.selection
        if selection is None:
            return self._reworded(question, rewording, turns, k)
        confidence: Confidence | None = None
        if selection.about:
            found = self._search(selection.about, (), k * selection.depth)
        else:
            found, confidence = self._reworded(question, rewording, turns, k * selection.depth)
        found = replace(found, hits=tuple(selection.choose(found.hits, k)), further=(), code_facts=None)
        return found, confidence if selection.is_judged else None

    def _reworded(
        self, question: str, rewording: Rewording, turns: Sequence[DialogTurn], k: int
    ) -> tuple[RetrievalResult, Confidence | None]:
        """Return the hits with those of the phrasings, and the confidence that they contain an answer.

        If only a phrasing has a likely answer, it is the question that was asked in the wrong words.
        """
        searchers = [repository.searcher for repository in self.searched]
        found, own = self._judged(question, rewording.standalone, turns, k)
        phrased = with_phrasings(searchers, found, rewording.phrasings, k=k)
        if own is None:
            return phrased, None
        confidence = best_confidence(searchers, phrased, own)
        return phrased if confidence.found else found, confidence

    def _judged(
        self, question: str, standalone: str, turns: Sequence[DialogTurn], k: int
    ) -> tuple[RetrievalResult, Confidence | None]:
        """Return the hits, and the confidence that they contain an answer; None if not judged.

        A model's standalone question is judged without the turns, but searched with them: a small model often
        only repeats the question, or resolves half of its references.
        """
        searchers = [repository.searcher for repository in self.searched]
        if not self.engine.settings.gate:
            return self._search(standalone or question, turns, k), None
        if standalone:
            alone = self._search(standalone, (), k)
            confidence = judge(searchers, alone)
            if confidence.is_sure:
                return self._search(standalone, turns, k), confidence
        found = self._search(question, turns, k)
        judged = judge(searchers, found)
        if standalone and not judged.is_sure:
            return alone, confidence
        return found, judged

    def is_foreign(self, question: str) -> bool:
        """Whether a question is not in English, if only its words are searched."""
        return takes_bags(self.engine.embedder) and is_foreign(question, self.engine.embedder)

    def not_rewritten(self, error: ProviderError) -> None:
        """Notify the user that the question is searched as typed; a failed rewrite is no error."""
        self.engine.notice(f"the question was not rewritten by the model ({error})")

    def not_found(self, prepared: Prepared) -> Answer:
        """Return the answer if nothing was found; a note names submodules that are not indexed."""
        submodules = [path for r in self.repositories if r.report for path in r.report.submodules]
        unread = missing_note(self.repositories, prepared.confidence, reach=self.engine.reach)
        answer = not_found(prepared, unread)
        return replace(answer, notes=(*answer.notes, not_indexed(submodules))) if submodules else answer

    def small_talk(self, prepared: Prepared) -> Answer | None:
        """Return the answer to a message that asks for nothing in the code; None for any other."""
        text = answer_small_talk(prepared.question, [one.source.name for one in self.repositories])
        return replace(not_found(prepared), text=text, hits=(), found=True, confidence=None) if text else None

    def ask(self, question: str) -> DialogTurn | None:
        """Store a question before its answer, and return its turn; None if the history stores only answers.

        The first question also creates the conversation. `remember`, `fail` or `withdraw` ends the turn.
        """
        turn = DialogTurn(
            user_query=UserQuery(question),
            assistant_response_timestamp=None,
            namespace=self.engine.settings.namespace,
            state="asked",
            metadata=asked_by(),
        )
        try:
            return self.history.ask(turn, self.repositories)
        except StoreReadOnly:
            return None  # the answer says so

    def fail(self, error: BaseException, text: str = "", model: str = "") -> None:
        """End the turn of a stored question that has no answer, with the text so far.

        A question that was wrong itself (ConfigError) is removed instead.
        """
        asked = self.history.asked
        if asked is None:
            return
        if isinstance(error, ConfigError):
            self.history.withdraw()
            return
        failed = replace(
            asked,
            assistant_response=AssistantResponse(text) if text else None,
            assistant_response_timestamp=now_utc(),
            model=model,
            state="failed",
            error=_reason(error),
            usage=self.spending.usage,
            metadata=None,
        )
        self.history.fail(failed)

    def remember(self, prepared: Prepared, answer: Answer) -> Answer:
        """Store the turn atomically; the first turn also creates the conversation.

        Where the memory is read-only, nothing is stored, and a note of the answer says so.

        Raises:
            NotFound: its question was stored, and was deleted since.
        """
        answered = now_utc()
        answer = with_anchors(answer, self.repositories, prepared)
        answer = replace(answer, trace=trace(prepared, answer))
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
            state="answered" if answer.complete else "partial",
            subject=prepared.subject,
            trace=answer.trace,
            support=answer.support,
            metadata={
                **({"cached": answer.cached} if answer.cached else {}),
                **({"request": dict(self.metadata)} if self.metadata else {}),
            }
            or None,
        )
        try:
            stored = self.history.store(turn, prepared.prompt, self.repositories)
        except StoreReadOnly as error:
            return self.with_coverage(replace(answer, notes=(*answer.notes, f"not stored: {error}")))
        self.subject = None  # from now on it is the turn's
        if stored.conversation_id is None:
            return self.with_coverage(answer)
        proposed = note_statements(self.engine, stored, self.repositories)
        answer = replace(answer, notes=(*answer.notes, *map(proposal_note, proposed)))
        return self.with_coverage(with_turn(answer, stored))

    def with_coverage(self, answer: Answer) -> Answer:
        """Add the coverage to an answer, and notes: files that are not indexed yet, another language."""
        coverage = tuple(repository.coverage for repository in self.repositories)
        notes = [*self.remarks, *(one.note for one in coverage)]
        names, said = (
            parse_question(answer.question).names,
            answer.code_facts.note if answer.code_facts else "",
        )
        notes += pending_notes(self.searched, names, said, reach=self.engine.reach)
        notes += [f"only files that match the filter ({self.only}) were searched"] if self.only else []
        confidence = answer.confidence
        if confidence is not None and confidence.foreign and answer.found and not answer.warning:
            notes.append(FOREIGN)
        return replace(answer, coverage=coverage, notes=(*answer.notes, *(note for note in notes if note)))

    def _at_commit(self, citations: Sequence[Citation]) -> tuple[Citation, ...]:
        """Mark citations whose bytes differ from those of the commit as dirty."""
        dirty: set[tuple[str, str]] = set()
        for repository in self.repositories:
            if not repository.checkout.dirty:
                continue
            location = repository.source.location
            blobs = {c.path: c.blob for c in citations if c.location == location}
            there = committed(repository.checkout, blobs)
            dirty |= {(location, path) for path, blob in blobs.items() if there.get(path) != blob}
        marked = (((c.location, c.path) in dirty, c) for c in citations)
        return tuple(c if c.dirty is is_dirty else replace(c, dirty=is_dirty) for is_dirty, c in marked)


def _reason(error: BaseException) -> str:
    """Return why a question has no answer, as it is stored."""
    if isinstance(error, RagError):
        return str(error)
    if not isinstance(error, Exception):
        return STOPPED
    return f"the program failed ({type(error).__name__})"


def answered(turns: Sequence[DialogTurn]) -> list[DialogTurn]:
    """Return the turns to which a follow-up may refer."""
    return [turn for turn in turns if not _is_unanswered(turn)]


def _seconds_of_model(rewording: Rewording, looked: Look | None) -> dict[str, float]:
    """Return the seconds of what a model does before it answers."""
    seconds = {"reword": rewording.seconds} if rewording.seconds else {}
    return seconds | ({"look": looked.seconds} if looked else {})


def _is_unanswered(turn: DialogTurn) -> bool:
    """Whether nothing was found then; a follow-up does not refer to such a turn."""
    return not turn.model and not turn.citations


def _exchange(earlier: DialogTurn) -> Exchange:
    turn = earlier.with_current_citations()
    cited = [(c, Subject.of(c.span)) for c in turn.citations]
    used = [one for one in cited if one[0].used] or cited
    is_outdated = turn.freshness is not None and turn.freshness.is_stale
    places, scores = tuple(place for _, place in used), tuple(c.score for c, _ in used)
    listed = () if is_outdated else listed_in(turn.answer, {c.n: place for c, place in cited})
    setting = "" if is_outdated else setting_in(turn.answer)
    return Exchange(
        turn.question,
        places,
        earlier.subject,
        scores,
        is_outdated=is_outdated,
        listed=listed,
        setting=setting,
    )
