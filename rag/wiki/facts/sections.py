"""The sections of a file: the banners that its authors put between groups of definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag.code.symbols import File

_RULE = r"[-=*#/~─]{3,}"
_MARK = r"(?:/{2,160}|#{1,160}|--|/\*{1,160}|\*{1,160}|;{1,160})"
_INLINE = re.compile(
    rf"^\s{{0,4}}(?:{_MARK})?\s*{_RULE}\s*([A-Za-z][^-=*#/~─]{{1,70}}?)\s*{_RULE}\s*(?:\*/)?\s*$"
)
_BARE = re.compile(rf"^\s{{0,4}}(?:{_MARK})\s*{_RULE}\s*(?:\*/)?\s*$")
_TITLE = re.compile(rf"^\s{{0,4}}(?:{_MARK})\s+([A-Za-z][^-=*#~─]{{1,70}}?)\s*[*#]*/?\s*$")
_BEGIN = re.compile(rf"^\s{{0,4}}{_MARK}\s*{_RULE}\s+([A-Za-z][^-=*#/~─]{{1,70}}?)\s*(?:\*/)?\s*$")
_NOT_TITLES = re.compile(r"copyright|licen[cs]e|todo|fixme|@|https?:|[.;{}()]\s*$|^\w+\(", re.IGNORECASE)
_MIN_SECTIONS = 2


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a file, from its banner to the next one."""

    title: str
    start: int
    end: int


def sections_in(file: File) -> list[Section]:
    """Return the sections of a file, in order; none if it does not have several."""
    found = list(_banners(file))
    if len(found) < _MIN_SECTIONS:
        return []
    ends = [line - 1 for line, _ in found[1:]] + [len(file.lines)]
    return [Section(_tidy(name), line, end) for (line, name), end in zip(found, ends, strict=True)]


def _banners(file: File) -> Iterator[tuple[int, str]]:
    lines, last = file.lines, 0
    for row, line in enumerate(lines):
        if row + 1 <= last or len(line) > 160:
            continue
        text = line.rstrip("\r\n")
        match = _INLINE.match(text) or _BEGIN.match(text)
        if match is None and _BARE.match(text) and row + 1 < len(lines):
            match = _TITLE.match(lines[row + 1].rstrip("\r\n"))
            below = lines[row + 2].rstrip("\r\n") if row + 2 < len(lines) else ""
            if match is not None and not (_BARE.match(below) or below.strip() == "*/" or _ends_rule(below)):
                match = None
        if match is not None and not _NOT_TITLES.search(match[1]) and re.search(r"[A-Za-z]{3}", match[1]):
            yield row + 1, match[1]
            last = row + 3


def _ends_rule(line: str) -> bool:
    return bool(re.fullmatch(r"\s*\*?\s*[-=*]{3,}\s*\*?/\s*", line))


def _tidy(title: str) -> str:
    title = " ".join(title.split()).strip(" :/-=*#")
    return title.capitalize() if title.isupper() else title
