"""Merge hits whose lines belong together: overlapping ones, and adjacent parts of one definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.lines import whole_lines_of, without_blank_end
from rag.types import Hit


def merge(hits: Sequence[Hit]) -> list[Hit]:
    """Join hits of the same file that overlap, or that are adjacent parts of the same definition, or of the
    code between definitions.

    A joined hit takes the place of its best part, and has that part's score and names. Hits whose text does
    not agree with their lines (cut within a line, or of different versions) are not joined.
    """
    merged: list[Hit] = []
    for hit in hits:
        add(merged, hit)
    return merged


def add(merged: list[Hit], hit: Hit) -> None:
    """Add a hit to merged hits, which are changed: `merge` adds its hits one after another."""
    place = len(merged)
    for position in range(len(merged) - 1, -1, -1):
        if merged[position].span.path != hit.span.path:
            continue
        if (joined := _joined(merged[position], hit)) is not None:
            hit, place = joined, position
            del merged[position]
    merged.insert(place, hit)


def is_within(piece: Hit, hit: Hit) -> bool:
    """Return whether all lines of a piece are lines of a hit."""
    inner, outer = piece.span, hit.span
    return (
        inner.path == outer.path
        and outer.start <= inner.start
        and inner.end <= outer.end
        and _file(piece) == _file(hit)
    )


def _joined(better: Hit, worse: Hit) -> Hit | None:
    # Most pairs are far apart, and comparing numbers is the cheapest.
    if max(better.start, worse.start) > min(_last(better), _last(worse)) + 1 or _file(better) != _file(worse):
        return None
    upper, lower = sorted((better, worse), key=lambda hit: (hit.start, -hit.end))
    upper_lines, lower_lines = _lines(upper), _lines(lower)
    if upper_lines is None or lower_lines is None:
        return None
    below = upper.start + len(upper_lines)
    if lower.start > below or (lower.start == below and not _same_definition(better, worse)):
        return None
    shared = min(below - lower.start, len(lower_lines))
    offset = lower.start - upper.start
    agree = all(
        a.rstrip("\r\n") == b.rstrip("\r\n")
        for a, b in zip(upper_lines[offset:], lower_lines[:shared], strict=False)
    )
    rest = lower_lines[shared:]
    if not agree or (rest and not upper_lines[-1].endswith("\n")):
        return None
    text, blank_end = without_blank_end("".join(upper_lines + rest))
    return replace(
        better,
        span=replace(better.span, start=upper.start, end=upper.start + len(whole_lines_of(text)) - 1),
        text=text,
        score=max(better.score, worse.score),
        blank_end=blank_end,
    )


def _last(hit: Hit) -> int:
    """Return a line that is at or after the end of the chunk."""
    return hit.end + (hit.blank_end.count("\n") + 1 if hit.blank_end else 0)


def _file(hit: Hit) -> tuple[str | None, ...]:
    return hit.path, hit.blob, hit.repo, hit.location, hit.commit


def _same_definition(a: Hit, b: Hit) -> bool:
    return (a.symbol, a.scope) == (b.symbol, b.scope) and (bool(a.symbol) or a.unit == b.unit == "block")


def _lines(hit: Hit) -> list[str] | None:
    """Return the lines of the whole chunk with their ends, None when their number differs from the hit's."""
    lines = whole_lines_of(hit.text)
    return lines + whole_lines_of(hit.blank_end) if len(lines) == hit.end - hit.start + 1 else None
