"""A grammar that is not installed is named before anything is indexed."""

from __future__ import annotations

from contextlib import closing

import pytest

from rag.code import grammars
from rag.errors import BackendMissing
from rag.service import Engine
from rag.settings import Settings


def test_an_index_without_a_grammar_names_its_package(tmp_path, monkeypatch):
    """An installation from before the language was added, over which `git pull` was run."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("limit = 1\n")
    (project / "b.txt").write_text("A text.\n")
    monkeypatch.setitem(grammars._MODULES, "python", "nowhere.language")
    with (
        closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine,
        pytest.raises(BackendMissing, match="needs tree-sitter-nowhere, which is not installed"),
    ):
        engine.repository(str(project))
    monkeypatch.undo()
    with closing(Engine(Settings(home=tmp_path / "home", memory="memory:"))) as engine:
        assert engine.repository(str(project)).searcher.index.total_files == 2


def test_languages_without_a_grammar_need_none():
    grammars.require_grammars(["text", "python", "unheard of"])
