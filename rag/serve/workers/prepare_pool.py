"""Questions prepared in child processes, once several are asked at the same time.

Searching and rendering are most of what a question takes, and Python does that for one question at a time
in a process. A child opens the same stores and the same conversations; what it prepares is generated and
remembered here. One question alone is prepared here, so children are started when a second one comes; from
then on they prepare all but those whose dialog knows more than its conversation says (a client's own history,
files that are left out).

A child reads jobs from its standard input and answers on its standard output, each a pickle behind its length
in four bytes. It ends when its input does, so it never outlives the server. Where it fails, whatever the
reason, the question is prepared here, and fails with its own error if it has to.
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
from rag.serve.telemetry import log
from rag.serve.workers.open_files import most_open_stores
from rag.serve.workers.subprocesses import Child, started
from rag.service import Dialog, Engine
from rag.service.quote_preview import with_quotes
from rag.settings import Settings
from rag.types import Checkout, Conversation, Hit, NumberedSource, Prepared

if TYPE_CHECKING:
    from rag.service import Repository

_LENGTH = struct.Struct(">I")
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Children share the processors among them; threads below numpy would only get in each other's way."""
_MAX_QUESTIONS_PER_CHILD = 2
"""So many questions a child has: the one it prepares, and the next, for which it need not wait then."""
_SLOW_QUESTION_S = 0.05
"""A question that takes longer keeps no other one waiting."""
_GIVES_WAY = 5
"""How much less urgent a child is than the server's own process, which everybody waits for."""
_MOST_ENGINES = 32
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
"""A child that is gone, and all that reading a damaged pickle is known to raise."""
_GC_THRESHOLDS = (20_000, 20, 20)
"""How often a child looks for garbage: at Python's own rate that is a tenth of a question's time."""


@dataclass(frozen=True, slots=True)
class Job:
    """A question, as a child gets it."""

    settings: Settings
    checkouts: tuple[Checkout, ...]
    conversation: Conversation | None
    question: str
    standalone: str | None


