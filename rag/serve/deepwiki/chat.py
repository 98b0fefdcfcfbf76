"""Answers to the requests of deepwiki-open's frontend, streamed over HTTP or WebSocket."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from rag.errors import NotFound, ProviderError
from rag.markdown import StreamSanitizer, code, link, plain, sanitize
from rag.ports import CompletingGenerator, is_async
from rag.serve.access.keys import Caller
from rag.serve.deepwiki.filters import FileRules, rules_of
from rag.serve.deepwiki.prompts import (
    LAST_STAGE,
    SEARCHED,
    SOURCES,
    ParsedRequest,
    parse_request,
    research_heading,
)
from rag.serve.deepwiki.repositories import entry_named, ready
from rag.serve.deepwiki.schema import LANGUAGES, DeepWikiRequest
from rag.serve.deepwiki.wiki import Wikis
from rag.serve.errors import BadRequest, Forbidden, ModelFailed
from rag.serve.links import citation_url
from rag.serve.openai.thread_matching import ClientHistory, Prefixes
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service
from rag.service import Dialog, Engine, Repository
from rag.service.loop.dialog import HitSelection
from rag.types import Answer, Hit

_PIECE_CHARS = 32_768
_CHUNKS_OF_FILE = 6
_ISO_CODES = {"kr": "ko"}


class DeepWikiChat:
    """All requests that arrive as messages: questions, research, plans and pages of a wiki, tasks."""

    def __init__(self, service: Service) -> None:
        self._service, self._prefixes, self._wikis = service, Prefixes(service.shared), Wikis(service)
        self._engines: dict[tuple[str, str | None, str], Engine] = {}

    async def pieces(self, caller: Caller, asked: DeepWikiRequest, *, base: str) -> AsyncGenerator[str, None]:
        """Yield the answer as text. Close the generator to stop: then nothing is stored.

        Args:
            caller: the caller.
            asked: the request.
            base: the server's own URL.

        Raises:
            Forbidden: the repository is not served, or `filePath` is outside it.
            BadRequest, TooLarge: there is no question, or the messages are too long.
            RagError: as `Service.answer`.
        """
        self._service.limiter.check_history(len(asked.messages))
        entry = await entry_named(self._service.registry, asked.repo_url, caller)
        wanted = parse_request([(message.role, message.content) for message in asked.messages])
        if wanted.kind in ("question", "research"):
            self._service.limiter.check_question(wanted.text, param="messages")
        repository = await ready(self._service.registry, entry)
        rules = rules_of(asked)
        engine = self._engine(caller, asked)
        if wanted.kind in ("question", "research"):
            dialog = await self._dialog(engine, entry, repository, wanted, rules, asked.filePath)
            async with aclosing(self._answered(dialog, wanted, entry, base)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if wanted.kind == "plan":
            text = await self._wikis.plan(entry, repository, rules, is_concise=wanted.is_concise)
        elif wanted.kind == "page":
            text = await self._wikis.page(engine, entry, repository, rules, wanted.title, wanted.files, base)
        else:
            text = await self._task(wanted.text)
        for start in range(0, len(text), _PIECE_CHARS):
            yield text[start : start + _PIECE_CHARS]

    # ------------------------------------------------------------ questions

    async def _answered(
        self, dialog: Dialog, wanted: ParsedRequest, entry: ServedRepository, base: str
    ) -> AsyncGenerator[str, None]:
        has_model = dialog.engine.settings.has_model
        sanitizer = StreamSanitizer()
        if wanted.kind == "research":
            # Without a model, further stages would find nothing new.
            is_last = wanted.stage >= LAST_STAGE or not has_model
            heading = research_heading(wanted.stage, is_last=is_last)
        else:
            heading = ""
        started = False
        try:
            async with aclosing(self._service.answer(dialog, wanted.text)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        rest = sanitizer.close().rstrip("\n") + _appendix(piece, entry, base)
                        if heading + rest:
                            yield heading + rest
                    elif isinstance(piece, str) and (text := sanitizer.feed(piece)):
                        yield heading + text
                        heading, started = "", True
        except ProviderError as error:
            if error.quotes is None:
                raise
            quotes = sanitize(error.quotes.text).rstrip("\n") + _appendix(error.quotes, entry, base)
            if not started:
                raise ModelFailed(error, self._service.public_message(error), {"quotes": quotes}) from error
            yield f"{sanitizer.close()}\n\n{quotes}"
            raise

    async def _dialog(
        self,
        engine: Engine,
        entry: ServedRepository,
        repository: Repository,
        wanted: ParsedRequest,
        rules: FileRules,
        file_path: str | None,
    ) -> Dialog:
        file_hits = await to_thread(_chunks_of, repository, file_path) if file_path else []
        history = await to_thread(
            ClientHistory,
            engine,
            [repository.source],
            names=[entry.name],
            history=wanted.history,
            prefixes=self._prefixes,
        )
        return Dialog(engine, [repository], history=history, selection=_selection(rules, file_hits))

    def _engine(self, caller: Caller, asked: DeepWikiRequest) -> Engine:
        """Return the caller's engine, set to the requested language, and to the model if it is offered."""
        model = asked.model if asked.model in self._service.models else None
        engine = self._service.engine_for(caller, model)
        language = asked.language or LANGUAGES.default
        # English is the frontend's default; in that case answer in the language of the question.
        is_other = language in LANGUAGES.supported_languages and language != LANGUAGES.default
        if not engine.settings.has_model or not is_other:
            return engine
        code = _ISO_CODES.get(language, language)
        key = (engine.settings.namespace, engine.settings.model, code)
        if key not in self._engines:
            self._engines[key] = engine.with_settings(language=code)
            for shared in ("embedder", "counter"):
                self._engines[key].__dict__[shared] = getattr(engine, shared)
        return self._engines[key]

    async def _task(self, prompt: str) -> str:
        """Complete a self-contained prompt with the model alone."""
        if not self._service.engine.settings.has_model:
            raise BadRequest("slides and workshops need a language model; start the server with --model")
        async with self._service.limiter.slot(), self._service.generator() as generator:
            if is_async(generator):
                return await generator.acomplete(prompt)
            assert isinstance(generator, CompletingGenerator)
            return await to_thread(generator.complete, prompt)


