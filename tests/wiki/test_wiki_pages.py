"""Every statement of a page leads to lines that are there, and every arrow to an import or call that is."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from surveys import outside_fences, survey_of

from rag.display.mermaid import check
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import Checkout, Source
from rag.wiki import page_markdown, wiki_contents, wiki_structure
from rag.wiki.facts.facts import short_name
from rag.wiki.models import WikiPage, WikiStructure
from rag.wiki.pages.links import FileLinks, ForgeLinks, PlainLinks, copy_name
from rag.wiki.pages.page_context import MAX_PAGE_BYTES, MAX_PAGE_LINES, PageContext

PLACE = re.compile(r"\[`([^`]*)`\]\(([^)#]+)#L(\d+)-L(\d+)\)")
DIAGRAM = re.compile(r"```mermaid\n(.*?)\n```", re.DOTALL)


@pytest.fixture
def structure(sample_repo):
    return wiki_structure(Engine(load_settings()).repository(locate(str(sample_repo))))


def test_every_cited_place_is_there(structure):
    survey = structure.survey
    places = PLACE.findall(wiki_contents(structure))
    assert len(places) > 150
    for shown, path, start, end in places:
        file = survey.files[unquote(path)]
        assert 1 <= int(start) <= int(end) <= max(1, len(file.lines)), (path, start, end)
        name = shown.rpartition(".")[2]
        if re.fullmatch(r"\w+", name) and any(s.name == name for s in survey.symbols(file.path)):
            starts = {s.start for s in survey.symbols(file.path) if s.name == name}
            assert int(start) in starts, (shown, path, start)


def test_the_diagrams_are_small_linked_and_true(structure):
    called = {
        (short_name(caller), short_name(call.callee))
        for call in structure.survey.calls
        if call.caller is not None
        for caller in (call.caller, replace(call.caller, scope="", name=call.caller.scope))
    }  # the second is the class of a constructor
    edges, files = 0, FileLinks(structure)
    for page in structure.pages:
        for text in DIAGRAM.findall(page_markdown(structure, page.id, links=files)):
            check(text)
            labels = dict(re.findall(r'^  (n\d+)\(?\["([^"]+)"', text, re.MULTILINE))
            labels |= dict(re.findall(r"^  participant (n\d+) as (.+)$", text, re.MULTILINE))
            linked = re.findall(r"^  (?:click|link) (n\d+)", text, re.MULTILINE)
            assert len(labels) <= 12 and sorted(linked) == sorted(labels), text
            if page.kind == "package":
                for source, target in re.findall(r"(n\d+) --> (n\d+)", text):
                    assert (labels[source], labels[target]) in called
                    edges += 1
    assert edges > 5


def test_diagrams_of_texts_have_no_links_that_lead_nowhere(structure):
    diagrams = DIAGRAM.findall(wiki_contents(structure))
    assert len(diagrams) > 3
    assert not any(re.search(r"^  (?:click|link) ", text, re.MULTILINE) for text in diagrams)


def test_a_diagram_says_what_it_leaves_out(structure):
    for page in structure.pages:
        for below in re.findall(
            r"```mermaid\n.*?\n```\n\n(.*?)\n", page_markdown(structure, page.id), re.DOTALL
        ):
            assert re.search(r"Left out: [\d,]+ |Nothing is left out\.", below), (page.id, below)


def test_the_arrows_between_concepts_are_calls_or_imports_at_run_time():
    survey = survey_of(
        {
            "a/one.py": "from typing import TYPE_CHECKING\nfrom b import two\n"
            "if TYPE_CHECKING:\n    from c import three\n\n\ndef f():\n    return two.g()\n",
            "b/two.py": "def g():\n    return 1\n",
            "c/three.py": "class T:\n    pass\n",
        }
    )
    pages = [
        WikiPage(name, name, "", file_paths=(path,), kind="package")
        for name, path in zip("abc", survey.files, strict=True)
    ]
    structure = WikiStructure("wiki", "x", "", tuple(pages), (), survey)
    context = PageContext(structure, PlainLinks())
    assert context.between == {("a", "b"): 2}
    lines = {(call.path, call.line) for call in survey.calls}
    lines |= {(link.source, link.start) for link in survey.links if not link.types_only}
    assert context.uses
    for (source, target), places in context.uses.items():
        assert source != target and set(places) <= lines


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
    assert "- `snip`, console script, runs `snip.cli:main` ([`pyproject.toml`](pyproject.toml#L13" in overview
    assert "- [`worker/main.go`](worker/main.go#L" in overview
    assert overview.index("console script") < overview.index("main function")
    assert "| [Snip](#snip) | " in testing and "(tests/test_auth.py#L1-" in testing
    assert "- `session_lifetime_s`, by default `1209600`: Sessions end" in settings
    assert "## deploy/snip.example.toml" in settings


def test_no_page_is_longer_than_a_reader_reads(structure):
    for page in structure.pages:
        text = page_markdown(structure, page.id)
        assert len(text.encode()) <= MAX_PAGE_BYTES and text.count("\n") <= MAX_PAGE_LINES


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


def test_a_type_lists_overloads_once_and_its_inner_types_apart(tmp_path):
    text = (
        "package a\n\n/** Fires pots. */\nclass Kiln {\n  /** Fire one. */\n  fun fire(a: Int) { heat() }\n\n"
        "  /** Fire two. */\n  fun fire(a: Long) { heat() }\n\n  fun heat() {}\n\n"
        "  companion object {\n    fun make(): Kiln = Kiln()\n  }\n}\n"
    )
    (tmp_path / "Kiln.kt").write_text(text)
    written = wiki_contents(wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path)))))
    assert len(re.findall(r"^- (?:\[)?`fire`", written, re.MULTILINE)) == 1
    assert "Types inside: `Companion`." in written
    methods = [line for line in written.splitlines() if line.startswith("Other methods:")]
    assert not any("Companion" in line for line in methods)


def test_a_copyright_does_not_say_what_a_document_is_about(tmp_path):
    (tmp_path / "kiln.py").write_text("def fire():\n    return 1\n")
    (tmp_path / "INSTALL.md").write_text(
        "# Installation\n\nCopyright (C) 1994 A Foundation, Inc. of Boston.\n"
    )
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    page = page_markdown(structure, "documentation")
    assert "Installation" in page
    assert "Copyright" not in page


def test_a_file_with_nothing_public_lists_its_functions(tmp_path):
    """Those of a program: all of Go's `package main`, the functions of Rust's `main.rs`."""
    (tmp_path / "kiln.go").write_text(
        "package main\n\nfunc main() {\n\theat()\n}\n\n// heat fires the kiln.\nfunc heat() {\n}\n"
    )
    (tmp_path / "go.mod").write_text("module example.org/kiln\n")
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    (page,) = [page for page in structure.pages if page.kind == "package"]
    text = page_markdown(structure, page.id)
    assert "### kiln.go" in text and "## Other files" not in text
    assert "Calls `heat`." in text and "heat fires the kiln." in text
