"""A time budget for background work."""

from __future__ import annotations

import time


class Allowance:
    """A share of the time; unused time is saved up to a limit.

    Args:
        share: seconds granted per second.
        max_s: the maximum number of saved seconds, which is also the initial amount.
    """

    def __init__(self, share: float, max_s: float) -> None:
        self._share, self._max_s = share, max_s
        self._left_s, self._counted = max_s, time.monotonic()

    def is_left(self) -> bool:
        """Whether there is any time left."""
        now = time.monotonic()
        self._left_s = min(self._max_s, self._left_s + (now - self._counted) * self._share)
        self._counted = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """Subtract the time that work took, even if less was left."""
        self._left_s -= seconds
