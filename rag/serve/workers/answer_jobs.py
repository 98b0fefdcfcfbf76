"""Answers that belong to the server: each is written by a job, and clients follow it.

A client that disconnects does not end the job; another one may follow it from any event, while it runs and
for a while afterwards. A job holds a slot of the limiter like any question, so that clients that ask and
leave get no more answers at once than those that stay.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from rag.errors import RagError
from rag.serve.telemetry import log
from rag.service.loop.ask import Notify
from rag.types import Answer, Citation, DialogTurn, TraceStep

Said = DialogTurn | TraceStep | tuple[Citation, ...] | str | Answer
"""The stored question, a step of a second look, the numbered sources, a piece of text, or the answer."""
Answering = Callable[[Notify], AsyncGenerator[str | TraceStep | Answer, None]]
"""Answers a question; the argument receives its turn and sources."""

_MAX_ENDED = 64
"""The number of ended jobs, the newest, that clients can still follow."""
_MAX_CHARS = 1_000_000
_MAX_SAID = 50_000
"""Limits of one answer; a longer one is stopped."""


class AnswerJob:
    """One answer, with everything that was said so far."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.turn = ""
        """The id of its turn; "" while the question is not stored."""
        self.said: list[Said] = []
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._chars = 0
        self._followers = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing more will be said."""
        return self._task is not None and self._task.done()

    @property
    def is_too_long(self) -> bool:
        """Whether it exceeds the limits of an answer."""
        return self._chars > _MAX_CHARS or len(self.said) > _MAX_SAID

    def say(self, said: Said) -> None:
        """Add to what was said, and wake the followers."""
        if isinstance(said, str):
            self._chars += len(said)
        self.said.append(said)
        self.wake()

    def wake(self) -> None:
        """Wake the followers."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def start(self, task: asyncio.Task[None]) -> None:
        """Begin with this task."""
        self._task = task
        task.add_done_callback(lambda _: self.wake())

    async def follow(
        self, after: int = 0, *, beat_s: float = 15
    ) -> AsyncGenerator[tuple[int, Said | None], None]:
        """Yield what was said after the first `after` events, each with its number, then what comes.

        None in place of an event means that nothing was said for `beat_s` seconds. A question that is not
        stored yet is given up with its last follower.

        Raises:
            RagError: the answer failed.
        """
        self._followers += 1
        at = max(0, after)
        try:
            while True:
                changed = self._changed
                while at < len(self.said):
                    at += 1
                    yield at, self.said[at - 1]
                if self.is_done:
                    break
                try:
                    await asyncio.wait_for(changed.wait(), beat_s)
                except TimeoutError:
                    yield at, None
        finally:
            self._followers -= 1
            if not self.turn and not self._followers:
                self.cancel()
        if self._task and not self._task.cancelled() and (error := self._task.exception()):
            raise error

    def cancel(self) -> None:
        """Begin to stop the answer, if it is not done."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop the answer, and wait until what came of it is stored."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])


class AnswerJobs:
    """The running answers of a server, and the last ones that have ended."""

    def __init__(self) -> None:
        self._running: set[AnswerJob] = set()
        self._by_turn: OrderedDict[tuple[str, str], AnswerJob] = OrderedDict()

    def __len__(self) -> int:
        return len(self._running)

    def start(self, namespace: str, answering: Answering) -> AnswerJob:
        """Start to answer a question for a namespace."""
        job = AnswerJob(namespace)

        def notified(of: DialogTurn | tuple[Citation, ...]) -> None:
            if isinstance(of, DialogTurn):
                job.turn = of.id
                self._by_turn[namespace, of.id] = job
            job.say(of)

        self._running.add(job)
        task = asyncio.create_task(_run(job, answering(notified)))
        job.start(task)
        task.add_done_callback(lambda done: self._ended(job, done))
        return job

    def find(self, namespace: str, turn: str) -> AnswerJob | None:
        """Return the job of a turn; None if it is not known (any more)."""
        return self._by_turn.get((namespace, turn))

    def stop_all(self) -> None:
        """Stop all answers; what came of them is stored."""
        for job in self._running:
            job.cancel()

    async def close(self) -> None:
        """Stop all answers, and wait until what came of them is stored."""
        while self._running:
            await asyncio.gather(*(job.stop() for job in list(self._running)))

    def _ended(self, job: AnswerJob, task: asyncio.Task[None]) -> None:
        self._running.discard(job)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RagError):
            log.error("an answer failed", exc_info=error)
        ended = [key for key, one in self._by_turn.items() if one.is_done]
        for key in ended[: len(ended) - _MAX_ENDED]:
            del self._by_turn[key]


async def _run(job: AnswerJob, pieces: AsyncGenerator[str | TraceStep | Answer, None]) -> None:
    async with aclosing(pieces):
        async for piece in pieces:
            job.say(piece)
            if job.is_too_long:
                break
