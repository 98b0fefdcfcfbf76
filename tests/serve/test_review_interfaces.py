"""A review at the interfaces of a server, and on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import git
from live_server import Served, serving
from typer.testing import CliRunner

from rag.cli import app
from rag.types import Source


@pytest.fixture(scope="module")
def changed(committed_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample repository with a commit that removes a function that is still called."""
    root = shutil.copytree(committed_sample, tmp_path_factory.mktemp("changed") / "sample")
    path = root / "snip" / "more.py"
    path.write_text("def one():\n    return 1\n\n\ndef two():\n    return one()\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Add")
    path.write_text("def two():\n    return one()\n")
    git(root, "commit", "--quiet", "--all", "--message", "Remove one")
    return root


@pytest.fixture(scope="module")
def served(changed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, repositories=(("sample", Source(str(changed))),)) as found:
        yield found.ready()


def test_the_route(served):
    found = served.get("/api/repositories/sample/review?range=HEAD~1..HEAD")
    assert (found.status, found.json["counts"]["files"]) == (200, 1)
    for hidden in ("refs/stash", "HEAD@{1}", "ORIG_HEAD~1", "HEAD^{/Add}"):
        assert served.get(f"/api/repositories/sample/review?range={quote(hidden)}..HEAD").status == 404
    assert served.get("/api/repositories/sample/review").json["symbols"] == []
    commits = served.get("/api/repositories/sample").json["commit"]
    found = served.get(f"/api/repositories/sample/review?range={commits}..main")
    assert (found.status, found.json["counts"]["files"]) == (200, 0)
    for text, status in (("a..b..c", 400), ("nothing..main", 404), ("x" * 600, 422)):
        assert served.get(f"/api/repositories/sample/review?range={text}").status == status


def test_what_is_false(served, changed):
    base = git(changed, "rev-parse", "HEAD~1")
    found = served.get(f"/api/repositories/sample/review?range={base}..main").json
    assert found["makes_false"] is True
    assert [(use["path"], use["line"]) for use in found["broken"]] == [("snip/more.py", 2)]
    assert [(one["name"], one["change"]) for one in found["symbols"]] == [("one", "removed")]


def test_the_tool(served, changed):
    pytest.importorskip("mcp", reason="the client of the protocol is not installed")
    from test_mcp import called, over_http

    base = git(changed, "rev-parse", "HEAD~1")

    async def talk(session):
        return await called(session, "review", range=f"{base}..main")

    text, values, failed = over_http(served, talk)
    assert not failed
    assert "uses `snip/more.py:one`" in text
    assert values["review"]["counts"]["broken"] == 1


def run(*arguments: str):
    return CliRunner().invoke(app, ["review", *arguments])


def test_the_command(changed):
    repo = ("--repo", str(changed), "--memory", "memory:")
    found = run("HEAD~1..HEAD", *repo)
    assert found.exit_code == 1
    assert "snip/more.py:2 in two uses snip/more.py:one" in found.stdout
    assert run("HEAD", *repo).exit_code == 0
    assert run("HEAD~1..HEAD", "--markdown", *repo).stdout.startswith("## `HEAD~1`")
    assert json.loads(run("HEAD~1..HEAD", "--json", *repo).stdout)["counts"]["symbols"] == 1
    for arguments in (("nothing",), ("a..b..c",), ("HEAD", "--json", "--markdown")):
        assert run(*arguments, *repo).exit_code == 2
