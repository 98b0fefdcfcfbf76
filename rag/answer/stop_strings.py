"""Ends an answer at a stop string or after a number of tokens, for generators that know neither."""

from __future__ import annotations

from collections.abc import Sequence

from rag.ports import TokenCounter


class AnswerEnd:
    """Passes on the pieces of an answer until it ends.

    A text that may be the beginning of a stop string is held back until the next piece decides.

    Args:
        stop: the strings that end the answer; they are not passed on.
        tokens: the maximum number of tokens; None for no limit.
        counter: counts them.
    """

    def __init__(self, stop: Sequence[str], tokens: int | None, counter: TokenCounter) -> None:
        self._stop, self._tokens, self._counter = [text for text in stop if text], tokens, counter
        self._held, self._used = "", 0
        self.is_stopped = False
        self.is_cut = False

    @property
    def is_reached(self) -> bool:
        """Whether the answer has ended; later pieces are dropped."""
        return self.is_stopped or self.is_cut

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now."""
        if self.is_reached:
            return ""
        text, self._held = self._held + piece, ""
        ends = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        if ends:
            self.is_stopped = True
            return self._within(text[: min(ends)])
        held = max((_overlap(text, stop) for stop in self._stop), default=0)
        if held:
            text, self._held = text[:-held], text[-held:]
        return self._within(text)

    def close(self) -> str:
        """Return the text that was held back, at the end of all pieces."""
        held, self._held = self._held, ""
        return "" if self.is_reached else self._within(held)

    def _within(self, text: str) -> str:
        """Return the part of a text that the limit leaves, approximately: pieces are counted one by one."""
        if self._tokens is None or not text:
            return text
        left = self._tokens - self._used
        counted = self._counter.count(text)
        self._used += counted
        if counted <= left:
            return text
        self.is_cut = True
        while text and (counted := self._counter.count(text)) > left:
            text = text[: min(len(text) - 1, len(text) * left // counted)]
        return text


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that a stop string begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
