"""Diagrams of calls and pages of a wiki over HTTP."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import git
from live_server import Served, serving

from rag.service import Engine
from rag.settings import Settings
from rag.types import Source

BASE = "/api/repositories/sample"


def test_the_overview_has_places_and_questions(served: Served) -> None:
    found = served.get(f"{BASE}/overview").json
    assert found["text"].startswith("**sample**: ") and "(`README.md:" in found["text"]
    assert "How do I run the tests?" in found["questions"]
    assert "Questions to ask" not in found["text"]


def test_lines_and_a_name_give_the_same_diagram(served: Served) -> None:
    named = served.get(f"{BASE}/calls?symbol=SessionSigner.verify_session").json
    subject = next(node for node in named["nodes"] if node["depth"] == 0)
    lines = f"path={subject['path']}&start_line={subject['start_line'] + 1}"
    assert served.get(f"{BASE}/calls?{lines}").json == named
    assert len(named["nodes"]) <= 12 and named["arrows"]
    assert all(0 <= one[end] < len(named["nodes"]) for one in named["arrows"] for end in ("source", "target"))


@pytest.mark.parametrize("path", ["snip/auth.py#L2-L3", "./snip/auth.py:2-3", "ROOT/snip/auth.py#L2-L3"])
def test_lines_are_read_by_every_form_of_their_place(served: Served, path: str) -> None:
    path = path.replace("ROOT", served.settings.repositories[0][1].location)
    expected = served.get(f"{BASE}/source?path=snip/auth.py&start_line=2&end_line=3").json
    assert (expected["start_line"], expected["end_line"]) == (2, 3)
    assert served.get(f"{BASE}/source?path={quote(path)}").json == expected


def test_a_range_of_lines_in_a_path_has_to_be_one(served: Served) -> None:
    reply = served.get(f"{BASE}/source?path={quote('snip/auth.py#L9-L3')}")
    assert reply.status == 400 and "9-3 is not a range of lines" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("", 400),
        ("?symbol=no_such_name", 404),
        ("?path=no/such.py", 404),
        ("?path=README.md&start_line=1", 404),
        ("?symbol=sign_session&view=circle", 422),
        ("?symbol=sign_session&start_line=0", 422),
        (f"?symbol={'x' * 501}", 422),
        (f"?symbol={quote('<script>')}", 404),
    ],
)
def test_what_cannot_be_drawn_is_an_error(served: Served, asked: str, status: int) -> None:
    reply = served.get(f"{BASE}/calls{asked}")
    assert reply.status == status and reply.json["error"]["message"]


def test_every_page_of_the_wiki_is_given_and_its_links_lead_to_places_that_exist(served: Served) -> None:
    pages = served.get(f"{BASE}/wiki").json["pages"]
    known = {page["id"] for page in pages}
    assert {"overview", "architecture", "glossary"} <= known
    assert all(page["parent"] in known | {""} for page in pages)
    links: set[str] = set()
    for page in pages:
        found = served.get(f"{BASE}/wiki/page?page={page['id']}").json
        assert found["text"].startswith("# ") and found["paths"] == page["paths"]
        links |= set(re.findall(r"\]\((/repos/sample/[^)\s]+)\)", found["text"]))
        assert not re.findall(r"\]\((?!/repos/sample/|https?:|#)[^)]*\)", found["text"]), page["id"]
    assert {link.split("page=")[1] for link in links if "/wiki?" in link} <= known
    lines = [
        re.search(r"path=([^#]+)#L(\d+)-L(\d+)", link).groups()  # type: ignore[union-attr]
        for link in links
        if "/view?" in link
    ]
    assert len(lines) > 30
    for path, start, end in sorted(lines)[::9]:
        read = served.get(f"{BASE}/source?path={path}&start_line={start}&end_line={end}")
        assert read.status == 200, (path, start, end)


def test_a_page_that_the_wiki_has_not_is_not_found(served: Served) -> None:
    reply = served.get(f"{BASE}/wiki/page?page=no-such-page")
    assert reply.status == 404 and "/wiki" in reply.json["error"]["message"]


def test_copies_that_share_an_index_have_wikis_of_their_own(tmp_path: Path) -> None:
    pottery, kilns = tmp_path / "pottery", tmp_path / "kilns"
    pottery.mkdir()
    (pottery / "pottery_fire.py").write_text("def fire():\n    return 1\n")
    git(pottery, "init", "--quiet", "--template=")
    git(pottery, "add", "--all")
    git(pottery, "commit", "--quiet", "--message", "Fire")
    git(pottery, "worktree", "add", "--quiet", "-b", "other", str(kilns))
    sources = [Source(str(folder)) for folder in (pottery, kilns)]
    with closing(Engine(Settings(home=tmp_path / "rag-home", memory="memory:"))) as engine:
        parts = [[part.header["id"] for part in engine.repository(one).store.segments] for one in sources]
    assert set(parts[0]) & set(parts[1])
    with serving(tmp_path, repositories=tuple((one.name, one) for one in sources)) as server:
        server.ready()
        for name, title in (("pottery", "Fire"), ("kilns", "Pottery fire"), ("pottery", "Fire")):
            pages = server.get(f"/api/repositories/{name}/wiki").json["pages"]
            assert title in [page["title"] for page in pages]  # without the name of the repository
