"""The names that a file defines, each with its lines: targets of build files, lines with a setting; and which
of them a name became.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rag.lines import lines_of
from rag.memory.syntax import NamedLines
from rag.parsing import parse_json, parse_toml

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
    "just": re.compile(r"@?([A-Za-z_][\w-]*)(?:[ \t][^:]*)?:(?!=)"),
}
_TOML_SCRIPTS = (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts"))
_CARGO_TABLES = ("bin", "example", "test", "bench")
_INI_SCRIPTS = re.compile(r"^(?:console|gui)_scripts[ \t]*=(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_INI_NAME = re.compile(r"^[ \t]*([\w.-]+)[ \t]*=", re.MULTILINE)
_ANY_WORD = re.compile(r"[\w.:-]+")
_LEAST_SHARE = 0.6
_LEAST_SAME_LINES = 3
_WORD_OF_LINE = re.compile(r"\w+")
_MAX_NAMES = 2_000


def targets(kind: str, path: str, text: str) -> list[NamedLines]:
    """Return the targets that a build file defines for a kind of command; all words of a damaged one."""
    name = path.rpartition("/")[2]
    lines = lines_of(text)
    if kind in _RECIPES:
        return [one for one, _ in zip(_recipes(_RECIPES[kind], lines), range(_MAX_NAMES), strict=False)]
    try:
        names = _declared(kind, name, text)
    except (ValueError, AttributeError, TypeError):  # invalid, or not of the usual form
        names = _ANY_WORD.findall(text)
    return [_declaration(one, lines) for one in dict.fromkeys(names[:_MAX_NAMES])]


def _declared(kind: str, file: str, text: str) -> list[str]:
    """Return the names that a file of JSON, TOML or INI declares.

    Raises:
        ValueError, AttributeError, TypeError: it is invalid, or has another form.
    """
    if file == "setup.cfg":
        return [name for part in _INI_SCRIPTS.findall(text) for name in _INI_NAME.findall(part)]
    if file == "package.json":
        whole = parse_json(text)
        found = whole.get("scripts" if kind == "npm" else "bin") or {}
        return [whole.get("name", "").rpartition("/")[2]] if isinstance(found, str) else list(found)
    whole = parse_toml(text)
    if file == "Cargo.toml":
        tables = _CARGO_TABLES if kind == "cargo" else ("bin",)
        names = [one.get("name", "") for table in tables for one in whole.get(table, ())]
        return names if kind == "cargo" else [*names, whole.get("package", {}).get("name", "")]
    names = []
    for keys in _TOML_SCRIPTS:
        table = whole
        for key in keys:
            table = table.get(key, {})
        names += table
    return names


def _declaration(name: str, lines: Sequence[str]) -> NamedLines:
    """Return the line that declares a name: the first with it before a sign of assignment, else with it."""
    word = whole_word(name)
    holding = [row for row, line in enumerate(lines, start=1) if name in line and word.search(line)]
    declaring = (row for row in holding if re.match(r"[\"' ]*[:=]", word.split(lines[row - 1], 1)[1]))
    row = next(declaring, holding[0] if holding else 1)
    return NamedLines(row, row, name, "")


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

    It is a guess: these may be too few lines (`has_same_body`). Its lines, apart from the name, are
    those of a name that is new, at least six tenths of them, and no other new name has as many.

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


def has_same_body(old: NamedLines, text: str, new: NamedLines, later: str) -> bool:
    """Whether the lines below the first ones of two names have at least three in common that are distinctive:
    they have two words, and each text has them once.
    """
    shared = []
    for lines, one in ((lines_of(text), old), (lines_of(later), new)):
        often = _without(old, new, lines, NamedLines(1, len(lines), "", ""))
        body = _without(old, new, lines, NamedLines(one.start + 1, one.end, "", ""))
        shared.append({line for line in body if often[line] == 1 and _has_words(line)})
    return len(shared[0] & shared[1]) >= _LEAST_SAME_LINES


def _has_words(line: str) -> bool:
    return sum(len(word) > 2 for word in _WORD_OF_LINE.findall(line)) > 1


def _without(old: NamedLines, new: NamedLines, lines: Sequence[str], one: NamedLines) -> Counter[str]:
    """Return the lines of one of two names without both names, white space around them, and empty ones."""
    word = re.compile("|".join(whole_word(name.symbol).pattern for name in (new, old)))
    bare = (word.sub("\0", line).strip() for line in lines[one.start - 1 : one.end])
    return Counter(line for line in bare if line)
