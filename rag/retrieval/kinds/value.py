"""Find the value that a line gives to a name: `port: 80`, `PORT = getenv("PORT", "80")`, `default = 80`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAX_VALUE_CHARS, _MAX_VALUE_LINES, _NEXT_LINES, _MAX_ABOVE, _MAX_LINE_CHARS = 80, 6, 5, 12, 500
_LITERAL = (
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|[-+]?\.?\d[\w.]*|\[\]|\{\}"
    r"|(?:[Tt]rue|[Ff]alse|TRUE|FALSE|None|null|nil|yes|no|on|off|Infinity)\b(?![\w.(]))"
)
_ASSIGNED = re.compile(
    r"[\"'`\])]*\s*(?:\??:[\w\[\]<>,.|&*? ]{1,40}?)?(:?=(?![=>])|:(?![:=]))-?(?=\s|\S)\s*(\S.*)"
)
_DEFINED = re.compile(r"\s*#\s*define\s")
_PASSED = re.compile(rf"[\"'`],\s*({_LITERAL})\s*[,)]")
_ARGUMENT = re.compile(r"(?<!\bin)(?<=[\w\])>!?])\((?:[^()\[\]{}\"'`]*,)?\s*[\"'`][\w.-]*\Z", re.I)
"""What ends in a name in quotes that is an argument of a call: not one of several texts, nor compared."""
_TESTED = re.compile(r"(?:^|\s)\[\[?\s[^\]=]*\Z")
"""What ends in a name that a shell compares: `[ "$PORT" = 80 ]`."""
_FALLBACK = re.compile(rf"(?:\?\?|\|\||\bor\b|[\"'],)\s*({_LITERAL})[\s)]*\Z")
_IS_LITERAL = re.compile(rf"(?:&?[\w.:]*[({{\[]\s*(?:\w+[:=]\s*)?)*{_LITERAL}")
_DEFAULT = re.compile(
    rf"defaults?[\w -]{{0,12}}?[\"'*_]*\s?(?:[:=(][*_]*[\s/#*]*({_LITERAL}|[\w.:-]+(?:\([^()\n]*\))?)"
    rf"|\b(?:is|to) ({_LITERAL}))|^default\s+([\w\"'.-]+)\Z",
    re.I,
)
_COMMENT = re.compile(r"(?<=\s)(?:#|//|--)\s(?s:.*)")
_ABOVE = re.compile(r"\s*(?:#|@|//|/?\*)")
"""The beginning of an attribute, an annotation or a comment, which belongs to the line below."""
_HOLE = re.compile(r"\$\{|\{\{|%\(|\$\w")


def value_at(lines: Sequence[str], number: int, end: int, *, is_code: bool) -> tuple[str, bool]:
    """Return the value that a line gives to the name which ends in it, and whether it is a default.

    "" if it gives none, or a long one. In code, what follows a colon is a type unless it has a literal.
    """
    line = lines[number - 1][:_MAX_LINE_CHARS]
    before = lines[number - 2][-_MAX_LINE_CHARS:].strip() if number > 1 else ""
    if (passed := _PASSED.match(line, end)) and _ARGUMENT.search(before + line[:end].lstrip()):
        return passed[1], True
    if _DEFINED.match(line):
        return _COMMENT.sub("", line[end:]).strip(), False
    if not (assigned := _ASSIGNED.match(line, end)) or _TESTED.search(line, 0, end):
        return "", False
    value = _COMMENT.sub("", _whole(lines, number, assigned[2])).strip().rstrip(",;").strip()
    if fallback := _FALLBACK.search(value):
        return fallback[1], True
    if len(value) > _MAX_VALUE_CHARS or value in (">", ">-", "|", "|-"):
        return "", False
    is_type = is_code and assigned[1] == ":" and not is_literal(value)
    return ("" if is_type else _closed(value)), False


def is_literal(value: str) -> bool:
    """Return whether a value is a literal, or begins with one in brackets, and nothing is inserted in it."""
    return bool(_IS_LITERAL.match(value)) and not _HOLE.search(value)


def is_name_of(value: str, name: str) -> bool:
    """Return whether a value has the name itself as a literal: it says how the name is written elsewhere."""
    said = (re.sub(r"[\W_]", "", one).lower() for one in re.findall(r"[\"'`]([^\"'`]*)[\"'`]", value))
    return any(one.endswith(re.sub(r"[\W_]", "", name).lower()) for one in said)


def default_near(lines: Sequence[str], number: int, *, is_document: bool = False) -> tuple[int, str]:
    """Return the line of the default of a name, and the default; 0 and "" if none is said near the name.

    It is in the attributes or the comment above, in the line itself, or in what follows in its brackets.
    """
    first = number - 1
    while first > max(number - _MAX_ABOVE, 0) and _ABOVE.match(lines[first - 1]):
        first -= 1
    if found := _DEFAULT.search(" ".join(line[:_MAX_LINE_CHARS] for line in lines[first : number - 1])):
        row = next((n for n in range(first, number - 1) if "default" in lines[n].lower()), first)
        return row + 1, _said(found)
    for n in range(number - 1, min(number + _NEXT_LINES, len(lines))):
        text = lines[n][:_MAX_LINE_CHARS].strip()
        if n >= number and not is_document and (not text or _ABOVE.match(text) or text[0] in ")}]"):
            break
        if found := _DEFAULT.search(text):
            return n + 1, _said(found)
    return 0, ""


def _said(found: re.Match[str]) -> str:
    return str(next(filter(None, found.groups()))).strip("`")


def _whole(lines: Sequence[str], number: int, value: str) -> str:
    """Return a value with the lines below up to its closing bracket, if these are few."""
    for line in lines[number : number + _MAX_VALUE_LINES]:
        if _depth(value) <= 0:
            break
        value = f"{value} {line[:_MAX_LINE_CHARS].strip()}"
    return value


def _closed(value: str) -> str:
    """Return a value without the brackets at its end that close what is before it."""
    while value[-1:] in tuple(")]}") and _depth(value) < 0:
        value = value[:-1].rstrip(" ,;")
    return re.sub(r",\s*(?=[)\]}])", "", " ".join(value.split())) if _depth(value) == 0 else ""


def _depth(text: str) -> int:
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
