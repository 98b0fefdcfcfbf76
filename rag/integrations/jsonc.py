"""Insert and remove one entry of a JSON file, which may have comments and trailing commas.

The rest of the file stays as it is, character by character. A new entry becomes the first one of its object,
so that no comma of another entry changes. Before an edit is returned, the changed text is parsed again and
must mean the same as before, except for the entry.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rag.integrations.edits import CannotEdit, Edit, line_break

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[-+.\w]+')
_INDENT = re.compile(r"[ \t]*")
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    start: int
    value: _Node
    comma: int
    """The position after the comma that follows, or -1."""


@dataclass(frozen=True, slots=True)
class _Node:
    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] | None = None
    """Those of an object; None for anything else."""

    def member(self, key: str) -> _Member | None:
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise CannotEdit(f"{key!r} occurs twice")
        return found[0] if found else None


def entry_of(text: str, container: str, name: str) -> Any:
    """Return the entry `name` of the object `container`; None if there is none.

    Raises:
        CannotEdit: the text is no JSON object, even with comments.
    """
    if not text.strip("\ufeff \t\r\n"):
        return None
    within = _parsed(text).member(container)
    found = within.value.member(name) if within is not None else None
    return found.value.value if found is not None else None


def with_entry(text: str, container: str, name: str, entry: Any) -> Edit:
    """Return the edit that sets the entry `name` of the object `container` at the top of the file.

    Raises:
        CannotEdit: as `entry_of`, or the container is no object.
    """
    edit = _insertion(text, container, name, entry)
    before = _parsed(text).value if text.strip("\ufeff \t\r\n") else {}
    expected = {**before, container: {**before.get(container, {}), name: entry}}
    return _checked(text, edit, expected)


def without_entry(text: str, container: str, name: str) -> Edit:
    """Return the edit that removes an entry, and its container if `with_entry` seems to have made that too.

    Raises:
        CannotEdit: as `entry_of`, or there is no such entry.
    """
    root = _parsed(text)
    within = root.member(container)
    found = within.value.member(name) if within is not None else None
    if within is None or found is None:
        raise CannotEdit(f"there is no {container}.{name}")
    rest = {key: value for key, value in within.value.value.items() if key != name}
    others = {key: value for key, value in root.value.items() if key != container}
    around = text[within.start : found.start] + text[found.value.end : max(within.value.end, within.comma)]
    if not rest and "/" not in around and root.members and root.members[0] is within:  # no comment is lost
        return _checked(text, _removal(text, root, within), others)
    return _checked(text, _removal(text, within.value, found), {**root.value, container: rest})


def _insertion(text: str, container: str, name: str, entry: Any) -> Edit:
    eol = line_break(text)
    if not text.strip("\ufeff \t\r\n"):
        whole = json.dumps({container: {name: entry}}, indent=2).replace("\n", eol) + eol
        return Edit(len(text), len(text), whole)
    root = _parsed(text)
    within = root.member(container)
    if within is None:
        return _first(text, root, container, {name: entry}, eol)
    if within.value.members is None:
        raise CannotEdit(f"{container!r} is no object")
    found = within.value.member(name)
    if found is None:
        return _first(text, within.value, name, entry, eol)
    value = _dumped(entry, _indent_at(text, found.start), eol)
    return Edit(found.value.start, found.value.end, value)


def _first(text: str, node: _Node, key: str, value: Any, eol: str) -> Edit:
    """Return the edit that makes a new member the first one of an object, in the layout of the others."""
    at, members = node.start + 1, node.members or ()
    comma = "," if members else ""
    outer = _indent_at(text, node.start)
    if members and "\n" not in text[at : members[0].start]:
        return Edit(at, at, f"{json.dumps(key)}: {json.dumps(value)}{comma} ")
    indent = _indent_at(text, members[0].start) if members else outer + "  "
    closing = "" if members or "\n" in text[at : node.end] else eol + outer
    return Edit(at, at, f"{eol}{indent}{json.dumps(key)}: {_dumped(value, indent, eol)}{comma}{closing}")


def _dumped(value: Any, indent: str, eol: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", eol + indent)


def _indent_at(text: str, position: int) -> str:
    """Return the white space at the beginning of the line of a position."""
    begin = text.rfind("\n", 0, position) + 1
    found = _INDENT.match(text, begin)
    return found[0] if found else ""


def _removal(text: str, node: _Node, member: _Member) -> Edit:
    """Return the edit that removes a member: what `_first` inserted, and little of the rest."""
    begin, end = member.start, member.value.end
    previous = [m for m in node.members or () if m.start < member.start]
    if member.comma >= 0:
        end = member.comma
    elif previous and previous[-1].comma >= 0:  # the comma before it would be a trailing one
        comma = previous[-1].comma - 1
        if not text[comma + 1 : begin].strip():
            return Edit(comma, end, "")
    before = text[node.start + 1 : begin] if not previous else ""
    if before and not before.strip():
        begin = node.start + 1
    elif not before and text[end : end + 1] == " ":
        end += 1
    return Edit(begin, end, "")


def _checked(text: str, edit: Edit, expected: Any) -> Edit:
    if _parsed(edit.applied(text)).value != expected:
        raise CannotEdit("its layout is too unusual")
    return edit


@lru_cache(maxsize=2)  # a text is read several times for one edit
def _parsed(text: str) -> _Node:
    """Return the object that a text is. Raises CannotEdit."""
    node, end = _value(text, _space(text, 0), 0)
    if _space(text, end) != len(text):
        raise CannotEdit(f"something follows its end in line {_line(text, end)}")
    if node.members is None:
        raise CannotEdit("it is no JSON object")
    return node


def _value(text: str, at: int, depth: int) -> tuple[_Node, int]:
    if depth > _MAX_DEPTH:
        raise CannotEdit("it is nested too deeply")
    opening = text[at : at + 1]
    if opening == "{":
        return _object(text, at, depth)
    if opening == "[":
        return _array(text, at, depth)
    token = _SCALAR.match(text, at)
    if token is None:
        raise CannotEdit(f"it is no JSON in line {_line(text, at)}")
    try:
        value = json.loads(token[0])
    except ValueError as error:
        raise CannotEdit(f"it is no JSON in line {_line(text, at)}") from error
    return _Node(at, token.end(), value), token.end()


def _object(text: str, start: int, depth: int) -> tuple[_Node, int]:
    members, values = [], {}
    at = _space(text, start + 1)
    while text[at : at + 1] != "}":
        key, after = _value(text, at, depth + 1)
        colon = _space(text, after)
        if not isinstance(key.value, str) or text[colon : colon + 1] != ":":
            raise CannotEdit(f"it is no JSON in line {_line(text, at)}")
        value, end = _value(text, _space(text, colon + 1), depth + 1)
        at = _space(text, end)
        comma = at + 1 if text[at : at + 1] == "," else -1
        members.append(_Member(key.value, key.start, value, comma))
        values[key.value] = value.value
        at = _next(text, at, "}")
    return _Node(start, at + 1, values, tuple(members)), at + 1


def _array(text: str, start: int, depth: int) -> tuple[_Node, int]:
    values = []
    at = _space(text, start + 1)
    while text[at : at + 1] != "]":
        value, end = _value(text, at, depth + 1)
        values.append(value.value)
        at = _next(text, _space(text, end), "]")
    return _Node(start, at + 1, values), at + 1


def _next(text: str, at: int, closing: str) -> int:
    """Return the position after a comma, or that of the closing bracket."""
    if text[at : at + 1] == ",":
        return _space(text, at + 1)
    if text[at : at + 1] != closing:
        raise CannotEdit(f"it is no JSON in line {_line(text, at)}")
    return at


def _space(text: str, at: int) -> int:
    """Return the position after white space and comments."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
