"""Name the section of a document that a line of a source is in: a source may hold several small ones."""

from __future__ import annotations

import re

from rag.answer.statements import outside_fences
from rag.types import Hit

_HEADING = re.compile(r"(?:#{1,6}|={1,6})[ \t]+(\S.*?)[ \t#=]*\r?")


def label_at(hit: Hit, line: int = 0) -> str:
    """Return the name of what a line of a hit (from 0) is in: of a section the heading above the line.

    Without a heading there, and of code, it is the label of the hit.
    """
    title = title_at(hit, line) if hit.unit == "section" else hit.symbol
    if title == hit.symbol:
        return hit.label
    return hit.scope if hit.scope == title or hit.scope.endswith(f".{title}") else _joined(hit.scope, title)


def title_at(hit: Hit, line: int = 0) -> str:
    """Return the heading above a line of a section, without the sections around it."""
    last = sum(map(len, hit.text.split("\n")[:line])) + line
    headings = [
        match[1]
        for position, text in outside_fences(hit.text)
        if position <= last and (match := _HEADING.fullmatch(text))
    ]
    return headings[-1] if headings else hit.symbol


def _joined(scope: str, title: str) -> str:
    return f"{scope}.{title}" if scope else title
