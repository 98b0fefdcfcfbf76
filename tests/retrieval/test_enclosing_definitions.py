"""A line is named by a definition that contains it, whatever chunk it is in and however it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.retrieval.exact import find_text
from rag.retrieval.shown_definition import definition_at, label_at
from rag.retrieval.uses import uses_by_text, uses_of_name
from rag.service import Engine, Repository
from rag.service.tools.explore import explore
from rag.service.tools.search import SearchQuery, search_repositories

FILES = {
    "pot.py": "import os\n\n\ndef heat(pot):\n    return pot\n\n\nheat(1)\n\n\nclass Pot:\n    depth = heat(2)\n\n"  # noqa: E501
    "    def warm(self):\n        return heat(self)\n\n    wide = heat(3)\n\n\nheat(4)\n",
    "pot.rb": "module Pots\n  def self.heat(pot)\n    pot\n  end\n\n  heat(1)\n\n  class Pot\n    heat 2\n\n"
    "    def warm\n      heat(self)\n    end\n\n    private :warm\n  end\nend\n\nheat(4)\n",
    "pot.go": 'package pots\n\nimport "fmt"\n\nfunc Heat(pot int) int {\n\treturn pot\n}\n\nvar warm = Heat(1)\n'  # noqa: E501
    "\ntype Pot struct {\n\tdepth int\n}\n\nfunc (p Pot) Warm() int {\n\treturn Heat(p.depth)\n}\n"
    "\nvar _ = Heat(2)\n",
    "pot.ts": "export function heat(pot: number) { return pot; }\n\nheat(1);\n\nexport class Pot {\n"
    "  depth = heat(2);\n  warm() { return heat(this.depth); }\n  wide = heat(3);\n}\n\nheat(4);\n",
    "pot.c": "#include <stdio.h>\n\nint heat(int pot) { return pot; }\n\n#define WARM heat(1)\n\nstatic int deep;\n"  # noqa: E501
    "\nint warm(int pot)\n{\n    return heat(pot);\n}\n\nint wide = heat(2);\n",
}


@pytest.fixture
def pots(engine: Engine, tmp_path: Path) -> Repository:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return engine.repository(str(tmp_path))


def may_be_in(repository: Repository, path: str, line: int, name: str) -> bool:
    """Return whether a name is that of a definition around a line; a value need not be named."""
    around = {
        one.qualified_name for one in repository.store.graph.defined_in(path) if one.start <= line <= one.end
    }
    return name in names_at(repository, path, line) or name in (around or {""})


def names_at(repository: Repository, path: str, line: int) -> set[str]:
    """Return the qualified names that a line may have."""
    graph = repository.store.graph
    every = [*graph.defined_in(path), *graph.values_in(path)]
    return {one.qualified_name for one in every if one.start <= line <= one.end} or {""}


@pytest.mark.parametrize("path", FILES)
def test_the_definition_of_every_line_contains_it(pots: Repository, path: str) -> None:
    for line, _ in enumerate(FILES[path].splitlines(), 1):
        found = definition_at(pots.store, path, line)
        assert label_at(pots.store, path, line) in names_at(pots, path, line), line
        assert found is None or found.start <= line <= found.end


@pytest.mark.parametrize("path", FILES)
def test_each_line_is_found_with_a_definition_that_contains_it(pots: Repository, path: str) -> None:
    for line in dict.fromkeys(filter(str.strip, FILES[path].splitlines())):
        for hit in find_text([pots.store], line, k=100).hits:
            assert hit.label in names_at(pots, hit.path, hit.start), f"{hit.path}:{hit.start}"


@pytest.mark.parametrize("name", ["heat", "Heat", "Pots.heat", "Pot", "warm"])
def test_uses_are_in_definitions_that_contain_them(pots: Repository, name: str) -> None:
    found = [*uses_of_name(pots.store, name).shown, *uses_by_text(pots.store, name, lambda hit: True)]
    for use in found:
        assert may_be_in(pots, use.path, use.line, use.within), use
    asked = search_repositories([pots], SearchQuery(f"Who calls `{name}`?")).retrieval
    assert asked is not None
    for fact in asked.code_facts.items if asked.code_facts else ():
        assert fact.label in names_at(pots, fact.path, fact.start), fact


def test_explored_lines_are_in_definitions_that_contain_them(pots: Repository, engine: Engine) -> None:
    for question in ("heat", "Where is a pot heated?", "How is the depth of a pot warm?"):
        found = explore(pots, question, counter=engine.counter, budget_tokens=2_000)
        for place in found.places:
            for line, _ in place.lines:
                label = place.label.removesuffix("(possibly)").strip()
                assert may_be_in(pots, place.path, line, label), (place, line)
