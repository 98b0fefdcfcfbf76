"""Find the shortest chain of calls from one definition to another, through the graph of the code.

Certain calls are followed forward from the beginning. Where they do not lead to the end, the callers of the
end are followed backward, possible ones too: a call through an interface is only possible. Data may also get
from one place to another through a function that calls both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from rag.code.languages import kind_of_path
from rag.ports import CodeGraph
from rag.types import CodeDefinition, CodeUse

_MAX_FOLLOWED = 300
"""How many definitions are read for what they call."""
_MAX_SEARCHED = 12
"""How many definitions are searched for their callers, which takes longer."""
_MAX_CALLERS = 40
_MAX_JOINING, _READ_FROM_JOINING = 8, 60
"""How many callers are considered as what calls both ends, and how many definitions are read from each."""

_Key = tuple[str, int]
Calls = dict[_Key, list[tuple[CodeUse, CodeDefinition]]]
"""What definitions call."""


@dataclass(slots=True)
class Step:
    """A definition of a chain, the line that calls it, whether that is certain, and what it calls."""

    target: CodeDefinition
    line: int = 0
    certain: bool = True
    calls: list[Step] = field(default_factory=list)


class Chain(NamedTuple):
    """The first step of a chain of calls, and where it begins and ends: None for its last step."""

    root: Step
    begin: CodeDefinition
    end: Step | None

    @classmethod
    def of(cls, path: Sequence[Step]) -> Chain:
        """Return a path, of which each step calls the next, as a chain."""
        return cls(linked(path), path[0].target, path[-1])


def linked(path: Sequence[Step]) -> Step:
    """Return the first step of a path, each with the next as what it calls."""
    for caller, called in pairwise(path):
        caller.calls.append(called)
    return path[0]


def key_of(one: CodeDefinition) -> _Key:
    """Return what distinguishes a definition from others."""
    return one.path, one.start


class CallPaths:
    """The chains of calls that begin at some definitions; what is called is kept in `known`, if given."""

    def __init__(
        self,
        graph: CodeGraph,
        beginnings: Sequence[CodeDefinition],
        limit: int = _MAX_FOLLOWED,
        known: Calls | None = None,
    ) -> None:
        self._graph = graph
        calls = {} if known is None else known
        self._steps: dict[_Key, Step] = {}
        self._callers: dict[_Key, _Key] = {}
        waiting = [Step(one) for one in beginnings]
        self._steps.update((key_of(step.target), step) for step in waiting)
        while waiting and len(self._steps) < limit:
            caller = waiting.pop(0)
            if key_of(caller.target) not in calls:
                calls[key_of(caller.target)] = graph.callees(caller.target)
            for use, target in calls[key_of(caller.target)]:
                key = key_of(target)
                if key not in self._steps:
                    self._steps[key] = Step(target, use.line, use.certain)
                    self._callers[key] = key_of(caller.target)
                    waiting.append(self._steps[key])

    def to(self, ends: Sequence[CodeDefinition]) -> list[Step]:
        """Return the steps of the shortest chain that leads to one of some definitions, the beginning first;
        none if there is no chain of at least one call.
        """
        chains = (self._forward(key_of(end)) for end in ends if key_of(end) in self._callers)
        return min(chains, key=len, default=[])

    def back_from(self, ends: Sequence[CodeDefinition]) -> list[Step]:
        """Return the same where the last calls may be possible ones."""
        after: dict[_Key, Step | None] = {key_of(end): None for end in ends}
        waiting = list(ends)
        searched = 0
        while waiting and searched < _MAX_SEARCHED:
            target = waiting.pop(0)
            searched += 1
            for caller, line, certain in _callers_of(self._graph, target):
                key = key_of(caller)
                if key in after:
                    continue
                after[key] = Step(target, line, certain)
                if key in self._steps:
                    return [*self._forward(key), *_rest(key, after)]
                waiting.append(caller)
        return []

    def _forward(self, key: _Key) -> list[Step]:
        steps = [self._steps[key]]
        while key in self._callers:
            key = self._callers[key]
            steps.insert(0, self._steps[key])
        return [Step(step.target, step.line, step.certain) for step in steps]


def joined_by_caller(
    graph: CodeGraph, begin: CodeDefinition, ends: Sequence[CodeDefinition], known: Calls
) -> Chain | None:
    """Return the nearest caller of one definition that calls one of others later, with the calls that lead to
    both; None if there is none.
    """
    below: dict[_Key, list[Step]] = {key_of(begin): []}
    waiting = [begin]
    while waiting and len(below) <= _MAX_JOINING:
        target = waiting.pop(0)
        for caller, line, certain in _callers_of(graph, target):
            if key_of(caller) in below or len(below) > _MAX_JOINING:
                continue
            down = [Step(target, line, certain), *below[key_of(target)]]
            path = CallPaths(graph, [caller], _READ_FROM_JOINING, known).to(ends)
            if path and path[1].line > line:
                return Chain(Step(caller, calls=[linked(down), linked(path[1:])]), begin, path[-1])
            below[key_of(caller)] = down
            waiting.append(caller)
    return None


def _callers_of(graph: CodeGraph, target: CodeDefinition) -> Iterator[tuple[CodeDefinition, int, bool]]:
    is_test = kind_of_path(target.path) == "test"
    uses = graph.callers([target]) or graph.unresolved([target], "call")
    uses = [use for use in uses if is_test or kind_of_path(use.path) != "test"]
    for use in uses[:_MAX_CALLERS]:
        around = enclosing(graph, use.path, use.line)
        if around is not None and key_of(around) != key_of(target):
            yield around, use.line, use.certain


def enclosing(graph: CodeGraph, path: str, line: int) -> CodeDefinition | None:
    """Return the innermost function that has a line; None outside of functions."""
    within = [one for one in graph.defined_in(path) if one.start <= line <= one.end]
    return next((one for one in reversed(within) if one.unit == "function"), None)


def _rest(key: _Key, after: Mapping[_Key, Step | None]) -> Iterator[Step]:
    """Yield the steps after a definition, up to the end."""
    while (step := after[key]) is not None:
        yield step
        key = key_of(step.target)
