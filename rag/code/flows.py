"""How a request, a command or a job runs: the calls that follow from an entry point.

A flow begins at a declared entry point (a console script, a main function), or at a definition that the
repository itself never calls and that leads to much of it: users and frameworks call these, those first that
are exported and that documents, tests and examples show. From there it follows certain calls, functions that
are handed on to be called later (handlers, callbacks, threads), and a few calls that are possible: through
interfaces and base classes. Of all calls those are shown
that lead furthest; helpers that everything calls come last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rag.code.call_graph import CallGraph
from rag.code.entry_points import EntryPoint, entry_points
from rag.code.survey import Call, Survey
from rag.code.symbols import Symbol

MAX_NODES = 12
_MAX_FLOWS, _MAX_DECLARED = 5, 3
_MIN_NODES = 5
_MIN_NEW = 0.5
"""The share of a flow's definitions that no flow before it has."""
_MAX_CANDIDATES = 400
_DEPTH_COST, _HANDED_COST, _POSSIBLE_COST = 0.45, 1.5, 1.0
_MAX_REACH, _DECLARED, _CALLBACK, _SHOWN = 60, 100, 30, 3
"""How many definitions count; what a declaration, a callback and each showing are worth, in definitions."""
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

    `handed_on` are the steps that are no calls: the caller passes or stores the function, and something else
    calls it. `possible` are those of which it is decided at run time whether they are called: what implements
    an interface or overrides a method. `left_out` counts the other certain calls in
    the definitions that are shown.
    """

    root: Symbol
    begins: str
    steps: tuple[tuple[int, Call], ...]
    left_out: int
    handed_on: frozenset[Call] = frozenset()
    possible: frozenset[Call] = frozenset()

    @property
    def nodes(self) -> list[Symbol]:
        """The definitions of the flow, in order."""
        return list(dict.fromkeys([self.root, *(call.callee for _, call in self.steps)]))


def flows(survey: Survey, graph: CallGraph, shown: Callable[[Symbol], float]) -> list[CallFlow]:
    """Return the flows of a repository, those that a reader looks for first. [] if no calls are certain.

    `shown` is how much documents, tests and examples show a definition, from 0 on.
    """
    found: list[CallFlow] = []
    covered: set[Symbol] = set()
    for root, begins in _roots(survey, graph, shown):
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
    possible: set[Call] = set()

    def following(symbol: Symbol) -> Sequence[Call]:
        may_run = graph.may_run(symbol)
        possible.update(may_run)
        return (*graph.leads_to(symbol), *may_run)

    pending = {call.callee: (call, root) for call in following(root)}

    def cost(call: Call, caller: Symbol) -> float:
        if call in possible:
            return _DEPTH_COST * depths[caller] + _POSSIBLE_COST
        return _DEPTH_COST * depths[caller] + _HANDED_COST * (call not in graph.called_by(caller))

    while pending and len(shown) < max_nodes:
        best = max(pending, key=lambda s: (graph.worth(s) - cost(*pending[s]), s.path, -s.start))
        call, caller = pending.pop(best)
        shown[best] = None
        depths[best] = depths[caller] + 1
        chosen.setdefault(caller, []).append(call)
        for one in following(best):
            if one.callee not in shown:
                pending.setdefault(one.callee, (one, best))
    steps = tuple(_in_order(root, chosen, 1))
    handed = {use for symbol in shown for use in graph.leads_to(symbol)} - {
        call for symbol in shown for call in graph.called_by(symbol)
    }
    certain = sum(call not in possible for _, call in steps)
    left_out = sum(len(graph.leads_to(symbol)) for symbol in shown) - certain
    return CallFlow(root, begins, steps, left_out, frozenset(handed), frozenset(possible))


def _in_order(caller: Symbol, chosen: dict[Symbol, list[Call]], depth: int) -> Iterator[tuple[int, Call]]:
    for call in sorted(chosen.get(caller, ()), key=lambda call: call.line):
        yield depth, call
        yield from _in_order(call.callee, chosen, depth + 1)


def _roots(
    survey: Survey, graph: CallGraph, shown: Callable[[Symbol], float]
) -> Iterator[tuple[Symbol, str]]:
    """Yield where flows may begin, the most useful first, each with the reason in words."""
    found: dict[Symbol, str] = {}
    declared = [
        (symbol, point)
        for point in entry_points(survey)
        if point.path in graph.own or point.leads_to
        for symbol in definitions_of(survey, graph, point)
    ]
    declared.sort(key=lambda pair: -graph.reach(pair[0]))
    for symbol, point in declared[:_MAX_DECLARED]:
        called = f"{point.what} {point.name}" if point.what != "main function" else "main function"
        found.setdefault(symbol, called)
    uncalled = [
        symbol
        for path in sorted(graph.own)
        for symbol in survey.symbols(path)
        if symbol.unit == "function"
        and symbol not in graph.is_called
        and (symbol.public or symbol.name in _PROTOCOL or symbol in graph.callbacks)
    ]

    certain = frozenset(found)

    def as_root(symbol: Symbol) -> float:
        reach = min(graph.reach(symbol), _MAX_REACH)
        if symbol in certain:
            return reach + _DECLARED
        named = 40 if symbol.name in _PROTOCOL else 20 if _SERVES.search(symbol.name) else 0
        return reach + named + _SHOWN * shown(symbol) + _CALLBACK * (symbol in graph.callbacks)

    uncalled.sort(key=lambda symbol: (-as_root(symbol), symbol.path, symbol.start))
    for symbol in uncalled[:_MAX_CANDIDATES]:
        is_callback = symbol in graph.callbacks
        found.setdefault(symbol, "a callback" if is_callback else "no certain call in the code leads to it")
    yield from sorted(
        found.items(),
        key=lambda item: (-as_root(item[0]), -graph.reach(item[0]), item[0].path, item[0].start),
    )


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
