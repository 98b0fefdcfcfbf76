"""Join small neighbouring pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.corpus.partition import Label, Piece

_TINY_CHARS = 100
_COMMENT_CHARS = 400
_SMALLEST_CHARS = 120
_SMALL_CHARS = 200
_SMALL_ROWS = 4
_SMALL_SECTION_CHARS = 300
_MERGED_CHARS = 500
_OPENING_CHARS = 900
_CONSTRUCTORS = ("__init__", "constructor", "initialize", "init", "__construct")


_COMMENT = re.compile(r"\s*(?:#|//|/?\*|--|;|%|<!--|\"\"\")")


def merge(
    pieces: Sequence[Piece], lines: Sequence[str], offsets: Sequence[int], max_chars: int
) -> list[Piece]:
    """Join neighbours where one alone is too small to be useful.

    Small pieces of the same owner are joined up to about 500 characters; a tiny loose piece is added to the
    definition after it, else to the piece before. No joined piece is longer than `max_chars`.
    """
    merger = _Merger(lines, offsets, max_chars)
    groups: list[_Group] = []
    for piece in pieces:
        if groups and merger.joins(groups[-1], piece):
            groups[-1].add(piece, is_small=merger.is_small(piece))
        else:
            groups.append(_Group(piece, is_small=merger.is_small(piece)))
    result: list[_Group] = []
    for group in groups:
        if result and merger.trails(result[-1], group):
            result[-1].pieces += group.pieces
        else:
            result.append(group)
    return [merger.joined(group.pieces) for group in result]


class _Group:
    """Pieces that are joined. Properties of all of them are cached, since each further piece is checked
    against them.

    `is_loose` means that all pieces are loose and none opens a class; `is_all_loose` only that all are loose.
    """

    def __init__(self, piece: Piece, *, is_small: bool) -> None:
        self.pieces: list[Piece] = []
        self.is_small = self.is_loose = self.is_all_loose = True
        self.add(piece, is_small=is_small)

    def add(self, piece: Piece, *, is_small: bool) -> None:
        self.pieces.append(piece)
        self.is_small = self.is_small and is_small
        self.is_all_loose = self.is_all_loose and piece.is_loose
        self.is_loose = self.is_loose and piece.is_loose and not _opens_class(piece)


def _opens_class(piece: Piece) -> bool:
    return piece.is_head and piece.label.unit == "class"


def _constructs(piece: Piece) -> bool:
    """Return whether this is a constructor: with the head of its class it shows what the class holds."""
    return piece.label.unit == "function" and piece.label.symbol in (*_CONSTRUCTORS, piece.owner.symbol)


class _Merger:
    def __init__(self, lines: Sequence[str], offsets: Sequence[int], max_chars: int) -> None:
        self.lines, self.offsets, self.max_chars = lines, offsets, max_chars

    def joins(self, so_far: _Group, piece: Piece) -> bool:
        """Return whether the piece continues the group."""
        group = so_far.pieces
        size = self._size(group[0].start, piece.end)
        if size > self.max_chars:
            return False
        owner = group[0].owner  # the last lines of a function do not belong to the next one
        goes_on = owner.unit != "function" or owner == piece.owner
        if not piece.is_loose and self._is_tiny(so_far):
            return goes_on
        if piece.label == group[-1].label and not piece.is_loose and piece.label.unit == "function":
            return size <= _OPENING_CHARS  # overloads, getter and setter
        head_piece = group[-1]
        if _opens_class(head_piece) and piece.owner == head_piece.label and piece.label.unit == "function":
            head = self._size(group[0].start, head_piece.end)
            return (
                head <= _MERGED_CHARS
                if _constructs(piece)
                else head <= _TINY_CHARS and size <= _OPENING_CHARS
            )
        if piece.is_head and piece.label.symbol != group[0].label.symbol and self._is_tiny(so_far):
            return goes_on
        if size > _MERGED_CHARS or not (so_far.is_small and self.is_small(piece)):
            return False
        if not piece.is_loose and so_far.is_all_loose:
            return False  # a definition keeps its name: it does not belong to the imports above it
        return piece.owner == group[0].owner or (piece.label.unit == "section" == group[0].label.unit)

    def trails(self, before: _Group, rest: _Group) -> bool:
        """Return whether a tiny loose rest is added to the piece before it; a function has ended above it."""
        group, tail = before.pieces, rest.pieces
        if group[-1].label.unit == "function" and tail[0].owner != group[-1].label:
            return False
        if not self._is_tiny(rest) or self._size(group[0].start, tail[-1].end) > self.max_chars:
            return False
        return tail[0].owner.symbol in ("", group[-1].owner.symbol, group[-1].label.symbol)

    def joined(self, group: list[Piece]) -> Piece:
        """Return the group as one piece."""
        first, last = group[0], group[-1]
        if len(group) == 1:
            return first
        is_loose = all(piece.is_loose for piece in group)
        is_head = any(piece.is_head for piece in group)
        return Piece(first.start, last.end, self._label(group), first.owner, is_loose, is_head)

    def _label(self, group: list[Piece]) -> Label:
        """Return the group's label: that of its only definition, its owner, or its longest definition."""
        defined = [piece for piece in group if not piece.is_loose or piece.label.symbol]
        if not defined:
            return group[0].label
        longest = max(defined, key=lambda piece: self._size(piece.start, piece.end))
        if all(piece.label == group[0].label for piece in group):
            return group[0].label
        owner = group[0].owner
        opening = next((piece for piece in group if _opens_class(piece)), None)
        if opening is not None and group[-1].owner == opening.label:
            return opening.label
        if owner.unit == "function":
            return owner
        solid = [piece for piece in group if not piece.is_loose]
        if (
            len(solid) != 1
            and owner.symbol
            and owner.unit != "section"
            and all(p.owner == owner for p in group)
        ):
            return owner
        share = sum(self._size(piece.start, piece.end) for piece in defined)
        return longest.label if 2 * share >= self._size(group[0].start, group[-1].end) else owner

    def _is_tiny(self, group: _Group) -> bool:
        """Return whether the group is loose and almost empty; the head of a class names the class."""
        if not group.is_loose:
            return False
        start, end = group.pieces[0].start, group.pieces[-1].end
        size = self._size(start, end)
        return size <= _TINY_CHARS or (size <= _COMMENT_CHARS and self._is_comment(start, end))

    def _is_comment(self, start: int, end: int) -> bool:
        return all(_COMMENT.match(line) for line in self.lines[start:end] if line.strip())

    def is_small(self, piece: Piece) -> bool:
        """Return whether the piece alone is too small to be useful."""
        if piece.is_loose:
            return True
        size = self._size(piece.start, piece.end)
        if piece.label.unit in ("section", "block"):
            return size <= _SMALL_SECTION_CHARS
        return size <= _SMALLEST_CHARS or (size <= _SMALL_CHARS and piece.end - piece.start <= _SMALL_ROWS)

    def _size(self, start: int, end: int) -> int:
        return self.offsets[end] - self.offsets[start]
