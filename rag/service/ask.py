"""The whole loop over a generator, as a program and as an event loop runs it."""

from __future__ import annotations

import re
import time
from asyncio import to_thread
from collections.abc import AsyncGenerator as AsyncPieces
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial

from rag.answer.citations import CitationFilter, resolve
from rag.answer.fallback import quotes_instead
from rag.answer.finish import before_answer, finish
from rag.answer.not_found import warning
from rag.errors import ProviderError, StoreCorrupt
from rag.ports import CompletingGenerator, TextGenerator, is_async
from rag.service.async_writes import written
from rag.service.cached_answers import CacheHit, LookUp, is_wanted, look_up
from rag.service.dialog import Dialog
from rag.types import Answer, Prepared

Put = Callable[[str], str | None]
"""Makes of a question what is said to a model; None where nothing is."""
Prepare = Callable[[Dialog, str, str | None], Awaitable[Prepared]]
"""How a question is prepared where not in a thread: takes the dialog, the question, and it on its own."""
Remember = Callable[[Dialog, Callable[[], Answer]], Awaitable[Answer]]
"""How a turn is stored where not in a thread: takes the dialog, and what stores it and gives its answer."""


def converse(
    dialog: Dialog,
    question: str,
    generator: TextGenerator,
    *,
    keep_broken: bool = False,
    cache: bool | None = False,
) -> Generator[str | Answer, None, None]:
    """Ask: pieces of text as they come, then the Answer, which is stored as a turn.

    Where no word of the question occurs in the repository the generator is not asked, and the Answer says so.
    Where the repository probably holds no answer a warning comes first.

    An answer that fails or is given up (the iterator is closed) stores no turn, unless `keep_broken`. With
    `cache` one that was given before is given again, as one piece, while what it rests on is unchanged; None
    leaves that to the settings.

    Raises:
        ProviderError: the model failed; `quotes` is the answer without it, which is not stored.
        ConfigError: the prompt cannot be made.
    """
    try:
        lookup, given, prepared = _looked_into(dialog, question, generator, cache)
    except StoreCorrupt as damage:  # a store is mapped: that comes to light when it is searched
        dialog.rebuild(damage)
        lookup, given, prepared = _looked_into(dialog, question, generator, cache)
    if given or _is_missing(prepared):
        prepared, answer = given or (prepared, dialog.not_found(prepared))
        yield answer.text
        yield dialog.remember(prepared, answer)
        return
    writing = _Writing(dialog, prepared, generator)
    try:
        if warned := writing.warning:
            yield warned
        with _closed_in_the_end(generator.stream(writing.prepared)) as pieces:
            for piece in pieces:
                if shown := writing.take(piece):
                    yield shown
        if shown := writing.rest():
            yield shown
    except BaseException as error:
        if keep_broken:
            writing.remember_broken()
        writing.failed(error)
        raise
    answer = writing.remember()
    if lookup:
        lookup.keep(prepared, answer)
    yield answer


def _looked_into(
    dialog: Dialog, question: str, generator: TextGenerator, cache: bool | None
) -> tuple[LookUp | None, CacheHit | None, Prepared]:
    """What comes before the answer: a look at the answers given before, and the question made ready."""
    standalone = _rewritten(question, _said(dialog, dialog.condensing, question, generator))
    lookup = look_up(dialog, question, standalone, generator, wanted=cache)
    given = lookup.unchanged() if lookup else None
    if not given and not standalone:
        standalone = _with_words(question, _said(dialog, dialog.rewording, question, generator))
    prepared = given.prepared if given else dialog.prepare(question, standalone=standalone)
    if lookup and not given:
        given = lookup.still(prepared)
    return lookup, given, prepared


async def aconverse(
    dialog: Dialog,
    question: str,
    generator: TextGenerator,
    *,
    keep_broken: bool = False,
    cache: bool | None = False,
    prepare: Prepare | None = None,
    remember: Remember | None = None,
) -> AsyncPieces[str | Answer, None]:
    """The same as `converse`, for an event loop: what takes time without it is done in threads."""
    prepare, remember = prepare or _prepare_in_a_thread, remember or _remember_in_a_thread
    standalone = _rewritten(question, await _asaid(dialog, dialog.condensing, question, generator))
    lookup = None
    if is_wanted(dialog.engine.settings) if cache is None else cache:
        lookup = await to_thread(look_up, dialog, question, standalone, generator, wanted=True)
    given = await to_thread(lookup.unchanged) if lookup else None
    if not given and not standalone:
        standalone = _with_words(question, await _asaid(dialog, dialog.rewording, question, generator))
    prepared = given.prepared if given else await prepare(dialog, question, standalone)
    if lookup and not given:
        given = await to_thread(lookup.still, prepared)
    if given or _is_missing(prepared):
        prepared, answer = given or (prepared, dialog.not_found(prepared))
        yield answer.text
        yield await remember(dialog, partial(dialog.remember, prepared, answer))
        return
    writing = _Writing(dialog, prepared, generator)
    try:
        if warned := writing.warning:
            yield warned
        async with _aclosed_in_the_end(_astream(generator, prepared)) as pieces:
            async for piece in pieces:
                if shown := writing.take(piece):
                    yield shown
        if shown := writing.rest():
            yield shown
    except BaseException as error:
        if keep_broken:
            writing.remember_broken()
        writing.failed(error)
        raise
    answer = await remember(dialog, writing.remember)
    if lookup:
        await to_thread(lookup.keep, prepared, answer)
    yield answer


async def _prepare_in_a_thread(dialog: Dialog, question: str, standalone: str | None) -> Prepared:
    return await to_thread(dialog.prepare, question, standalone=standalone)


