"""The definitions of a file with their lines: the outline that chunks follow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag.types import Unit

_MAX_SYMBOL_CHARS = 100
_MAX_SCOPE_CHARS = 500
_MAX_TITLE_CHARS = 1_000
"""No heading is longer; the patterns of markup below take quadratic time."""


@dataclass(slots=True)
class Definition:
    """A named range of lines: rows `start` up to, not including, `end`, counted from 0.

    `members` are inside it, in order. `scope` names what encloses it, with dots.
    """

    start: int
    end: int
    symbol: str
    scope: str
    unit: Unit
    members: list[Definition] = field(default_factory=list)

    @property
    def inner_scope(self) -> str:
        """The scope of the members."""
        return joined(self.scope, self.symbol)


@dataclass(frozen=True, slots=True)
class Heading:
    """Where a section of a document begins. `level` 1 is the highest."""

    row: int
    level: int
    title: str


def joined(*names: str) -> str:
    """Return the non-empty names joined by dots, shortened to its end if long, since every definition stores
    it.
    """
    name = ".".join(name for name in names if name)
    return name if len(name) <= _MAX_SCOPE_CHARS else f"…{name[1 - _MAX_SCOPE_CHARS :]}"


def tidy(name: str) -> str:
    """Return a name on one line, limited in length."""
    name = " ".join(name.split())
    return name if len(name) <= _MAX_SYMBOL_CHARS else name[: _MAX_SYMBOL_CHARS - 1].rstrip() + "…"


_IMAGE = re.compile(r"!\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?")
_LINK = re.compile(r"\[([^\]]{0,300})\](?:\([^)]*\)|\[[^\]]*\])?")
_ROLE = re.compile(r":[\w:.-]{1,60}:`([^`<]*)(?:<[^`>]*>)?`")
_MARKUP = re.compile(r"<[^<>]+>|&\w+;|\{[.#][^}]*\}|`+|\*\*+|__+")


def plain_title(title: str) -> str:
    """Return a heading as plain text, without badges, links and emphasis; unchanged if nothing is left."""
    title = title[:_MAX_TITLE_CHARS]
    plain = _LINK.sub(r"\1", _IMAGE.sub("", _ROLE.sub(r"\1", title)))
    return " ".join(_MARKUP.sub(" ", plain).split()) or title


def sections(headings: Iterable[Heading], row_count: int) -> list[Definition]:
    """Return sections, nested by level: each ends at the next heading of its level or above."""
    top: list[Definition] = []
    open_sections: list[tuple[int, Definition]] = []
    for heading in headings:
        while open_sections and open_sections[-1][0] >= heading.level:
            open_sections.pop()[1].end = heading.row
        outer = open_sections[-1][1] if open_sections else None
        section = Definition(
            heading.row,
            row_count,
            tidy(plain_title(heading.title)),
            outer.inner_scope if outer else "",
            "section",
        )
        (outer.members if outer else top).append(section)
        open_sections.append((heading.level, section))
    return top
