"""Weigh places by how they relate to what a conversation is about: its tests, documents, what was shown."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from rag.ports import ChunkIndex
from rag.retrieval.context import Carry, ContextualQuestion
from rag.retrieval.question import ParsedQuestion
from rag.retrieval.rank import CODE, TEST, Chunks, Signal
from rag.types import Subject

_RELATIONS = frozenset({"callers", "tests"})
_SHOWN_AGAIN = frozenset({"behaviour", "docs"})
"""What is asked of a place that was shown: what happens there, and what its comments say."""
_NAMES_DOCUMENTS = re.compile(
    r"\b(?:documentation|docs|readme|tutorial|changelog|guide|manual|man ?pages?)\b", re.I
)


def is_relation(question: ParsedQuestion) -> bool:
    """Return whether a follow-up asks what uses or tests the place last shown: "And who calls it?"."""
    return question.dependent and not question.asks.isdisjoint(_RELATIONS)


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
