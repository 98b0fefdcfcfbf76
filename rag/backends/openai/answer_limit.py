"""The limit of an answer's tokens, held on what arrives: a server may not know the limit, or not keep it."""

from __future__ import annotations

from rag.ports import TokenCounter

_TAIL_CHARS = 400
_FOREIGN_CHARS = 4
"""Other scripts take a token for one to four characters, by the model; here they never count too many."""


class AnswerLimit:
    """Takes the pieces of an answer until they hold as many tokens as were asked for.

    Args:
        tokens: the limit; 0 is none.
        counter: counts what is ASCII. Of other scripts four characters count as a token.
    """

    def __init__(self, tokens: int, counter: TokenCounter) -> None:
        self._tokens, self._counter = tokens, counter
        self._settled, self._tail = 0, ""
        self.reached = False

    def take(self, piece: str) -> str:
        """Return what of the next piece belongs to the answer; `reached` says whether it was the last."""
        if self._tokens <= 0 or not piece:
            return piece
        counted = self._counted(piece)
        if counted > self._tokens:
            self.reached = True
            return self._beginning(piece)
        self._tail += piece
        if len(self._tail) > _TAIL_CHARS:
            self._settled, self._tail = counted, ""
        return piece

    def _counted(self, piece: str) -> int:
        text = self._tail + piece
        plain = text.encode("ascii", "ignore").decode()
        return self._settled + self._counter.count(plain) + (len(text) - len(plain)) // _FOREIGN_CHARS

    def _beginning(self, piece: str) -> str:
        """The longest beginning that fits, nearly."""
        while piece and (counted := self._counted(piece)) > self._tokens:
            piece = piece[: min(len(piece) - 1, len(piece) * self._tokens // counted)]
        return piece
