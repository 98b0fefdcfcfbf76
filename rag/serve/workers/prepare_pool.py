"""Prepares questions in child processes when several are asked at the same time.

Searching and rendering take most of a question's time, and in one Python process they run for one question at
a time. A child opens the same stores and conversations; the server itself generates the answer and stores the
turn. A single question is prepared in the server, and children are started when a second one arrives; after
that, children prepare all questions except those whose dialog has state outside its conversation (a client's
own history, excluded files).

A child reads jobs from its standard input and writes results to its standard output, each a pickle preceded
by its length in four bytes. It ends when its input is closed, so it never outlives the server. If a child
fails for any reason, the server prepares the question itself, and raises the error if it fails again.
"""

from __future__ import annotations

import asyncio
import copyreg
import gc
import io
import pickle
import signal
import struct
import sys
import time
from asyncio import to_thread
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from rag.errors import RagError
from rag.processes import collect_garbage_rarely
from rag.request_context import CURRENT
from rag.serve.telemetry import log
from rag.serve.workers.open_files import max_open_stores
from rag.serve.workers.subprocesses import Child, start_child
from rag.service import Dialog, Engine
from rag.service.loop.quote_preview import with_quotes
from rag.settings import Settings
from rag.types import (
    Checkout,
    CodeFact,
    CodeFacts,
    Confidence,
    Conversation,
    GenerationOptions,
    Hit,
    NumberedSource,
    PlaceNote,
    Prepared,
    Prompt,
    Reach,
    Rewording,
    Source,
    Span,
)

if TYPE_CHECKING:
    from rag.service import Repository

_LENGTH = struct.Struct(">I")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Children share the processors, so threads inside numpy would only slow them down."""
_MAX_QUESTIONS_PER_CHILD = 2
"""The one that a child prepares, and the next one, so that it never idles."""
_SLOW_QUESTION_S = 0.05
"""No other question is queued behind one that takes longer."""
_NICENESS = 5
"""Lower priority than the server's own process, which all requests depend on."""
_MAX_ENGINES = 32
_BROKEN = (
    OSError,
    EOFError,
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.PickleError,
)
"""The errors of a child that ended, and those that unpickling damaged data may raise."""


@dataclass(frozen=True, slots=True)
class Job:
    """A question, as sent to a child."""

    settings: Settings
    checkouts: tuple[Checkout, ...]
    conversation: Conversation | None
    question: str
    rewording: Rewording
    options: GenerationOptions
    leads: bool
    is_quoted: bool
    reach: Reach


