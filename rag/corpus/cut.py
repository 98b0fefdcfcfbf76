"""Divide a piece over the size limit where a reader would pause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag.code.patterns import closes, indent_of
from rag.corpus.partition import Piece
from rag.lines import LONG_VALUE

_LOOSE_SHARE = 0.6
"""Long loose code has no natural size: shorter chunks are cited more precisely."""

_EARLIEST = 0.6
_LATEST = 1.35
"""The range around an even division in which a better place is searched."""

_SHOWN_CHARS = 80
"""Of a long value."""
MAX_LINE_CHARS = 16_000
"""More of one line is data, or is not read by anyone."""
_MARKS = " \t\r\n;,)}]>\"'`/"
_PAUSE = re.compile(r"[\s,;)}\]]")


def cut(
    lines: Sequence[str], offsets: Sequence[int], piece: Piece, max_chars: int
) -> Iterator[tuple[int, int]]:
    """Divide a piece: yield the offsets of each part, none longer than `max_chars`.

    Lines are kept whole unless one alone is too long. Of such a line what nobody reads is left out.
    """
    start, end = piece.start, piece.end
    size = offsets[end] - offsets[start]
    keeps_together = bool(piece.label.symbol) or piece.is_head
    if size <= max_chars and (keeps_together or size <= max_chars * _LOOSE_SHARE):
        yield offsets[start], offsets[end]
        return
    is_header = piece.is_head and end < len(lines) and size <= 2 * max_chars
    limit = max_chars if piece.label.symbol or is_header else max(int(max_chars * _LOOSE_SHARE), 1)
    while start < end:
        rest = offsets[end] - offsets[start]
        if rest <= limit:
            yield offsets[start], offsets[end]
            return
        if offsets[start + 1] - offsets[start] > limit:
            yield from _within(lines[start], offsets[start], max_chars, is_last=start + 1 == len(lines))
            start += 1
            continue
        behind = _best_row(lines, offsets, start, end, limit)
        yield offsets[start], offsets[behind]
        start = behind


def _best_row(lines: Sequence[str], offsets: Sequence[int], start: int, end: int, limit: int) -> int:
    """Return the row before which to cut: least indented, after a blank line, far down, in that order.

    The row is at least `start` + 1, and at most what the limit allows.
    """
    rest = offsets[end] - offsets[start]
    even = rest / -(-rest // limit)
    earliest, latest = offsets[start] + even * _EARLIEST, offsets[start] + min(limit, even * _LATEST)
    best, best_cost = start + 1, (1 << 30, 0)
    row = start + 1
    while row < end and offsets[row] <= offsets[start] + limit:
        if offsets[row] > latest and best_cost[0] < 1 << 29:
            break
        if offsets[row] < earliest:
            best = row
        elif lines[row].strip():
            cost = (indent_of(lines[row]) + 8 * closes(lines[row]), int(bool(lines[row - 1].strip())))
            if cost <= best_cost:
                best, best_cost = row, cost
        row += 1
    return best


def _within(line: str, offset: int, max_chars: int, *, is_last: bool) -> Iterator[tuple[int, int]]:
    """Divide one long line, after white space, a comma or a bracket if there is one in range.

    Of a value such as a picture only the beginning is used, and of the line only the first parts. The last
    line of a file is used to its end, so that what is left out is always between two chunks.
    """
    values = [match.span() for match in LONG_VALUE.finditer(line)]
    begins = [0, *(end for _, end in values)]
    ends = [*(start + _SHOWN_CHARS for start, _ in values), len(line)]
    parts = (
        part
        for begin, end in zip(begins, ends, strict=True)
        if begin < end and (is_last or len(begins) == 1 or line[begin:end].strip(_MARKS))
        for part in _divided(line, begin, end, max_chars)
    )
    left = max(MAX_LINE_CHARS, max_chars)
    for start, end in parts:
        if left > 0 or (is_last and end == len(line)):
            yield offset + start, offset + end
        left -= end - start


def _divided(line: str, start: int, last: int, max_chars: int) -> Iterator[tuple[int, int]]:
    while last - start > max_chars:
        end = start + max_chars
        while end > start + max_chars // 2 and not _PAUSE.match(line, end - 1):
            end -= 1
        if end <= start + max_chars // 2:
            end = start + max_chars
        yield start, end
        start = end
    yield start, last
