"""Finds code whose layout or comments alone have changed, and definitions by their names."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal

from rag.memory.anchor import LEAST_MOVED, letters

Detail = Literal["layout", "comments"]

_BLOCK_COMMENTS = re.compile(rb"/\*.*?\*/|<!--.*?-->", re.DOTALL)
_LINE_COMMENTS = re.compile(rb"(?:^|[ \t])(?:#|//|--)[^\n]*|^[ \t]*(?:\*|/\*)[^\n]*", re.MULTILINE)
_LAYOUT = bytes.maketrans(b"'", b'"')
_NOT_COMPARED = b" \t\n\f\v,()\\"


def squashed(lines: Sequence[bytes]) -> bytes:
    """Return lines without layout and comments, roughly.

    What the grammar finds to be the same is, with few exceptions, the same here; the reverse is not true.
    """
    text = _LINE_COMMENTS.sub(b"", _BLOCK_COMMENTS.sub(b"", b"\n".join(lines)))
    return text.translate(_LAYOUT, _NOT_COMPARED)


@dataclass(frozen=True, slots=True)
class NamedLines:
    """A function or class: its lines (counted from 1, the last included), name, and enclosing scope."""

    start: int
    end: int
    symbol: str
    scope: str


@dataclass(frozen=True, slots=True)
class Same:
    """Lines with the same tokens, and what differs."""

    start: int
    end: int
    detail: Detail


class Syntax:
    """The tokens, comments and definitions of a text, from the values of `rag.code.layout.syntaxes`."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._rows, self._ends, depths, self._words, self._comment_rows, self._comments, defined = values
        deeper = [after - before for before, after in pairwise([*depths[:1], *depths])]
        self._keys = [f"{step}\x01{word}" for step, word in zip(deeper, self._words, strict=True)]
        self.definitions = [
            NamedLines(start + 1, end, symbol, scope) for start, end, symbol, scope in defined
        ]

    @cached_property
    def _text(self) -> str:
        return "\0" + "\0".join(self._keys) + "\0"

    @cached_property
    def _offsets(self) -> list[int]:
        """The offset of the separator before each token in `_text`."""
        return [0, *accumulate(len(key) + 1 for key in self._keys)]

    def find(self, start: int, end: int, new: Syntax) -> list[Same]:
        """Return where the tokens of these lines are in another text, ascending; none for too few letters."""
        first, behind = self._between(start, end)
        if first >= behind or letters([word.encode() for word in self._words[first:behind]]) < LEAST_MOVED:
            return []
        rest = "\0" + "".join(f"{key}\0" for key in self._keys[first + 1 : behind])
        found = []
        at = new._text.find(rest) if len(rest) > 1 else -1
        while at >= 0:
            token = bisect_left(new._offsets, at) - 1
            if token >= 0 and new._words[token] == self._words[first]:
                found.append(self._same(start, end, new, token, token + behind - first - 1))
            at = new._text.find(rest, at + 1)
        return found

    def _between(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of tokens of some lines; an empty one if a token goes beyond them."""
        first, behind = bisect_left(self._rows, start - 1), bisect_right(self._rows, end - 1)
        if first < behind and self._ends[behind - 1] > end - 1:
            return 0, 0
        if first and self._ends[first - 1] >= start - 1:
            return 0, 0
        return first, behind

    def _same(self, start: int, end: int, new: Syntax, first: int, last: int) -> Same:
        """Return the place of tokens with the comments around them that the old lines had too."""
        top, bottom = new._rows[first] + 1, new._ends[last] + 1
        old_first, old_behind = self._between(start, end)
        above = self._comments_within(start, self._rows[old_first])
        below = self._comments_within(self._ends[old_behind - 1] + 2, end)
        if above:
            top = self._with_comments(new, self._rows[old_first] + 1, start, top)
        if below:
            bottom = self._with_comments(new, self._ends[old_behind - 1] + 1, end, bottom)
        is_layout = self._comments_within(start, end) == new._comments_within(top, bottom)
        return Same(top, bottom, "layout" if is_layout else "comments")

    def _with_comments(self, new: Syntax, code: int, edge: int, now: int) -> int:
        """Return the line as far from code now as an edge of old lines in comments was, or where these end.

        All of the comments belong to it if the old lines had all of them.
        """
        step = -1 if edge < code else 1
        reached = new._reach(now, step)
        is_part = self._reach(code, step) != edge
        return min(reached, now + edge - code, key=lambda line: abs(line - now)) if is_part else reached

    def _comments_within(self, start: int, end: int) -> list[str]:
        first, behind = bisect_left(self._comment_rows, start - 1), bisect_right(self._comment_rows, end - 1)
        return list(self._comments[first:behind])

    def _reach(self, line: int, step: int) -> int:
        """Return the last of the comment lines that follow a line without a gap, in one direction."""
        rows = set(self._comment_rows)
        while line - 1 + step in rows:
            line += step
        return line
