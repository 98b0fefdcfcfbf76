"""Answer a question: search, ask the model, store the turn.

The loop is a generator of steps (`_Asking`). It yields each step that takes time; `converse` executes it in
the calling thread, `aconverse` in an event loop and its threads.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeVar, Union

from rag.agent.text_look import TextLook
from rag.agent.tool_look import ToolLook
from rag.answer.citations import CitationFilter, Resolved, resolve
from rag.answer.cost import cost
from rag.answer.fallback import fallback_answer, quotes_so_far
from rag.answer.finish import finish, warning_paragraph
from rag.answer.statements import whole_sentences
from rag.answer.stop_strings import AnswerEnd
from rag.errors import NotFound, ProviderError, StoreCorrupt
from rag.memory.small_talk import is_small_talk
from rag.ports import (
    CompletingGenerator,
    TextGenerator,
    is_async,
    is_completing,
    is_learning,
    is_tool_calling,
)
from rag.service.loop.async_writes import written
from rag.service.loop.cached_answers import CacheHit, LookUp, is_wanted, look_up
from rag.service.loop.dialog import Dialog
from rag.service.loop.place_notes import noted
from rag.service.loop.rewording import MAX_SECONDS, MAX_TOKENS, is_alone, reword_prompt, reworded
from rag.service.loop.second_look import Form, begin_look, form_of_look
from rag.service.loop.spending import Spending
from rag.service.loop.support import with_support
from rag.service.loop.trace import trace
from rag.service.tools.search import check_question
from rag.types import (
    Answer,
    Citation,
    DialogTurn,
    GenerationOptions,
    Prepared,
    Replacement,
    Rewording,
    ToolCall,
    TraceStep,
    Usage,
)
from rag.types.answer import QUOTING

Prepare = Callable[[Dialog, str, Rewording], Awaitable[Prepared]]
"""Prepares a question outside a thread, given the dialog, the question and its rewording."""
Remember = Callable[[Dialog, Callable[[], Any]], Awaitable[Any]]
"""Stores a turn outside a thread, given the dialog and the function that stores it; returns its result."""
Notify = Callable[[DialogTurn | tuple[Citation, ...]], None]
"""Receives the turn of a question when it is stored, and the sources of its answer before their text."""


@dataclass(frozen=True, slots=True)
class _Show:
    """Pass a piece of text, or the Answer, to the caller."""

    piece: str | TraceStep | Answer


@dataclass(frozen=True, slots=True)
class _Notify:
    """Notify the caller of the stored question, or of the sources of the answer, if the caller listens."""

    of: DialogTurn | Callable[[], tuple[Citation, ...]]


@dataclass(frozen=True, slots=True)
class _Work:
    """Do work that takes time; its result is sent back."""

    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Prepare:
    """Prepare the question; the `Prepared` is sent back."""

    rewording: Rewording


@dataclass(frozen=True, slots=True)
class _Complete:
    """Send a short prompt to the model; its reply is sent back."""

    prompt: str
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Stream the model's answer into `writing`."""

    writing: _Writing


@dataclass(frozen=True, slots=True)
class _Store:
    """Write to the turn store; the result is sent back."""

    do: Callable[[], Any]


_Step = _Show | _Notify | _Work | _Prepare | _Complete | _Stream | _Store
_Written = Union["_Writing", Literal["interrupted", "without tools"]]
"""The answer; or the quotes of an interrupted look are stored; or a prompt without a look is to be made."""
_T = TypeVar("_T")
_Steps = Generator[_Step, Any, _T]


