"""How one definition leads to another: the shortest chain of calls between two names of a question.

Calls are followed from the beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rag.analysis import is_stop_word, words
from rag.ports import ChunkIndex, CodeGraph
from rag.retrieval.kinds.asked import Asked, FactPlace, code_facts, named
from rag.types import CodeDefinition, CodeFacts
from rag.types.question_kinds import TRACE

_MAX_DEFINITIONS = 12
"""A name with more definitions says little about where a chain begins or ends."""
_MAX_WORDS = 40
_MAX_FOLLOWED = 300
"""How many definitions are read for what they call."""
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
            is_named = name in question.names or other in question.names
            if is_named and (chain := _chain(graph, beginnings, ends)):
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


def _chain(
    graph: CodeGraph, beginnings: Sequence[CodeDefinition], ends: Sequence[CodeDefinition]
) -> list[Step]:
    """Return the shortest chain of calls between some definitions, none without one."""
    wanted = set(map(_key, ends))
    found: dict[_Key, tuple[Step, _Key | None]] = {_key(one): (Step(one), None) for one in beginnings}
    waiting = deque(beginnings)
    while waiting and len(found) < _MAX_FOLLOWED:
        caller = waiting.popleft()
        for use, target in graph.callees(caller):
            if _key(target) not in found:
                found[_key(target)] = Step(target, use.line, use.certain), _key(caller)
                waiting.append(target)
                if _key(target) in wanted:
                    return _way(found, _key(target))
    return []


def _way(found: Mapping[_Key, tuple[Step, _Key | None]], key: _Key | None) -> list[Step]:
    """Return the steps that lead to what was reached, the beginning first."""
    steps = list[Step]()
    while key is not None:
        step, key = found[key]
        steps.insert(0, step)
    return steps
