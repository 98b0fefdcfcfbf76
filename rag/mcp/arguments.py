"""The arguments of a tool call: unknown ones are refused, places may be written as our tools print them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rag.errors import ConfigError
from rag.lines import place_parts, range_in
from rag.mcp.catalog import McpTool, spellings

_RANGES = re.compile(r"\d{1,9}(?:-\d{1,9})?(?:,\d{1,9}(?:-\d{1,9})?)*")
_MAX_NAMED = 12
_WHOLE_NUMBER = re.compile(r"-?\d{1,9}")
MAX_LINES_SEEN = 50_000
"""Lines that a client may say it has, and that are remembered for a session."""


def checked(tool: McpTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under their own names, as values of their kinds.

    A model often passes "" for an optional argument that it does not need: it counts as omitted.

    Raises:
        ConfigError: an argument does not exist, is missing or invalid; the message names it.
    """
    known = list(tool.arguments)
    given = _spelled(arguments, known)
    given = {name: value for name, value in given.items() if value != "" or name in tool.needed}
    given = {name: value for name, value in given.items() if value is not None}
    if "path" in known and "start_line" in known:
        given = _span_arguments(given)
    elif "path" in known and isinstance(given.get("path"), str):
        given = _without_lines(given, known)
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.5)
            meant = f"; did you mean `{nearest[0]}`?" if nearest else "."
            takes = ", ".join(known[:_MAX_NAMED]) or "none"
            raise ConfigError(f"{tool.name} has no argument `{name[:100]}`{meant} Its arguments: {takes}.")
    if missing := [f"{tool.name} needs `{name}`" for name in tool.needed if name not in given]:
        raise ConfigError("; ".join(missing))
    return {name: _value(tool, name, value) for name, value in given.items()}


def _value(tool: McpTool, name: str, value: Any) -> Any:
    """Return a value of the kind that the schema of its argument says. Raises ConfigError."""
    schema = tool.arguments[name]
    for one in schema.get("anyOf", [schema]):
        found = _of_kind(one["type"], value)
        if found is not None and _fits(one, found):
            return found
    raise ConfigError(f"`{name}` of {tool.name} must be {_in_words(schema)}")


def _of_kind(kind: str, value: Any) -> Any:
    """Return a value as one of this kind, None if it is none. Models write numbers and switches as text."""
    match kind, value:
        case ("boolean", bool()) | ("string", str()):
            return value
        case "boolean", "true" | "false":
            return value == "true"
        case "integer", int() if not isinstance(value, bool):
            return value
        case "integer", float() if value.is_integer():
            return int(value)
        case "integer", str() if _WHOLE_NUMBER.fullmatch(value):
            return int(value)
        case "array", list() if all(isinstance(one, str) for one in value):
            return value
    return None


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value is within the limits of a schema."""
    if schema["type"] == "integer":
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if "enum" in schema:
        return value in schema["enum"]
    size = len(value) if isinstance(value, str | list) else 0
    most = schema.get("maxLength", schema.get("maxItems", size))
    return bool(schema.get("minLength", 0) <= size <= most)


def _in_words(schema: Mapping[str, Any]) -> str:
    """Return what a value must be."""
    if "anyOf" in schema:
        return " or ".join(_in_words(one) for one in schema["anyOf"])
    if "enum" in schema:
        return f"{'one of ' if len(schema['enum']) > 1 else ''}{', '.join(schema['enum'])}"
    match schema["type"]:
        case "integer" if "maximum" in schema:
            return f"a number from {schema['minimum']} to {schema['maximum']}"
        case "integer":
            return f"a number of at least {schema['minimum']}"
        case "string" if "minLength" in schema:
            return f"text of 1 to {schema['maxLength']:,} characters"
        case "string":
            return f"text of at most {schema['maxLength']:,} characters" if "maxLength" in schema else "text"
        case "array":
            return f"a list of at most {schema['maxItems']:,} texts" if "maxItems" in schema else "a list"
    return "true or false"


def _spelled(arguments: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the arguments under their own names. Raises ConfigError: one is given twice, differently."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        own = name
        if name not in known:
            own = next((one for one in known if name in spellings().get(one, ())), name)
        if found.get(own) is not None and value not in (None, found[own]):
            raise ConfigError(f"`{own}` is given twice, as {found[own]} and {value}")
        if found.get(own) is None:
            found[own] = value
    return found


def _span_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of read_span, with the range that its path may end with.

    Raises:
        ConfigError: the path ends with no range of lines, or another range is given too.
    """
    path = given.get("path")
    place = place_parts(path) if isinstance(path, str) else None
    if place is None:
        return given
    start, end = range_in(place[0], place["start"], place["end"])
    for own, value in (("start_line", start), ("end_line", end)):
        if given.get(own) not in (None, value):
            raise ConfigError(f"`{path}` and `{own}`={given[own]} disagree; pass one of them")
    return given | {"path": place["path"], "start_line": start, "end_line": end}


def _without_lines(given: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a tool that takes a file, and maybe its `line`, without lines in the path."""
    place = place_parts(given["path"])
    if place is None:
        return given
    line = {"line": int(place["start"])} if "line" in known and given.get("line") is None else {}
    return given | {"path": place["path"]} | line


def lines_seen(places: Sequence[str]) -> dict[str, set[int]]:
    """Return the lines of places such as `app.py:12-40` or `app.py:3,12-40`, by path.

    Raises:
        ConfigError: a place has another form or no such range of lines, or they have too many lines.
    """
    found: dict[str, set[int]] = {}
    total = 0
    for place in places:
        path, _, ranges = place.rpartition(":")
        if not path or not _RANGES.fullmatch(ranges):
            raise ConfigError(f"`{place[:200]}` is not a place such as app.py:12-40")
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            start, end = range_in(place, first, last)
            lines = range(start, end + 1)
            total += len(lines)
            if total > MAX_LINES_SEEN:
                raise ConfigError(f"`seen` has more than {MAX_LINES_SEEN:,} lines")
            found.setdefault(path, set()).update(lines)
    return found