def converse(
    dialog: Dialog,
    question: str,
    generator: TextGenerator,
    *,
    keep_broken: bool = False,
    cache: bool | None = False,
) -> Generator[str | TraceStep | Answer, None, None]:
    """Ask a question: yield pieces of the answer, then the Answer, which is stored as a turn.

    If no word of the question occurs in the repository, the generator is not called, and the Answer says so.
    If no place fits well, a warning comes first. If the model may look again
    (`Dialog.steps`), the steps of its second look come before the text. An interrupt during the look
    (KeyboardInterrupt) ends it: the answer quotes what was found until then, and is not `complete`.

    With a model, the question is stored first, as a turn in the state "asked", and the answer completes it.
    If the answer is abandoned (the iterator is closed, or interrupted), its text so far is stored: the turn
    is "partial", or "failed" if there is no text yet. If the model fails, the turn is "failed"; "partial"
    with `keep_broken`, if there is text. Without a model an answer takes milliseconds: question and answer
    are stored together, or nothing.

    With `cache`, an earlier answer is returned as one piece if its sources are unchanged; None follows the
    settings.

    Raises:
        ProviderError: the model failed; `quotes` is the extractive answer, which is not stored.
        ConfigError: the question is empty or too long, or the prompt cannot be rendered; no turn is stored.
    """
    steps = _Run(_Asking(dialog, question, generator, keep_broken, cache).steps())
    while (step := steps.next()) is not None:
        try:
            match step:
                case _Show(piece):
                    yield piece
                case _Stream(writing):
                    with _closing(generator.stream(writing.prepared)) as pieces:
                        for piece in pieces:
                            if shown := writing.take(piece):
                                yield shown
                            if writing.is_ended:
                                break
                        writing.replied(pieces)
                case _Complete(prompt, limits):
                    assert isinstance(generator, CompletingGenerator)
                    steps.result = generator.complete(prompt, **limits)
                    dialog.spending.completed(generator, prompt, steps.result)
                case _Prepare(rewording):
                    steps.result = dialog.prepare(question, rewording=rewording)
                case _Work(do) | _Store(do):
                    steps.result = do()
                case _Notify():
                    pass
        except BaseException as error:  # noqa: BLE001 - raised again by the steps
            steps.error = error


async def aconverse(
    dialog: Dialog,
    question: str,
    generator: TextGenerator,
    *,
    keep_broken: bool = False,
    cache: bool | None = False,
    prepare: Prepare | None = None,
    remember: Remember | None = None,
    notify: Notify | None = None,
    shows_sources: bool = True,
) -> AsyncGenerator[str | TraceStep | Answer, None]:
    """Like `converse`, for an event loop; blocking work runs in threads.

    `notify` receives the turn of the question when it is stored; before the text the sources as they are
    numbered, none of them `used`; and the sources again before a piece that changes their numbers. Without
    `shows_sources` it receives the turn alone: making the sources takes a twentieth of the server's own time.
    """
    steps = _Run(_Asking(dialog, question, generator, keep_broken, cache).steps())
    sent: tuple[Citation, ...] = ()
    while (step := steps.next()) is not None:
        try:
            match step:
                case _Show(piece):
                    yield piece
                case _Stream(writing):
                    async with _aclosing(_astream(generator, writing.prepared)) as pieces:
                        async for piece in pieces:
                            shown = writing.take(piece)
                            if notify and shows_sources and writing.renumbered():
                                sent = writing.sources()
                                notify(sent)
                            if shown:
                                yield shown
                            if writing.is_ended:
                                break
                        writing.replied(pieces)
                case _Complete(prompt, limits):
                    assert isinstance(generator, CompletingGenerator)
                    if is_async(generator):
                        steps.result = await generator.acomplete(prompt, **limits)
                    else:
                        steps.result = await to_thread(generator.complete, prompt, **limits)
                    dialog.spending.completed(generator, prompt, steps.result)
                case _Prepare(rewording) if prepare is not None:
                    steps.result = await prepare(dialog, question, rewording)
                case _Prepare(rewording):
                    steps.result = await to_thread(dialog.prepare, question, rewording=rewording)
                case _Store(do):
                    steps.result = await (written(do) if remember is None else remember(dialog, do))
                case _Work(do):
                    steps.result = await to_thread(do)
                case _Notify(of):
                    now = of if isinstance(of, DialogTurn) else of() if shows_sources else ()
                    if notify and now and now != sent:
                        notify(now)
                        sent = sent if isinstance(now, DialogTurn) else now
        except BaseException as error:  # noqa: BLE001 - raised again by the steps
            steps.error = error


