"""The arguments of a tool call: unknown ones are refused, places may be written as our tools print them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rag.serve.api.places import line_range, place_parts
from rag.serve.errors import BadRequest

_RANGES = re.compile(r"\d{1,9}(?:-\d{1,9})?(?:,\d{1,9}(?:-\d{1,9})?)*")
_SPELLINGS = {
    "start_line": ("start", "startLine", "line_start", "from_line", "offset", "line"),
    "end_line": ("end", "endLine", "line_end", "to_line"),
    "conversation": ("conversationId", "conversation_id"),
    "symbol": ("name", "symbol_name", "function", "function_name", "identifier"),
    "name": ("symbol", "symbol_name", "identifier", "query"),
    "path": ("file", "file_path", "filePath", "filename", "uri", "glob"),
    "query": ("question", "pattern", "q", "text", "search"),
    "question": ("query", "q", "prompt"),
    "repoName": ("repo", "repository", "repo_name", "repoNames"),
    "limit": ("k", "max_results", "maxResults", "top_k"),
    "budget": ("max_tokens", "maxTokens", "budget_tokens"),
    "ref": ("branch", "commit", "revision"),
}
"""Other names of arguments, accepted where the tool has the argument and not one of that name."""
_MAX_NAMED = 12
_CHECKED_HERE = frozenset({"title", "properties", "minLength", "maxLength", "maxItems"})
"""Keys of a schema that an agent does not need: titles, and limits that no honest call reaches."""
MAX_LINES_SEEN = 50_000
"""Lines that a client may say it has, and that are remembered for a session."""


def compact(schema: Any) -> Any:
    """Return a JSON schema in fewer tokens: without titles, limits that no honest call reaches, and what
    is true of every argument that can be omitted: null, an empty default.

    The names of arguments stay: they are keys below `properties`. Calls are checked against all limits.
    """
    if isinstance(schema, list):
        return [compact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: compact(value) for key, value in schema.items() if key not in _CHECKED_HERE}
    if "properties" in schema:
        found["properties"] = {name: compact(one) for name, one in schema["properties"].items()}
    if "default" in found and found["default"] in (None, "", False):
        del found["default"]
    if found.get("minimum") in (0, 1):
        del found["minimum"]
    kinds = [one for one in found.get("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) == 1:
        del found["anyOf"]
        return kinds[0] | found
    return found | ({"anyOf": kinds} if kinds else {})


def checked(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool under their own names.

    A model often passes "" for an optional argument that it does not need: it counts as omitted.

    Raises:
        BadRequest: an argument does not exist; the message names it, and the nearest one that does.
    """
    known, needed = list(schema["properties"]), schema.get("required", ())
    given = _spelled(arguments, known)
    given = {name: value for name, value in given.items() if value != "" or name in needed}
    if "path" in known and "start_line" in known:
        given = _span_arguments(given)
    elif "path" in known and isinstance(given.get("path"), str):
        given = _without_lines(given, known)
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.5)
            meant = f"; did you mean `{nearest[0]}`?" if nearest else "."
            takes = ", ".join(known[:_MAX_NAMED]) or "none"
            raise BadRequest(f"{tool} has no argument `{name[:100]}`{meant} Its arguments: {takes}.")
    return given


def invalid(tool: str, error: ValidationError) -> str:
    """Return what is wrong with the arguments of a tool, as a sentence for each."""
    said = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        name = str(one["loc"][0]) if one["loc"] else "arguments"
        missing = one["type"] == "missing"
        said.append(f"{tool} needs `{name}`" if missing else f"`{name}` of {tool}: {one['msg'].lower()}")
    return "; ".join(dict.fromkeys(said))


def _spelled(arguments: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the arguments under their own names. Raises BadRequest: one is given twice, differently."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        own = name
        if name not in known:
            own = next((one for one in known if name in _SPELLINGS.get(one, ())), name)
        if found.get(own) is not None and value not in (None, found[own]):
            raise BadRequest(f"`{own}` is given twice, as {found[own]} and {value}")
        if found.get(own) is None:
            found[own] = value
    return found


def _span_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of read_span, with the range that its path may end with.

    Raises:
        BadRequest: the path ends with no range of lines, or another range is given too.
    """
    path = given.get("path")
    place = place_parts(path) if isinstance(path, str) else None
    if place is None:
        return given
    start, end = line_range(place["start"], place["end"], place=place[0], param="path")
    for own, value in (("start_line", start), ("end_line", end)):
        if given.get(own) not in (None, value):
            raise BadRequest(f"`{path}` and `{own}`={given[own]} disagree; pass one of them")
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
        BadRequest: a place has another form or no such range of lines, or they have too many lines.
    """
    found: dict[str, set[int]] = {}
    total = 0
    for place in places:
        path, _, ranges = place.rpartition(":")
        if not path or not _RANGES.fullmatch(ranges):
            raise BadRequest(f"`{place[:200]}` is not a place such as app.py:12-40", param="seen")
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            start, end = line_range(first, last, place=place, param="seen")
            lines = range(start, end + 1)
            total += len(lines)
            if total > MAX_LINES_SEEN:
                raise BadRequest(f"`seen` has more than {MAX_LINES_SEEN:,} lines", param="seen")
            found.setdefault(path, set()).update(lines)
    return found
