"""How much is served at once, and to whom how often. Beyond it: 429 with `Retry-After`, at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import limits

from rag.errors import SettingsError
from rag.serve.errors import ShuttingDown, TooLarge, TooMany
from rag.serve.keys import Caller
from rag.serve.settings import ServerSettings

_RETRY_S = 1.0


class Limiter:
    """The limits of one server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._seats = asyncio.Semaphore(settings.concurrent)
        self._long_seats = asyncio.Semaphore(max(1, settings.threads // 2))
        self.waiting = 0
        self.waiting_long = 0
        self.asking = 0
        self.stopping = False
        self._rate = _parsed(settings.rate) if settings.rate else None
        self._window = limits.strategies.MovingWindowRateLimiter(limits.storage.MemoryStorage())

    def check_rate(self, caller: Caller) -> None:
        """Count a request of a caller. Raises TooMany beyond the rate."""
        if self._rate is None or self._window.hit(self._rate, caller.name):
            return
        free_at = self._window.get_window_stats(self._rate, caller.name).reset_time
        raise TooMany(f"more than {self._rate} requests; wait a little", retry_after_s=free_at - time.time())

    def check_question(self, question: str, *, param: str = "question") -> None:
        """Refuse a question that is too long. Raises TooLarge."""
        most = self._settings.max_question_chars
        if len(question) > most:
            raise TooLarge(
                f"the question has {len(question):,} characters, {most:,} are taken; put the text it is "
                "about into the repository, or ask a shorter one",
                param=param,
            )

    def check_history(self, messages: int, *, param: str = "messages") -> None:
        """Refuse a history that is too long. Raises TooLarge."""
        most = self._settings.max_messages
        if messages > most:
            raise TooLarge(f"{messages:,} messages were sent, {most:,} are taken; begin anew", param=param)

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """A seat for one question, or other work in a thread, waited for in a queue that is not endless.

        Raises:
            TooMany: the queue is full.
            ShuttingDown: the server takes no more questions.
        """
        if self.stopping:
            raise ShuttingDown("the server is about to stop; ask again in a moment", retry_after_s=5)
        if self._seats.locked() and self.waiting >= self._settings.waiting:
            raise TooMany(
                f"{self.asking} questions are being answered and {self.waiting} wait; ask again in a moment",
                retry_after_s=_RETRY_S,
            )
        self.waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self.waiting -= 1
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1
            self._seats.release()

    @asynccontextmanager
    async def long_seat(self) -> AsyncIterator[None]:
        """A seat for work that keeps a thread busy for seconds, such as reading a whole repository.

        At most half of the threads do such at once, so that questions go on. What waits for its turn here
        takes no seat from a question.

        Raises:
            TooMany, ShuttingDown: as `seat`.
        """
        if self._long_seats.locked() and self.waiting_long >= self._settings.waiting:
            raise TooMany(
                f"{self.waiting_long} others wait for work as long as this; come again in a moment",
                retry_after_s=_RETRY_S,
            )
        self.waiting_long += 1
        try:
            await self._long_seats.acquire()
        finally:
            self.waiting_long -= 1
        try:
            async with self.seat():
                yield
        finally:
            self._long_seats.release()


def _parsed(rate: str) -> limits.RateLimitItem:
    try:
        return limits.parse(rate)
    except ValueError as error:
        raise SettingsError(f"the rate {rate!r} cannot be read; write it as 60/minute or 5/second") from error
