"""Apply the outline to the lines: every line belongs to exactly one piece."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.code.definitions import Definition
from rag.types import Unit

_SMALL_CLASS_CHARS = 500
"""A class (or section) no longer than this stays in one piece with its members."""

_MAX_COMMENT_ROWS = 200

_HASH = ("#",)
_DASH = ("--",)
_SEMICOLON = (";", "#")
_PERCENT = ("%", "-spec", "-doc")
_SLASH = ("//", "/*", "*/", "* ", "*\n", "*\r")
_COMMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("python ruby bash yaml toml perl r julia nim make cmake docker kconfig".split(), _HASH),
    **dict.fromkeys("fish awk tcl crystal graphql powershell bazel meson gherkin gomod".split(), _HASH),
    **dict.fromkeys("lua sql haskell elm ada purescript".split(), _DASH),
    **dict.fromkeys("lisp clojure ini assembly".split(), _SEMICOLON),
    **dict.fromkeys("erlang tex matlab".split(), _PERCENT),
    "elixir": ("#", "@"),
    "rust": (*_SLASH, "#["),
    "php": (*_SLASH, "#"),
    "terraform": (*_SLASH, "#"),
    "csharp": (*_SLASH, "["),
    "fortran": ("!",),
    "vim": ('"',),
    "vb": ("'",),
    "batch": ("rem ", "REM ", "::"),
    "markdown": (),
    "rst": (),
    "text": (),
    "json": (),
    "html": ("<!--",),
    "xml": ("<!--",),
}  # fmt: skip

_CLOSES_ONLY = re.compile(
    r"(?:[})\];,]+|end;?|fi|done|esac|\*/|#\s*endif|endif|endfunction|</\w+>)\s*(?://.*|/\*.*\*/|#.*|--.*)?"
)


@dataclass(frozen=True, slots=True)
class Label:
    """The definition that a piece belongs to; all fields are empty where nothing is defined."""

    symbol: str = ""
    scope: str = ""
    unit: Unit = "block"


@dataclass(slots=True)
class Piece:
    """Rows `start` up to, not including, `end`. `owner` is the enclosing definition.

    A loose piece is between definitions. A head is the beginning of a file, class or section.
    """

    start: int
    end: int
    label: Label
    owner: Label
    is_loose: bool = False
    is_head: bool = False


def partition(
    lines: Sequence[str],
    offsets: Sequence[int],
    definitions: Sequence[Definition],
    language: str,
    rows: tuple[int, int] | None = None,
) -> list[Piece]:
    """Assign every line to a definition or to a loose piece.

    Args:
        lines: the file's lines.
        offsets: where each line begins, and where the last one ends.
        definitions: in order; of two on one line the second is part of the first.
        language: selects the comment syntax.
        rows: the first row, and the row after the last; by default all.

    Returns:
        Pieces in order, covering every line once.
    """
    layer = _Layer(lines, offsets, _COMMENTS.get(language, _SLASH))
    layer.lay(*(rows or (0, len(lines))), definitions, Label())
    return layer.pieces


class _Layer:
    def __init__(self, lines: Sequence[str], offsets: Sequence[int], comments: tuple[str, ...]) -> None:
        self.lines, self.offsets, self.comments = lines, offsets, comments
        self.pieces: list[Piece] = []

    def lay(self, start: int, end: int, members: Sequence[Definition], owner: Label) -> None:
        """Cover rows `start` to `end`: members, and loose pieces between them."""
        row = start
        for member in members:
            first = self._with_comment(min(member.start, end), row)
            last = min(member.end, end)
            if last <= first:
                continue
            self._between(row, first, owner, is_head=row == start)
            label = Label(member.symbol, member.scope, member.unit)
            if member.members and self.offsets[last] - self.offsets[first] > _SMALL_CLASS_CHARS:
                self.lay(first, last, member.members, label)
            else:
                self.pieces.append(Piece(first, last, label, owner))
            row = last
        self._between(row, end, owner, is_head=row == start)

    def _between(self, start: int, end: int, owner: Label, *, is_head: bool) -> None:
        """Add loose lines; blank lines and closing brackets are added to the piece before."""
        if self.pieces and not is_head:
            while start < end and _is_filler(self.lines[start]):
                start += 1
            self.pieces[-1].end = start
        if start < end:
            self.pieces.append(Piece(start, end, owner, owner, is_loose=True, is_head=is_head))

    def _with_comment(self, row: int, floor: int) -> int:
        """Return the first row of the comment that ends directly above `row`; `row` itself when there is
        none.
        """
        row = max(row, floor)
        lowest = max(floor, row - _MAX_COMMENT_ROWS)
        if not self.comments:
            return row
        if (
            row - 1 > lowest
            and not self.lines[row - 1].strip()
            and self.lines[row - 2].rstrip().endswith("*/")
        ):
            opening = self._opening(row - 2, lowest)  # a documentation block may be one line apart
            if opening is not None and self.lines[opening].lstrip().startswith("/**"):
                row = opening
        while row > lowest:
            line = self.lines[row - 1].strip()
            if line.endswith("*/") and "/*" in self.comments and not line.startswith("//"):
                opening = self._opening(row - 1, lowest)
                if opening is None:
                    break
                row = opening
            elif line and f"{line}\n".startswith(self.comments) and not line.startswith("#!"):
                row -= 1
            else:
                break
        return row

    def _opening(self, row: int, lowest: int) -> int | None:
        """Return the row where the comment that ends on `row` begins; None when code precedes it there."""
        while row >= lowest:
            before, mark, _ = self.lines[row].partition("/*")
            if mark:
                return row if not before.strip() else None
            row -= 1
        return None


def _is_filler(line: str) -> bool:
    line = line.strip()
    return not line or _CLOSES_ONLY.fullmatch(line) is not None
