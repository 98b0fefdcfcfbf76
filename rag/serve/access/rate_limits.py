"""How much is served at once, and to whom how often. Beyond it: 429 with `Retry-After`, at once."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import limits

from rag.errors import SettingsError
from rag.serve.access.keys import Caller
from rag.serve.errors import ShuttingDown, TooLarge, TooMany
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
        self._attempts = Attempts(_parsed(settings.attempts)) if settings.attempts else None
        self._window = limits.strategies.MovingWindowRateLimiter(limits.storage.MemoryStorage())

    def check_rate(self, caller: Caller) -> None:
        """Count a request of a caller. Raises TooMany beyond the rate."""
        if self._rate is None or self._window.hit(self._rate, caller.name):
            return
        free_at = self._window.get_window_stats(self._rate, caller.name).reset_time
        raise TooMany(f"more than {self._rate} requests; wait a little", retry_after_s=free_at - time.time())

    def count_failure(self, address: str) -> None:
        """Count a request without a known key. Raises TooMany for an address that is over its limit."""
        if self._attempts is not None:
            self._check_attempts(self._attempts, address)
            self._attempts.count(address)

    def check_key(self, address: str, caller: Caller) -> None:
        """Admit a known key from any address; a key that can be guessed only as often as a failure.

        An address over its limit passes with a key that cannot be guessed: trying more of those gains
        nothing. For a short key the answer would confirm a guess, so there the key must have been accepted
        from this address before.

        Raises:
            TooMany: the address is over its limit, and sends a short key for the first time.
        """
        if self._attempts is not None and caller.guessable:
            if not self._attempts.is_accepted(address, caller.name):
                self._check_attempts(self._attempts, address)
            self._attempts.accept(address, caller.name)

    def _check_attempts(self, attempts: Attempts, address: str) -> None:
        if (wait_s := attempts.blocked_s(address)) > 0:
            raise TooMany(
                "too many requests without a known key came from this address; wait a little",
                retry_after_s=wait_s,
            )

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


class Attempts:
    """Counts what addresses send without a known key, in a table of bounded size.

    All addresses of an IPv6 network (/64) are one: whoever has one has them all.

    Args:
        rate: how many, in what time.
        most: addresses in the table; one more takes the place of the one counted longest ago.
        clock: seconds that never go back.
    """

    def __init__(
        self, rate: limits.RateLimitItem, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._amount, self._period_s = rate.amount, float(rate.get_expiry())
        self._most, self._clock = most, clock
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._accepted: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Which keys were accepted from which networks; as bounded as the table of failures."""

    def __len__(self) -> int:
        return len(self._counted)

    def blocked_s(self, address: str) -> float:
        """For how long an address is refused; 0 is not at all."""
        began, count = self._counted.get(_network(address), (0.0, 0))
        left_s = began + self._period_s - self._clock()
        return left_s if count >= self._amount and left_s > 0 else 0.0

    def count(self, address: str) -> None:
        """Count one."""
        network, now = _network(address), self._clock()
        began, count = self._counted.pop(network, (now, 0))
        if now >= began + self._period_s:
            began, count = now, 0
        self._counted[network] = (began, count + 1)
        if len(self._counted) > self._most:
            self._counted.popitem(last=False)

    def accept(self, address: str, key: str) -> None:
        """Remember that the key of this name was accepted from an address."""
        pair = (_network(address), key)
        self._accepted[pair] = None
        self._accepted.move_to_end(pair)
        if len(self._accepted) > self._most:
            self._accepted.popitem(last=False)

    def is_accepted(self, address: str, key: str) -> bool:
        """Whether the key of this name was accepted from an address before."""
        return (_network(address), key) in self._accepted


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def _parsed(rate: str) -> limits.RateLimitItem:
    try:
        return limits.parse(rate)
    except ValueError as error:
        raise SettingsError(f"the rate {rate!r} cannot be read; write it as 60/minute or 5/second") from error
