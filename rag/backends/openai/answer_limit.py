"""Enforces an answer's token limit on the client, for servers that do not know or do not respect it."""

from __future__ import annotations

from rag.ports import TokenCounter

_TAIL_CHARS = 400
_FOREIGN_CHARS = 4
"""Other scripts use one to four characters per token, depending on the model; 4 never counts too many."""


class AnswerLimit:
    """Passes on the pieces of an answer until the token limit is reached.

    Args:
        tokens: the limit; 0 means no limit.
        counter: counts the ASCII part. In other scripts four characters count as one token.
    """

    def __init__(self, tokens: int, counter: TokenCounter) -> None:
        self._tokens, self._counter = tokens, counter
        self._settled, self._tail = 0, ""
        self.reached = False

    def take(self, piece: str) -> str:
        """Return the part of the next piece that fits; `reached` is set when the limit is exceeded."""
        if self._tokens <= 0 or not piece:
            return piece
        counted = self._counted(piece)
        if counted > self._tokens:
            self.reached = True
            return self._fitting(piece)
        self._tail += piece
        if len(self._tail) > _TAIL_CHARS:
            self._settled, self._tail = counted, ""
        return piece

    def _counted(self, piece: str) -> int:
        text = self._tail + piece
        plain = text.encode("ascii", "ignore").decode()
        return self._settled + self._counter.count(plain) + (len(text) - len(plain)) // _FOREIGN_CHARS

    def _fitting(self, piece: str) -> str:
        """Return the longest prefix that fits, approximately."""
        while piece and (counted := self._counted(piece)) > self._tokens:
            piece = piece[: min(len(piece) - 1, len(piece) * self._tokens // counted)]
        return piece