class Preparing:
    """Prepares questions: one alone in a thread, when several have come in at most `processes` children.

    Attributes:
        children: those that are ready, and how many questions each has.
        done_by_children: how many questions they prepared.
    """

    def __init__(self, processes: int) -> None:
        self.children: dict[Child, int] = {}
        self.done_by_children = 0
        self._most = processes
        self._under_way = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[Prepared | None]] = set()
        self._listening: dict[Child, asyncio.Lock] = {}
        self._began: dict[
            Child, float
        ] = {}  # what it does now, unless that is its first, which opens a store
        self._waiting: deque[asyncio.Future[Child | None]] = deque()

    async def prepare(self, dialog: Dialog, question: str, standalone: str | None) -> Prepared:
        """The same as `dialog.prepare`."""
        self._under_way += 1
        try:
            is_alone = self._under_way == 1 and not self.children
            if not is_alone and dialog.is_plain and (child := await self._free_child()):
                asking = asyncio.create_task(self._ask(child, _job(dialog, question, standalone)))
                self._asking.add(asking)
                asking.add_done_callback(self._asking.discard)
                # A child that was asked is listened to, also when nobody waits for it any more.
                if prepared := await asyncio.shield(asking):
                    self.done_by_children += 1
                    return prepared
            return await to_thread(dialog.prepare, question, standalone=standalone)
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """End the children."""
        self._most = 0
        await asyncio.gather(*self._starting, return_exceptions=True)
        for child in list(self.children):
            await self._end(child)

    async def _free_child(self) -> Child | None:
        """A child that takes a question now, the one that has fewest; None while there is none at all."""
        free = [child for child in self.children if self._takes_one(child)]
        least = min(free, key=self.children.__getitem__, default=None)
        is_idle = least is not None and not self.children[least]
        if not is_idle and len(self.children) + len(self._starting) < self._most:
            task = asyncio.create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        if least is not None:
            self._take(least)
            return least
        if not self.children:
            return None
        waiting: asyncio.Future[Child | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and (child := waiting.result()):
                self._free(child)
            raise

    def _takes_one(self, child: Child) -> bool:
        """Whether a child has nothing to do, or soon will: no question is tied to a long one."""
        has = self.children[child]
        began = self._began.get(child)
        return not has or (
            has < _MAX_QUESTIONS_PER_CHILD
            and began is not None
            and time.monotonic() - began < _SLOW_QUESTION_S
        )

    def _take(self, child: Child) -> None:
        if not self.children[child] and child in self._began:
            self._began[child] = time.monotonic()
        self.children[child] += 1

    async def _start(self) -> None:
        try:
            one_thread = dict.fromkeys(_ONE_THREAD, "1")
            child = await started(
                "rag.serve.workers.prepare_pool", environment=one_thread, niceness=_GIVES_WAY
            )
        except OSError as error:
            self._not_started(error)
            return
        try:
            await child.stdout.readexactly(1)  # it has imported what it needs
        except (OSError, asyncio.IncompleteReadError) as error:
            await child.end()
            self._not_started(error)
            return
        self.children[child], self._listening[child] = 0, asyncio.Lock()
        self._hand_on(child)

    def _not_started(self, error: Exception) -> None:
        log.warning("no process that prepares questions could be started (%s)", error)
        self._most -= 1

    async def _ask(self, child: Child, job: Job) -> Prepared | None:
        prepared, is_whole = None, False
        try:
            listening = self._listening.get(child)
            if listening is None:  # it has ended meanwhile
                return None
            write(child.stdin, job)
            async with listening:  # it answers in the order in which it was asked
                (length,) = _LENGTH.unpack(await child.stdout.readexactly(_LENGTH.size))
                prepared = pickle.loads(await child.stdout.readexactly(length))
            is_whole = True
        except _BROKEN as error:
            log.warning("a process that prepares questions was ended (%s: %s)", type(error).__name__, error)
        finally:  # it is free again or ended, whatever it said: others may wait for it
            if is_whole:
                self._free(child)
            else:
                await self._end(child)
        return prepared if isinstance(prepared, Prepared) else None

    def _free(self, child: Child) -> None:
        """A child has one question less, and begins with its next if there is one."""
        if child in self.children:
            self.children[child] -= 1
            self._began[child] = time.monotonic()
            self._hand_on(child)

    def _hand_on(self, child: Child) -> None:
        """Give a child to those who wait longest, as many as it takes."""
        while self._waiting and self._takes_one(child):
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._take(child)
                waiting.set_result(child)

    async def _end(self, child: Child) -> None:
        self.children.pop(child, None)
        self._listening.pop(child, None)
        self._began.pop(child, None)
        while self._waiting and not self.children:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
        await child.end()


def _job(dialog: Dialog, question: str, standalone: str | None) -> Job:
    checkouts = tuple(repository.checkout for repository in dialog.repositories)
    return Job(dialog.engine.settings, checkouts, dialog.conversation, question, standalone)


def write(to: BinaryIO | asyncio.StreamWriter, value: object) -> None:
    """Write a value behind its length."""
    content = io.BytesIO()
    pickler = pickle.Pickler(content, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _AS_CALLS
    pickler.dump(value)
    to.write(_LENGTH.pack(content.tell()) + content.getvalue())


def _as_calls(*types: type) -> dict[type, Callable[[Any], tuple[type, tuple[Any, ...]]]]:
    """How to pickle values of data classes as calls of them, which takes half the time of their own way."""
    values = {each: attrgetter(*(field.name for field in fields(each))) for each in types}
    return dict.fromkeys(types, lambda value: (type(value), values[type(value)](value)))


_AS_CALLS = {**copyreg.dispatch_table, **_as_calls(Hit, NumberedSource)}
"""There are dozens of them in what is prepared."""


# ---------------------------------------------------------------- in the child


class Engines:
    """Engines by their settings, which differ in the namespace, and the repositories they have open."""

    def __init__(self) -> None:
        self._known: dict[Settings, Engine] = {}
        self._opened: OrderedDict[Checkout, tuple[object, Repository]] = OrderedDict()

    def engine(self, settings: Settings) -> Engine:
        """The engine of these settings; all share one embedder, one counter and one turn store."""
        if (known := self._known.get(settings)) is not None:
            return known
        if len(self._known) >= _MOST_ENGINES:
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
            for shared in ("embedder", "counter"):
                made.__dict__[shared] = getattr(first, shared)
        self._known[settings] = made
        return made

    def repository(self, engine: Engine, checkout: Checkout) -> Repository:
        """A repository as it is on disk now; those asked last are kept open."""
        state = engine.generation(checkout.source)
        found, repository = self._opened.pop(checkout, (None, None))
        if repository is None or found != state:
            repository = engine.as_indexed(checkout)
            for other in [other for other in self._opened if other.source == checkout.source]:
                del self._opened[other]
            for known in self._known.values():  # what they have open may be the store before
                if known is not engine:
                    known.release(checkout.source)
        self._opened[checkout] = state, repository
        while len(self._opened) > most_open_stores():
            _, (_, oldest) = self._opened.popitem(last=False)
            for known in self._known.values():
                known.release(oldest.source)
        return repository


def main() -> None:
    """Do jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told, and may let streams end first
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    answers.write(b"+")
    answers.flush()
    # What is imported stays; a question leaves little behind that only the collector finds.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    engines = Engines()
    while head := asked.read(_LENGTH.size):
        job = pickle.loads(asked.read(_LENGTH.unpack(head)[0]))
        write(answers, _prepared(engines, job))
        answers.flush()


def _prepared(engines: Engines, job: Job) -> Prepared | None:
    """The question prepared; None where that fails: the server then finds out why."""
    try:
        engine = engines.engine(job.settings)
        repositories = [engines.repository(engine, checkout) for checkout in job.checkouts]
        dialog = Dialog(engine, repositories, job.conversation)
        # The lines are quoted here too: the server's own process is the narrow place.
        return with_quotes(dialog.prepare(job.question, standalone=job.standalone), job.settings)
    except (RagError, OSError):
        return None


if __name__ == "__main__":
    main()
