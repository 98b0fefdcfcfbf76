"""How one definition leads to another: the shortest chain of calls between two names of a question.

Certain calls are followed forward from the beginning. Where they do not lead to the end, the callers of the
end are followed backward, possible ones too: a call through an interface is only possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rag.analysis import is_stop_word, words
from rag.code.languages import kind_of_path
from rag.ports import ChunkIndex, CodeGraph
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.types import CodeDefinition, CodeFacts
from rag.types.question_kinds import TRACE

_MAX_DEFINITIONS = 12
"""A name with more definitions says little about where a chain begins or ends."""
_MAX_WORDS = 40
_MAX_FOLLOWED = 300
"""How many definitions are read for what they call."""
_MAX_SEARCHED = 12
"""How many definitions are searched for their callers, which takes longer."""
_MAX_CALLERS = 40
_Key = tuple[str, int]


class Step(NamedTuple):
    """A definition of a chain, the line that calls it, and whether that is certain."""

    target: CodeDefinition
    line: int = 0
    certain: bool = True


def find(asked: Asked) -> CodeFacts | None:
    """Return the steps between two names of the question; None if it has fewer, or there is no chain."""
    index = asked.best[0].index
    steps = _steps(asked, index)
    places, caller = list[FactPlace](), ""
    for step in steps:
        file = asked.file(index, step.target.path)
        if file is not None and step.target.end <= len(file.lines):
            reason = f"called by {caller} in line {step.line}" if caller else "begins here"
            places.append(FactPlace(file, step.target.start, reason, step.target.end, certain=step.certain))
        caller = step.target.name
    if len(places) < 2:
        return None
    first, last = (step.target.qualified_name for step in (steps[0], steps[-1]))
    summary = f"From {named(first)} to {named(last)} in {len(steps)} steps"
    return code_facts(asked, TRACE, first, summary, places, note="There may be longer chains of calls")


def _steps(asked: Asked, index: ChunkIndex) -> list[Step]:
    """Return the shortest chain between two names, of which one is written as code."""
    question, graph = asked.question.question, index.graph
    names = _in_order(question.text, question.names) if question.names else []
    defined = [(name, found) for name in names if (found := _defined(graph, name))]
    for number, (name, beginnings) in enumerate(defined):
        for other, ends in defined[number + 1 :]:
            if name in question.names or other in question.names:
                chain = _forward(graph, beginnings, ends) or _backward(graph, beginnings, ends)
                if chain:
                    return chain
    return []


def _in_order(text: str, names: Sequence[str]) -> list[str]:
    """Return the names of a text and its other words that may be names, in their order."""
    plain = [word for word in words(text)[:_MAX_WORDS] if not is_stop_word(word)]
    every = dict.fromkeys((*names, *plain))
    return sorted(every, key=lambda name: (text.find(name), -len(name)))


def _defined(graph: CodeGraph, name: str) -> list[CodeDefinition]:
    """Return the functions and classes of a name; none if these are many."""
    found = [one for one in graph.definitions(name) if one.unit != "section"]
    return found if len(found) <= _MAX_DEFINITIONS else []


def _key(one: CodeDefinition) -> _Key:
    return one.path, one.start


def _reached(
    graph: CodeGraph, beginnings: Sequence[CodeDefinition], ends: frozenset[_Key] = frozenset()
) -> tuple[dict[_Key, tuple[Step, _Key | None]], _Key | None]:
    """Return what some definitions call, directly or not, each with its caller; and the first end reached."""
    found: dict[_Key, tuple[Step, _Key | None]] = {_key(one): (Step(one), None) for one in beginnings}
    waiting = list(beginnings)
    while waiting and len(found) < _MAX_FOLLOWED:
        caller = waiting.pop(0)
        for use, target in graph.callees(caller):
            if _key(target) not in found:
                found[_key(target)] = Step(target, use.line, use.certain), _key(caller)
                waiting.append(target)
                if _key(target) in ends:
                    return found, _key(target)
    return found, None


def _way(found: Mapping[_Key, tuple[Step, _Key | None]], key: _Key | None) -> list[Step]:
    """Return the steps that lead to what was reached, the beginning first."""
    steps = list[Step]()
    while key is not None:
        step, key = found[key]
        steps.insert(0, step)
    return steps


def _forward(
    graph: CodeGraph, beginnings: Sequence[CodeDefinition], ends: Sequence[CodeDefinition]
) -> list[Step]:
    return _way(*_reached(graph, beginnings, frozenset(map(_key, ends))))


def _backward(
    graph: CodeGraph, beginnings: Sequence[CodeDefinition], ends: Sequence[CodeDefinition]
) -> list[Step]:
    """Return the same where the last calls may be possible ones."""
    found, _ = _reached(graph, beginnings)
    after: dict[_Key, Step | None] = {_key(end): None for end in ends}
    waiting = list(ends)
    for _ in range(_MAX_SEARCHED):
        if not waiting:
            break
        target = waiting.pop(0)
        for caller, line, certain in _callers_of(graph, target):
            key = _key(caller)
            if key not in after:
                after[key] = Step(target, line, certain)
                waiting.append(caller)
                if key in found:
                    return [*_way(found, key), *_rest(key, after)]
    return []


def _callers_of(graph: CodeGraph, target: CodeDefinition) -> Iterator[tuple[CodeDefinition, int, bool]]:
    is_test = kind_of_path(target.path) == "test"
    uses = graph.callers([target]) or graph.unresolved([target], "call")
    uses = [use for use in uses if is_test or kind_of_path(use.path) != "test"]
    for use in uses[:_MAX_CALLERS]:
        within = [one for one in graph.defined_in(use.path) if one.start <= use.line <= one.end]
        around = next((one for one in reversed(within) if one.unit == "function"), None)
        if around is not None and _key(around) != _key(target):
            yield around, use.line, use.certain


def _rest(key: _Key, after: Mapping[_Key, Step | None]) -> Iterator[Step]:
    """Yield the steps after a definition, up to the end."""
    while (step := after[key]) is not None:
        yield step
        key = _key(step.target)
