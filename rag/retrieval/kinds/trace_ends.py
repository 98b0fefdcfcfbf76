"""Read where a chain of calls begins and ends from a question, and find the chain.

"From `parse` to `render`" and "how does main get to open_store" name the two ends. "From the upload until the
file is stored" describes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from math import fsum

from rag.analysis import is_stop_word, terms, words
from rag.ports import ChunkIndex, CodeGraph
from rag.retrieval.asked_definition import NAME, UNITS
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.kinds.call_path import CallPaths, Calls, Chain, Step, joined_by_caller
from rag.retrieval.lexical import Rarity
from rag.retrieval.synonyms import meanings
from rag.types import CodeDefinition

_NAMED = rf"(?:(?:a|the) call (?:of|to) )?(?:(?:the|an?) {UNITS} )?{NAME}"
_FROM = re.compile(rf"\b(?:from|between|when|once|after|do|does|trace|follow|through) {_NAMED}", re.I)
_TO = re.compile(
    rf"\b(?:to|until|till|into|and|before|at|in|reach(?:es)?|calls?|called(?: by)?) {_NAMED}", re.I
)
_DESCRIBED = tuple(
    re.compile(rf"\b(?:{begin})\b(?P<begin>.{{1,200}}?)\b(?:{end})\b(?P<end>.{{1,200}})", re.I)
    for begin, end in (
        ("from|between", "until|till|up to"),
        ("when|once|after|happens|does|do|follow|trace", "until|till|up to"),
        ("from|between", "to|into|and|before"),
    )
)
_MAX_CHARS = 300
_MAX_DEFINITIONS = 12
"""A name with more definitions says little about where a chain begins or ends."""
_FRAME = frozenset(
    terms(
        "what happens happen called calls call chain path way get gets reach reaches lead leads does follow"
        " trace steps step through between before until order functions methods run runs executed done show"
    )
)
"""Words that only ask for a chain."""
_BEGINNINGS, _ENDS = 4, 6
"""How many of the hits that fit a description best a chain may begin and end at."""
_JOINED, _JOINED_FIT = 2, 0.95
"""How many of these may be joined by a common caller, and how well each fits at least: its text has the whole
description, or its name has words of it, as that of one word alone.
"""
_READ_FROM_HIT = 120
_COVERED = 0.4
"""The share of a description that a hit has at least."""
_SYNONYM = 0.7
"""The share that a synonym counts."""
_LONGER = 0.04
"""What each further step counts against a chain."""


def named_chain(asked: Asked, index: ChunkIndex) -> Chain | None:
    """Return the shortest chain of calls between the two definitions that a question names; None if it names
    fewer, or there is no chain.

    A plain word is a name if the other end is written like code, or if the question has no words of its own.
    """
    question = asked.question.question
    text, graph = question.text[:_MAX_CHARS], index.graph
    written = {*question.names, *(f"{one}?" for one in question.names)}
    for begin in _FROM.finditer(text):
        for end in _TO.finditer(text, begin.end()):
            name, other = _name(begin), _name(end)
            rest = text[: begin.start()] + text[begin.end() : end.start()] + text[end.end() :]
            may_be = not written.isdisjoint((name, other)) or _FRAME.issuperset(terms(rest))
            if name == other or not may_be or is_stop_word(name) or is_stop_word(other):
                continue
            if not (beginnings := _defined(graph, name)):
                break
            if ends := _defined(graph, other):
                paths = CallPaths(graph, beginnings)
                path = paths.to(ends) or paths.back_from(ends)
                return Chain.of(path) if path else None
    return None


def _name(match: re.Match[str]) -> str:
    return str(next(filter(None, match.groups())))


def _defined(graph: CodeGraph, name: str) -> list[CodeDefinition]:
    """Return the functions and classes of a name; none if these are many."""
    found = graph.definitions(name) or graph.definitions(name.rstrip("?!"))
    found = [one for one in found if one.unit != "section"]
    return found if len(found) <= _MAX_DEFINITIONS else []


def described_chain(asked: Asked, index: ChunkIndex, hits: Mapping[CodeDefinition, Set[str]]) -> Chain | None:
    """Return the chain of calls from a hit that has one description of the question to a hit that has the
    other, or from what calls both; None if the question describes no two ends, or there is no chain. The hits
    have their terms.
    """
    text = asked.question.question.text[:_MAX_CHARS]
    found = next((m for m in (p.search(text) for p in _DESCRIBED) if m), None)
    if found is None:
        return None
    rarity = Rarity(asked.indexes)
    begin, end = _weights(found["begin"], rarity), _weights(found["end"], rarity)
    beginnings, ends = _best(hits, begin)[:_BEGINNINGS], _best(hits, end)[:_ENDS]
    best: tuple[float, list[Step]] = (0.0, [])
    known: Calls = {}
    at_end = dict(ends)
    for one, begins in beginnings:
        paths = CallPaths(index.graph, [one], _READ_FROM_HIT, known)
        for other, fits in ends:
            is_there = fits <= at_end.get(one, 0.0)  # a beginning that is the end as well leads nowhere
            if not is_there and (steps := paths.to([other])):
                best = max(best, (begins + fits - _LONGER * len(steps), steps), key=lambda each: each[0])
    if path := best[1]:
        return Chain.of(path)
    for one in _joinable(beginnings, begin):
        others = [other for other in _joinable(ends, end) if other != one]
        if joined := joined_by_caller(index.graph, one, others, known):
            return joined
    return None


def _joinable(
    found: Sequence[tuple[CodeDefinition, float]], wanted: Mapping[str, float]
) -> list[CodeDefinition]:
    """Return those of the best hits of a description that a common caller may join to the other end."""
    least = _JOINED_FIT + (len(wanted) < 2)
    return [one for one, fits in found[:_JOINED] if fits >= least]


def _weights(text: str, rarity: Rarity) -> dict[str, float]:
    """Return the share of each term of a description."""
    weights = {term: max(rarity(term), 0.1) for word in words(text) for term in terms(word)[-1:]}
    weights = {term: weight for term, weight in weights.items() if term not in _FRAME}
    total = fsum(weights.values()) or 1.0
    return {term: weight / total for term, weight in weights.items()}


def _best(
    hits: Mapping[CodeDefinition, Set[str]], wanted: Mapping[str, float]
) -> list[tuple[CodeDefinition, float]]:
    """Return the hits that have enough of a description, best first: its words in the name count twice."""
    found = []
    for one, held in hits.items():
        in_name, in_text = _share(wanted, set(terms(one.name))), _share(wanted, held)
        if in_text >= _COVERED:
            found.append((one, in_name + in_text))
    return sorted(found, key=lambda each: -each[1])


def _share(wanted: Mapping[str, float], held: Set[str]) -> float:
    """Return how much of a description some terms are; a synonym counts less."""
    return fsum(
        weight if term in held else _SYNONYM * weight
        for term, weight in wanted.items()
        if not held.isdisjoint(meanings(term))
    )
