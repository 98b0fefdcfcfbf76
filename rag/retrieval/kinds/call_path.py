"""Find the shortest chain of calls from one definition to another, through the graph of the code.

Certain calls are followed forward from the beginning. Where they do not lead to the end, the callers of the
end are followed backward, possible ones too: a call through an interface is only possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rag.code.languages import kind_of_path
from rag.ports import CodeGraph
from rag.types import CodeDefinition, CodeUse

_MAX_FOLLOWED = 300
"""How many definitions are read for what they call."""
_MAX_SEARCHED = 12
"""How many definitions are searched for their callers, which takes longer."""
_MAX_CALLERS = 40

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
            for caller, line, certain in self._callers_of(target):
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

    def _callers_of(self, target: CodeDefinition) -> Iterator[tuple[CodeDefinition, int, bool]]:
        is_test = kind_of_path(target.path) == "test"
        uses = self._graph.callers([target]) or self._graph.unresolved([target], "call")
        uses = [use for use in uses if is_test or kind_of_path(use.path) != "test"]
        for use in uses[:_MAX_CALLERS]:
            around = enclosing(self._graph, use.path, use.line)
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
