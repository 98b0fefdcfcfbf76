"""The assembly: what the settings name is opened, the rooms are joined. The only importer of backends.

    Engine      settings → embedder, turn store, generator; opens repositories
    Repository  a source, its store, and what is needed to search it
    Dialog      a conversation about repositories: prepare → (a model writes) → finish → remember
    converse    the whole loop over a generator

Nothing here imports AdalFlow, unless a language model is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rag import backends
from rag.answer.citations import CitationFilter
from rag.answer.extract import ExtractiveGenerator
from rag.answer.finish import finish
from rag.corpus.acquire import acquire, committed, resolve
from rag.database.locate import store_path
from rag.database.store import Store
from rag.database.update import Options, count_behind, open_usable, refresh
from rag.errors import ConversationMismatch, NotFound, ProviderError, SourceError
from rag.memory.window import window
from rag.ports import CompletingGenerator, Embedder, TextGenerator, TokenCounter, TurnStore
from rag.prompt.compose import compose
from rag.prompt.templates import load_template, render_condense
from rag.retrieval.context import Exchange, Place
from rag.retrieval.search import Found, Searcher, search
from rag.settings import Settings
from rag.types import (
    Answer,
    AssistantResponse,
    Checkout,
    Citation,
    Conversation,
    DialogTurn,
    Filters,
    IndexReport,
    Prepared,
    Source,
    UserQuery,
    with_turn,
)

Progress = Callable[[str, int, int], None]
Notice = Callable[[str], None]
Confirm = Callable[[Sequence[str], Embedder], None]

_HISTORY_SHARE = 0.25
_REMEMBERED_TURNS = 50


@dataclass(frozen=True, slots=True)
class Repository:
    """A source that is open for questions."""

    source: Source
    checkout: Checkout
    store: Store
    searcher: Searcher
    report: IndexReport | None


class Engine:
    """Opens what the settings name, each thing when it is first needed, and keeps it open.

    Args:
        settings: what to open.
        progress: told stage, done, total while something is indexed.
        notice: told in a sentence what the user ought to know and need not act on.
        confirm: asked before texts are sent to an embedding service; raising stops the indexing.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        progress: Progress = lambda stage, done, total: None,
        notice: Notice = lambda text: None,
        confirm: Confirm = lambda texts, embedder: None,
    ) -> None:
        self.settings = settings
        self.progress, self.notice, self.confirm = progress, notice, confirm
        self._open: dict[Source, Repository] = {}

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that the settings name."""
        return backends.open_embedder(self.settings)

    @cached_property
    def turns(self) -> TurnStore:
        """The store of conversations that the settings name."""
        return backends.open_turn_store(self.settings)

    @cached_property
    def counter(self) -> TokenCounter:
        """Counts tokens as the model does, or a little high."""
        return backends.open_token_counter(self.settings)

    def generator(self) -> TextGenerator:
        """What writes the answers: the configured model, else the extractive answerer."""
        if not self.settings.has_model:
            return ExtractiveGenerator()
        return backends.open_generator(self.settings)

    def close(self) -> None:
        """Release the turn store. Closing twice is fine."""
        if "turns" in self.__dict__:
            self.turns.close()

    def repository(
        self,
        source: str | Source,
        *,
        ref: str | None = None,
        refreshing: bool = True,
        rebuild: bool = False,
    ) -> Repository:
        """Open a repository: fetched, indexed or brought up to date first where that is needed.

        With `refreshing` off an existing store is opened as it is, and a notice says how many files are
        behind; one that does not exist is still built.

        Raises:
            SourceError, StoreError: as the rooms do.
        """
        located = locate(source, ref) if isinstance(source, str) else source
        path = self.store_file(located)
        options = Options(max_file_bytes=self.settings.max_file_bytes)
        checkout = self._acquire(located, path, refreshing=refreshing or rebuild)
        if not refreshing and not rebuild and (store := open_usable(path, located, self.embedder, options)):
            if behind := count_behind(store, checkout, options):
                self.notice(f"{behind} files of {located.name} differ from the index; leave out --no-refresh")
            return self._opened(located, checkout, store.at(checkout), None)
        store, report = refresh(
            checkout,
            path,
            self.embedder,
            options,
            rebuild=rebuild,
            progress=self.progress,
            confirm=lambda texts: self.confirm(texts, self.embedder),
        )
        if report.action == "rebuilt" and not rebuild:
            self.notice(f"the index of {located.name} was made anew: {report.reason}")
        return self._opened(located, checkout, store, report)

    def store_file(self, source: Source) -> Path:
        """Where the store of a source lies, or would lie."""
        return store_path(self.settings.home, source, embedder=self.settings.embedder)

    def _acquire(self, source: Source, store: Path, *, refreshing: bool) -> Checkout:
        def fetch(again: bool) -> Checkout:
            return acquire(
                source,
                home=self.settings.home,
                token=self.settings.git_token,
                timeout_s=self.settings.git_timeout_s,
                refresh=again,
                progress=lambda text: self.progress(text, 0, 0),
            )

        try:
            return fetch(refreshing)
        except SourceError as error:
            if not (source.is_url and refreshing and store.exists()):
                raise
            self.notice(f"could not fetch {source}, so this is the last fetched state ({error})")
            return fetch(False)

    def _opened(
        self, source: Source, checkout: Checkout, store: Store, report: IndexReport | None
    ) -> Repository:
        known = self._open.get(source)
        if known is not None and known.store.header["id"] == store.header["id"]:
            searcher = replace(known.searcher, index=store)
        else:
            searcher = Searcher(store, self.embedder, backends.open_vector_index(store.vectors))
        repository = Repository(source, checkout, store, searcher, report)
        self._open[source] = repository
        return repository

    def dialog(self, repositories: Sequence[Repository], conversation: Conversation | None = None) -> Dialog:
        """A conversation about repositories; None begins one, which is stored with its first turn."""
        return Dialog(self, repositories, conversation)

    def find_conversation(self, name: str, asked: Sequence[Source] = ()) -> Conversation:
        """The conversation of this id or name.

        Raises:
            NotFound: there is none.
            ConversationMismatch: it is about other repositories than `asked` (none asked is fine).
        """
        found = self.turns.conversation(name, namespace=self.settings.namespace)
        if asked and set(asked) != set(found.sources):
            raise ConversationMismatch(
                conversation=name,
                about=", ".join(map(str, found.sources)) or "nothing yet",
                asked=", ".join(map(str, asked)),
            )
        return found

    def last_conversation(self) -> Conversation:
        """The conversation last written to. Raises NotFound when there is none."""
        for conversation in self.turns.conversations(namespace=self.settings.namespace):
            return conversation
        raise NotFound('there is no conversation to go on with; begin one with `rag ask SOURCE "question"`')


class Dialog:
    """A conversation about one or more repositories."""

    def __init__(
        self, engine: Engine, repositories: Sequence[Repository], conversation: Conversation | None
    ) -> None:
        self.engine, self.repositories = engine, tuple(repositories)
        self.conversation = conversation
        self.name = ""

    def turns(self) -> list[DialogTurn]:
        """The turns so far, oldest first."""
        if self.conversation is None:
            return []
        return self.engine.turns.turns(
            self.conversation.id, namespace=self.engine.settings.namespace, last=_REMEMBERED_TURNS
        )

    def search(self, question: str, *, k: int = 10, turns: Sequence[DialogTurn] | None = None) -> Found:
        """Retrieval alone, in the light of the turns."""
        past = [_exchange(turn) for turn in (self.turns() if turns is None else turns)]
        return search([r.searcher for r in self.repositories], question, past=past, k=k)

    def prepare(self, question: str, *, standalone: str | None = None, k: int = 12) -> Prepared:
        """Steps 1 to 3: the turns that matter, the hits, the prompt with exactly the sources that fitted.

        `standalone` is the question as a model put it, so that it needs no history; it is then searched
        as it is.

        Raises:
            ContextTooSmall, TemplateError: the prompt cannot be made.
        """
        began = time.perf_counter()
        settings = self.engine.settings
        turns = self.turns()
        if standalone:
            found = search([r.searcher for r in self.repositories], standalone, k=k)
        else:
            found = self.search(question, k=k, turns=turns)
        searched = time.perf_counter()
        shown = window(
            turns,
            budget_tokens=int(settings.context_tokens * _HISTORY_SHARE),
            counter=self.engine.counter,
        )
        prompt = compose(
            template=load_template(settings.template, settings.home),
            question=question,
            standalone_question=standalone or found.sought.standalone,
            hits=found.hits,
            turns=shown,
            counter=self.engine.counter,
            context_tokens=settings.context_tokens,
            answer_tokens=settings.answer_tokens,
            language=settings.language,
            repositories=[r.source.name for r in self.repositories],
        )
        return Prepared(
            question=question,
            standalone_question=standalone or found.sought.standalone,
            conversation=self.conversation,
            hits=found.hits,
            prompt=prompt,
            seconds={"search": searched - began, "prompt": time.perf_counter() - searched},
        )

    def condensing(self, question: str) -> str | None:
        """The prompt that asks a model for the standalone question; None when there is no history."""
        turns = window(
            self.turns(),
            budget_tokens=int(self.engine.settings.context_tokens * _HISTORY_SHARE),
            counter=self.engine.counter,
        )
        return render_condense(self.engine.settings.home, question=question, turns=turns) if turns else None

    def remember(self, prepared: Prepared, answer: Answer) -> Answer:
        """Step 5: store the turn, once, atomically; the conversation is begun with its first turn."""
        engine = self.engine
        namespace = engine.settings.namespace
        if self.conversation is None:
            self.conversation = engine.turns.create_conversation(
                namespace=namespace, name=self.name, sources=[r.source for r in self.repositories]
            )
        turn = DialogTurn(
            user_query=UserQuery(answer.question),
            assistant_response=AssistantResponse(answer.text),
            conversation_id=self.conversation.id,
            namespace=namespace,
            standalone_question=prepared.standalone_question,
            citations=self._at_commit(answer.sources),
            model=answer.model,
            prompt_hash=prepared.prompt.hash,
            usage=answer.usage,
            complete=answer.complete,
        )
        stored = engine.turns.append(turn, conversation=self.conversation.id, namespace=namespace)
        return with_turn(answer, stored)

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


def locate(text: str, ref: str | None = None, filters: Filters | None = None) -> Source:
    """The source that a path or git URL names, with what of it is meant."""
    return replace(resolve(text, ref), filters=filters or Filters())


def _exchange(turn: DialogTurn) -> Exchange:
    used = [c for c in turn.citations if c.used] or list(turn.citations)
    return Exchange(turn.question, tuple(Place(c.path, c.symbol) for c in used))


def standalone_question(generator: TextGenerator, dialog: Dialog, question: str) -> str | None:
    """A follow-up as the model puts it on its own; None without a history, or when the model cannot.

    A failure here costs no answer: the follow-up is then searched as without a model.
    """
    if not isinstance(generator, CompletingGenerator) or (prompt := dialog.condensing(question)) is None:
        return None
    try:
        lines = generator.complete(prompt).strip().splitlines()
    except ProviderError as error:
        dialog.engine.notice(f"the follow-up was not rewritten by the model ({error})")
        return None
    return lines[0].strip() if lines else None


def converse(
    dialog: Dialog, question: str, generator: TextGenerator, *, keep_broken: bool = False
) -> Iterator[str | Answer]:
    """Ask: pieces of text as they come, then the Answer, which is stored as a turn.

    An answer that fails or is given up (the iterator is closed) stores no turn, unless `keep_broken`.
    """
    standalone = standalone_question(generator, dialog, question)
    prepared = dialog.prepare(question, standalone=standalone)
    began = time.perf_counter()
    filtered = CitationFilter(prepared.prompt.sources)
    raw: list[str] = []
    complete = False
    try:
        for piece in generator.stream(prepared):
            raw.append(piece)
            if shown := filtered.feed(piece):
                yield shown
        if shown := filtered.close():
            yield shown
        complete = True
    finally:
        if not complete and keep_broken and raw:
            dialog.remember(prepared, _finished(dialog, prepared, raw, generator, began, complete=False))
    answer = _finished(dialog, prepared, raw, generator, began, complete=True)
    yield dialog.remember(prepared, answer)


def _finished(
    dialog: Dialog,
    prepared: Prepared,
    raw: Sequence[str],
    generator: TextGenerator,
    began: float,
    *,
    complete: bool,
) -> Answer:
    answer = finish(
        prepared,
        "".join(raw),
        model=generator.model,
        usage=generator.usage,
        counter=dialog.engine.counter,
        home=dialog.engine.settings.home,
        complete=complete,
    )
    answer.seconds = {**prepared.seconds, "answer": time.perf_counter() - began}
    return answer
