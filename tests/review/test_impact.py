"""What a change of a repository affects."""

from __future__ import annotations

from collections import Counter

import pytest

from rag.code.graph import RepositoryGraph
from rag.review.changed_symbols import ReviewedTree, changed_files, changed_symbols
from rag.review.impact import Impact
from rag.types import CodeDefinition
from tools.fuzz.targets.changes import TextTree


def test_the_definitions_of_a_name_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = "".join(f"class A{n}:\n    def run(self):\n        return {n}\n\n" for n in range(30))
    gone = "".join(f"class B{n}:\n    def run(self):\n        return 'b{n}'\n\n" for n in range(30))
    base, head = (ReviewedTree(TextTree({"a.py": text})) for text in (kept + gone, kept))
    files = changed_files(base, head)
    impact = Impact(base, head, files, changed_symbols(base, head, files))
    looked_up: Counter[str] = Counter()
    definitions = RepositoryGraph.definitions

    def counted(graph: RepositoryGraph, name: str) -> list[CodeDefinition]:
        looked_up[name] += graph is head.graph
        return definitions(graph, name)

    monkeypatch.setattr(RepositoryGraph, "definitions", counted)
    impact.broken()
    assert looked_up["run"] == 1
