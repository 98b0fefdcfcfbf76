"""The HTTP API as Markdown, from the server's OpenAPI description, and the tools of MCP from their list."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag.mcp.catalog import listed_tools
from rag.serve.app import create_app
from rag.serve.openai.parameters import CHAT, RESPONSES
from rag.serve.settings import ServerSettings
from rag.settings import Settings
from tools.docs.fields import narrow, table

METHODS = ("get", "post", "put", "patch", "delete")


def parameter_table() -> str:
    """Return the table of OpenAI's parameters and what becomes of them."""
    handling = ("done here", "sent to the model", "no effect", "refused")
    rows = []
    for each in handling:
        named = (
            ", ".join(f"`{n}`" for n, done in sorted(t.items()) if done == each) for t in (CHAT, RESPONSES)
        )
        rows.append(f"| {each} | {' | '.join(named)} |")
    return "\n".join(["| | Chat completions | Responses |", "|---|---|---|", *rows])


def http_reference() -> str:
    """Every route under its tag, with parameters, body and reply; then the errors and the types."""
    api = openapi()
    by_tag: dict[str, list[str]] = {}
    for path, method, route in routes(api):
        (tag,) = route.get("tags") or ["other"]
        by_tag.setdefault(tag, []).append(_route(path, method, route))
    parts = [f"## {_title(tag)}\n\n" + "\n\n".join(sections) for tag, sections in by_tag.items()]
    return "\n\n".join([*parts, _errors(api), _types(api)])


def openapi() -> dict[str, Any]:
    """The description that a running server gives at `/openapi.json`."""
    with tempfile.TemporaryDirectory() as home:
        settings = ServerSettings(engine=Settings(home=Path(home)), processes=0)
        found: dict[str, Any] = create_app(settings).openapi()
    return found


def routes(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every route as its path, its method and its description."""
    for path, methods in api["paths"].items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


def _title(tag: str) -> str:
    return tag if tag[0].isupper() else tag.capitalize()


def _route(path: str, method: str, route: dict[str, Any]) -> str:
    parts = [f"### `{method.upper()} {path}`", route.get("description", "")]
    rows = [
        (f"`{one['name']}`", one["in"], _kind(one["schema"]), one.get("description", ""))
        for one in route.get("parameters", [])
    ]
    if rows:
        parts.append(narrow(("Parameter", "In", "Type", "Meaning"), rows))
    if body := route.get("requestBody"):
        parts.append(f"Body: {_content(body['content'])}.")
    for status, reply in route["responses"].items():
        if status < "300":
            parts.append(f"Reply {status}: {_content(reply.get('content') or {}) or 'no body'}.")
    return "\n\n".join(filter(None, parts))


def _content(content: dict[str, Any]) -> str:
    """What a body holds, for each of its media types."""
    return " or ".join(
        f"`{media}`" + (f" {kind}" if (kind := _kind(value.get("schema") or {})) else "")
        for media, value in content.items()
    )


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words, with a link to the types below."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#type-{name.lower()})"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(filter(None, map(_kind, options))))
    if schema.get("enum"):
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("const") is not None:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {}) or 'values'}"
    return str(schema.get("type", ""))


def _errors(api: dict[str, Any]) -> str:
    """The statuses that any route may return."""
    found = {
        status: reply["description"]
        for _, _, route in routes(api)
        for status, reply in route["responses"].items()
        if status >= "400"
    }
    rows = [(status, found[status]) for status in sorted(found)]
    body = "The body of each error is [Error](#type-error)."
    return "\n\n".join(["## Errors", body, table(("Status", "Meaning"), rows)])


def _types(api: dict[str, Any]) -> str:
    parts = ["## Types"]
    for name, schema in sorted(api["components"]["schemas"].items()):
        needed = set(schema.get("required", ()))
        rows = [
            (
                f"`{field}`" + ("" if field in needed else " (optional)"),
                _kind(of),
                of.get("description", ""),
            )
            for field, of in schema.get("properties", {}).items()
        ]
        parts += [f"### {name} {{ #type-{name.lower()} }}", schema.get("description", "")]
        if rows:
            parts.append(narrow(("Field", "Type", "Meaning"), rows))
    return "\n\n".join(filter(None, parts))


def mcp_reference() -> str:
    """All tools of `rag mcp`, with their arguments."""
    parts = []
    for tool in listed_tools("all"):
        schema = tool["inputSchema"]
        needed = set(schema.get("required", ()))
        rows = [
            (f"`{name}`" + ("" if name in needed else " (optional)"), _kind(of), of.get("description", ""))
            for name, of in schema.get("properties", {}).items()
        ]
        parts += [f"### `{tool['name']}`", " ".join(tool["description"].split())]
        if rows:
            parts.append(narrow(("Argument", "Type", "Meaning"), rows))
    return "\n\n".join(parts)
