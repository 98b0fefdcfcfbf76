"""Find the headings of documents, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag.code.definitions import Heading

_RST_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")


def _rst_headings(lines: Sequence[str]) -> list[Heading]:
    """Return titles with a rule below, or above and below; the order in which rules appear gives the level.

    A title follows a blank line, and its rule is about as long. A target (`.. _name:`) directly before a
    title belongs to the section.
    """
    found: list[Heading] = []
    levels: dict[tuple[str, bool], int] = {}
    for row in range(1, len(lines)):
        rule, title = lines[row].rstrip(), lines[row - 1].strip()
        if (
            not title
            or _RST_RULE.match(rule) is None
            or _RST_RULE.match(title)
            or 5 * len(rule) < 4 * len(title)
        ):
            continue
        overlined = row >= 2 and lines[row - 2].rstrip() == rule
        first = row - 2 if overlined else row - 1
        if (first > 0 and lines[first - 1].strip()) or (lines[row - 1][0].isspace() and not overlined):
            continue
        level = levels.setdefault((rule[0], overlined), len(levels) + 1)
        found.append(Heading(_with_target(lines, first), level, title))
    return found


def _with_target(lines: Sequence[str], first: int) -> int:
    above = first - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    if above < 0 or not lines[above].startswith(".. _"):
        return first
    while above > 0 and lines[above - 1].startswith(".. _"):
        above -= 1
    return above


def _marked(mark: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<mark>{mark})\s+(?P<title>.*\S)")


_ASCIIDOC, _ORG = _marked("={1,6}"), _marked(r"\*{1,8}")
_TEX = re.compile(r"\s*\\(?P<mark>part|chapter|(?:sub){0,2}section|paragraph)\*?\{(?P<title>[^}]*)\}")
_TEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_ROFF = re.compile(r"\.(?P<mark>S[Hh]|S[Ss])\s+\"?(?P<title>[^\"\n]+)")


def _by_mark(pattern: re.Pattern[str], lines: Sequence[str]) -> list[Heading]:
    found = []
    for row, line in enumerate(lines):
        if match := pattern.match(line):
            found.append(Heading(row, _level(match["mark"]), match["title"].strip()))
    return found


def _level(mark: str) -> int:
    if mark in _TEX_LEVELS:
        return _TEX_LEVELS.index(mark) + 1
    return 2 if mark in ("SS", "Ss") else 1 if mark[0] == "S" else len(mark)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*)|$)")


def _markdown_headings(lines: Sequence[str]) -> list[Heading]:
    """Return `#` headings outside fences: for a document that the parser cannot process."""
    found, fence = [], ""
    for row, line in enumerate(lines):
        if match := _FENCE.match(line):
            mark = match[1]
            if not fence:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence):
                fence = ""
        elif not fence and (heading := _ATX.match(line)):
            title = (heading[2] or "").rstrip().rstrip("#").rstrip()
            found.append(Heading(row, len(heading[1]), title))
    return found


_READERS: dict[str, Callable[[Sequence[str]], list[Heading]]] = {
    "rst": _rst_headings,
    "text": _rst_headings,  # Django's whole manual is .txt
    "markdown": _markdown_headings,
    "asciidoc": lambda lines: _by_mark(_ASCIIDOC, lines),
    "org": lambda lines: _by_mark(_ORG, lines),
    "tex": lambda lines: _by_mark(_TEX, lines),
    "roff": lambda lines: _by_mark(_ROFF, lines),
}


def headings(lines: Sequence[str], language: str) -> list[Heading] | None:
    """Return the headings of a document in order; None when the language is not a document format."""
    read = _READERS.get(language)
    return read(lines) if read is not None else None
