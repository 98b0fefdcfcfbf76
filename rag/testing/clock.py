"""A clock that stands still until it is told to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class SteppedClock:
    """A `Clock` for tests: begins on 1 January 2026 at noon UTC and moves only by `advance`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The moment it stands at."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Go on by this many seconds."""
        self.now += timedelta(seconds=seconds)
