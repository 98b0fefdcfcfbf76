"""A clock that only moves when it is advanced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SteppedClock:
    """A `Clock` for tests: starts on 1 January 2026 at noon UTC and only moves by `advance`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the current time of the clock."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock by this number of seconds."""
        self.now += timedelta(seconds=seconds)
