"""Where lines of an old text stand in a new one.

Whole lines are compared, byte for byte, without what ends them (LF or CR LF: git may write either): white
space counts. What is sought is the whole span; the rules, in their order:

1. It stands in one place in the old text and in one in the new: there. However much was moved around it,
   nothing else can be meant.
2. It stands in several: an alignment of the two texts says which of them continues which old one, and those
   that continue another are out. Of the rest the one the alignment agrees with most, else the one at the
   same lines, else the only one in the same symbol (below the same enclosing lines).
3. Else the nearest of them, said to be a guess.

A span of fewer than 20 letters and digits is too little to be known again (as in `git blame -M`): for it the
alignment must agree. The alignment is patience diff: lines that occur once in both texts are matched in the
longest common order (Cohen, 2005), and so on in what lies between them; what is left there, if it is small,
goes to `difflib`.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

LEAST_MOVED = 20
"""Letters and digits that make lines known again within a file: git's default for `blame -M`."""

_SMALL = 40_000
"""Lines of the one text times lines of the other that may be compared each with each."""

_MANY = 200
"""Of more places than this only the nearest are considered."""

_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_ALNUM = bytes(set(range(256)) - set(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))


def letters(lines: Sequence[bytes]) -> int:
    """Letters and digits in the lines; a byte beyond ASCII counts as one."""
    text = b"".join(lines)
    return len(text.translate(None, _NOT_ALNUM)) + len(text) - len(text.decode("ascii", "ignore"))


class TextLines:
    """A file's lines, without their ends; a newline at the end of the file begins no line."""

    def __init__(self, content: bytes) -> None:
        content = content.replace(b"\r\n", b"\n")
        self._framed = b"\n%b\n" % content
        self.lines = content.removesuffix(b"\n").split(b"\n") if content else []

    @classmethod
    def of(cls, content: bytes) -> TextLines | None:
        """The text of these bytes; None when they are none. UTF-16 and UTF-32 are compared as UTF-8."""
        for mark, encoding in _WIDE_MARKS:
            if content.startswith(mark):
                return cls(content.decode(encoding, "replace").encode("utf-8", "replace"))
        return None if b"\0" in content else cls(content.removeprefix(codecs.BOM_UTF8))

    @cached_property
    def distinct(self) -> frozenset[bytes]:
        """Its lines, each once."""
        return frozenset(self.lines)

    def span(self, start: int, end: int) -> list[bytes]:
        """The lines from `start` to `end`; fewer where there are no more."""
        return self.lines[start - 1 : end]

    def find(self, span: Sequence[bytes]) -> list[int]:
        """The lines at which `span` begins, ascending; occurrences may overlap."""
        sought = b"\n%b\n" % b"\n".join(span)
        found, row, counted = [], 1, 0
        at = self._framed.find(sought)
        while at >= 0:
            row += self._framed.count(b"\n", counted, at)
            counted = at
            found.append(row)
            at = self._framed.find(sought, at + 1)
        return found


@dataclass(frozen=True, slots=True)
class Anchor:
    """The first line of a span in the new text. `rivals` counts the other places it may be, 0 when sure."""

    start: int
    rivals: int = 0


