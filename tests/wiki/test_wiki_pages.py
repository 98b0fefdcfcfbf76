"""Every statement of a page leads to lines that are there, and every arrow to an import or call that is."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from surveys import outside_fences

from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import Checkout, Source
from rag.wiki import page_markdown, wiki_contents, wiki_structure
from rag.wiki.links import ForgeLinks, copy_name
from rag.wiki.mermaid import check

PLACE = re.compile(r"\[`(?:[^`]*:)?(\d+)(?:-(\d+))?`\]\(([^)#]+)#L(\d+)-L(\d+)\)")
DIAGRAM = re.compile(r"```mermaid\n(.*?)\n```", re.DOTALL)


@pytest.fixture
def structure(sample_repo):
    return wiki_structure(Engine(load_settings()).repository(locate(str(sample_repo))))


def test_every_cited_place_is_there(structure):
    text = wiki_contents(structure)
    places = PLACE.findall(text)
    assert len(places) > 200
    for shown_start, shown_end, path, start, end in places:
        file = structure.survey.files[unquote(path)]
        assert (shown_start, shown_end or shown_start) == (start, end)
        assert 1 <= int(start) <= int(end) <= max(1, len(file.lines)), (path, start, end)


def test_every_row_that_states_something_cites_lines(structure):
    for page in structure.pages:
        if page.kind in ("package", "testing", "configuration", "documentation", "api"):
            rows = [line for line in page_markdown(structure, page.id).split("\n") if line.startswith("| ")]
            rows = [row for row in rows if not row.startswith(("| ---", "| Definition", "| Name", "| File"))]
            rows = [row for row in rows if not row.startswith(("| Package", "| Title", "| Variable"))]
            assert rows and all("#L" in row for row in rows), page.id


def test_diagrams_are_read_by_our_reader_and_true(structure):
    survey = structure.survey
    imports = {(link.source, path) for link in survey.links for path in survey.files_of(link.target)}
    called = {
        (call.caller.qualified_name, call.callee.qualified_name) for call in survey.calls if call.caller
    }
    edges = 0
    for page in structure.pages:
        for text in DIAGRAM.findall(page_markdown(structure, page.id)):
            check(text)
            labels = dict(re.findall(r'(n\d+)\(?\[?"([^"]+)"', text)) | dict(
                re.findall(r'(n\d+)\["([^"]+)"', text)
            )
            for source, target in re.findall(r"(n\d+) -->(?:\|\d+\|)? (n\d+)", text):
                pair = (labels[source], labels[target])
                files = any(a.endswith(pair[0]) and b.endswith(pair[1]) for a, b in imports)
                assert files or pair in called, pair
                edges += 1
    assert edges > 40


def test_no_tag_stands_outside_a_fence(structure):
    assert "<" not in outside_fences(wiki_contents(structure))


def test_contents_are_deepwikis(structure):
    text = wiki_contents(structure)
    assert text.startswith("# Page: Overview\n\n# Overview\n")
    assert text.count("# Page: ") == len(structure.pages)


def test_the_pages_tell_where_it_starts_what_is_tested_and_what_is_set(structure):
    overview, testing, settings = (
        page_markdown(structure, name) for name in ("overview", "testing", "configuration")
    )
    assert "| `snip` | console script | `snip.cli:main` | [`pyproject.toml:13`]" in overview
    assert "| `worker/main.go` | main function |" in overview
    assert overview.index("console script") < overview.index("main function")
    assert "`snip/auth.py` ([`3`](tests/test_auth.py#L3-L3))" in testing
    assert "[`pyproject.toml:" in settings


def test_lines_lead_to_the_forge_only_where_the_bytes_are_the_commits(structure, sample_repo):
    survey = structure.survey
    assert survey.checkout is not None
    at = replace(survey.checkout, remote="https://github.com/acme/snip.git")
    blobs = {path: file.blob for path, file in survey.files.items()}
    clean = ForgeLinks(at, blobs)
    assert clean.lines("snip/app.py", 3, 9) == (
        f"https://github.com/acme/snip/blob/{at.commit}/snip/app.py#L3-L9"
    )
    dirty = ForgeLinks(replace(at, dirty=True), blobs | {"snip/app.py": "0" * 40})
    assert dirty.lines("snip/app.py", 3, 9) == ""
    assert dirty.lines("snip/auth.py", 1, 1).endswith("/snip/auth.py#L1")
    nowhere = Checkout(Source("/x"), sample_repo)
    assert ForgeLinks(nowhere, blobs).lines("snip/app.py", 3, 9) == ""


def test_copies_of_different_files_have_different_names_on_every_system():
    paths = [
        "a/b.py",
        "A/b.py",
        "a/B.py",
        ".env/x",
        "_env/x",
        "a?b.py",
        "a b.py",
        "a/b.py.",
        "…/é.py",
        "con:/x",
    ]
    names = [copy_name(path) for path in paths]
    assert len({name.lower() for name in names}) == len(paths)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._/-]*\.html", name) for name in names)
    assert not any("/." in name for name in names)
