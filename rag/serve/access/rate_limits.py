"""Limits on requests per caller and on concurrent work. Above a limit: 429 with `Retry-After`."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from asyncio import to_thread
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import limits

from rag.errors import QuestionTooLong, SettingsError
from rag.ports import SharedState
from rag.serve.access.keys import Caller
from rag.serve.errors import ShuttingDown, TooLarge, TooMany
from rag.serve.settings import ServerSettings
from rag.types import MAX_QUESTION_CHARS

_RETRY_S = 1.0


class Limiter:
    """The limits of one server.

    Args:
        settings: the limits.
        shared: counts the requests of a caller at all servers together; None counts them here.
    """

    def __init__(self, settings: ServerSettings, shared: SharedState | None = None) -> None:
        self._settings, self._shared = settings, shared
        self._slots = asyncio.Semaphore(settings.concurrent)
        self._long_slots = asyncio.Semaphore(max(1, settings.threads // 2))
        self.waiting = 0
        self.waiting_long = 0
        self.asking = 0
        self.stopping = False
        self.draining = False
        """Whether the server is about to stop, but still answers."""
        self._rate = _parsed(settings.rate) if settings.rate else None
        self._attempts = Attempts(_parsed(settings.attempts)) if settings.attempts else None
        self._window = MovingWindow(self._rate) if self._rate else None

    async def check_rate(self, caller: Caller) -> None:
        """Count a caller's request. Raises TooMany above the rate."""
        if self._rate is None or self._window is None:
            return
        if self._shared is not None:
            amount, period_s = self._rate.amount, float(self._rate.get_expiry())
            wait_s = await to_thread(self._shared.hit, caller.name, amount=amount, period_s=period_s)
        else:
            wait_s = self._window.hit(caller.name)
        if wait_s:
            raise TooMany(f"more than {self._rate} requests; retry later", retry_after_s=wait_s)

    def count_failure(self, address: str) -> None:
        """Count a request without a known key. Raises TooMany for an address above its limit."""
        if self._attempts is not None:
            self._check_attempts(self._attempts, address)
            self._attempts.count(address)

    def check_key(self, address: str, caller: Caller) -> None:
        """Accept an unguessable key from any address; limit a guessable one like a failure.

        An address above its limit may use an unguessable key: trying such keys gains an attacker nothing.
        For a short key the response would confirm a guess, so that key must have been accepted from this
        address before.

        Raises:
            TooMany: the address is above its limit and uses a short key for the first time.
        """
        if self._attempts is not None and caller.guessable:
            if not self._attempts.is_accepted(address, caller.name):
                self._check_attempts(self._attempts, address)
            self._attempts.accept(address, caller.name)

    def _check_attempts(self, attempts: Attempts, address: str) -> None:
        if (wait_s := attempts.blocked_s(address)) > 0:
            raise TooMany(
                "too many requests without a known key from this address; retry later",
                retry_after_s=wait_s,
            )

    def check_question(self, question: str, *, param: str = "question") -> None:
        """Refuse a question that is too long. Raises TooLarge."""
        if len(question) > MAX_QUESTION_CHARS:
            raise TooLarge(str(QuestionTooLong(len(question), MAX_QUESTION_CHARS)), param=param)

    def check_history(self, messages: int, *, param: str = "messages") -> None:
        """Refuse a history that is too long. Raises TooLarge."""
        limit = self._settings.max_messages
        if messages > limit:
            raise TooLarge(f"{messages:,} messages, the limit is {limit:,}; start a new one", param=param)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for one question or other work in a thread; wait in a bounded queue if all are taken.

        Raises:
            TooMany: the queue is full.
            ShuttingDown: the server accepts no more questions.
        """
        if self.stopping:
            raise ShuttingDown("the server is shutting down; retry in a moment", retry_after_s=5)
        if self._slots.locked() and self.waiting >= self._settings.waiting:
            raise TooMany(
                f"{self.asking} questions are running and {self.waiting} are queued; retry in a moment",
                retry_after_s=_RETRY_S,
            )
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1
            self._slots.release()

    @asynccontextmanager
    async def long_slot(self) -> AsyncIterator[None]:
        """Hold a slot for work that occupies a thread for seconds, such as reading a whole repository.

        At most half of the threads do such work at once, so that questions are still answered. Work that
        waits here does not occupy a slot of `slot`.

        Raises:
            TooMany, ShuttingDown: as `slot`.
        """
        if self._long_slots.locked() and self.waiting_long >= self._settings.waiting:
            raise TooMany(
                f"{self.waiting_long} other long requests are queued; retry in a moment",
                retry_after_s=_RETRY_S,
            )
        self.waiting_long += 1
        try:
            await self._long_slots.acquire()
        finally:
            self.waiting_long -= 1
        try:
            async with self.slot():
                yield
        finally:
            self._long_slots.release()


class MovingWindow:
    """Counts the requests of each name in the last period, in a table of bounded size.

    `limits` has the same, but by the time of the system: set back by an hour, it would refuse for an hour.

    Args:
        rate: the number of requests and the period.
        size: the number of names; when there are more, the least recently counted is evicted.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, rate: limits.RateLimitItem, *, size: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._amount, self._period_s = rate.amount, float(rate.get_expiry())
        self._size, self._clock = size, clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def hit(self, name: str) -> float:
        """Count a request, and return 0.0; or return in how many seconds one is accepted."""
        if not self._amount:
            return self._period_s
        times = self._times.setdefault(name, deque(maxlen=self._amount))
        self._times.move_to_end(name)
        if len(self._times) > self._size:
            self._times.popitem(last=False)
        now = self._clock()
        if len(times) == self._amount and (wait_s := times[0] + self._period_s - now) > 0:
            return wait_s
        times.append(now)
        return 0.0


class Attempts:
    """Counts requests without a known key per address, in a table of bounded size.

    All addresses of an IPv6 /64 network count as one, because one client usually owns all of them.

    Args:
        rate: the number of requests and the period.
        size: the size of the table; when it is full, the least recently counted is evicted.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, rate: limits.RateLimitItem, *, size: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._amount, self._period_s = rate.amount, float(rate.get_expiry())
        self._size, self._clock = size, clock
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._accepted: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Pairs of network and accepted key, bounded like the table of failures."""

    def __len__(self) -> int:
        return len(self._counted)

    def blocked_s(self, address: str) -> float:
        """Return for how many seconds an address is still refused; 0.0 when it is not."""
        began, count = self._counted.get(_network(address), (0.0, 0))
        left_s = began + self._period_s - self._clock()
        return left_s if count >= self._amount and left_s > 0 else 0.0

    def count(self, address: str) -> None:
        """Count one request without a known key."""
        network, now = _network(address), self._clock()
        began, count = self._counted.pop(network, (now, 0))
        if now >= began + self._period_s:
            began, count = now, 0
        self._counted[network] = (began, count + 1)
        if len(self._counted) > self._size:
            self._counted.popitem(last=False)

    def accept(self, address: str, key: str) -> None:
        """Record that the key of this name was accepted from an address."""
        pair = (_network(address), key)
        self._accepted[pair] = None
        self._accepted.move_to_end(pair)
        if len(self._accepted) > self._size:
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
        raise SettingsError(f"the rate {rate!r} is invalid; write it as 60/minute or 5/second") from error
