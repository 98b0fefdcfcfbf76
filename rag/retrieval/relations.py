"""Weigh places by how they relate to what a conversation is about: its calls, its tests, what was shown."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.context import Carry, ContextualQuestion
from rag.retrieval.question import ParsedQuestion
from rag.retrieval.rank import CODE, TEST, Chunks, Signal, chunk_at, reference_signal
from rag.retrieval.working_set import own_terms
from rag.types import Subject

_EXERCISED = 10
"""How many candidates in code, the best, are looked for in tests."""
_MAX_LINKED = 40
"""How many callers, and how many callees, of a place count."""
_RELATIONS = frozenset({"callers", "tests"})
_SHOWN_AGAIN = frozenset({"behaviour", "docs"})
"""What is asked of a place that was shown: what happens there, and what its comments say."""
_NAMES_DOCUMENTS = re.compile(
    r"\b(?:documentation|docs|readme|tutorial|changelog|guide|manual|man ?pages?)\b", re.I
)


def is_relation(question: ParsedQuestion) -> bool:
    """Return whether a follow-up asks what uses or tests the place last shown: "And who calls it?"."""
    return question.dependent and not question.asks.isdisjoint(_RELATIONS)


def linked_signal(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion, carry: Carry) -> Signal:
    """Return the signal for what calls the places that "it" may mean, and what these call.

    The more words of its own the question has, the less that counts.
    """
    found: dict[int, float] = {}
    for one in sought.about if sought.leans else ():
        name, path = one.place.symbol, one.place.path
        targets = [it for it in index.graph.definitions(name) if it.path == path] if name else []
        places = [(use.path, use.line) for use in index.graph.callers(targets)[:_MAX_LINKED] if targets]
        for target in targets:
            places += [(it.path, it.start) for _, it in index.graph.callees(target)[:_MAX_LINKED]]
        for path, line in places:
            if held := index.chunks_of(path):
                chunk = chunk_at(index, held, line)
                found[chunk] = max(found.get(chunk, 0.0), one.weight)
    own = max(len(own_terms(sought.question)), 1)
    return reference_signal(chunks, found) * np.float32(carry.linked / own)


def exercise_signal(index: ChunkIndex, chunks: Chunks, relevance: Signal, question: ParsedQuestion) -> Signal:
    """Return, where tests are asked for, how well the code that a test names fits: 1 for the best code.

    Only the best candidates in code count, those that define a name; 0 for all that is no test.
    """
    values = np.zeros(len(chunks), np.float32)
    code = np.flatnonzero((index.kind[chunks] == CODE) & ~index.unnamed(chunks))
    if "tests" not in question.asks or not len(code):
        return values
    code = code[np.argsort(-relevance[code], kind="stable")[:_EXERCISED]]
    best, is_test = float(relevance[code[0]]), index.kind[chunks] == TEST
    for at, (symbol, _) in zip(code.tolist(), index.names(chunks[code]), strict=True):
        if best > 0 and (whole := terms(symbol)[-1:]):
            found = index.postings(whole[0])
            holds = is_test & np.isin(chunks, found.chunks[found.body > 0])
            values[holds] = np.maximum(values[holds], relevance[at] / best)
    return values


def facet_factor(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion, carry: Carry) -> Signal:
    """Return a factor below 1 for code where the tests or documents of the subject are asked for."""
    factors = np.ones(len(chunks), np.float32)
    asks, kinds = sought.question.asks, index.kind[chunks]
    if sought.subject and sought.question.dependent:
        if "tests" in asks:
            factors[kinds != TEST] = carry.other_kind
        elif "docs" in asks:
            factors[kinds == CODE] = carry.other_kind
            if not _NAMES_DOCUMENTS.search(sought.question.text):  # comments of the subject will do
                factors[_of_subject(index, chunks, sought.subject)] = carry.shown
    return factors


def _of_subject(index: ChunkIndex, chunks: Chunks, subject: Subject) -> npt.NDArray[np.bool_]:
    """Return which chunks have lines of the subject."""
    places = [(index.file_path(int(index.file[chunk])), *index.lines(chunk)) for chunk in chunks.tolist()]
    return np.asarray(
        [
            path == subject.path and subject.start <= last and first <= subject.end
            for path, first, last in places
        ]
    )


def shown_factor(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion, carry: Carry) -> Signal:
    """Return a factor below 1 for the places that earlier answers came from, unless the question asks what
    happens there.
    """
    factors = np.ones(len(chunks), np.float32)
    asks = sought.question.asks
    if not sought.shown or not asks.isdisjoint(_SHOWN_AGAIN) or (sought.bare and asks <= {"test_code"}):
        return factors
    paths = {place.path for place in sought.shown}
    for i, chunk in enumerate(chunks.tolist()):
        if (path := index.file_path(int(index.file[chunk]))) in paths:
            first, last = index.lines(chunk)
            if any(p.path == path and p.start <= last and first <= p.end for p in sought.shown):
                factors[i] = carry.shown
    return factors
