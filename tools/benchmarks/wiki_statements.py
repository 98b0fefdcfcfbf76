"""Check statements of a wiki against the files, without the code graph that they were written from.

Two kinds can be checked by a program: a link with a name leads to the lines of a definition of that name, and
a definition that "calls" or "hands on" names has these names in its lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_REFERENCE = re.compile(r"^\[([^\]]+)\]: \S+/blob/[0-9a-f]+/([^#\s]+)#L(\d+)(?:-L(\d+))?$", re.MULTILINE)
_NAMED = re.compile(r"\[`([^`]+)`\]\[([^\]]+)\]")
_LEADS = re.compile(r"(Calls|Hands on) ((?:`[^`]+`(?:, )?)+)\.")
_HEAD_LINES = 12
"""Decorators, attributes and macros may come before the name of a definition; in C it may be at the end."""


@dataclass(frozen=True)
class Statement:
    """What a line of a page says, and whether the files agree."""

    page: str
    kind: str
    text: str
    is_true: bool


def statements(folder: Path, root: Path) -> Iterator[Statement]:
    """Yield the statements of the pages of a wiki that a program can check, by page and line."""
    for page in sorted((folder / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        places = {
            label: (unquote(path), int(a), int(b or a)) for label, path, a, b in _REFERENCE.findall(text)
        }
        for line in _REFERENCE.sub("", text).splitlines():
            yield from _of_line(page.name, line, places, root)


def _of_line(
    page: str, line: str, places: dict[str, tuple[str, int, int]], root: Path
) -> Iterator[Statement]:
    named = [(name, places[label]) for name, label in _NAMED.findall(line) if label in places]
    for name, place in named:
        if name != place[0].rpartition("/")[2] and "/" not in name:  # it names no file
            lines = _lines(root, place)
            ends = "\n".join([*lines[:_HEAD_LINES], *lines[-1:]])
            yield Statement(page, "definition", f"{name} at {place}", _has(ends, name))
    if named and line.startswith("- "):
        body = "\n".join(_lines(root, named[0][1]))
        for verb, names in _LEADS.findall(line):
            for name in re.findall(r"`([^`]+)`", names):
                yield Statement(page, verb.lower(), f"{named[0][0]} {verb} {name}", _has(body, name))


def _lines(root: Path, place: tuple[str, int, int]) -> list[str]:
    path, start, end = place
    return (root / path).read_text(encoding="utf-8", errors="replace").splitlines()[start - 1 : end]


def _has(text: str, name: str) -> bool:
    last = re.split(r"[.:]", name)[-1].lstrip("~")
    return bool(re.search(rf"(?<!\w){re.escape(last)}(?!\w)", text))


def sampled(found: list[Statement], count: int, seed: int = 19) -> list[Statement]:
    """Return `count` of the statements, always the same."""
    return random.Random(seed).sample(found, min(count, len(found)))
