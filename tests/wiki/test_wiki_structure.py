"""The pages follow the code, or what the repository asks for, and are told in the shapes others read."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest
from structure_xml import pages_of
from surveys import survey_of

from rag.errors import WikiSteeringInvalid
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.wiki import structure_outline, structure_xml, wiki_structure
from rag.wiki.facts.concepts import Concept
from rag.wiki.facts.facts import facts_of
from rag.wiki.pages.devin_json import parse_steering
from rag.wiki.pages.structure import _concept_description, files_about, structure_of


@pytest.fixture
def repository(sample_repo):
    return Engine(load_settings()).repository(locate(str(sample_repo)))


def test_the_pages_are_in_reading_order_and_hold_each_code_file_once(repository):
    structure = wiki_structure(repository)
    assert [page.title for page in structure.pages] == [
        "Overview",
        "Concepts",
        "How it runs",
        "Snip",  # where most of the code is
        "Clients",
        "Worker",
        "Public API",
        "Extending",
        "Configuration",
        "Testing",
        "Glossary",
        "Documentation",
        "Tools",
    ]
    assert structure.description.startswith("A small link shortener")
    assert "snip/storage.py" in structure.page("snip").file_paths[:3]  # the most central come first
    code = {file.path for file in structure.survey.of_kind("code")}
    listed = [page for page in structure.pages if page.kind in ("package", "carried")]
    assert Counter(path for page in listed for path in page.file_paths) == Counter(code)


@pytest.mark.parametrize("limit", [1, 2, 4, 60])
def test_there_are_at_most_as_many_pages_as_asked_for(repository, limit):
    pages = wiki_structure(repository, max_pages=limit).pages
    assert 1 <= len(pages) <= limit
    assert pages[0].id == "overview"


def test_the_outline_is_deepwikis(repository):
    lines = structure_outline(wiki_structure(repository), "acme/snip").split("\n")
    assert lines[:4] == ["Available pages for acme/snip:", "", "- 1 Overview", "- 2 Concepts"]


def test_pages_below_others_are_numbered_below_them():
    asked = {"pages": [{"title": "app"}, {"title": "a", "parent": "app"}, {"title": "b", "parent": "app"}]}
    structure = structure_of(survey_of({"app/own.py": "y = 1\n"}), steering=parse_steering(json.dumps(asked)))
    assert "- 1 app\n  - 1.1 a\n  - 1.2 b" in structure_outline(structure)
    assert [section.title for section in structure.sections] == ["Topics", "app"]


def test_the_xml_says_what_the_structure_says(repository):
    structure = wiki_structure(repository)
    text = structure_xml(structure)
    read = {page.id: page for page in pages_of(text)}
    assert list(read) == [page.id for page in structure.pages]
    for page in structure.pages:
        assert read[page.id].title == page.title and read[page.id].importance == page.importance
        assert read[page.id].file_paths == page.file_paths[:40]
        assert read[page.id].related_pages == page.related_pages
    root = ElementTree.fromstring(text)
    assert {e.text for e in root.iter("page_ref")} == read.keys()
    assert {e.text for e in root.iter("parent_section")} <= {e.get("id") for e in root.iter("section")}


def test_files_whose_path_begins_with_a_dot_are_found_by_it():
    surveyed = survey_of({".github/workflows/ci.yml": "on: push\n", "app.py": "x = 1\n"})
    found = files_about(surveyed, "See .github/workflows/ci.yml, or ./app.py.", "", None)
    assert found == (".github/workflows/ci.yml", "app.py")


# ---------------------------------------------------------------- .devin/wiki.json


def test_exactly_the_pages_that_the_repository_asks_for_are_made(sample_repo):
    asked = {
        "repo_notes": [{"content": "Sessions matter most."}],
        "pages": [
            {
                "title": "Signing in",
                "purpose": "How sessions in snip/sessions.py are signed",
                "page_notes": ["n"],
            },
            {"title": "Tokens", "purpose": "How API tokens are checked", "parent": "Signing in"},
        ],
    }
    (sample_repo / ".devin").mkdir()
    (sample_repo / ".devin/wiki.json").write_text(json.dumps(asked))
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(sample_repo))))
    first, second = structure.pages
    assert (first.title, second.title, second.parent) == ("Signing in", "Tokens", first.id)
    assert first.file_paths[0] == "snip/sessions.py" and first.notes == ("n",)
    assert "snip/auth.py" in second.file_paths
    assert structure.notes == ("Sessions matter most.",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"pages": [{"purpose": "x"}]}', "title"),
        ('{"pages": [{"title": "a"}, {"title": "a"}]}', "occurs twice"),
        ('{"pages": [{"title": "a", "parent": "b"}]}', "not a page"),
        ('{"pages": [{"title": "a", "parent": "b"}, {"title": "b", "parent": "a"}]}', "its own ancestor"),
        (json.dumps({"repo_notes": [{"content": "x" * 10_001}]}), "10,000"),
    ],
)
def test_a_steering_file_that_contradicts_itself_says_how(text, said):
    with pytest.raises(WikiSteeringInvalid, match=said):
        parse_steering(text)


def test_what_several_packages_say_of_themselves_describes_none_of_them(tmp_path):
    for name in ("ftp", "zip", "local"):
        folder = tmp_path / "src" / name
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# Part\n\nThis is a part of the whole, for issues see there.\n")
        lines = "".join(f"    public function f{n}() {{}}\n" for n in range(60))
        (folder / f"{name}.php").write_text(f"<?php\nclass {name.title()}Adapter\n{{\n{lines}}}\n")
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    described = [page.description for page in structure.pages if page.kind == "package"]
    assert described
    assert not any("part of the whole" in text for text in described)


def test_a_concept_is_not_described_as_the_project_is(tmp_path):
    text = "kiln is a library that fires pots slowly and evenly."
    (tmp_path / "README.md").write_text(f"# Kiln\n\n{text}\n")
    for name in ("kiln", "glaze"):
        (tmp_path / name / "src").mkdir(parents=True)
        lines = "".join(f"pub fn {name}{n}() {{}}\n" for n in range(60))
        (tmp_path / name / "src" / "lib.rs").write_text(f"//! {text}\n\n{lines}")
        text = "Glazes pots of all kinds."
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    described = [page.description for page in structure.pages if page.kind == "package"]
    assert sorted(text.partition(" ")[0] for text in described) == ["Defines", "Glazes"]


def test_a_command_without_public_names_is_described_by_its_package(tmp_path):
    lines = "".join(f"func fire{n}() {{}}\n" for n in range(3))
    (tmp_path / "main.go").write_text(f"// Package main fires pots.\npackage main\n\n{lines}")
    (tmp_path / "heat.go").write_text(f"package main\n\n{lines.replace('fire', 'heat')}")
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    assert [page.description for page in structure.pages if page.kind == "package"] == [
        "Package main fires pots."
    ]


def test_no_two_pages_have_one_title(tmp_path):
    lines = "".join(f"def f{n}():\n    return {n}\n\n" for n in range(60))
    for path in ("concepts/plan.py", "other/core.py", "tests/test_core.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(lines)
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    titles = [page.title for page in structure.pages]
    assert len(set(titles)) == len(titles)
    assert {"Concepts", "Concepts (concepts)"} <= set(titles)


def test_documentation_that_repeats_the_name_describes_no_concept(tmp_path):
    lines = "".join(f"    fun f{n}() {{}}\n" for n in range(60))
    (tmp_path / "Kiln.kt").write_text(f"/** Kiln */\nclass Kiln {{\n{lines}}}\n")
    (tmp_path / "Oven.kt").write_text(f"/** Bakes slowly. */\nclass Oven {{\n{lines}}}\n")
    structure = wiki_structure(Engine(load_settings()).repository(locate(str(tmp_path))))
    described = [page.description for page in structure.pages if page.kind == "package"]
    assert described
    assert not any("Kiln`: Kiln" in text for text in described)


def test_a_concept_is_described_by_the_files_of_its_title(tmp_path):
    body = "  return a;\n" * 60
    (tmp_path / "src").mkdir()
    for name, calls in (("log", ""), ("disk", "logLine(1);"), ("tape", "logLine(2);"), ("list", "")):
        text = f"/* Works on the {name}. */\nint {name}Line(int a) {{\n  {calls}\n{body}}}\n"
        (tmp_path / "src" / f"{name}.c").write_text(text)
    repository = Engine(load_settings()).repository(locate(str(tmp_path)))
    survey = wiki_structure(repository).survey
    concept = Concept([survey.files[f"src/{name}.c"] for name in ("disk", "log", "tape", "list")])
    described = _concept_description(facts_of(survey), concept, set(), "Tape and list")
    assert described.startswith(("`tapeLine`: Works on the tape", "`listLine`: Works on the list"))


def test_documents_without_code_have_no_page_on_the_public_api():
    files = {"README.md": "# Kiln\n\nAll about kilns.\n", "theme/head.css": "p { margin: 0 }\n"}
    assert "api" not in [page.id for page in structure_of(survey_of(files)).pages]


def test_a_concept_without_public_definitions_counts_all_its_files():
    survey = survey_of({"kiln.sh": "fire\n" * 60, "lib/lock.sh": "lock\n"})
    concept = Concept(list(survey.files.values()))
    assert _concept_description(facts_of(survey), concept, set(), "Kiln") == "2 files, such as `kiln.sh`"
