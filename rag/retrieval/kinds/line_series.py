"""Find series of similar lines in the text of a file: members of an enum, entries of a table, registrations.

A series is at least two lines at the same indentation, below the same line of smaller indentation, that have
the same *shape*: a constant, a key and its value, an entry in brackets, a call of the same function, a
declaration with the same keyword. The shapes are those of many languages; few lines have more than one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_MAX_LINE_CHARS = 400
_MAX_LINES = 20_000
"""Longer lines, and lines after these, are not read: nobody wrote them by hand."""
_MAX_CACHED_FILES, _MAX_CACHED_SHAPES = 96, 4_096
_TAB = 4
_MAX_DECORATORS = 12
_MIN_FAMILY = 3
_FEW_VALUES = 2
"""A line with at most this many is no list."""
_PLAIN_DECORATORS = frozenset(
    """doc spec impl override Override property staticmethod classmethod abstractmethod overload moduledoc
    typedoc deprecated Deprecated Test test inline must_use derive cfg cfg_attr serde allow cached_property
    functools.cached_property""".split()
)
"""Decorators that say nothing about what a definition is registered for."""

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|pub(?:\(\w+\))?|async"
    r"|data|open|partial|virtual|override|unsafe|extern|declare|inline|constexpr)\s+){0,5}"
)
_DECLARES = re.compile(
    rf"{_MODIFIERS}(class|struct|interface|trait|enum|type|def|defp|defmacro|defmodule|func|fn|fun|function\*?"
    r"|sub|module|object|record|newtype|protocol|union|macro|@callback)\s+(?:\([^()]{0,80}\)\s*)?([\w.:$?!]+)(.*)"
)
_INSTANCE = re.compile(
    r"(instance|impl(?:<[^<>]{0,40}>)?)\s+(?:[^=]{0,60}=>\s*)?([\w.:]+)\s+(?:for\s+)?(\(?[\w.:]+)"
)
_DECORATOR = re.compile(r"(?:@|#\[|\[)([^\W\d][\w.]*)")
_SHAPES = (
    ("case", re.compile(r"(?:case|when|elif|elsif)\s+([^:=>(!&|<]{1,80}?)\s*(?::|=>|->|then\b|,|$)")),
    ("define", re.compile(r"#\s*define\s+(\w+)")),
    ("key", re.compile(r"(?:['\"]([^'\"]{1,80})['\"]|:(\w+))\s*(?::|=>|=|->)")),
    ("arm", re.compile(r"[(\[]?['\"]([^'\"]{1,80})['\"][)\]]?\s*(?:=>|->)")),
    ("entry", re.compile(r"[(\[{]\s*(?:\.\w+\s*=\s*)?[&:]?['\"]?([\w./:$-]+)['\"]?[^;]*[)\]}]?,?")),
    ("call", re.compile(r"(?!pub\()([^\W\d][\w.:]*[?!]?)\s*\(\s*['\":&]{0,2}([\w./:$-]+)")),
    ("call", re.compile(r"([^\W\d][\w.]*)\s+(?:::|:|['\"])([\w:./-]+)")),
    ("bullet", re.compile(r"[*+-]\s+`([^`\s]+)")),
    ("alternative", re.compile(r"\|\s*(?:['\"`]([\w-]+)|([\w-]++)(?!::|.*[=-]>))")),
    ("string", re.compile(r"['\"]([^'\"]{1,80})['\"]\s*[,)\]]*\s*(?://.*|#.*)?$")),
    (
        "typed",
        re.compile(
            r"(?:public|private|protected|internal|static|final|readonly|const)\s+"
            rf"{_MODIFIERS}[\w<>\[\]?.]+\s+(\w+)\s*[;={{]"
        ),
    ),
    (
        "constant",
        re.compile(
            rf"{_MODIFIERS}(?:const|static|val|let|var)\s+([A-Z][A-Z0-9_]*)\s*(?::[^=;]{{1,80}})?=(?![=>])"
        ),
    ),
    (
        "field",
        re.compile(
            r"(?:(?:public|private|protected|readonly|pub(?:\(\w+\))?)\s+){0,3}([\w$-]+(?:\.\w+)?)[?!]?\s*:(?![:=])\s*\S"
        ),
    ),
    ("name", re.compile(r"&?([^\W\d]\w*)\s*(?:\([^()]*\)\s*)?(?:=(?![=>]).*)?,?\s*(?://.*|#.*|/\*.*|--.*)?$")),
    ("name", re.compile(r"([A-Z]\w*)\s+[A-Z]\w*\s*=.*\biota\b")),
)  # fmt: skip
_VARIANT = re.compile(r"([A-Z]\w*)\s*\([^()]*\)\s*[,;{]?\s*(?://.*|#.*|/\*.*)?$")
"""A member of an enum that holds values: `Table(Table),`."""
_ANY_SHAPE = re.compile("|".join(f"(?P<s{n}>{pattern.pattern})" for n, (_, pattern) in enumerate(_SHAPES)))
"""The first of the shapes that matches, in one pass: most of the time of a list goes into these patterns."""
_MARKS = frozenset("/#*-;<%\"'")
"""The characters that a comment or a directive can begin with."""
_STATEMENTS = frozenset(
    """return break continue pass else try finally do end begin if for while with yield raise throw import
    from use using require include package print self this super assert del new var let const public private
    protected then fi done esac elif except catch unless until loop switch select default defer go""".split()
)
_CLASSES = frozenset({"class", "struct", "interface", "trait", "record", "object", "protocol"})
_BASE = re.compile(
    r"\s*(?:\(\s*([\w.]+)|<\s*([\w:.]+)|:\s*(?:public\s+)?([\w:.]+)|(?:extends|implements)\s+([\w.]+))"
)
_ENUM = re.compile(r"[^{]{0,80}\{([^(){};]+)")
_COMMENT = re.compile(r"(?:///?|#(?!\s*define|\[|:)|/\*|\*(?![+*-]?\s*`)|--(?!>)|;;|<!--|%|\"{3}|'{3})")
_ASIDE = re.compile(r"#\s*(?:if|ifdef|ifndef|else|elif|endif|pragma|region|endregion)\b")
_STRINGS = re.compile(r"(['\"])[\w./:+ *-]{1,40}\1")


@dataclass(slots=True)
class Series:
    """Similar lines: `members` are their numbers, from 1, with the name of each, ascending.

    `shape` is the kind of line, `anchor` what they share as written: the function called, the keyword of a
    declaration, its base class. `header` is the line above them of smaller indentation, 0 for none; `indent`
    is their indentation.
    """

    shape: str
    anchor: str
    header: int
    indent: int
    members: dict[int, str] = field(default_factory=dict)


def shapes_of(text: str) -> list[tuple[str, str, str]]:
    """Return the shapes of a line, each with what the lines of a series share, and the name of its own."""
    text = text.strip()
    return _shapes_at(text) if text and not _COMMENT.match(text) else []


def _shapes_at(text: str) -> list[tuple[str, str, str]]:
    """Return the shapes of a line by its beginning; the strings of a longer one are not counted."""
    if len(text) <= _MAX_LINE_CHARS:
        return list(_shapes(text))
    return [one for one in _shapes(text[:_MAX_LINE_CHARS]) if one[0] != "strings"]


def series_of(lines: Sequence[str]) -> Sequence[Series]:
    """Return the series of a file, also those with a single member, in the order of their first lines.

    Those of the last files are cached; they are not to be changed.
    """
    return _series_of(tuple(lines[:_MAX_LINES]))


def families(every: Sequence[Series]) -> Iterator[Series]:
    """Yield the constants of a series whose names begin with the same word: `SIGNAL_DONE`, `SIGNAL_ERROR`."""
    for series in every:
        if series.shape not in ("name", "define", "typed", "constant") or len(series.members) < _MIN_FAMILY:
            continue
        begun: dict[str, dict[int, str]] = {}
        for line, name in series.members.items():
            first = name.lstrip("_").partition("_")[0]
            if name.isupper() and first != name:
                begun.setdefault(first, {})[line] = name
        for first, members in begun.items():
            if len(members) >= _MIN_FAMILY:
                yield Series("family", first, series.header, series.indent, members)


@lru_cache(maxsize=_MAX_CACHED_FILES)
def _series_of(lines: tuple[str, ...]) -> Sequence[Series]:
    found: list[Series] = []
    levels: list[_Level] = []
    decorators: list[tuple[str, int]] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or (text[0] in _MARKS and _is_aside(text[:_MAX_LINE_CHARS])):
            continue
        indent = len(line) - len(line.lstrip(" \t"))
        if indent and "\t" in line:
            indent = indentation(line)
        while levels and levels[-1].indent > indent:
            levels.pop()
        if not levels or levels[-1].indent < indent:
            levels.append(_Level(indent, levels[-1].line if levels else 0))
        level = levels[-1]
        level.line = number
        shapes = _shapes_at(text)
        is_declaration = bool(shapes) and shapes[0][0] == "declaration"
        if text[0] in "@#" and not is_declaration and (matched := _DECORATOR.match(text)):
            decorators.append((matched[1], indent))
        elif is_declaration:
            kept = [name for name, at in decorators[-_MAX_DECORATORS:] if at == indent]
            shapes += [("decorated", name, shapes[0][2]) for name in kept if name not in _PLAIN_DECORATORS]
            decorators.clear()
        for shape, anchor, name in shapes:
            if (shape, anchor) not in level.series:
                found.append(Series(shape, anchor, level.header, indent))
                level.series[shape, anchor] = found[-1]
            level.series[shape, anchor].members[number] = name
    return found


def _is_aside(text: str) -> bool:
    """Return whether a line, from one of `_MARKS` on, is a comment or a directive."""
    return bool(_ASIDE.match(text) or _COMMENT.match(text))


@dataclass(slots=True)
class _Level:
    """The lines of one indentation below a header; `line` is the last of them so far."""

    indent: int
    header: int
    line: int = 0
    series: dict[tuple[str, str], Series] = field(default_factory=dict)


def indentation(line: str) -> int:
    """Return the columns before the text of a line."""
    width = len(line) - len(line.lstrip(" \t"))
    return width + (_TAB - 1) * line.count("\t", 0, width) if width else 0


@lru_cache(maxsize=_MAX_CACHED_SHAPES)
def _shapes(text: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(_found_shapes(text))


def _found_shapes(text: str) -> Iterator[tuple[str, str, str]]:
    if text.startswith("i") and (matched := _INSTANCE.match(text)):
        yield "declaration", f"{matched[1][:8].strip()} {matched[2]}", matched[3].lstrip("(")
        return
    if matched := _DECLARES.match(text):
        keyword, name, rest = matched.groups()
        yield "declaration", keyword, name
        if keyword == "enum" and (listed := _ENUM.match(rest)):
            values = [value for value in listed[1].split(",") if value.strip()]
            if len(values) > _FEW_VALUES:
                yield "strings", str(len(values)), text[:60]
        if keyword in _CLASSES and (base := _BASE.match(rest[:200])):
            yield "subclass", next(filter(None, base.groups())).rpartition(".")[2].rpartition(":")[2], name
        return
    quotes = text.count("'") + text.count('"')
    if quotes > 5 and len(strings := _STRINGS.findall(text)) > _FEW_VALUES and _list_of_strings(text):
        yield "strings", str(len(strings)), text[:60]
        calls = (pattern.match(text) for shape, pattern in _SHAPES if shape == "call")
        yield from (("call", call[1], call[2]) for call in calls if call)
        return
    any_shape = _ANY_SHAPE.match(text)
    if any_shape is None or any_shape.lastgroup is None:
        return
    shape, pattern = _SHAPES[int(any_shape.lastgroup[1:])]
    matched = pattern.match(text)
    names = [name for name in matched.groups() if name] if matched else []
    first = names[0] if names else ""
    if shape in ("name", "call", "field") and first.lower() in _STATEMENTS:
        return
    anchor = first if shape == "call" else ""
    yield shape, anchor, names[-1] if names else ""
    if shape == "call" and (variant := _VARIANT.match(text)):
        yield "variant", "", variant[1]
    if shape == "name" and "=" in text:
        yield "assignment", first, text.partition("=")[2].strip()[:60]


def _list_of_strings(text: str) -> bool:
    """Return whether most of a line is strings with commas between them."""
    rest = _STRINGS.sub("", text)
    return rest.count(",") > 1 and len(rest) < len(text) / 2 + 20
