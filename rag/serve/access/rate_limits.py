"""Limits on requests per caller and on concurrent work. Above a limit: 429 with `Retry-After`."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from asyncio import to_thread
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from rag.errors import QuestionTooLong, SettingsError
from rag.ports import SharedState
from rag.serve.access.keys import Caller
from rag.serve.errors import ShuttingDown, TooLarge, TooMany
from rag.serve.settings import ServerSettings
from rag.types import MAX_QUESTION_CHARS

_RETRY_S = 1.0
_UNITS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_RATE = re.compile(r"(\d{1,9}) ?(?:/|per) ?(?:(\d{1,9}) ?)?(second|minute|hour|day)s?")


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
        self._rate = Rate.parsed(settings.rate) if settings.rate else None
        self._window = Window(self._rate) if self._rate else None
        self._attempts = Window(Rate.parsed(settings.attempts)) if settings.attempts else None
        self._accepted = AcceptedKeys()

    async def check_rate(self, caller: Caller) -> None:
        """Count a caller's request. Raises TooMany above the rate."""
        if self._rate is None or self._window is None:
            return
        if self._shared is not None:
            rate = self._rate
            wait_s = await to_thread(
                self._shared.hit, caller.name, amount=rate.amount, period_s=rate.period_s
            )
        else:
            wait_s = self._window.hit(caller.name)
        if wait_s:
            raise TooMany(f"more than {self._rate.text} requests; retry later", retry_after_s=wait_s)

    def count_failure(self, address: str) -> None:
        """Count a request without a known key. Raises TooMany for an address above its limit."""
        if self._attempts is not None:
            self._check_attempts(self._attempts.hit(network_of(address)))

    def check_key(self, address: str, caller: Caller) -> None:
        """Accept an unguessable key from any address; limit a guessable one like a failure.

        An address above its limit may use an unguessable key: trying such keys gains an attacker nothing.
        For a short key the response would confirm a guess, so that key must have been accepted from this
        address before.

        Raises:
            TooMany: the address is above its limit and uses a short key for the first time.
        """
        if self._attempts is not None and caller.guessable:
            if not self._accepted.has(address, caller.name):
                self._check_attempts(self._attempts.wait_s(network_of(address)))
            self._accepted.add(address, caller.name)

    def _check_attempts(self, wait_s: float) -> None:
        if wait_s:
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


class Rate(NamedTuple):
    """A number of requests in a period."""

    amount: int
    period_s: float
    text: str

    @classmethod
    def parsed(cls, text: str) -> Rate:
        """Read a rate such as `60/minute`, `5 per second` or `100/2 hours`. Raises SettingsError."""
        found = _RATE.fullmatch(text.strip().lower())
        period_s = int(found[2] or 1) * _UNITS_S[found[3]] if found else 0
        if not found or not period_s:
            raise SettingsError(f"the rate {text!r} is invalid; write it as 60/minute or 5/second")
        return cls(int(found[1]), float(period_s), text.strip())


class Window:
    """Counts the requests of each name in the last period, in a table of bounded size.

    The clock is monotonic: by the time of the system, a clock set back by an hour would refuse for an hour.

    Args:
        rate: the number of requests and the period.
        size: the number of names; when there are more, the one that came least recently is evicted.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, rate: Rate, *, size: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._size, self._clock = rate, size, clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def wait_s(self, name: str) -> float:
        """Return in how many seconds a request is accepted; 0.0 for now."""
        if not self._rate.amount:
            return self._rate.period_s
        times: Sequence[float] = self._times.get(name, ())
        full = len(times) == self._rate.amount
        return max(0.0, times[0] + self._rate.period_s - self._clock()) if full else 0.0

    def hit(self, name: str) -> float:
        """Count a request, and return 0.0; or return in how many seconds one is accepted."""
        wait_s = self.wait_s(name)
        if not wait_s:
            self._times.setdefault(name, deque(maxlen=self._rate.amount)).append(self._clock())
        if name in self._times:
            self._times.move_to_end(name)
        if wait_s:
            return wait_s
        if len(self._times) > self._size:
            self._times.popitem(last=False)
        return 0.0


class AcceptedKeys:
    """The pairs of network and key that were accepted, in a table of bounded size."""

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._pairs: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, address: str, key: str) -> None:
        """Record that the key of this name was accepted from an address."""
        pair = (network_of(address), key)
        self._pairs[pair] = None
        self._pairs.move_to_end(pair)
        if len(self._pairs) > self._size:
            self._pairs.popitem(last=False)

    def has(self, address: str, key: str) -> bool:
        """Whether the key of this name was accepted from an address before."""
        return (network_of(address), key) in self._pairs


def network_of(address: str) -> str:
    """Return what counts as one client: an address, or an IPv6 /64 network, which one client usually owns."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)
