"""Locates lines of an old text in a new one.

Whole lines are compared byte for byte, without their line ends (git may write LF or CR LF); white space
counts. The whole span is searched for. The rules, in order:

1. It occurs once in the old text and once in the new one: that is its place. However much else was moved,
   there is no other candidate.
2. It occurs several times: an alignment of the two texts maps occurrences in the new text to those in the old
   one, and those that belong to another occurrence are excluded. Of the rest, the one with most aligned lines
   is chosen, else the one at the same lines, else the only one in the same symbol (with the same enclosing
   lines).
3. Else the nearest of them, marked as a guess.

A span with fewer than 20 letters and digits is too short to be recognized (as in `git blame -M`): it must be
aligned. The alignment is patience diff: lines that occur once in both texts are matched in their longest
common order (Cohen, 2005), recursively between the matches; small regions that are left are matched by
`difflib`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from rag.decoding import is_wide
from rag.notebook_text import is_notebook, shown_text

LEAST_MOVED = 20
"""The minimum number of letters and digits to recognize lines within a file: git's default for `blame -M`."""

_SMALL = 40_000
"""The maximum size of a region for pairwise comparison: lines of one text times lines of the other."""

_SLACK = 10
"""Lines that replaced others may be twice as many, and this number more."""

_SHRUNK = 10
"""Old lines of which none is left, and that are this many times as many as the new ones, were deleted."""

_MAX_PLACES = 200
"""Of more places only the nearest are considered."""

_NOT_ALNUM = bytes(set(range(256)) - set(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))


def letters(lines: Sequence[bytes]) -> int:
    """Return the number of letters and digits in the lines; a byte beyond ASCII counts as one."""
    text = b"".join(lines)
    return len(text.translate(None, _NOT_ALNUM)) + len(text) - len(text.decode("ascii", "ignore"))


class TextLines:
    """The lines of a file without their line ends; a newline at the end of the file starts no line."""

    def __init__(self, content: bytes) -> None:
        content = content.replace(b"\r\n", b"\n")
        self._framed = b"\n%b\n" % content
        self.lines = content.removesuffix(b"\n").split(b"\n") if content else []

    @classmethod
    def of(cls, content: bytes) -> TextLines | None:
        """Return the text of these bytes, None for binary data.

        Notebooks, and text in UTF-16 and UTF-32, are converted to UTF-8 as they are shown. The bytes of other
        encodings are compared as they are: which one it is may be a guess, and differ in the next version.
        """
        if is_notebook(content) or is_wide(content):
            content = shown_text(content).encode("utf-8", "surrogatepass")
        elif content.find(b"\n", 0, len(content) - 1) < 0 and not content.endswith(b"\r\n"):
            content = content.replace(b"\r", b"\n")  # as on old Macs
        return None if b"\0" in content else cls(content)

    @cached_property
    def distinct(self) -> frozenset[bytes]:
        """The set of its lines."""
        return frozenset(self.lines)

    @cached_property
    def bare(self) -> frozenset[bytes]:
        """The set of its lines without white space around them."""
        return frozenset(line.strip() for line in self.distinct)

    def span(self, start: int, end: int) -> list[bytes]:
        """Return the lines from `start` to `end`, fewer at the end of the file."""
        return self.lines[start - 1 : end]

    def find(self, span: Sequence[bytes]) -> list[int]:
        """Return the lines at which `span` starts, ascending; occurrences may overlap."""
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
    """The first line of a span in the new text. `rivals` counts other possible places, 0 if it is certain."""

    start: int
    rivals: int = 0


