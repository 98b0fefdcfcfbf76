"""The names that a file defines, each with its lines: targets of build files, lines with a setting; and which
of them a name became.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rag.lines import lines_of
from rag.memory.syntax import NamedLines

BUILD_FILES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "npm": ("package.json",),
    "cargo": ("Cargo.toml",),
    "program": ("pyproject.toml", "package.json", "Cargo.toml", "setup.cfg"),
}
"""The files that define the targets of each kind of command (`Claim.scope`)."""

_RECIPES = {
    "make": re.compile(r"([\w./%-]+(?:[ \t]+[\w./%-]+)*)[ \t]*:(?![=:])"),
    "just": re.compile(r"@?([A-Za-z_][\w-]*)(?:[ \t][^:=]*)?:(?!=)"),
}
_TABLE = re.compile(r"\s*\[{1,2}([^\]\[]{1,200})\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"\s*[\"']?([\w.-]+)[\"']?\s*=\s*(?:[\"']([^\"']*)[\"'])?")
_JSON_KEY = re.compile(r"\s*\"([^\"]{1,200})\"\s*:\s*(\{?)")
_PROGRAM_TABLES = frozenset({"project.scripts", "project.gui-scripts", "tool.poetry.scripts"})
_SCRIPTS = "options.entry_points"
_CARGO_TABLES = frozenset({"bin", "example", "test", "bench"})
_LEAST_SHARE = 0.6
_MAX_NAMES = 2_000


def targets(kind: str, path: str, text: str) -> list[NamedLines]:
    """Return the targets that a build file defines for a kind of command."""
    lines = lines_of(text)
    name = path.rpartition("/")[2]
    if kind in _RECIPES:
        found = _recipes(_RECIPES[kind], lines)
    elif name == "package.json":
        found = _members(lines, ("scripts",) if kind == "npm" else ("bin",))
    else:
        found = _keys(lines, name, kind)
    return [one for one, _ in zip(found, range(_MAX_NAMES), strict=False)]


def _recipes(head: re.Pattern[str], lines: Sequence[str]) -> Iterator[NamedLines]:
    for row, line in enumerate(lines):
        if not line[:1].strip() or (begin := head.match(line[:1_000])) is None:
            continue
        end = row + 1
        while end < len(lines) and (lines[end][:1] in ("\t", " ") or not lines[end].strip()):
            end += 1
        while end > row + 1 and not lines[end - 1].strip():
            end -= 1
        for name in begin[1].split():
            if name != ".PHONY":
                yield NamedLines(row + 1, end, name, "")


def _members(lines: Sequence[str], objects: Sequence[str]) -> Iterator[NamedLines]:
    """Yield the keys of objects of a JSON file, as it is usually laid out: a line for each."""
    inside = False
    for row, line in enumerate(lines, start=1):
        key = _JSON_KEY.match(line)
        if key and key[2]:
            inside = key[1] in objects
        elif inside and line.lstrip().startswith("}"):
            inside = False
        elif inside and key:
            yield NamedLines(row, row, key[1], "")


def _keys(lines: Sequence[str], file: str, kind: str) -> Iterator[NamedLines]:
    """Yield the programs that a TOML or INI file names."""
    table = ""
    is_scripts = False
    for row, line in enumerate(lines, start=1):
        if head := _TABLE.fullmatch(line):
            table, is_scripts = head[1].strip(), False
            continue
        key = _KEY.match(line)
        if file == "Cargo.toml":
            is_name = key is not None and key[1] == "name"
            if key and is_name and table in (_CARGO_TABLES if kind == "cargo" else ("bin", "package")):
                yield NamedLines(row, row, key[2] or "", "")
        elif table == _SCRIPTS:
            if key and not line[:1].isspace():
                is_scripts = key[1] in ("console_scripts", "gui_scripts")
            elif key and is_scripts:
                yield NamedLines(row, row, key[1], "")
        elif key and table in _PROGRAM_TABLES:
            yield NamedLines(row, row, key[1], "")


def lines_with(name: str, text: str) -> list[NamedLines]:
    """Return the lines that hold a name as a whole word."""
    word = whole_word(name)
    found = (
        NamedLines(row, row, name, "")
        for row, line in enumerate(lines_of(text), start=1)
        if name in line and word.search(line)
    )
    return [one for one, _ in zip(found, range(_MAX_NAMES), strict=False)]


def whole_word(name: str) -> re.Pattern[str]:
    """Return the pattern of a name that is not a part of a longer one."""
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")


def renamed(
    old: NamedLines, text: str, known: Iterable[str], now: Iterable[NamedLines], present: str
) -> NamedLines | None:
    """Return what a name of an old text is called in the present text; None if it is not certain.

    Its lines, apart from the name, are those of a name that is new, at least six tenths of them, and no other
    new name has as many.

    Args:
        old: the name and its lines.
        text: the old text.
        known: the names of the old text, which are not new.
        now: the names of the present text.
        present: the present text.
    """
    old_lines = lines_of(text)
    taken = set(known)
    new_lines = lines_of(present)
    shares = []
    for one in now:
        if one.symbol not in taken and one.symbol != old.symbol:
            before, after = _without(old, one, old_lines, old), _without(old, one, new_lines, one)
            total = max(before.total(), after.total())
            shares.append(((before & after).total() / total if total else 0.0, one))
    shares.sort(key=lambda share: -share[0])
    if not shares or shares[0][0] < _LEAST_SHARE:
        return None
    best, one = shares[0]
    return one if len(shares) == 1 or shares[1][0] < best else None


def _without(old: NamedLines, new: NamedLines, lines: Sequence[str], one: NamedLines) -> Counter[str]:
    """Return the lines of one of two names without both names, white space around them, and empty ones."""
    word = re.compile("|".join(whole_word(name.symbol).pattern for name in (new, old)))
    bare = (word.sub("\0", line).strip() for line in lines[one.start - 1 : one.end])
    return Counter(line for line in bare if line)
