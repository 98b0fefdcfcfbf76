"""Callers in the code graph, judged by a table of call sites that were found by reading.

`tools/questions/graph_sites.tsv` has a definition on each line, with all lines that call it. The definitions
were drawn at random from the text, every line that holds the name was read, and what runs the definition
through an interface counts as a call.
"""

from __future__ import annotations

import csv
import posixpath
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rag.ports import CodeGraph
from rag.service import Engine, locate
from rag.settings import load_settings
from rag.types import CodeDefinition
from tools.benchmarks.bench import QUESTIONS

_LANGUAGES = {".go": "go", ".java": "java", ".rs": "rust"}


class Sites(NamedTuple):
    """A definition of a repository with the (path, line) of all its calls."""

    repository: str
    path: str
    line: int
    name: str
    calls: frozenset[tuple[str, int]]

    @property
    def language(self) -> str:
        """The language of the definition."""
        return _LANGUAGES[posixpath.splitext(self.path)[1]]


def read_sites() -> list[Sites]:
    """Return the definitions of the table, in its order."""
    found = []
    with (QUESTIONS / "graph_sites.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            path, _, line = row["definition"].rpartition(":")
            calls = {
                (place, int(number))
                for place, _, numbers in (site.rpartition(":") for site in row["calls"].split())
                for number in numbers.split(",")
            }
            found.append(Sites(row["repository"], path, int(line), row["name"], frozenset(calls)))
    return found


def rows_of_sites(folder: Callable[[str], Path], wrong: list[str], missed: list[str]) -> list[list[object]]:
    """Return a row for each repository of the table. `wrong` and `missed` get the sites that are so."""
    by_repository: dict[str, list[Sites]] = defaultdict(list)
    for one in read_sites():
        by_repository[one.repository].append(one)
    rows = []
    for name, every in by_repository.items():
        engine = Engine(load_settings({"memory": "memory:"}))
        graph: CodeGraph = engine.repository(locate(str(folder(name)))).store.graph
        truth = certain = right = named = possible = 0
        for one in every:
            target = _definition(graph, one)
            uses = graph.callers([target]) if target else []
            sure = {(use.path, use.line) for use in uses if use.certain}
            unsure = {(use.path, use.line) for use in uses if not use.certain} - sure
            truth, certain, right = truth + len(one.calls), certain + len(sure), right + len(sure & one.calls)
            named, possible = named + len((sure | unsure) & one.calls), possible + len(unsure - one.calls)
            wrong += [
                f"{name}: {p}:{n} as {one.path}:{one.line} {one.name}" for p, n in sorted(sure - one.calls)
            ]
            missed += [
                f"{name}: {p}:{n} of {one.path}:{one.line} {one.name}"
                for p, n in sorted(one.calls - sure - unsure)
            ]
        precision = f"{right / certain:.3f}" if certain else "–"
        label = f"{every[0].language}: {name}"
        recall, per_site = f"{named / truth:.3f}", f"{possible / truth:.2f}"
        rows.append([label, len(every), truth, precision, certain, recall, per_site, "–", 0])
    return rows


def _definition(graph: CodeGraph, one: Sites) -> CodeDefinition | None:
    every = (each for each in graph.defined_in(one.path) if each.name == one.name)
    return next((each for each in every if each.start <= one.line <= each.end), None)
