"""Paths that lead out of what is served, in every parameter and field that the specification names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from every_request import Known, requests
from live_server import Served, sample_copy, serving

MARK = "what nobody may read"


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
