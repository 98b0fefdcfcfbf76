"""A request for each parameter and field that the specification of a server names."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote, urlencode

Request = tuple[str, str, Any]
Known = dict[str, Any]
"""Values that are taken, by name, for the parameters that are not tried just now."""


def example(schema: dict[str, Any], kinds: dict[str, Any], known: Known, name: str = "") -> Any:
    """Something that a schema describes, with all its fields."""
    if "$ref" in schema:
        return example(kinds[schema["$ref"].rpartition("/")[2]], kinds, known, name)
    if "anyOf" in schema:
        return example(schema["anyOf"][0], kinds, known, name)
    if "enum" in schema or "const" in schema:
        return schema["enum"][0] if "enum" in schema else schema["const"]
    kind = schema.get("type", "string")
    if kind == "object":
        return {key: example(one, kinds, known, key) for key, one in schema.get("properties", {}).items()}
    if kind == "array":
        return [example(schema.get("items", {}), kinds, known, name)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return False if kind == "boolean" else known.get(name, (schema.get("examples") or ["sample"])[0])


def with_text(value: Any, text: str) -> Iterator[Any]:
    """The value with `text` in place of one of its strings, for each of them."""
    if isinstance(value, str):
        yield text
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        for changed in with_text(one, text):
            whole = deepcopy(value)
            whole[key] = changed
            yield whole


def requests(specification: dict[str, Any], known: Known, text: str) -> Iterator[Request]:
    """For each parameter and each string of a body the request that has `text` there."""
    kinds = specification["components"]["schemas"]
    for path, methods in specification["paths"].items():
        for method, operation in methods.items():
            named = operation.get("parameters", [])
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            body = None if schema is None else example(schema, kinds, known)
            for tried in [one["name"] for one in named if one["in"] != "header"]:
                yield method, address(path, named, kinds, {**known, tried: text}, tried), body
            for changed in with_text(body, text):
                yield method, address(path, named, kinds, known), changed


def address(
    path: str, named: list[dict[str, Any]], kinds: dict[str, Any], known: Known, tried: str = ""
) -> str:
    """A path of the specification with its parameters: those that are needed, and the one that is tried."""
    asked = {}
    for one in named:
        name = one["name"]
        value = known[name] if name == tried else example(one["schema"], kinds, known, name)
        if one["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        elif one["in"] == "query" and (one.get("required") or name == tried):
            asked[name] = value
    return f"{path}?{urlencode(asked, doseq=True)}" if asked else path
