"""Follow what happens from one place to another: a chain of calls through the graph of the code.

Where a question names two definitions, the shortest chain of calls between them is the answer. Where it
describes them, the chain leads from the hit that has most of one description to that of the other. Without
such a chain it begins at one of the best hits: the ranking counts, and how much of what the hit calls was
found as well. The calls that fit the question best are followed, and shown in the order in which they are
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from rag.analysis import term_set, terms
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, FactPlace, Ranked, code_facts, named
from rag.retrieval.kinds.call_path import Chain, Step, key_of
from rag.retrieval.kinds.recognition import asks_only_for_way
from rag.retrieval.kinds.trace_ends import described_chain, named_chain
from rag.retrieval.lexical import Rarity
from rag.types import CodeDefinition, CodeFacts, Hit
from rag.types.question_kinds import TRACE

_BEGINNINGS = 6
"""How many of the best definitions the chain may begin at."""
_MAX_STEPS = 8
_CALLED, _COUNTED = 0.3, 3
"""The weight of the calls of a beginning, of which the best ones count; that of its own rank is 1."""
_NAMED = 0.5
"""The weight of the words of the question in the name of a definition that is no hit."""
_FITS = 0.25
"""A step fits at least this well; the best hit has 1."""
_ONLY_FITTING = "Only calls that fit the question are followed"


@dataclass(frozen=True, slots=True)
class _Graph:
    """The definitions of one store, and how well each fits the question: 1 for the best hit."""

    index: ChunkIndex
    ranked: Mapping[tuple[str, str, str], float]
    by_name: Mapping[str, float]
    wanted: Mapping[str, float]

    @classmethod
    def of(cls, asked: Asked, ranked: Sequence[Ranked]) -> _Graph:
        rarity = Rarity(asked.indexes)
        weights = {term: max(rarity(term), 0.1) for term in asked.question.question.terms}
        total = sum(weights.values()) or 1.0
        fits: dict[tuple[str, str, str], float] = {}
        by_name: dict[str, float] = {}
        for hit in (one.hit for one in ranked):
            fit = hit.score / max(ranked[0].hit.score, 1e-9)
            key = hit.path, hit.scope, hit.symbol
            fits[key] = max(fits.get(key, 0.0), fit)
            by_name[hit.symbol] = max(by_name.get(hit.symbol, 0.0), fit)
        wanted = {term: _NAMED * weight / total for term, weight in weights.items()}
        return cls(ranked[0].index, fits, by_name, wanted)

    def fit(self, one: CodeDefinition) -> float:
        """Return how well a definition fits."""
        return max(self.ranked.get((one.path, one.scope, one.name), 0.0), self._by_words(one.name))

    def may_fit(self, name: str) -> bool:
        """Return whether a definition of a name may fit well enough for a step."""
        return max(self.by_name.get(name, 0.0), self._by_words(name)) >= _FITS

    def _by_words(self, name: str) -> float:
        return fsum(self.wanted.get(term, 0.0) for term in set(terms(name)))

    def calls(self, caller: CodeDefinition) -> list[Step]:
        """Return the calls of definitions that fit, each definition once, in the order of their lines."""
        found: dict[tuple[str, int], Step] = {}
        for use, target in self.index.graph.callees(caller, self.may_fit):
            if (target.path, target.start) != (caller.path, caller.start) and self.fit(target) >= _FITS:
                found.setdefault((target.path, target.start), Step(target, use.line, use.certain))
        return list(found.values())


def find(asked: Asked) -> CodeFacts | None:
    """Return the steps in their order; None if none of the best hits calls a definition that fits."""
    index = asked.best[0].index
    ranked = [one for one in asked.best if one.index is index]
    if chain := named_chain(asked, index):
        return _facts(asked, index, chain, "There may be longer chains of calls")
    graph = _Graph.of(asked, ranked)
    hits: dict[CodeDefinition, set[str]] = {}
    for one, hit in _definitions(graph, ranked):
        hits.setdefault(one, set(terms(one.name))).update(term_set(hit.text))
    chain = described_chain(asked, index, hits)
    if chain is None and not asks_only_for_way(asked.question.question.text):
        chain = _best_chain(graph, list(hits))
    if chain is None:
        return None
    _follow(asked, graph, chain.root)
    return _facts(asked, index, chain, _ONLY_FITTING)


def _facts(asked: Asked, index: ChunkIndex, chain: Chain, note: str) -> CodeFacts | None:
    """Return a chain as facts."""
    steps = list(_in_order(chain.root, ""))
    places = [place for step, reason in steps if (place := _place(asked, index, step, reason))]
    if len(places) < 2:
        return None
    summary = _summary(chain, steps[-1][0], len(places))
    return code_facts(asked, TRACE, chain.begin.qualified_name, summary, places, note=note)


def _summary(chain: Chain, last: Step, shown: int) -> str:
    """Return where a chain leads, and how many of the steps shown are on that way.

    Without an end, a chain leads to its last step only if each step is called by the one before.
    """
    root, begin = (named(one.qualified_name) for one in (chain.root.target, chain.begin))
    end = chain.end or last
    on_way = _way(chain.root, end.target)
    if chain.end is None and on_way < shown:
        return f"From {begin}, {shown - 1} calls fit the question"
    through = ""
    if begin != root:
        through = f" through {root}"
        on_way += _way(chain.root, chain.begin) - 1
    others = shown - on_way
    also = f"; {others} other call{'s fit' if others > 1 else ' fits'}" if others > 0 else ""
    return f"From {begin} to {named(end.target.qualified_name)}{through} in {on_way} steps{also}"


def _way(step: Step, end: CodeDefinition) -> int:
    """Return the number of steps from one to that of a definition, with both; 0 if it does not lead there."""
    if step.target == end:
        return 1
    rest = max((_way(called, end) for called in step.calls), default=0)
    return rest + 1 if rest else 0


def _best_chain(graph: _Graph, hits: Sequence[CodeDefinition]) -> Chain | None:
    """Return the best chain that begins at the best hit, or at one that calls it."""
    beginnings = hits[:_BEGINNINGS]
    best, chosen = 0.0, None
    for one in beginnings:
        calls = graph.calls(one)
        is_near = one == beginnings[0] or any(step.target == beginnings[0] for step in calls)
        called = sorted((graph.fit(step.target) for step in calls), reverse=True)[:_COUNTED]
        value = graph.fit(one) + _CALLED * sum(called)
        if calls and is_near and value > best:
            best, chosen = value, Chain(Step(one), one, None)
    return chosen


def _definitions(graph: _Graph, ranked: Sequence[Ranked]) -> Iterator[tuple[CodeDefinition, Hit]]:
    """Yield the functions of the best hits in code, with the hit."""
    of_file: dict[str, list[CodeDefinition]] = {}
    for hit in (one.hit for one in ranked):
        if hit.kind != "code" or not hit.symbol:
            continue
        if hit.path not in of_file:
            of_file[hit.path] = graph.index.graph.defined_in(hit.path)
        for found in of_file[hit.path]:
            is_same = found.name == hit.symbol and found.start <= hit.end and hit.start <= found.end
            if is_same and found.unit == "function":
                yield found, hit
                break


def _follow(asked: Asked, graph: _Graph, chain: Step) -> None:
    """Add to a chain the best further calls of its steps, at most `_MAX_STEPS` in all."""
    path = [step for step, _ in _in_order(chain, "")]
    known = {key_of(step.target) for step in path}
    waiting = [(graph.fit(one.target), step, one) for step in path for one in graph.calls(step.target)]
    while waiting and len(known) < _MAX_STEPS:
        best = max(waiting, key=lambda one: one[0])
        waiting.remove(best)
        _, caller, step = best
        key = key_of(step.target)
        if key in known:
            continue
        known.add(key)
        caller.calls.append(step)
        waiting += [(graph.fit(one.target), step, one) for one in graph.calls(step.target)]
    others = {key_of(one.target) for *_, one in waiting} - known
    asked.first([*known, *others], max(len(known), _MAX_STEPS), "steps are shown")


def _in_order(step: Step, reason: str) -> Iterator[tuple[Step, str]]:
    """Yield the steps in the order in which the code runs them, each with what calls it."""
    yield step, reason or "begins here"
    for called in sorted(step.calls, key=lambda one: one.line):
        yield from _in_order(called, f"called by {step.target.name} in line {called.line}")


def _place(asked: Asked, index: ChunkIndex, step: Step, reason: str) -> FactPlace | None:
    file = asked.file(index, step.target.path)
    if file is None or step.target.end > len(file.lines):
        return None
    return FactPlace(file, step.target.start, reason, step.target.end, certain=step.certain)