class Pair:
    """An old text and the new text that replaces it."""

    def __init__(self, old: TextLines, new: TextLines) -> None:
        self.old, self.new = old, new

    @cached_property
    def mapped(self) -> list[int]:
        """The new line of each old line (from 0), -1 for none; ascending."""
        return align(self.old.lines, self.new.lines)

    @cached_property
    def _origin(self) -> dict[int, int]:
        return {new: old for old, new in enumerate(self.mapped) if new >= 0}

    def anchor(self, start: int, end: int) -> Anchor | None:
        """Locate the lines `start` to `end` of the old text in the new one; None if they do not occur."""
        span = self.old.span(start, end)
        there = self.new.find(span)
        if not there:
            return None
        if len(there) > _MAX_PLACES:
            there = sorted(sorted(there, key=lambda at: abs(at - start))[:_MAX_PLACES])
        before = self.old.find(span)
        enough = letters(span) >= LEAST_MOVED
        if len(there) == len(before) == 1 and (enough or there == before):
            return Anchor(there[0])
        mine = self._continuing(start, len(span), there, frozenset(before), unowned=enough)
        if mine:
            return self._best(mine, start)
        return Anchor(start) if start in there else None

    def arrivals(self, span: Sequence[bytes]) -> list[int]:
        """Return where `span` occurs in the new text without having been there in the old one."""
        there = self.new.find(span)
        before = frozenset(self.old.find(span)) if there else frozenset()
        if not before:
            return there
        return [at for at in there if not before & self._owners(at, len(span)).keys()]

    def kept(self, start: int, end: int) -> float:
        """Return the share of the old lines that are still in place, 0 to 1, ignoring trivial lines."""
        rows = [row for row in range(start - 1, end) if letters(self.old.lines[row : row + 1]) >= 3]
        return sum(self.mapped[row] >= 0 for row in rows) / len(rows) if rows else 0.0

    def now_there(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the lines that replaced the old ones: those between the nearest aligned neighbours.

        If these are far more, only those around the lines that are left; (0, 0) if none is. None if they were
        deleted: there is only white space, or a tenth as many lines instead of them and their neighbours.
        """
        mapped = self.mapped
        inside = [mapped[row] for row in range(start - 1, end) if mapped[row] >= 0]
        row_above = next((row for row in range(start - 2, -1, -1) if mapped[row] >= 0), -1)
        row_below = next((row for row in range(end, len(mapped)) if mapped[row] >= 0), len(mapped))
        above = mapped[row_above] if row_above >= 0 else -1
        below = mapped[row_below] if row_below < len(mapped) else len(self.new.lines)
        first = inside[0] if inside and mapped[start - 1] >= 0 else above + 1
        last = inside[-1] if inside and mapped[end - 1] >= 0 else below - 1
        lines = self.new.lines
        while first <= last and not lines[first].strip():
            first += 1
        while first <= last and not lines[last].strip():
            last -= 1
        if not inside and row_below - row_above - 1 >= _SHRUNK * (last - first + 1):
            return None
        if last - first >= 2 * (end - start + 1) + _SLACK:
            return self._around(inside, end - start + 1)
        return (first + 1, last + 1) if first <= last else None

    def is_foreign(self, new: range, old: range) -> bool:
        """Whether more of the new lines are aligned with others than with these old ones; from 1."""
        aligned = [self._origin[line - 1] + 1 for line in new if line - 1 in self._origin]
        return sum(line in old for line in aligned) < len(aligned) / 2

    def _around(self, rows: Sequence[int], count: int) -> tuple[int, int]:
        """Return the range with most of some new rows (ascending), at most about twice `count` lines."""
        best = (0, 0, 0)
        for number, row in enumerate(rows):
            behind = bisect_left(rows, row + 2 * count + _SLACK)
            if letters(self.new.lines[row : row + 1]) >= 3:
                best = max(best, (behind - number, -row, rows[behind - 1]))
        kept, first, last = best
        return (1 - first, last + 1) if kept else (0, 0)

    def _owners(self, at: int, length: int) -> Counter[int]:
        """Return the old lines that a span at new line `at` may have started at, with their aligned lines."""
        origin = self._origin
        rows = ((origin.get(at - 1 + offset), offset) for offset in range(length))
        return Counter(row - offset + 1 for row, offset in rows if row is not None)

    def _continuing(
        self, start: int, length: int, there: Sequence[int], before: frozenset[int], *, unowned: bool
    ) -> list[tuple[int, int]]:
        """Return occurrences that may continue the span, with the number of aligned lines."""
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
        """Return the expected start of the span, at its old distance from the last aligned line before it."""
        for row in range(start - 1, -1, -1):
            if self.mapped[row] >= 0:
                return self.mapped[row] + start - row
        return start


def enclosing(lines: Sequence[bytes], row: int) -> tuple[bytes, ...]:
    """Return the lines that enclose a line (counted from 0) by indentation, innermost first."""
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
    """Return the new line of each old line, -1 for none; ascending."""
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
    """Return the lines that occur once in both, as (old, new), in their longest common order."""
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
    """Return the row of each line that occurs once, without lines that have no letter or digit."""
    count = Counter(lines)
    return {
        line: row for row, line in enumerate(lines) if count[line] == 1 and line.translate(None, _NOT_ALNUM)
    }