class Pair:
    """An old text and the new one that stands for it."""

    def __init__(self, old: TextLines, new: TextLines) -> None:
        self.old, self.new = old, new

    @cached_property
    def mapped(self) -> list[int]:
        """For each old line (from 0) the new line it is, -1 for none; what is mapped ascends."""
        return align(self.old.lines, self.new.lines)

    @cached_property
    def _origin(self) -> dict[int, int]:
        return {new: old for old, new in enumerate(self.mapped) if new >= 0}

    def anchor(self, start: int, end: int) -> Anchor | None:
        """Where the lines `start` to `end` of the old text stand in the new one; None when they do not."""
        span = self.old.span(start, end)
        there = self.new.find(span)
        if not there:
            return None
        if len(there) > _MANY:
            there = sorted(sorted(there, key=lambda at: abs(at - start))[:_MANY])
        before = self.old.find(span)
        enough = letters(span) >= LEAST_MOVED
        if len(there) == len(before) == 1 and (enough or there == before):
            return Anchor(there[0])
        mine = self._continuing(start, len(span), there, frozenset(before), unowned=enough)
        if mine:
            return self._best(mine, start)
        return Anchor(start) if start in there else None

    def arrivals(self, span: Sequence[bytes]) -> list[int]:
        """Where `span` stands in the new text without having stood there in the old one."""
        there = self.new.find(span)
        before = frozenset(self.old.find(span)) if there else frozenset()
        if not before:
            return there
        return [at for at in there if not before & self._owners(at, len(span)).keys()]

    def kept(self, start: int, end: int) -> float:
        """The share of the old lines that say something which still stand where they stood, 0 to 1."""
        rows = [row for row in range(start - 1, end) if letters(self.old.lines[row : row + 1]) >= 3]
        return sum(self.mapped[row] >= 0 for row in rows) / len(rows) if rows else 0.0

    def now_there(self, start: int, end: int) -> tuple[int, int] | None:
        """The lines that took the place of the old ones: those between the neighbours that are known again.

        None when nothing but white space is there: the lines were deleted.
        """
        mapped = self.mapped
        inside = [mapped[row] for row in range(start - 1, end) if mapped[row] >= 0]
        above = next((mapped[row] for row in range(start - 2, -1, -1) if mapped[row] >= 0), -1)
        below = next(
            (mapped[row] for row in range(end, len(mapped)) if mapped[row] >= 0), len(self.new.lines)
        )
        first = inside[0] if inside and mapped[start - 1] >= 0 else above + 1
        last = inside[-1] if inside and mapped[end - 1] >= 0 else below - 1
        lines = self.new.lines
        while first <= last and not lines[first].strip():
            first += 1
        while first <= last and not lines[last].strip():
            last -= 1
        return (first + 1, last + 1) if first <= last else None

    def _owners(self, at: int, length: int) -> Counter[int]:
        """Old lines that a span at new line `at` may have begun at, with how many of its lines say so."""
        origin = self._origin
        rows = ((origin.get(at - 1 + offset), offset) for offset in range(length))
        return Counter(row - offset + 1 for row, offset in rows if row is not None)

    def _continuing(
        self, start: int, length: int, there: Sequence[int], before: frozenset[int], *, unowned: bool
    ) -> list[tuple[int, int]]:
        """Occurrences that may continue the span, with how many lines of the alignment agree."""
        mine = []
        for at in there:
            owners = self._owners(at, length)
            own = owners[start]
            other = max((count for old, count in owners.items() if old in before and old != start), default=0)
            if own > other or (unowned and own == other == 0):
                mine.append((own, at))
        return mine

    def _best(self, mine: Sequence[tuple[int, int]], start: int) -> Anchor:
        most = max(own for own, _ in mine)
        best = [at for own, at in mine if own == most]
        if start in best:
            return Anchor(start)
        if len(best) > 1:
            around = enclosing(self.old.lines, start - 1)
            best = [at for at in best if enclosing(self.new.lines, at - 1) == around] or best
        expected = self._expected(start)
        return Anchor(min(best, key=lambda at: (abs(at - expected), at)), rivals=len(best) - 1)

    def _expected(self, start: int) -> int:
        """Where the span would stand if it had kept its place behind the last line that is known again."""
        for row in range(start - 1, -1, -1):
            if self.mapped[row] >= 0:
                return self.mapped[row] + start - row
        return start


def enclosing(lines: Sequence[bytes], row: int) -> tuple[bytes, ...]:
    """The lines that a line (counted from 0) lies below by its indentation, the innermost first."""
    found = []
    depth = _indent(lines[row])
    for line in reversed(lines[:row]):
        if depth == 0:
            break
        if line.strip() and _indent(line) < depth:
            depth = _indent(line)
            found.append(line)
    return tuple(found)


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def align(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """For each old line the new line it is, -1 for none; what is mapped ascends."""
    mapped = [-1] * len(old)
    regions = [(0, len(old), 0, len(new))]
    while regions:
        a, b, c, d = regions.pop()
        while a < b and c < d and old[a] == new[c]:
            mapped[a] = c
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            mapped[b] = d
        if a == b or c == d:
            continue
        if common := _unique_in_order(old[a:b], new[c:d]):
            starts = [(a, c), *((a + i, c + j) for i, j in common)]
            ends = [*starts[1:], (b, d)]
            regions += [(i, j, k, m) for (i, k), (j, m) in zip(starts, ends, strict=True)]
        elif (b - a) * (d - c) <= _SMALL:
            for i, j, size in SequenceMatcher(None, old[a:b], new[c:d], False).get_matching_blocks():
                mapped[a + i : a + i + size] = range(c + j, c + j + size)
    return mapped


def _unique_in_order(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Lines that occur once in both, as (old, new), in the longest order common to both."""
    place = _single(new)
    pairs = [(row, place[line]) for line, row in _single(old).items() if line in place]
    tops: list[int] = []
    ends: list[int] = []  # the pair that ends the best run of each length
    previous = [-1] * len(pairs)
    for number, (_, row) in enumerate(pairs):
        length = bisect_left(tops, row)
        previous[number] = ends[length - 1] if length else -1
        tops[length : length + 1] = [row]
        ends[length : length + 1] = [number]
    run = []
    at = ends[-1] if ends else -1
    while at >= 0:
        run.append(pairs[at])
        at = previous[at]
    return run[::-1]


def _single(lines: Sequence[bytes]) -> dict[bytes, int]:
    """Where each line stands that occurs once; lines without a letter or digit say nothing."""
    count = Counter(lines)
    return {
        line: row for row, line in enumerate(lines) if count[line] == 1 and line.translate(None, _NOT_ALNUM)
    }
