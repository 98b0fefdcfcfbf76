"""State that several servers share, and the clock."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol


class SharedState(Protocol):
    """What several servers share in addition to turns and jobs: locks, rates of requests, and events.

    All methods may be called from several threads, except `listen`, which one thread calls.

    Raises:
        StoreError: from every method, if the state is unreachable or busy.
    """

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Hold a lock in the block; all others that want it, in any process, wait.

        A process that ends releases its locks.
        """
        ...

    def hit(self, name: str, *, amount: int, period_s: float) -> float:
        """Count a request, unless there were `amount` of this name in the last `period_s` seconds.

        Requests of the previous period count in part, as if they had been evenly spread.

        Returns:
            0.0 if the request was counted, else the seconds until one may be.
        """
        ...

    def publish(self, event: str) -> None:
        """Send a text of at most 7,900 bytes to everyone who listens, also in this process.

        Raises:
            ValueError: it is longer.
        """
        ...

    def listen(self, timeout_s: float) -> list[str] | None:
        """Wait for events, at most this long; None if some may have been missed, as at the first call."""
        ...

    def prune(self) -> None:
        """Remove the counts of names that were not used for a day."""
        ...

    def close(self) -> None:
        """Release connections. Closing twice is allowed."""
        ...


class Clock(Protocol):
    """A source of the current time."""

    def __call__(self) -> datetime:
        """Return the current time, with its time zone."""
        ...
