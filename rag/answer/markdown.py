"""Where code stands in Markdown that may still be growing: fenced blocks, and code within a line.

CommonMark's rules with one simplification: code within a line ends with the line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIX = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_BEGINNING = re.compile(_PREFIX)
_FENCE = re.compile(_PREFIX + r"(`{3,}|~{3,})(.*)", re.DOTALL)
_BACKTICKS = re.compile(r"`+")


class Fence(NamedTuple):
    """The marks that opened a fenced block."""

    mark: str
    length: int


class CodeSpans(NamedTuple):
    """Code within a line: `spans` as (start, end), and from where on more text may still change that."""

    spans: list[tuple[int, int]]
    open_from: int

    def holds(self, position: int) -> bool:
        """Whether the position is code."""
        return any(start <= position < end for start, end in self.spans)


def begins_line(text: str) -> bool:
    """Whether `text` is nothing but what stands before a line's first word: spaces, list and quote marks."""
    return _BEGINNING.fullmatch(text) is not None


def opened_fence(line: str) -> Fence | None:
    """The fence that this line opens, None when it opens none. Right for whole lines only."""
    if "```" not in line and "~~~" not in line:
        return None
    match = _FENCE.match(line)
    if match is None or (match[1][0] == "`" and "`" in match[2]):
        return None
    return Fence(match[1][0], len(match[1]))


def may_open_fence(line: str) -> bool:
    """Whether the line, as far as it is known, may open a fence."""
    return _FENCE.match(line) is not None


def closes_fence(line: str, fence: Fence) -> bool:
    """Whether this whole line closes the fence."""
    marks = line.strip(" \t>\r\n")
    return len(marks) >= fence.length and marks == fence.mark * len(marks)


def code_spans(line: str, *, whole: bool) -> CodeSpans:
    """The code within a line. A run of backticks that no equal run follows is just backticks.

    When the line is not `whole`, everything after an unclosed run is open, and so is a run at the end.
    """
    runs = [(m.start(), m.end()) for m in _BACKTICKS.finditer(line)]
    spans: list[tuple[int, int]] = []
    position = 0
    while position < len(runs):
        start, end = runs[position]
        closing = _closing(runs, position, None if whole else len(line))
        if closing is not None:
            spans.append((start, runs[closing][1]))
            position = closing + 1
        elif whole:
            position += 1
        else:
            return CodeSpans(spans, end)
    return CodeSpans(spans, len(line))


def _closing(runs: list[tuple[int, int]], opening: int, growing_at: int | None) -> int | None:
    """The run that closes the one at `opening`; one that ends at `growing_at` may still become longer."""
    length = runs[opening][1] - runs[opening][0]
    for position in range(opening + 1, len(runs)):
        start, end = runs[position]
        if end - start == length and end != growing_at:
            return position
    return None
