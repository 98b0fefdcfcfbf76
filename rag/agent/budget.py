"""The limits of a second look."""

from __future__ import annotations

from dataclasses import dataclass

REPLY_TOKENS = 500
"""Reserved for each reply of the model."""
MIN_ROOM = 150
"""With fewer tokens left for a result, no further step begins."""
MAX_RESULT = 1_200
"""The most tokens of one result: the whole conversation is sent again with every request."""


MAX_READ_RESULT = 2_600
"""The same of a `read`, which a model asks for as it needs it: about 120 lines."""


@dataclass(slots=True)
class Budget:
    """What is left for all steps together: their number, requests, tokens of the context window, and time.

    `until` is a time of the clock that the look is given; `tokens` are those of the conversation about the
    steps, which is never longer than the model's window.
    """

    steps: int
    tokens: int
    until: float
    requests: int

    def ended(self, now: float) -> str:
        """Return why no further step may begin, "" if one may."""
        if self.steps <= 0 or self.requests <= 0:
            return "all steps are used"
        if now >= self.until:
            return "the time is over"
        if self.tokens < MIN_ROOM:
            return "the context is full"
        return ""

    def room(self, most: int) -> int:
        """Return the tokens for the result of the next step: an equal share of what is left, at least a
        quarter, and not more than `most`.
        """
        return min(self.tokens // max(1, min(self.steps, 4)), most)