class _Abandoned(BaseException):
    """The answer was closed. (A GeneratorExit would close the steps, which have something left to do.)"""


class _Run:
    """Runs steps: passes the result of each, or its error, to the next."""

    def __init__(self, steps: _Steps[None]) -> None:
        self._steps = steps
        self.result: Any = None
        self.error: BaseException | None = None

    def next(self) -> _Step | None:
        """Return the next step, None at the end. Raises errors that the steps do not handle."""
        result, error, self.result, self.error = self.result, self.error, None, None
        if isinstance(error, GeneratorExit):
            error = _Abandoned()
        try:
            return self._steps.send(result) if error is None else self._steps.throw(error)
        except StopIteration:
            return None
        except _Abandoned:
            raise GeneratorExit from None


class _Interrupted(Exception):
    """A look was interrupted before the answer began, by `error`: what was found is quoted."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question with all that its answer depends on, and the steps of the loop."""

    dialog: Dialog
    question: str
    generator: TextGenerator
    keep_broken: bool
    cache: bool | None

    def steps(self) -> _Steps[None]:
        """Store the question, answer it, and end its turn however the answer ends."""
        self.dialog.spending = Spending(self.dialog.engine.counter)
        try:
            if self.generator.model != QUOTING and self.question.strip():
                asked: DialogTurn | None = yield _Store(partial(self.dialog.ask, self.question))
                if asked:
                    yield _Notify(asked)
            yield from self._answered()
        except BaseException as error:
            if self.dialog.history.asked:
                yield _Store(partial(self.dialog.fail, error))
            raise
        finally:  # who prepares the next question by hand wants its whole prompt
            self.dialog.leads = self.dialog.is_quoted = False

    def _answered(self) -> _Steps[None]:
        """The loop: look for a cached answer, search and prepare, let the model answer, store the turn."""
        form = form_of_look(self.dialog, self.generator)
        self.dialog.leads = form == "tools"
        self.dialog.is_quoted = self.generator.model == QUOTING
        try:
            lookup, given, prepared, rewording = yield from self._look_up_and_prepare()
        except StoreCorrupt as damage:  # the store is memory-mapped: damage is found when it is searched
            yield _Work(partial(self.dialog.rebuild, damage))
            lookup, given, prepared, rewording = yield from self._look_up_and_prepare()
        answer = None
        if self.generator.model == QUOTING:
            answer = yield _Work(partial(self.dialog.small_talk, prepared))
        written: _Written = "without tools"
        while written == "without tools":
            is_missing = not self.dialog.leads and _is_missing(prepared) and not self.dialog.options.is_json
            if given or answer or is_missing:
                prepared, answer = given or (prepared, answer or self.dialog.not_found(prepared))
                yield _Show(answer.text)
                yield _Show((yield _Store(partial(self.dialog.remember, prepared, answer))))
                return
            written = yield from self._written(prepared, rewording, form)
            if written == "without tools":  # the server refuses them, or the context has no room for results
                form = "" if is_tool_calling(self.generator) else form_of_look(self.dialog, self.generator)
                self.dialog.leads = False
                prepared = yield _Prepare(rewording)
        if isinstance(written, _Writing):
            answer = yield _Store(written.remember)
            if lookup:
                yield _Work(partial(lookup.keep, written.prepared, answer))
            yield _Show(answer)

    def _written(self, prepared: Prepared, rewording: Rewording, form: Form) -> _Steps[_Written]:
        """Let the model look and write the answer, see `_Written`."""
        look: ToolLook | TextLook | None = yield _Work(partial(begin_look, self.dialog, prepared, form))
        if look is None and self.dialog.leads:
            return "without tools"
        if look is not None:
            fresh = partial(self.dialog.prepare, prepared.question, rewording=rewording, looked=look)
            try:
                if isinstance(look, ToolLook):
                    writing = _Writing(self, look.begun())
                    if (yield from self._answered_in_look(look, writing)):
                        return writing
                else:
                    yield from self._look_in_text(look)
            except _Interrupted as interrupted:
                yield from self._quoted(look, fresh, interrupted.error)
                return "interrupted"
            if isinstance(look, ToolLook) and not look.has_found:
                return "without tools"
            prepared = yield _Work(fresh)
        writing = _Writing(self, prepared)
        try:
            yield _Notify(writing.sources)
            if warned := writing.warning:
                yield _Show(warned)
            yield writing.request()
            if shown := writing.rest():
                yield _Show(shown)
        except BaseException as error:
            writing.stopped(error)
            yield _Store(partial(writing.broke_off, error))
            writing.failed(error)
            raise
        return writing

    def _answered_in_look(self, look: ToolLook, writing: _Writing) -> _Steps[bool]:
        """Let the model look and write the answer in one conversation; return False if that is not possible.

        That is, if its server refuses tools, or fails after the first steps and before a word of the answer.
        """
        try:
            while True:
                yield _Notify(writing.sources)
                yield writing.request()
                pending = look.read(writing.calls, writing.text)
                if pending is None:
                    break
                for one in pending:
                    yield _Show((yield _Work(partial(look.run, *one))))
                if note := writing.go_on(look.begun()):
                    yield _Show(note)
            if shown := writing.rest():
                yield _Show(shown)
            if look.has_found:
                look.close()
                writing.prepared = replace(look.begun(), steps=tuple(look.steps))
            return True
        except BaseException as error:
            writing.stopped(error)
            if not writing.has_text:
                has_begun = look.has_found or look.ended
                if isinstance(error, ProviderError) and (has_begun or not writing.calls_tools):
                    look.end("the model failed", str(error))
                    if look.has_found:
                        yield _Show(look.close())
                    return False
                if not isinstance(error, Exception) and look.has_found:
                    raise _Interrupted(error) from error
            yield _Store(partial(writing.broke_off, error))
            writing.failed(error)
            raise

    def _look_in_text(self, look: TextLook) -> _Steps[None]:
        """Let the model look again in lines of text, until it has enough or a limit is reached."""
        try:
            while not look.ended:
                try:
                    reply = yield from self._completed(look.prompt())
                except ProviderError as error:
                    look.end("the model failed", str(error))
                    continue
                for pending in look.read(reply):
                    if look.ended:
                        break
                    yield _Show((yield _Work(partial(look.run, pending))))
        except BaseException as error:
            if isinstance(error, Exception) or not look.has_found:
                raise
            raise _Interrupted(error) from error
        yield _Show(look.close())

    def _completed(self, prompt: str, limits: Mapping[str, Any] | None = None) -> _Steps[str]:
        """Return the model's reply to a short prompt; an interrupted request is counted as well."""
        try:
            reply: str = yield _Complete(prompt, limits or {})
        except BaseException as error:
            if not isinstance(error, Exception):
                self.dialog.spending.add(None, self.dialog.engine.counter.count(prompt), "")
            raise
        return reply

    def _quoted(
        self, look: ToolLook | TextLook, fresh: Callable[[], Prepared], error: BaseException
    ) -> _Steps[None]:
        """Store the quotes of what was found before an interrupt; show them unless the caller has left."""
        look.close()
        prepared: Prepared = yield _Work(fresh)
        quotes = quotes_so_far(noted(self.dialog.repositories, prepared), self.dialog.engine.counter)
        quotes = replace(quotes, usage=self.spent())
        if not isinstance(error, KeyboardInterrupt):
            yield _Store(partial(self.dialog.remember, prepared, quotes))
            raise error
        yield _Show(quotes.text)
        yield _Show((yield _Store(partial(self.dialog.remember, prepared, quotes))))

    def _look_up_and_prepare(
        self,
    ) -> _Steps[tuple[LookUp | None, CacheHit | None, Prepared, Rewording]]:
        """Look up a cached answer and prepare the question; return also how a model has reworded it.

        A question that needs its conversation is reworded before the look-up, any other one only if it is
        needed.
        """
        check_question(self.question)
        may_reword = self.dialog.rewording is not None or is_completing(self.generator)
        alone: bool = not may_reword or (yield _Work(partial(is_alone, self.dialog, self.question)))
        rewording = Rewording() if alone else (yield from self._reworded())
        lookup: LookUp | None = None
        is_plain = self.dialog.subject is None and self.dialog.options == GenerationOptions()
        if is_plain and (is_wanted(self.dialog.engine.settings) if self.cache is None else self.cache):
            standalone = rewording.standalone
            lookup = yield _Work(partial(look_up, self.dialog, self.question, standalone, self.generator))
        given: CacheHit | None = (yield _Work(lookup.unchanged)) if lookup else None
        if not given and alone:
            rewording = yield from self._reworded()
        prepared: Prepared = given.prepared if given else (yield _Prepare(rewording))
        if lookup and not given:
            given = yield _Work(partial(lookup.still, prepared))
        return lookup, given, prepared, rewording

    def _reworded(self) -> _Steps[Rewording]:
        """Return the question as the model rewords it; an empty rewording without a model, or if it fails."""
        if self.dialog.rewording is not None:
            return self.dialog.rewording
        if not is_completing(self.generator):
            return Rewording()
        prompt: str | None = yield _Work(partial(reword_prompt, self.dialog, self.question))
        if not prompt:
            return Rewording()
        began = time.perf_counter()
        try:
            limits = {"answer_tokens": MAX_TOKENS, "within_s": MAX_SECONDS}
            reply = yield from self._completed(prompt, limits)
        except ProviderError as error:
            self.dialog.not_rewritten(error)
            return Rewording(seconds=time.perf_counter() - began)
        took = time.perf_counter() - began
        found: Rewording = yield _Work(partial(reworded, self.dialog, self.question, reply, took))
        return found

    def spent(self) -> Usage:
        """Return the tokens of all requests of a question, with their cost if the price is known."""
        usage = self.dialog.spending.usage
        if usage.cost_usd is not None:
            return usage
        return replace(
            usage, cost_usd=cost(self.generator.model, usage, home=self.dialog.engine.settings.home)
        )


