"""Paths that lead out of what is served, in every parameter and field that the specification names."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from live_server import Served, sample_copy, serving

MARK = "what nobody may read"
Request = tuple[str, str, Any]
Known = dict[str, Any]
"""Values that are taken, by name, for the parameters that are not tried just now."""


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose only repository has a secret next to it."""
    home = tmp_path_factory.mktemp("isolated")
    (home / "secret.py").write_text(f'SECRET = "{MARK}"\n')
    with serving(home, repositories=(("sample", sample_copy(home)),), deepwiki=True) as running:
        yield running.ready()


def known_to(served: Served) -> Known:
    """Names that mean something to a server; a conversation with its turn among them."""
    asked = {"question": "Where is a token checked?", "repositories": ["sample"]}
    turn = served.post("/api/ask", asked).json
    where = {"name": "sample", "model": "rag:sample", "path": "snip/auth.py", "repositories": "sample"}
    there = {"repo_url": served.settings.repositories[0][1].location, "repository": "sample"}
    begun = {"conversation": turn["conversation"], "turn": turn["turn"]}
    kinds = {"role": "user", "type": "local", "repo_type": "local", "language": "en", "format": "markdown"}
    return {**where, **there, **begun, **kinds}


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


def files_of(home: Path) -> dict[str, bytes]:
    """What is there except the server's own data."""
    found = (path for path in home.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if "rag-home" not in path.parts}


@pytest.mark.parametrize("text", ["../secret.py", "{home}/secret.py", "{home}", "sample/../secret.py"])
def test_nothing_outside_a_repository_is_read_or_written(isolated: Served, text: str) -> None:
    before = files_of(isolated.home)
    specification = isolated.get("/openapi.json").json
    statuses = []
    for method, path, body in requests(specification, known_to(isolated), text.format(home=isolated.home)):
        reply = isolated.request(method.upper(), path, body)
        assert MARK.encode() not in reply.body, (method, path, body)
        assert reply.status < 500, (method, path, body, reply.body)
        statuses.append(reply.status)
    assert statuses.count(200) > 30 and len(statuses) > 100  # what was tried is what was refused
    assert {entry.source.location for entry in isolated.service.registry.entries()} == {
        isolated.settings.repositories[0][1].location
    }
    assert files_of(isolated.home) == before