async def _remember_in_a_thread(dialog: Dialog, store: Callable[[], Answer]) -> Answer:
    return await written(store)


def _is_missing(prepared: Prepared) -> bool:
    return prepared.confidence is not None and not prepared.confidence.found


def _astream(generator: TextGenerator, prepared: Prepared) -> AsyncIterator[str]:
    """The pieces as they come; all at once from a generator that has no asynchronous form."""
    if is_async(generator):
        return generator.astream(prepared)
    return _in_a_thread(generator, prepared)


async def _in_a_thread(generator: TextGenerator, prepared: Prepared) -> AsyncIterator[str]:
    if prepared.quotes is None:
        pieces = await to_thread(lambda: list(generator.stream(prepared)))
    else:
        pieces = list(generator.stream(prepared))  # written already
    for piece in pieces:
        yield piece


@contextmanager
def _closed_in_the_end(pieces: Iterator[str]) -> Iterator[Iterator[str]]:
    """The pieces; whoever still writes them is told to stop when the block is left, not some time later."""
    try:
        yield pieces
    finally:
        if close := getattr(pieces, "close", None):
            close()


@asynccontextmanager
async def _aclosed_in_the_end(pieces: AsyncIterator[str]) -> AsyncIterator[AsyncIterator[str]]:
    try:
        yield pieces
    finally:
        if aclose := getattr(pieces, "aclose", None):
            await aclose()


def _said(dialog: Dialog, put: Put, question: str, generator: TextGenerator) -> str:
    """What the model says to a question put to it in this way; "" where it is not asked, or fails."""
    if not isinstance(generator, CompletingGenerator) or not (prompt := put(question)):
        return ""
    try:
        return generator.complete(prompt)
    except ProviderError as error:
        dialog.not_rewritten(error)
        return ""


async def _asaid(dialog: Dialog, put: Put, question: str, generator: TextGenerator) -> str:
    """The same as `_said`."""
    if not is_async(generator) or not (prompt := await to_thread(put, question)):
        return ""
    try:
        return await generator.acomplete(prompt)
    except ProviderError as error:
        dialog.not_rewritten(error)
        return ""


_ASKS = re.compile("[?？؟]\\s*$")
"""Of any script."""
_LABEL = re.compile(
    r"^(?:\W*(?:the |a )?(?:standalone |rewritten )?(?:question|words)\b[^:?\n]*:)\s*", re.IGNORECASE
)
"""Small models repeat what they were asked for before they say it."""


def _first_line(said: str) -> str:
    lines = _LABEL.sub("", said.strip()).splitlines()
    return lines[0].strip() if lines else ""


def _rewritten(question: str, said: str) -> str | None:
    """A question as a model rewrote it: what it says on its first line; None when it does not ask there.

    A small model answers now and then what it was to put on its own.
    """
    first = _first_line(said)
    answers = _ASKS.search(question) and not _ASKS.search(first)
    return None if answers else first or None


_MOST_WORDS = 10


def _with_words(question: str, said: str) -> str | None:
    """A question and the words for it that a model has said on one line; None when there are none."""
    words = dict.fromkeys(word.strip(" \t.`*'\"") for word in re.split("[,;]", _first_line(said)))
    few = [word for word in words if 1 < len(word) <= 40][:_MOST_WORDS]
    return f"{question.strip()} ({', '.join(few)})" if few else None


_CUT = "the answer was cut at {tokens:,} tokens; allow more with RAG_ANSWER_TOKENS"


class _Writing:
    """An answer that is being written: what came so far, shown without invented references."""

    def __init__(self, dialog: Dialog, prepared: Prepared, generator: TextGenerator) -> None:
        self.prepared = prepared
        self.warning = before_answer(warning(prepared.confidence, prepared.hits))
        self._dialog, self._generator = dialog, generator
        self._filter = CitationFilter(prepared.prompt.sources)
        self._raw: list[str] = []
        self._shown: list[str] = []
        self._began = time.perf_counter()

    def take(self, piece: str) -> str:
        """A piece came: what of it can be shown already."""
        self._raw.append(piece)
        return self._show(self._filter.feed(piece))

    def rest(self) -> str:
        """What was held back in the end."""
        return self._show(self._filter.close())

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text

    def remember(self) -> Answer:
        """Store the whole answer as a turn."""
        return self._dialog.remember(self.prepared, self._finished(complete=True))

    def remember_broken(self) -> None:
        """Store what came of an answer that broke off, marked incomplete; nothing if nothing came."""
        if self._raw:
            self._dialog.remember(self.prepared, self._finished(complete=False))

    def failed(self, error: BaseException) -> None:
        """Give an error of the model the quotes that can be shown with it."""
        if isinstance(error, ProviderError):
            error.quotes = quotes_instead(self.prepared, self._dialog.engine.counter)

    def _finished(self, *, complete: bool) -> Answer:
        engine = self._dialog.engine
        text = "".join(self._raw)
        sources = self.prepared.prompt.sources
        answer = finish(
            self.prepared,
            text,
            self._filter.resolved("".join(self._shown)) if complete else resolve(text, sources),
            model=self._generator.model,
            usage=self._generator.usage,
            counter=engine.counter,
            home=engine.settings.home,
            complete=complete,
        )
        took = time.perf_counter() - self._began
        cut = getattr(self._generator, "finish_reason", None) == "length"
        notes = (*answer.notes, *([_CUT.format(tokens=engine.settings.answer_tokens)] if cut else []))
        return replace(answer, cut=cut, notes=notes, seconds={**self.prepared.seconds, "answer": took})
