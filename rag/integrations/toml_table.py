"""Append and remove one table of a TOML file; the rest stays as it is, character by character."""

from __future__ import annotations

import json
import re
from typing import Any

from rag.integrations.edits import CannotEdit, Edit, line_break
from rag.parsing import parse_toml
from rag.quoting import string_literal

_LINE_START = r"(?:^|(?<=\A\ufeff))[ \t]*"


def entry_of(text: str, container: str, name: str) -> Any:
    """Return the table `container.name`; None if there is none. Raises CannotEdit: the text is no TOML."""
    within = _parsed(text).get(container)
    return within.get(name) if isinstance(within, dict) else None


def with_entry(text: str, container: str, name: str, entry: dict[str, Any]) -> Edit:
    """Return the edit that sets the table `container.name`: at the end of the file if it is new.

    The values of the entry are texts and lists of texts.

    Raises:
        CannotEdit: the text is no TOML, or the table cannot be set without changing other lines.
    """
    before, eol = _parsed(text), line_break(text)
    known = entry_of(text, container, name) is not None
    start, end = (_place(text, container, name) if known else None) or (len(text), len(text))
    lines = [f"[{container}.{name}]", *(f"{key} = {_value(value)}" for key, value in entry.items()), ""]
    table = eol.join(lines)
    if start == end:
        gap = "" if not text.strip("\ufeff") else eol if text.endswith("\n") else eol * 2
        table = gap + table
    edit = Edit(start, end, table)
    within = before.get(container, {})
    if not isinstance(within, dict):
        raise CannotEdit(f"{container!r} is no table")
    return _checked(text, edit, {**before, container: {**within, name: entry}})


def without_entry(text: str, container: str, name: str) -> Edit:
    """Return the edit that removes a table and the empty line before it. Raises CannotEdit."""
    before, place = _parsed(text), _place(text, container, name)
    if place is None:
        raise CannotEdit(f"[{container}.{name}] has no table of this form")
    start, end = place
    gap = re.search(r"(?:\r?\n)?\r?\n\Z", text[:start])
    if end == len(text) and gap is not None:
        start = gap.start() + (len(line_break(text)) if gap[0].count("\n") > 1 else 0)
    rest = {key: value for key, value in before[container].items() if key != name}
    others = {key: value for key, value in before.items() if key != container}
    edit = Edit(start, end, "")
    # A container without tables is left only if the file has a header of its own for it.
    is_left = bool(rest) or container in _parsed(edit.applied(text))
    return _checked(text, edit, {**others, container: rest} if is_left else others)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return string_literal(value) if isinstance(value, str) else json.dumps(value)


def _place(text: str, container: str, name: str) -> tuple[int, int] | None:
    """Return where a table and its sub-tables begin and end."""
    path = rf"{re.escape(container)}\s*\.\s*{re.escape(name)}"
    header = re.compile(rf"{_LINE_START}\[\s*{path}\s*\]", re.MULTILINE)
    found = list(header.finditer(text))
    if not found:
        return None
    begin = found[-1]  # an earlier one is in a text of several lines
    other = re.compile(rf"^[ \t]*\[(?!\s*{path}\s*[.\]])", re.MULTILINE)
    end = other.search(text, begin.end())
    return begin.start(), end.start() if end else len(text)


def _checked(text: str, edit: Edit, expected: Any) -> Edit:
    if _parsed(edit.applied(text)) != expected:
        raise CannotEdit("its layout is too unusual")
    return edit


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise CannotEdit(f"it is no TOML ({error})") from error