def _selection(rules: FileRules, file_hits: Sequence[Hit]) -> HitSelection | None:
    """Return a selection that excludes files by the rules and puts the chunks of one file first."""
    if not rules and not file_hits:
        return None

    def choose(hits: Sequence[Hit], k: int) -> Sequence[Hit]:
        merged = {(hit.path, hit.start): hit for hit in (*file_hits, *hits) if rules.keeps(hit.path)}
        return list(merged.values())[:k]

    return HitSelection(choose, depth=4, is_judged=not file_hits)


def _chunks_of(repository: Repository, path: str) -> list[Hit]:
    """Return the first chunks of a file.

    Raises:
        Forbidden: the path is outside the repository.
        NotFound: the file is not in the index.
    """
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\")) or ".." in parts or "\0" in path or ":" in parts[0]:
        raise Forbidden("that path is outside the repository")
    store = repository.store
    if store.file_text(path) is None:
        raise NotFound(f"the file {path[:200]!r} is not in the index of {repository.source.name}")
    rows = [
        chunk
        for chunk, file in enumerate(store.file.tolist())
        if (store.dead is None or not store.dead[chunk]) and store.file_path(file) == path
    ]
    return [store.hit(chunk, 1.0, {"file": 1.0}) for chunk in rows[:_CHUNKS_OF_FILE]]


def _appendix(answer: Answer, entry: ServedRepository, base: str) -> str:
    """Return the text after an answer: its sources, and what was searched.

    The protocol transmits only text, so this is part of it.
    """
    searched = "; ".join(one.summary for one in answer.coverage)
    return _sources(answer, entry, base) + (f"{SEARCHED}{plain(searched)})" if searched else "")


def _sources(answer: Answer, entry: ServedRepository, base: str) -> str:
    """Return the list of an answer's citations, as Markdown."""
    lines = [
        f"- [{citation.n}] "
        + link(code(citation.place), citation_url(citation, entry.checkout, entry.name, base))
        for citation in answer.citations
    ]
    return SOURCES + sanitize("\n".join(lines)) if lines else ""
