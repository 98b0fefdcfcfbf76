"""Time for work that may be done at any moment, but not all the time."""

from __future__ import annotations

import time


class Allowance:
    """A share of the time, saved up to some seconds while it is not used.

    Args:
        share: seconds that are granted for each second that passes.
        most_s: seconds that are saved at most, and there are at the beginning.
    """

    def __init__(self, share: float, most_s: float) -> None:
        self._share, self._most_s = share, most_s
        self._left_s, self._counted = most_s, time.monotonic()

    def is_left(self) -> bool:
        """Whether there is any time left."""
        now = time.monotonic()
        self._left_s = min(self._most_s, self._left_s + (now - self._counted) * self._share)
        self._counted = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """Take what the work took, also where that is more than was left."""
        self._left_s -= seconds
