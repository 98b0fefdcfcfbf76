"""What is not in an index is reported where a user looks."""

from __future__ import annotations

import shutil

import pytest
from command import rag
from conftest import git


@pytest.fixture
def with_submodule(sample_repo):
    inner = sample_repo / "lib" / "inner"
    inner.mkdir(parents=True)
    (inner / "b.py").write_text("def b():\n    pass\n")
    git(inner, "init", "--quiet", "--template=")
    git(inner, "add", "--all")
    git(inner, "commit", "--quiet", "--message", "Begin")
    git(sample_repo, "-c", "advice.addEmbeddedRepo=false", "add", "lib/inner")
    return sample_repo


def test_the_first_question_says_that_submodules_are_not_indexed(with_submodule):
    first = rag("ask", with_submodule, "Where is a short code made?")
    assert "1 submodule is not indexed (lib/inner)" in first.err
    assert "submodule" not in rag("ask", with_submodule, "Where is a short code made?").err
    report = rag("index", with_submodule, "--json").json
    assert report["remarks"] == ["1 submodule is not indexed (lib/inner); index each by its own path"]


def test_not_found_names_the_submodules(with_submodule):
    done = rag("ask", with_submodule, "How does the frobnicator quaffle zyxwv?", "--json")
    assert done.json["found"] is False
    assert any("lib/inner" in note for note in done.json["notes"])


def test_filters_that_make_another_index_are_reported_once(sample_repo):
    assert "index of their own" not in rag("index", sample_repo).err
    assert "index of their own" in rag("index", sample_repo, "--include", "*.py").err
    assert "index of their own" not in rag("index", sample_repo, "--include", "*.py").err


def test_a_gitignore_that_hides_everything_is_named(sample_repo):
    (sample_repo / ".gitignore").write_text("*\n")
    shutil.rmtree(sample_repo / ".git")
    git(sample_repo, "init", "--quiet", "--template=")
    done = rag("index", sample_repo)
    assert done.code == 2
    assert ".gitignore: files that git ignores are not indexed" in done.err