def _is_missing(prepared: Prepared) -> bool:
    """Whether nothing was found."""
    is_found = prepared.confidence is None or prepared.confidence.found
    return not (is_found or is_small_talk(prepared.question))


def _astream(generator: TextGenerator, prepared: Prepared) -> AsyncIterator[str]:
    """Stream the pieces; a generator without an asynchronous interface returns all of them at once."""
    if is_async(generator):
        return generator.astream(prepared)
    return _in_a_thread(generator, prepared)


async def _in_a_thread(generator: TextGenerator, prepared: Prepared) -> AsyncIterator[str]:
    if prepared.quotes is None:
        pieces = await to_thread(lambda: list(generator.stream(prepared)))
    else:
        pieces = list(generator.stream(prepared))  # already written
    for piece in pieces:
        yield piece


@contextmanager
def _closing(pieces: Iterator[str]) -> Iterator[Iterator[str]]:
    """Close the iterator when the block is left, so that its producer stops at once."""
    try:
        yield pieces
    finally:
        if close := getattr(pieces, "close", None):
            close()


@asynccontextmanager
async def _aclosing(pieces: AsyncIterator[str]) -> AsyncIterator[AsyncIterator[str]]:
    try:
        yield pieces
    finally:
        if aclose := getattr(pieces, "aclose", None):
            await aclose()


