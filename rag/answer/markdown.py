"""Find code in Markdown that may still be growing: fenced blocks, and inline code.

It follows CommonMark with one simplification: inline code ends with the line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_BEGINNING_CHARS = 1000
"""Longer indentation, list and quote marks are text: no fence opens after them."""
_PREFIX = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_BEGINNING = re.compile(_PREFIX)
_FENCE = re.compile(_PREFIX + r"(`{3,}|~{3,})(.*)", re.DOTALL)
_BEFORE_FENCE = re.compile(_PREFIX + r"(?:[-*+]|\d{1,9}[.)]?|`{1,2}|~{1,2})?")
_BACKTICKS = re.compile(r"`+")


class Fence(NamedTuple):
    """The marks that opened a fenced block."""

    mark: str
    length: int


def begins_line(text: str) -> bool:
    """Return whether `text` has only what may precede a line's first word: spaces, list and quote marks."""
    return len(text) <= MAX_BEGINNING_CHARS and _BEGINNING.fullmatch(text) is not None


def opened_fence(line: str) -> Fence | None:
    """Return the fence that this line opens, None when it opens none. Valid for whole lines only."""
    if "```" not in line and "~~~" not in line:
        return None
    match = _FENCE.match(line)
    if match is None or match.start(1) > MAX_BEGINNING_CHARS:
        return None
    if match[1][0] == "`" and "`" in match[2]:
        return None
    return Fence(match[1][0], len(match[1]))


def may_become_fence(line: str) -> bool | None:
    """Return whether a growing line may open a fence, None while its first word is not known."""
    if match := _FENCE.match(line):
        return match.start(1) <= MAX_BEGINNING_CHARS
    begun = len(line) <= MAX_BEGINNING_CHARS + 2 and _BEFORE_FENCE.fullmatch(line)
    return None if begun else False


def closes_fence(line: str, fence: Fence) -> bool:
    """Return whether this whole line closes the fence."""
    marks = line.strip(" \t>\r\n")
    return len(marks) >= fence.length and marks == fence.mark * len(marks)


def code_spans(line: str) -> list[tuple[int, int]]:
    """Return start and end of each code span within a whole line, in order.

    A run of backticks without a later run of the same length is plain text.
    """
    runs = [(m.start(), m.end()) for m in _BACKTICKS.finditer(line)]
    last = {end - start: start for start, end in runs}
    spans: list[tuple[int, int]] = []
    opening: tuple[int, int] | None = None
    for start, end in runs:
        if opening is None:
            opening = (start, end) if last[end - start] > start else None
        elif end - start == opening[1] - opening[0]:
            spans.append((opening[0], end))
            opening = None
    return spans