class PreparePool:
    """Prepares questions: a single one in a thread, concurrent ones in at most `processes` children.

    Attributes:
        children: the running children, each with its number of questions.
        done_by_children: the number of questions that children have prepared.
    """

    def __init__(self, processes: int) -> None:
        self.children: dict[Child, int] = {}
        self.done_by_children = 0
        self._max_children = processes
        self._active = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[Prepared | None]] = set()
        self._locks: dict[Child, asyncio.Lock] = {}
        # When a child's current question began; not for its first, which opens a store.
        self._began: dict[Child, float] = {}
        self._waiting: deque[asyncio.Future[Child | None]] = deque()

    async def prepare(self, dialog: Dialog, question: str, rewording: Rewording) -> Prepared:
        """Return the same as `dialog.prepare`."""
        self._active += 1
        try:
            is_alone = self._active == 1 and not self.children
            if not is_alone and dialog.is_plain and (child := await self._free_child()):
                asking = asyncio.create_task(self._ask(child, _job(dialog, question, rewording)))
                self._asking.add(asking)
                asking.add_done_callback(self._asking.discard)
                # Read the child's reply even if the caller is cancelled.
                if prepared := await asyncio.shield(asking):
                    self.done_by_children += 1
                    return prepared
            return await to_thread(_prepared_with_quotes, dialog, question, rewording)
        finally:
            self._active -= 1

    async def close(self) -> None:
        """End the children."""
        self._max_children = 0
        await asyncio.gather(*self._starting, return_exceptions=True)
        for child in list(self.children):
            await self._end(child)

    async def _free_child(self) -> Child | None:
        """Wait for the least busy child that accepts a question; return None if there are no children."""
        free = [child for child in self.children if self._accepts(child)]
        least = min(free, key=self.children.__getitem__, default=None)
        is_idle = least is not None and not self.children[least]
        if not is_idle and len(self.children) + len(self._starting) < self._max_children:
            task = asyncio.create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        if least is not None:
            self._assign(least)
            return least
        if not self.children:
            return None
        waiting: asyncio.Future[Child | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and (child := waiting.result()):
                self._release(child)
            raise

    def _accepts(self, child: Child) -> bool:
        """Whether a child is idle or will be soon: no question is queued behind a long one."""
        has = self.children[child]
        began = self._began.get(child)
        return not has or (
            has < _MAX_QUESTIONS_PER_CHILD
            and began is not None
            and time.monotonic() - began < _SLOW_QUESTION_S
        )

    def _assign(self, child: Child) -> None:
        if not self.children[child] and child in self._began:
            self._began[child] = time.monotonic()
        self.children[child] += 1

    async def _start(self) -> None:
        try:
            one_thread = dict.fromkeys(_ONE_THREAD, "1")
            child = await start_child(
                "rag.serve.workers.prepare_pool", environment=one_thread, niceness=_NICENESS
            )
        except OSError as error:
            self._start_failed(error)
            return
        try:
            await child.stdout.readexactly(1)  # sent after its imports
        except (OSError, asyncio.IncompleteReadError) as error:
            await child.end()
            self._start_failed(error)
            return
        self.children[child], self._locks[child] = 0, asyncio.Lock()
        self._assign_waiting(child)

    def _start_failed(self, error: Exception) -> None:
        log.warning("could not start a process that prepares questions (%s)", error)
        self._max_children -= 1

    async def _ask(self, child: Child, job: Job) -> Prepared | None:
        prepared, is_whole = None, False
        try:
            lock = self._locks.get(child)
            if lock is None:  # the child has ended
                return None
            write(child.stdin, job)
            async with lock:  # replies arrive in the order of the questions
                (length,) = _LENGTH.unpack(await child.stdout.readexactly(_LENGTH.size))
                prepared, cpu_s = pickle.loads(await child.stdout.readexactly(length))
            if (current := CURRENT.get()) is not None:
                current.cpu_s += cpu_s
            is_whole = True
        except _BROKEN as error:
            log.warning("ended a process that prepares questions (%s: %s)", type(error).__name__, error)
        finally:  # release or end the child in any case: other questions may wait for it
            if is_whole:
                self._release(child)
            else:
                await self._end(child)
        return prepared if isinstance(prepared, Prepared) else None

    def _release(self, child: Child) -> None:
        """Record that a child has finished a question, and assign waiting ones to it."""
        if child in self.children:
            self.children[child] -= 1
            self._began[child] = time.monotonic()
            self._assign_waiting(child)

    def _assign_waiting(self, child: Child) -> None:
        """Assign a child to the questions that have waited longest, as many as it accepts."""
        while self._waiting and self._accepts(child):
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._assign(child)
                waiting.set_result(child)

    async def _end(self, child: Child) -> None:
        self.children.pop(child, None)
        self._locks.pop(child, None)
        self._began.pop(child, None)
        while self._waiting and not self.children:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
        await child.end()


def _job(dialog: Dialog, question: str, rewording: Rewording) -> Job:
    checkouts = tuple(repository.checkout for repository in dialog.repositories)
    return Job(
        dialog.engine.settings,
        checkouts,
        dialog.conversation,
        question,
        rewording,
        dialog.options,
        dialog.leads,
        dialog.is_quoted,
        dialog.engine.reach,
    )


def _prepared_with_quotes(dialog: Dialog, question: str, rewording: Rewording) -> Prepared:
    """Prepare a question, and quote the lines in the same thread: each change of threads takes time."""
    return with_quotes(dialog.prepare(question, rewording=rewording), dialog.engine.settings)


def write(to: BinaryIO | asyncio.StreamWriter, value: object) -> None:
    """Write a pickled value preceded by its length."""
    content = io.BytesIO()
    pickler = pickle.Pickler(content, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _DISPATCH_TABLE
    pickler.dump(value)
    pickled = content.getvalue()
    to.write(_LENGTH.pack(len(pickled)) + pickled)


def _reducers(*types: type) -> dict[type, Callable[[Any], tuple[type, tuple[Any, ...]]]]:
    """Return reducers that pickle dataclass instances as constructor calls, twice as fast as the default."""
    values = {each: attrgetter(*(field.name for field in fields(each))) for each in types}
    return dict.fromkeys(types, lambda value: (type(value), values[type(value)](value)))


_DISPATCH_TABLE = {
    **copyreg.dispatch_table,
    **_reducers(Hit, NumberedSource, PlaceNote, Span, CodeFact, CodeFacts, Confidence, Prompt, Prepared),
    **_reducers(Job, Settings, Checkout, Source, Conversation, GenerationOptions),
}
"""A prepared question contains dozens of the first ones, and a job has settings with dozens of fields."""


# ---------------------------------------------------------------- child process


class Engines:
    """The engines of a child by their settings, which differ in the namespace, and its open repositories."""

    def __init__(self) -> None:
        self._known: dict[Settings, Engine] = {}
        self._opened: OrderedDict[Checkout, tuple[object, Repository]] = OrderedDict()

    def engine(self, settings: Settings) -> Engine:
        """Return the engine of these settings; all share one embedder, one counter and one turn store."""
        if (known := self._known.get(settings)) is not None:
            return known
        if len(self._known) >= _MAX_ENGINES:
            for engine in self._known.values():
                engine.close()
            self._known.clear()
            self._opened.clear()
        if not self._known:
            made = Engine(settings)
        else:
            first = next(iter(self._known.values()))
            made = first.with_settings(
                **{each.name: getattr(settings, each.name) for each in fields(settings)}
            )
            made.__dict__["embedder"] = first.embedder
        self._known[settings] = made
        return made

    def repository(self, engine: Engine, checkout: Checkout) -> Repository:
        """Return the repository with the current store on disk; the least recently used are closed."""
        state = engine.generation(checkout.source)
        found, repository = self._opened.pop(checkout, (None, None))
        if repository is None or found != state:
            repository = engine.as_indexed(checkout)
            for other in [other for other in self._opened if other.source == checkout.source]:
                del self._opened[other]
            for known in self._known.values():  # they may have the previous store open
                if known is not engine:
                    known.release(checkout.source)
        self._opened[checkout] = state, repository
        while len(self._opened) > max_open_stores():
            _, (_, oldest) = self._opened.popitem(last=False)
            for known in self._known.values():
                known.release(oldest.source)
        return repository


def main() -> None:
    """Run jobs until the input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles it, and may let streams end first
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    answers.write(b"+")
    answers.flush()
    collect_garbage_rarely()
    gc.freeze()  # imported objects are permanent
    engines = Engines()
    while head := asked.read(_LENGTH.size):
        job = pickle.loads(asked.read(_LENGTH.unpack(head)[0]))
        began = time.process_time()
        prepared = _prepared(engines, job)
        write(answers, (prepared, time.process_time() - began))
        answers.flush()


def _prepared(engines: Engines, job: Job) -> Prepared | None:
    """Prepare a question; return None if that fails, so that the server finds the reason."""
    try:
        engine = engines.engine(job.settings)
        engine.reach = job.reach
        repositories = [engines.repository(engine, checkout) for checkout in job.checkouts]
        dialog = Dialog(engine, repositories, job.conversation)
        dialog.options, dialog.leads, dialog.is_quoted = job.options, job.leads, job.is_quoted
        return _prepared_with_quotes(dialog, job.question, job.rewording)
    except (RagError, OSError):
        return None


if __name__ == "__main__":
    main()