_CUT = "the answer was cut at {tokens:,} tokens{trimmed}; allow more with RAG_ANSWER_TOKENS"
_TRIMMED = ", and is stored up to its last whole sentence"
_ENDED_EARLY = "the model's server ended the answer early ({reason}), so it is stored as incomplete"
_WERE_THOUGHTS = "\n\n(The text so far was thoughts of the model. Its answer follows.)\n\n"
_HELD_CHARS = 160
"""While a model is sent tools, an answer is shown from this length on: a short text may introduce a call."""
_CUT_AS_ASKED = "the answer was cut at {tokens:,} tokens, the limit of the request"


class _Writing:
    """An answer while it is generated: the text so far, shown without invented references."""

    def __init__(self, asking: _Asking, prepared: Prepared) -> None:
        self.prepared = prepared
        self.options = prepared.options
        is_quoting = asking.generator.model == QUOTING and not self.options.is_json
        self.warning = warning_paragraph(prepared.warning) if is_quoting else ""
        self._asking, self._dialog, self._generator = asking, asking.dialog, asking.generator
        self.calls: tuple[ToolCall, ...] = ()
        self._held, self._hold = "", 0
        self._is_asking = False
        self._begin()
        self._numbered = 0
        self._began = time.perf_counter()

    @property
    def calls_tools(self) -> bool:
        """Whether the model's server has not refused tools."""
        return is_tool_calling(self._generator)

    @property
    def has_text(self) -> bool:
        """Whether text of the answer was shown."""
        return any(text.strip() for text in self._shown)

    @property
    def text(self) -> str:
        """The reply as it was generated so far."""
        return "".join(self._raw) + self._held

    def request(self) -> _Stream:
        """Return the step that asks the model; `replied` or `stopped` ends it."""
        self._is_asking = True
        return _Stream(self)

    def stopped(self, error: BaseException) -> None:
        """Count a request without an end, unless the server has refused it."""
        if self._is_asking and (self.text or not isinstance(error, Exception)):
            self._dialog.spending.add(None, self.prepared.prompt.tokens, self.text)
        self._is_asking = False

    def replied(self, stream: object) -> None:
        """Note how a reply has ended: the tools that it calls, and its tokens."""
        self.calls = tuple(getattr(stream, "calls", ()))
        usage = getattr(stream, "usage", None) if hasattr(stream, "usage") else self._generator.usage
        said = [self.text, *(call.name + call.arguments for call in self.calls)]
        self._dialog.spending.add(usage, self.prepared.prompt.tokens, "\n".join(said))
        self._is_asking = False
        counter = self._dialog.engine.counter
        if usage and not usage.estimated and is_learning(counter):
            chat, prompt = self.prepared.chat, self.prepared.prompt
            counter.learn(chat.text if chat else prompt.text, usage.prompt_tokens)

    def go_on(self, prepared: Prepared) -> str:
        """Begin again with more sources: the reply so far was no answer; return what to show of that."""
        self.prepared = prepared
        return self._restart()

    @property
    def is_ended(self) -> bool:
        """Whether the answer has ended before the generator has: at a stop string, or at its limit."""
        return self._end.is_reached

    def take(self, piece: str) -> str:
        """Add a piece; return the text that can be shown now."""
        note = self._restart() if isinstance(piece, Replacement) else ""
        self._held += piece
        if len(self._held) < self._hold:
            return note
        piece = self._held
        self._held, self._hold = "", 0
        return note + self._show(self._cited(self._end.feed(piece)))

    def _restart(self) -> str:
        """Forget the pieces so far, which were thoughts; return what to show of that."""
        was_shown = any(text.strip() for text in self._shown)
        self._begin()
        self._numbered = -1
        return _WERE_THOUGHTS if was_shown else ""

    def _begin(self) -> None:
        has_model = self._dialog.engine.settings.has_model
        tokens = None if has_model else self.options.max_tokens
        self._filter = CitationFilter(self.prepared.prompt.sources)
        self._end = AnswerEnd(self.options.stop, tokens, self._dialog.engine.counter)
        self._raw: list[str] = []
        self._shown: list[str] = []
        self._held = ""
        self._hold = _HELD_CHARS if self.prepared.chat else 0

    def rest(self) -> str:
        """Return the text that was held back to the end."""
        held = self._held
        self._held = ""
        rest = self._cited(self._end.feed(held)) + self._cited(self._end.close())
        return self._show(rest if self.options.is_json else rest + self._filter.close())

    def _cited(self, piece: str) -> str:
        self._raw.append(piece)
        return piece if self.options.is_json else self._filter.feed(piece)

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text

    def remember(self) -> Answer:
        """Store the whole answer as a turn."""
        return self._dialog.remember(self.prepared, self._finished(complete=True))

    def sources(self) -> tuple[Citation, ...]:
        """Return all sources in the order of their numbers so far."""
        return self._filter.numbered()

    def renumbered(self) -> bool:
        """Whether the sources have other numbers since the last call."""
        before, self._numbered = self._numbered, len(self._filter.numbers)
        return before != self._numbered

    def broke_off(self, error: BaseException) -> None:
        """Store an answer that has no end: as "partial" if it was stopped, as "failed" if the model failed.

        Without a word of text, or if the generator needs no model, there is nothing to keep.
        """
        if self._held:
            self._show(self._cited(self._end.feed(self._held)))
            self._held = ""
        was_stopped = not isinstance(error, Exception) and self._dialog.history.keeps_stopped
        if not self._raw or not (
            self._asking.keep_broken or (was_stopped and self._generator.model != QUOTING)
        ):
            self._dialog.fail(error, "".join(self._shown), self._generator.model)
            return
        with suppress(NotFound):  # the turn was deleted in the meantime
            self._dialog.remember(self.prepared, self._finished(complete=False))

    def failed(self, error: BaseException) -> None:
        """Add the extractive answer to an error of the model."""
        if isinstance(error, ProviderError):
            prepared = noted(self._dialog.repositories, self.prepared)
            quotes = fallback_answer(prepared, self._dialog.engine.counter)
            quotes = replace(quotes, usage=self._asking.spent())
            error.quotes = replace(quotes, trace=trace(self.prepared, quotes))

    def _finished(self, *, complete: bool) -> Answer:
        engine = self._dialog.engine
        text = "".join(self._raw)
        sources = self.prepared.prompt.sources
        if self.options.is_json:
            resolved = Resolved(text, resolve("", sources).shown, 0)
        elif complete:
            resolved = self._filter.resolved("".join(self._shown))
        else:
            resolved = resolve(text, sources)
        answer = finish(
            self.prepared,
            text,
            resolved,
            model=self._generator.model,
            usage=self._dialog.spending.usage,
            counter=engine.counter,
            home=engine.settings.home,
            complete=complete,
        )
        if self.options.is_json:
            answer = replace(answer, text=text)
        took = time.perf_counter() - self._began
        answer = replace(answer, seconds={**self.prepared.seconds, "answer": took})
        if self._end.is_cut or getattr(self._generator, "finish_reason", None) == "length":
            answer = self._cut(answer)
        if early := getattr(self._generator, "early_end", ""):
            note = _ENDED_EARLY.format(reason=early)
            answer = replace(answer, cut=True, complete=False, notes=(*answer.notes, note))
        return answer if self.options.is_json else with_support(self._dialog, self.prepared, answer)

    def _cut(self, answer: Answer) -> Answer:
        """Return an answer that was cut at its limit, up to its last whole sentence if the limit is ours."""
        asked, text = self.options.max_tokens, answer.text
        if asked is not None:
            note = _CUT_AS_ASKED.format(tokens=asked)
        else:
            as_shown = self.options.is_json or self._dialog.history.stores_as_shown
            text = text if as_shown else whole_sentences(text)
            trimmed = _TRIMMED if len(text) < len(answer.text.rstrip()) else ""
            note = _CUT.format(tokens=self._dialog.engine.settings.answer_tokens, trimmed=trimmed)
        return replace(answer, text=text, cut=True, notes=(*answer.notes, note))
