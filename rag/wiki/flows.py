"""How a request, a command or a job runs: the calls that follow from an entry point.

A flow begins at a declared entry point (a console script, a main function), or at an exported definition
that the repository itself never calls and that leads to much of it: a framework calls these. From there it
follows certain calls only. Of all calls those are shown that lead furthest; helpers that everything calls
come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag.code.survey import Call, Survey
from rag.code.symbols import Symbol
from rag.wiki.call_graph import CallGraph
from rag.wiki.entry_points import EntryPoint, entry_points

MAX_NODES = 12
_MAX_FLOWS = 4
_MIN_NODES = 5
_MIN_NEW = 0.5
"""The share of a flow's definitions that no flow before it has."""
_MAX_CANDIDATES = 400
_DEPTH_COST = 0.45
_SERVES = re.compile(
    r"process|handle|dispatch|serve|request|query|accept|execute|cron|loop|perform|parse|compile|render|build|run"
    r"|start",
    re.IGNORECASE,
)
_PROTOCOL = frozenset(
    "__call__ ServeHTTP handle dispatch run main execute process_request handle_request call acall invoke"
    " processCommand".split()
)
"""Names by which frameworks call code."""


@dataclass(frozen=True, slots=True)
class CallFlow:
    """The calls from `root`. `steps` are in the order of the calls, outer before inner, each with its depth.

    `left_out` counts the other certain calls in the definitions that are shown.
    """

    root: Symbol
    begins: str
    steps: tuple[tuple[int, Call], ...]
    left_out: int

    @property
    def nodes(self) -> list[Symbol]:
        """The definitions of the flow, in order."""
        return list(dict.fromkeys([self.root, *(call.callee for _, call in self.steps)]))


def flows(survey: Survey, graph: CallGraph) -> list[CallFlow]:
    """Return the flows of a repository, declared entry points first. [] if no calls are certain."""
    found: list[CallFlow] = []
    covered: set[Symbol] = set()
    for root, begins in _roots(survey, graph):
        flow = flow_from(graph, root, begins)
        nodes = set(flow.nodes)
        if len(nodes) >= _MIN_NODES and len(nodes - covered) >= _MIN_NEW * len(nodes):
            found.append(flow)
            covered |= nodes
        if len(found) == _MAX_FLOWS:
            break
    return found


def flow_from(graph: CallGraph, root: Symbol, begins: str, max_nodes: int = MAX_NODES) -> CallFlow:
    """Return the flow of at most `max_nodes` definitions from a root."""
    shown, depths = {root: None}, {root: 0}
    chosen: dict[Symbol, list[Call]] = {}
    pending = {call.callee: (call, root) for call in graph.called_by(root)}
    while pending and len(shown) < max_nodes:
        best = max(
            pending, key=lambda s: (graph.worth(s) - _DEPTH_COST * depths[pending[s][1]], s.path, -s.start)
        )
        call, caller = pending.pop(best)
        shown[best] = None
        depths[best] = depths[caller] + 1
        chosen.setdefault(caller, []).append(call)
        for following in graph.called_by(best):
            if following.callee not in shown:
                pending.setdefault(following.callee, (following, best))
    total = sum(len(graph.called_by(symbol)) for symbol in shown)
    steps = tuple(_in_order(root, chosen, 1))
    return CallFlow(root, begins, steps, total - len(steps))


def _in_order(caller: Symbol, chosen: dict[Symbol, list[Call]], depth: int) -> Iterator[tuple[int, Call]]:
    for call in sorted(chosen.get(caller, ()), key=lambda call: call.line):
        yield depth, call
        yield from _in_order(call.callee, chosen, depth + 1)


def _roots(survey: Survey, graph: CallGraph) -> Iterator[tuple[Symbol, str]]:
    """Yield where flows may begin, the most useful first, each with the reason in words."""
    seen: set[Symbol] = set()
    declared = [
        (symbol, point)
        for point in entry_points(survey)
        if point.path in graph.own or point.leads_to
        for symbol in definitions_of(survey, graph, point)
    ]
    declared.sort(key=lambda pair: -graph.reach(pair[0]))
    for symbol, point in declared[:3]:
        if symbol not in seen:
            seen.add(symbol)
            yield symbol, f"{point.what} {point.name}" if point.what != "main function" else "main function"
    uncalled = [
        symbol
        for path in sorted(graph.own)
        for symbol in survey.symbols(path)
        if symbol.unit == "function"
        and symbol not in graph.is_called
        and (symbol.public or symbol.name in _PROTOCOL)
    ]
    uncalled.sort(key=lambda symbol: (-_as_root(graph, symbol), symbol.path, symbol.start))
    for symbol in uncalled[:_MAX_CANDIDATES]:
        if symbol not in seen:
            yield symbol, "called from outside of the repository"


def _as_root(graph: CallGraph, symbol: Symbol) -> float:
    shown = len(graph.shown_in.get(symbol, ()))
    named = 40 if symbol.name in _PROTOCOL else 20 if _SERVES.search(symbol.name) else 0
    return graph.reach(symbol) + 4 * min(shown, 8) + named


def definitions_of(survey: Survey, graph: CallGraph, point: EntryPoint) -> list[Symbol]:
    """Return the definition that an entry point runs; [] if it is not found in own code."""
    if point.what in ("main function",):
        return [symbol for symbol in survey.symbols(point.path) if symbol.start == point.start][:1]
    module, _, name = point.leads_to.partition(":")
    if not name or not re.fullmatch(r"[\w.]+", module):
        return []
    tail = module.replace(".", "/")
    for path in sorted(graph.own, key=len):
        if path.endswith((f"{tail}.py", f"{tail}/__init__.py")):
            found = [s for s in survey.symbols(path) if s.qualified_name == name]
            if found:
                return found[:1]
            brought = [b for _, b in survey.imports.get(path, ()) if b.here == name]
            return [s for b in brought for s in _symbols_of(survey, b.target) if s.name == b.name][:1]
    return []


def _symbols_of(survey: Survey, path: str) -> Sequence[Symbol]:
    return survey.symbols(path) if path in survey.files else ()
