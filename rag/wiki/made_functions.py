"""Calls of functions that another function made: `runner = generator(step)`, and elsewhere `runner(…)`.

They have no definition of their own, so that the graph has no such calls. A reader knows them by their name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rag.code.graph import RepositoryGraph
from rag.code.references import CALL
from rag.code.survey import Survey
from rag.code.symbols import Symbol


def made_functions(survey: Survey, own: Iterable[str]) -> Mapping[Symbol, Sequence[str]]:
    """Return the names of the made functions that each definition calls, by line."""
    found: dict[Symbol, dict[str, None]] = defaultdict(dict)
    inside = frozenset(own)
    for path in sorted(inside):
        file = survey.graph.file(path)
        callers = {
            line: symbol for symbol in survey.symbols(path) for line in range(symbol.start, symbol.end + 1)
        }
        for use in file.references:
            caller = callers.get(use.line)
            if use.role == CALL and not use.receiver and caller is not None and use.name not in found[caller]:
                is_made = not survey.graph.resolve(file, use) and _is_made(survey, path, use.name, inside)
                if is_made:
                    found[caller][use.name] = None
    return {caller: tuple(names) for caller, names in found.items() if names}


def _is_made(survey: Survey, path: str, name: str, own: frozenset[str]) -> bool:
    """Return whether a name at the top of a file is what a function of own code returned."""
    graph: RepositoryGraph = survey.graph
    places = [(path, name)]
    for _, binding in graph.bound(graph.file(path)).get(name, ()):
        if binding is not None and binding.target in own:
            places.append((binding.target, binding.name))
    for target, wanted in places:
        file = graph.file(target)
        values = file.variables.get((-1, wanted), ())
        if len(values) == 1 and values[0].endswith("()"):
            maker = graph.evaluate(file, values[0].removesuffix("()"), -1, 4)
            if [value.kind for value in maker] == ["def"] and maker[0].path in own:
                unit = graph.file(maker[0].path).graph.definitions[maker[0].number].unit
                return unit == "f"
    return False
