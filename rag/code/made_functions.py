"""Calls of functions that another function made: `runner = generator(step)`, and elsewhere `runner(…)`.

They have no definition of their own, so that the graph has no such calls. A reader knows them by their name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rag.code.file_graph import CALL
from rag.code.graph import RepositoryGraph
from rag.code.survey import Survey
from rag.code.symbols import Symbol

_MAX_DEPTH = 4


def made_functions(survey: Survey, own: Iterable[str]) -> Mapping[Symbol, Sequence[str]]:
    """Return the names of the made functions that each definition calls, by line."""
    found: dict[Symbol, dict[str, None]] = defaultdict(dict)
    inside = frozenset(own)
    for path in sorted(inside):
        file = survey.graph.files.file(path)
        callers = {
            line: symbol for symbol in survey.symbols(path) for line in range(symbol.start, symbol.end + 1)
        }
        plain = [use for use in file.references if use.role == CALL and not use.receiver]
        made = {name for name in {use.name for use in plain} if _is_made(survey.graph, path, name, inside)}
        for use in plain:
            caller = callers.get(use.line)
            if use.name in made and caller is not None and not survey.graph.names.resolve(file, use):
                found[caller][use.name] = None
    return {caller: tuple(names) for caller, names in found.items()}


def _is_made(graph: RepositoryGraph, path: str, name: str, own: frozenset[str]) -> bool:
    """Return whether a name at the top of a file is what a function of own code returned."""
    places = [(path, name)]
    for _, binding in graph.files.bound(graph.files.file(path)).get(name, ()):
        if binding is not None and binding.target in own:
            places.append((binding.target, binding.name))
    for target, wanted in places:
        file = graph.files.file(target)
        values = file.variables.get((-1, wanted), ())
        if len(values) == 1 and values[0].endswith("()"):
            maker = graph.names.evaluate(file, values[0].removesuffix("()"), -1, _MAX_DEPTH)
            if [value.kind for value in maker] == ["def"] and maker[0].path in own:
                return graph.files.file(maker[0].path).graph.definitions[maker[0].number].unit == "f"
    return False
