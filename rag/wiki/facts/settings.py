"""The settings of a repository, with their meanings and defaults in its own words.

A setting is an environment variable that own code names where it reads or declares one, a field of a class of
settings, or a key of a file of defaults: of a chart, a role, a module, an example. Its meaning is the comment
or the help next to it, else what the documents say after its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile

from rag.code.documentation import comment_above
from rag.code.fields import fields_of
from rag.code.roles import is_carried, is_tool
from rag.code.survey import Survey
from rag.code.symbols import File

_VARIABLE = re.compile(
    r"(?i:env)\w*+(?!\.setdefault)(?:[^\"'`=!]|=(?!=)){0,40}?[\"'`]([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])(?:,\w+)*[\"'`]"
    r"(?!\]\s*=[^=])|(?i:env)[\w.!]*(?:[(\[]\s*|:)[\"']([A-Z][A-Z0-9]+)(?:,\w+)*[\"'](?!\]\s*=[^=])"
    r"|\bprocess\.env\.([A-Z]\w*)|\bimport\.meta\.env\.(VITE_\w+)|^variable\s+\"(\w+)\"",
    re.M,
)
"""A name after a word with `env` in it: a read, a helper of the project, a tag or an option of a command."""
_PREFIX = re.compile(r"prefix\w{0,20}[\"']?\s?[=:(]\s?r?[\"']([A-Za-z]\w{0,40}?)_*[\"']", re.I)
_BOUND = re.compile(
    r"(?:\bviper\.(?!SetEnvPrefix)|Flags?\(\)\.)\w+\(\s*\"(?P<name>[a-z][\w-]*)\"(?:,\s*(?P<default>[^(),\n]+))?"
    r"(?:,\s*\"(?P<help>[^\"\n]+)\")?\)"
)
_SETTINGS_CLASS = re.compile(r"\((?:\w+\.)*\w*Settings\b")
_DEFAULTS = re.compile(
    r"(?:^|/)(?:defaults/(?:main/)?[\w-]+\.ya?ml|values\.ya?ml|\.env[\w.-]*|(?:[\w.-]*(?:example|sample|template)[\w.-]*"
    r"|config|settings)\.(?:ya?ml|toml|ini|conf|env)|[\w.-]+\.env(?:\.\w+)*)$"
)
_DATA = frozenset("ini json toml yaml".split())
_HIDDEN = re.compile(r"\.[^/]*/")
_KEY = re.compile(r"( *)(?:#(?! ))?(?:export )?([A-Za-z_][\w.-]*)\s?[=:](?:\s|$|(?<==))(.*)")
_HELP = re.compile(r"(?:usage|help|description|desc)\w*\s*[=:(]\s*r?[\"']([^\"'\n]{8,})", re.I)
_DEFAULT = re.compile(r"(?i:default)\w*(?:\"?\s*[=:(]\s*|:\")([^,;)}\]\n]+)|\bValue:\s*([^,}\n]+)")
_SECOND = re.compile(r"\s*,\s*([\"'][^\"'\n]*[\"']|[\w.+-]+)\s*[,)]")
_WORD = re.compile(r"(?<![\w-])[A-Za-z][\w-]{2,80}")
_PROSE = re.compile(r"[\s:>]*[A-Za-z][^|]* [^|]*$")
_GOING_ON = re.compile(r"\s*[A-Za-z(`][^|:]*$")
_NEAR, _MAX_ABOVE, _MAX_BEFORE, _MAX_LEVELS = 4, 8, 2, 3
_MAX_DEFAULT_CHARS, _MAX_LINE_CHARS = 60, 2_000


@dataclass(frozen=True, slots=True)
class WikiSetting:
    """A setting, where it is declared or first read, and its other files."""

    name: str
    path: str
    line: int
    about: str = ""
    default: str = ""
    paths: tuple[str, ...] = ()


def settings_of(survey: Survey, own: Set[str]) -> list[WikiSetting]:
    """Return the settings by name, those of the same file of defaults together."""
    found: dict[str, WikiSetting] = {}
    for path, file in survey.files.items():
        is_data = file.language in _DATA
        if is_carried(path) or is_tool(path) or (path not in own and file.kind != "config"):
            continue
        if is_data and not (_DEFAULTS.search(path) and not _HIDDEN.match(path)):
            continue
        for one in _keys(file) if is_data else (*_variables(file), *_fields(survey, file)):
            first = found.setdefault(one.name, replace(one, default=""))
            found[one.name] = replace(
                first,
                about=first.about or one.about,
                default=first.default or _plain(one.default),
                paths=tuple(dict.fromkeys((*first.paths, path))),
            )
    said = _documented(survey, {name for name in found if not name.isalpha() or name.isupper()})
    named = [replace(one, about=said.get(one.name) or one.about) for one in found.values()]
    return sorted(named, key=lambda one: one.name.lower())


def _variables(file: File) -> Iterator[WikiSetting]:
    """Yield the variables that code names, each with the help and the default near it."""
    prefix = _PREFIX.search(file.text)
    for match in _VARIABLE.finditer(file.text):
        before = file.text[max(0, match.start() - 8) : match.start()]
        is_bare = match[0].startswith("environ") and before[-1:] != "." and "from os import" not in file.text
        if is_bare or before == "request.":
            continue  # the environment of a request, as WSGI and Rack have it
        row = file.text.count("\n", 0, match.start(match.lastindex or 0))
        about, default = _near(file, row)
        second = _SECOND.match(file.text, match.end()) if re.search(r"[(\[]\s*[\"'`]", match[0]) else None
        name = match[match.lastindex or 0]
        yield WikiSetting(name, file.path, row + 1, about, second[1] if second else default)
    for match in _BOUND.finditer(file.text):
        name = f"{prefix[1]}_{match['name']}".upper().replace("-", "_") if prefix else match["name"]
        row = file.text.count("\n", 0, match.start())
        yield WikiSetting(name, file.path, row + 1, match["help"] or "", match["default"] or "")


def _near(file: File, row: int) -> tuple[str, str]:
    """Return the help and the default on a line, or in the statement that goes on below it."""
    lines = [file.lines[row]]
    for line in file.lines[row + 1 : row + _NEAR]:
        if (
            _VARIABLE.search(line)
            or not line.startswith((" ", "\t"))
            or lines[-1].rstrip().endswith(("},", ";"))
        ):
            break
        lines.append(line)
    text = "".join(line[:_MAX_LINE_CHARS] for line in lines)
    about, default = _HELP.search(text), _DEFAULT.search(text)
    said = about[1] if about else ""
    first = next(
        (n for n in range(row, max(row - _MAX_ABOVE, -1), -1) if file.lines[n].lstrip().startswith("#[")), row
    )
    if not said and (quote := comment_above(file.lines, file.path, first, file.language)):
        said = quote.text
    return said, next(filter(None, default.groups()), "").strip() if default else ""


def _fields(survey: Survey, file: File) -> Iterator[WikiSetting]:
    """Yield the fields of classes of settings, which are read from variables of the same names."""
    if "Settings" not in file.text or file.language != "python":
        return
    prefix = _PREFIX.search(file.text)
    for symbol in survey.symbols(file.path):
        if symbol.unit == "class" and _SETTINGS_CLASS.search(file.lines[symbol.start - 1][:_MAX_LINE_CHARS]):
            for field in fields_of(file, symbol):
                value = file.lines[field.line - 1].partition("=")[2].partition("#")[0].strip()
                name = f"{prefix[1]}_{field.name}" if prefix else field.name
                yield WikiSetting(name.upper(), file.path, field.line, field.comment, value)


def _keys(file: File) -> Iterator[WikiSetting]:
    """Yield the keys of a file of defaults down to a few levels, each with the comment above or behind it."""
    above: list[str] = []
    outer: list[tuple[int, str]] = []
    for row, line in enumerate(file.lines):
        if match := _KEY.match(line[:_MAX_LINE_CHARS]):
            indent, value = len(match[1]), match[3].strip()
            outer = [(depth, name) for depth, name in outer if depth < indent]
            value, _, comment = value.partition(" #") if value[:1] != "#" else ("", "", value)
            about = comment.strip("# ") or " ".join(takewhile(bool, above))
            name = ".".join((*(name for _, name in outer), match[2]))
            if len(outer) < _MAX_LEVELS and (about or value):
                yield WikiSetting(name, file.path, row + 1, about.removeprefix(match[2]).lstrip(":- "), value)
            outer.append((indent, match[2]))
        is_comment = line.lstrip().startswith("#") and not match
        above = [*above, line.strip().strip("# ")] if is_comment else []


def _documented(survey: Survey, names: Set[str]) -> Mapping[str, str]:
    """Return what documents say of names: in the row of a table, after the name, or below a heading."""
    found: dict[str, str] = {}
    for file in survey.of_kind("doc"):
        lines = [line[:_MAX_LINE_CHARS] for line in file.lines]
        for row, line in enumerate(lines):
            for match in _WORD.finditer(line):
                if match[0] in names and match[0] not in found and (text := _said(lines, row, match.end())):
                    found[match[0]] = text
    return found


def _said(lines: Sequence[str], row: int, end: int) -> str:
    """Return what a line says after a name and the lines that go on with it, or those below a heading."""
    before, rest = lines[row][:end], lines[row][end:].lstrip("`*_\"' ")
    if before.lstrip().startswith("|"):
        return max((cell.strip() for cell in rest.split("|")), key=lambda cell: len(cell.split()))
    if before.startswith("#"):
        first, end = row + 1, row + _NEAR + 1
        below = (n for n in range(first, min(end, len(lines))) if _PROSE.match(lines[n]))
        row = next(below, len(lines))
        said = lines[row].strip(" \n:>") if row < len(lines) else ""
    else:
        said = rest.lstrip(":=–—- ").strip()
        said = said if len(before.split()) <= _MAX_BEFORE and said != rest and len(said.split()) > 3 else ""
    going_on = takewhile(_GOING_ON.match, lines[row + 1 : row + _NEAR])
    return " ".join((said, *map(str.strip, going_on))) if said else ""


def _plain(default: str) -> str:
    """Return a default; "" for one that goes on below, or that is an expression."""
    is_whole = all(default.count(first) == default.count(last) for first, last in ("[]", "()", "{}"))
    return default.strip() if is_whole and len(default) <= _MAX_DEFAULT_CHARS else ""
