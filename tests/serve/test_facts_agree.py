"""What is remembered of the code is bound and followed alike by the command, HTTP, MCP and Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command import rag
from conftest import git
from live_server import Served, serving
from test_mcp_endpoint import begun, message

from rag.memory.facts import NOT_BOUND
from rag.schema import to_json
from rag.service import Engine, locate
from rag.service.checks.facts import add_fact, check_facts, facts_of
from rag.settings import Settings

CODE = '''import os

LIMIT = os.environ["UPLOAD_LIMIT"]


def shrink_picture(picture):
    """Make a picture as small as the limit."""
    while picture.size > int(LIMIT):
        picture = picture.half()
    return picture
'''
MAKE = "lint:\n\truff check .\n\npictures:\n\tpython -m shop.pictures --all\n"
FACTS = {
    "Pictures are halved in shop/pictures.py:8-9.": ["shop/pictures.py:8-9"],
    "shrink_picture never asks the network.": ["shop/pictures.py:6-10"],
    "All are made by `make pictures` at night.": ["Makefile:4-5"],
    "UPLOAD_LIMIT is in bytes.": ["shop/pictures.py:3-3"],
    "Releases are cut on Fridays.": [],
}
STEPS: dict[str, dict[str, str | None]] = {
    "fresh": {"other.py": "OTHER = 1\n"},
    "moved": {"shop/pictures.py": "# Pictures.\n\n" + CODE, "Makefile": "help:\n\techo help\n\n" + MAKE},
    "changed": {
        "shop/pictures.py": CODE.replace("half()", "half(2)").replace("os.environ[", "os.environ.get("),
        "Makefile": MAKE.replace("--all", "--new"),
    },
    "gone": {"shop/pictures.py": None, "Makefile": "lint:\n\truff check .\n"},
}
Interface = tuple[Callable[[str], Any], Callable[[], Any]]
"""Adds a fact, and checks all; both return JSON."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "--quiet")
    write(root, {"shop/pictures.py": CODE, "Makefile": MAKE})
    return root


@pytest.fixture
def interfaces(root: Path, tmp_path: Path) -> Iterator[dict[str, Interface]]:
    source = locate(str(root))
    with (
        closing(Engine(Settings(home=tmp_path / "python", memory="memory:"))) as engine,
        serving(tmp_path / "http", repositories=(("shop", source),)) as http,
        serving(tmp_path / "mcp", repositories=(("shop", source),)) as mcp,
    ):
        yield {
            "python": (
                lambda text: to_json(add_fact(engine, text, source=source)),
                lambda: [to_json(fact) for fact in check_facts(engine, facts_of(engine).list(), [source])],
            ),
            "command": (
                lambda text: rag("facts", "add", text, "--json", cwd=root).json,
                lambda: rag("facts", "check", "--json", cwd=root).json,
            ),
            "http": (
                lambda text: http.post("/api/facts", {"text": text, "repository": "shop"}).json,
                lambda: http.get("/api/facts?check=true").json,
            ),
            "mcp": (
                lambda text: called(mcp, "remember", text=text, repo="shop")["fact"],
                lambda: called(mcp, "facts")["facts"],
            ),
        }


def called(served: Served, tool: str, **arguments: object) -> Any:
    call = message("tools/call", name=tool, arguments=arguments)
    return served.post("/mcp", call, headers=begun(served)).json["result"]["structuredContent"]


def write(root: Path, files: dict[str, str | None]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "next")


def places(fact: Any) -> list[str]:
    return [f"{one['path']}:{one['start_line']}-{one['end_line']}" for one in fact["citations"]]


def test_a_fact_is_bound_and_followed_alike_in_every_interface(root, interfaces):
    for name, (add, _) in interfaces.items():
        added = [add(text) for text in FACTS]
        assert [places(fact) for fact in added] == [*FACTS.values()], name
        assert [fact["note"] for fact in added] == [*[""] * 4, NOT_BOUND], name
    for step, files in STEPS.items():
        write(root, files)
        found = {}
        for name, (_, check) in interfaces.items():
            facts = {fact["text"]: fact for fact in check()}
            assert facts.keys() == FACTS.keys(), name
            states = [facts[text]["freshness"] and facts[text]["freshness"]["state"] for text in FACTS]
            assert states == [*[step] * 4, None], (name, step)
            found[name] = [(text, facts[text]["freshness"], facts[text]["checks"]) for text in FACTS]
        assert all(one == found["python"] for one in found.values()), step
    shutil.rmtree(root)
