"""`RAG`: the question-answering loop as an AdalFlow component.

    prepare    find relevant turns and hits, and render the prompt (a Jinja template) with the sources that
    fit generate   an AdalFlow Generator with a ModelClient writes the answer remember   the answer becomes
    the next turn

The engine does the work; this class only passes values, and adds asynchronous versions of the steps that call
a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing
from itertools import chain
from typing import Any

from rag.adal import adalflow
from rag.component.database_manager import OLLAMA_EMBEDDER, DatabaseManager, filters_of, ollama_url
from rag.component.documents import Documents, retriever_output
from rag.component.generator import AnswerGenerator
from rag.component.memory import Memory
from rag.errors import ConversationMismatch, NotFound
from rag.memory.claims import CheckedClaim
from rag.service import Dialog, Engine, Repository, aconverse, converse, locate
from rag.service.checks.claims import CheckedText, agent_texts, check_texts
from rag.service.loop.history import History
from rag.service.repositories.open_backends import FailedGenerator
from rag.service.tools.search import SearchQuery
from rag.settings import Settings, Steps, load_settings
from rag.types import Answer, Conversation, Hits, SearchFilter, SearchMode, Source, TraceStep


class RAG(adalflow.core.component.Component):  # type: ignore[misc]
    """Answers questions about repositories, and remembers the conversation.

    Args:
        provider: the model client, by name; by default as in the settings ("openai": any compatible server).
        model: the model's name; without one, or without a key or server, answers quote the nearest lines.
        use_s3: ignored; for DeepWiki's callers.
        local_ollama: use a local Ollama for answers and embeddings.
        settings: other settings; by default those of the environment and the settings file.
        base_url: an OpenAI-compatible server.
        template: the prompt: a file, the name of one in `RAG_HOME/templates`, or the text of a template.
        conversation: the conversation to continue, by id or name; an unknown name creates one.
        engine: the engine of another component, to share what it has open.
        steps: how many times the model may look again before it answers, or "auto"; by default as in the
            settings.
    """

    def __init__(
        self,
        provider: str | None = None,
        model: str | None = None,
        use_s3: bool = False,
        local_ollama: bool = False,
        *,
        settings: Settings | None = None,
        base_url: str | None = None,
        template: str | None = None,
        conversation: str | None = None,
        engine: Engine | None = None,
        steps: Steps | None = None,
    ) -> None:
        super().__init__()
        changes: dict[str, Any] = {
            "client": provider,
            "model": model,
            "base_url": base_url,
            "template": template,
            "steps": steps,
        }
        if local_ollama:
            changes["base_url"] = base_url or ollama_url()
            changes |= {"embedder": OLLAMA_EMBEDDER, "embedding_base_url": changes["base_url"]}
        changes = {name: value for name, value in changes.items() if value is not None}
        base = engine or Engine(settings or load_settings())
        self.engine = base.with_settings(**changes)
        self.database = DatabaseManager(engine=self.engine)
        self.memory = Memory(store=self.engine.turns, namespace=self.engine.settings.namespace)
        self.memory.engine = self.engine
        self.repositories: tuple[Repository, ...] = ()
        self._generator: Any = None
        self._named = conversation
        if conversation is not None:
            try:
                self.memory.conversation = conversation
            except NotFound:  # created with this name and the first turn
                self.memory.conversation = None

    # ------------------------------------------------------------ repositories

    def prepare_retriever(
        self,
        repo_url_or_path: str,
        type: str | None = None,
        access_token: str | None = None,
        excluded_dirs: Iterable[str] | None = None,
        excluded_files: Iterable[str] | None = None,
        included_dirs: Iterable[str] | None = None,
        included_files: Iterable[str] | None = None,
        *,
        ref: str | None = None,
    ) -> Documents:
        """Select the repository for questions: index it, or open and update it; return its chunks.

        The arguments are those of `DatabaseManager.prepare_database`. If the current conversation is about
        another repository, the next question starts a new one.

        Raises:
            ConversationMismatch: this RAG was created for a conversation about another repository.
        """
        documents = self.database.prepare_database(
            repo_url_or_path,
            type,
            access_token,
            None,
            None,
            excluded_dirs,
            excluded_files,
            included_dirs,
            included_files,
            ref=ref,
        )
        assert self.database.repository is not None
        self._ask_about([self.database.repository])
        return documents

    def add_repository(
        self, repo_url_or_path: str, *, ref: str | None = None, excluded_dirs: Iterable[str] | None = None
    ) -> None:
        """Add a repository to those that are searched; their hits are merged.

        The next question starts a new conversation, as the current one is about fewer repositories.

        Raises:
            ConversationMismatch: this RAG was created for a conversation about other repositories.
        """
        source = locate(repo_url_or_path, ref, filters_of(excluded_dirs, None, None, None))
        others = [repository for repository in self.repositories if repository.source != source]
        self._ask_about([*others, self.engine.repository(source, else_old=True)])

    def check(self, text: str | None = None, *, path: str = "") -> list[CheckedClaim]:
        """Return what a text says of the code of the current repository, each claim with its state.

        Args:
            text: any text; None checks the repository's AGENTS.md, CLAUDE.md, README and the like.
            path: the file of the repository that the text is from, "" for none: each line is compared as of
                the commit that wrote it.

        Raises:
            NotFound: no repository is selected.
            SourceError: it has no history, or only a part of it.
        """
        if not self.repositories:
            raise NotFound("no repository is prepared; call prepare_retriever(PATH_OR_URL) first")
        source = self.repositories[0].source
        given = [CheckedText(path or "text", text or "", path)]
        texts = agent_texts(self.engine, source) if text is None else given
        return check_texts(self.engine, source, texts)

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        mode: SearchMode = "question",
        ignore_case: bool = False,
        only: SearchFilter | None = None,
        in_code_words: Sequence[str] = (),
        page: int = 1,
    ) -> Hits:
        """Search without generating, in the context of the conversation; return hits, best first.

        Args:
            query: a question; with `mode` "exact" a string to find, with "regex" an expression.
            k: the number of hits, by default 10, or of lines on a page, by default 1,000.
            mode: what the query is.
            ignore_case: whether a string or an expression ignores case.
            only: the files to search.
            in_code_words: texts that say what is asked as the code would, with likely identifiers; they are
                searched besides a question in everyday words.
            page: the page of the lines; `matches` of the result counts all and names the files of later ones.
        """
        only = only or SearchFilter()
        asked = SearchQuery(query, mode, ignore_case, k, only, (), in_code_words, page)
        found = self._dialog().find(asked)
        return Hits(found.hits, found.matches)

    @property
    def transformed_docs(self) -> Sequence[Any]:
        """The chunks of the selected repositories, as AdalFlow documents with their vectors."""
        every = self._documents()
        return every[0] if len(every) == 1 else list(chain(*every))

    @property
    def retriever(self) -> Callable[[str], list[Any]]:
        """A search with the interface of AdalFlow's retrievers; returns a list of one `RetrieverOutput`.

        Its `doc_indices` are positions in `transformed_docs`.
        """
        return self._retrieved

    # ------------------------------------------------------------ asking

    @property
    def generator(self) -> AnswerGenerator:
        """The generator of answers, created on first use; it is called as AdalFlow's is.

        With a model, its `.generator` is AdalFlow's.
        """
        if self._generator is None:
            self._generator = self.engine.generator()
        return AnswerGenerator(self.engine, self._generator)

    def _answering_generator(self) -> Any:
        """Return the generator; if the model is not available, one that fails, and try again next time."""
        return self._generator or self._kept(self.engine.answering_generator())

    def _kept(self, generator: Any) -> Any:
        self._generator = None if isinstance(generator, FailedGenerator) else generator
        return generator

    def call(self, query: str, language: str | None = None) -> Answer:
        """Ask a question and store the turn. `rag(query)` is the same.

        Returns:
            The answer, which also unpacks as `(answer, [RetrieverOutput])`.

        Raises:
            NotFound: no repository is prepared.
            ProviderError: the model failed, and so did the turn. `quotes` is the extractive answer.
            ConfigError: an error that the user can fix, for example a context that is too small.
        """
        with closing(self.pieces(query, language)) as pieces:
            for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a conversation ends with its answer")

    async def acall(self, query: str, language: str | None = None) -> Answer:
        """Like `call`, without blocking the event loop."""
        async with aclosing(self._apieces(query, language)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    return piece
        raise AssertionError("a conversation ends with its answer")

    def stream(self, query: str, language: str | None = None, *, keep_broken: bool = False) -> Iterator[str]:
        """Yield the answer piece by piece; the turn is stored when the last piece was read.

        The text so far of an answer that is abandoned (`close`) is stored as a "partial" turn. If the model
        fails, the turn is "failed"; with `keep_broken` it is "partial" too.
        """
        with closing(self.pieces(query, language, keep_broken)) as pieces:
            for piece in pieces:
                if isinstance(piece, str):
                    yield piece

    async def astream(
        self, query: str, language: str | None = None, *, keep_broken: bool = False
    ) -> AsyncIterator[str]:
        """Like `stream`, for an event loop."""
        async with aclosing(self._apieces(query, language, keep_broken)) as pieces:
            async for piece in pieces:
                if isinstance(piece, str):
                    yield piece

    # ------------------------------------------------------------ internal

    def _documents(self) -> list[Documents]:
        return [Documents(repository.store) for repository in self.repositories]

    def _retrieved(self, query: str) -> list[Any]:
        hits = self.retrieve(query)
        indices, first = [0] * len(hits), 0
        for repository, documents in zip(self.repositories, self._documents(), strict=True):
            own = [n for n, hit in enumerate(hits) if hit.location == repository.source.location]
            for n, place in zip(own, documents.positions([hits[n] for n in own]), strict=True):
                indices[n] = first + place
            first += len(documents)
        return [retriever_output(query, hits, indices)]

    def _ask_about(self, repositories: Sequence[Repository]) -> None:
        sources = {repository.source for repository in repositories}
        current = self.memory.conversation
        if current is not None and current.sources and set(current.sources) != sources:
            if self._named is not None:
                raise ConversationMismatch(
                    conversation=self._named,
                    about=", ".join(map(str, current.sources)),
                    asked=", ".join(map(str, sources)),
                )
            self.memory.conversation = None
        self.repositories = tuple(repositories)

    def _begin(self, sources: Sequence[Source]) -> Conversation:
        if self._named is not None and self.memory.conversation is None:
            self.memory.conversation = self.engine.begin_conversation(self._named, sources)
        return self.memory.begin(sources)

    def _dialog(self, language: str | None = None) -> Dialog:
        conversation = self.memory.conversation
        if self.repositories:
            self.repositories = tuple(map(self.engine.current, self.repositories))
        elif conversation is not None:
            self.repositories = tuple(
                self.engine.repository(source, else_old=True) for source in conversation.sources
            )
        if not self.repositories:
            raise NotFound("no repository is prepared; call prepare_retriever(PATH_OR_URL) first")
        engine = self.engine if language is None else self.engine.with_settings(language=language)
        return Dialog(engine, self.repositories, history=History(engine, conversation, begin=self._begin))

    def pieces(
        self, query: str, language: str | None = None, keep_broken: bool = False
    ) -> Generator[str | TraceStep | Answer, None, None]:
        """Yield the pieces of an answer, the steps of a second look, and at the end the `Answer`."""
        dialog = self._dialog(language)
        try:
            with closing(
                converse(dialog, query, self._answering_generator(), keep_broken=keep_broken, cache=None)
            ) as pieces:
                for piece in pieces:
                    yield _with_documents(piece)
        finally:
            self._forget_withdrawn(dialog)

    async def _apieces(
        self, query: str, language: str | None, keep_broken: bool = False
    ) -> AsyncGenerator[str | TraceStep | Answer, None]:
        dialog = await asyncio.to_thread(self._dialog, language)
        generator = await asyncio.to_thread(self._answering_generator)
        try:
            async with aclosing(
                aconverse(dialog, query, generator, keep_broken=keep_broken, cache=None)
            ) as pieces:
                async for piece in pieces:
                    yield _with_documents(piece)
        finally:
            self._forget_withdrawn(dialog)

    def _forget_withdrawn(self, dialog: Dialog) -> None:
        """Forget a conversation that was removed because its first question was invalid."""
        if dialog.conversation is None:
            self.memory.conversation = None


def _with_documents(piece: str | TraceStep | Answer) -> str | TraceStep | Answer:
    if isinstance(piece, Answer):
        piece.hits = Hits(piece.hits)
        piece.documents = [retriever_output(piece.question, piece.hits)]
    return piece
