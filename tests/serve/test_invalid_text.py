"""Text that is no valid Unicode, in every field of every request: stored or refused, never a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import sample_copy, serving

LONE = "a \ud800 b"
METHODS = ("post", "put", "patch")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with all routes."""
    home = tmp_path_factory.mktemp("invalid")
    with serving(home, repositories=(("sample", sample_copy(home)),), deepwiki=True) as running:
        yield running.ready()


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


def with_one_invalid(value: Any) -> Iterator[Any]:
    """The value with one of its texts, or names of a map, invalid, for each of them."""
    if isinstance(value, str):
        yield LONE
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in with_one_invalid(one))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from (value | {name: other} for other in with_one_invalid(one))
            yield {key: old for key, old in value.items() if key != name} | {LONE: one}


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
            valid = json.loads(json.dumps(whole).replace(json.dumps(LONE), '"sample"'))
            bodies = [whole, *({**examples[0], name: whole[name]} for name in names)]
            bodies += with_one_invalid(valid | examples[0] if isinstance(valid, dict) else valid)
            for one in bodies:
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
    assert sent > 200


def test_a_preference_of_invalid_text_can_be_read(served):
    assert served.request("PUT", "/api/preferences/style", {"value": [LONE]}).json == {"style": ["a ? b"]}
    assert served.get("/api/preferences").json["style"] == ["a ? b"]
