"""Text that is no valid Unicode, in every field of every request: stored or refused, never a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

LONE = "a \ud800 b"
METHODS = ("post", "put", "patch")


@pytest.fixture
def schema(served) -> dict[str, Any]:
    return served.get("/openapi.json").json


def value_of(part: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> Any:
    """A value of a schema in which every free text is invalid."""
    if "$ref" in part:
        return value_of(schemas[part["$ref"].rsplit("/", 1)[-1]], schemas, depth + 1)
    if options := part.get("anyOf") or part.get("oneOf"):
        return value_of(next(one for one in options if one.get("type") != "null"), schemas, depth)
    if "const" in part or "enum" in part:
        return part.get("const", part.get("enum", [None])[0])
    kind = part.get("type")
    if kind == "object" or "properties" in part:
        required = part.get("required", ())
        fields = part.get("properties", {}).items()
        return {k: value_of(v, schemas, depth + 1) for k, v in fields if k in required or depth < 3}
    if kind == "array":
        return [value_of(part.get("items", {}), schemas, depth + 1)]
    return {"integer": 1, "number": 0.5, "boolean": True}.get(kind, LONE)


def test_every_request_with_invalid_text_is_answered_or_refused(served, schema):
    schemas, failed, sent = schema["components"]["schemas"], [], 0
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if method not in METHODS or body is None:
                continue
            whole = value_of(body["schema"], schemas)
            names = list(whole) if isinstance(whole, dict) else []
            examples = schemas.get(body["schema"].get("$ref", "").rsplit("/", 1)[-1], {}).get(
                "examples", [{}]
            )
            for one in (whole, *({**examples[0], name: whole[name]} for name in names)):
                where = path
                for parameter in operation.get("parameters", ()):
                    where = where.replace(f"{{{parameter['name']}}}", "sample")
                reply = served.request(
                    method.upper(), where, json.dumps(one).encode(), {"Content-Type": "application/json"}
                )
                sent += 1
                if reply.status >= 500:
                    failed.append((method, where, reply.status, str(one)[:200]))
    assert not failed
    assert sent > 70


def test_a_preference_of_invalid_text_can_be_read(served):
    assert served.request("PUT", "/api/preferences/style", {"value": [LONE]}).json == {"style": ["a ? b"]}
    assert served.get("/api/preferences").json["style"] == ["a ? b"]
