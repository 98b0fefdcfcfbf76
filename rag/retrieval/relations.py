"""Find code related to the places a conversation is about: the same file, callers, tests.

A store has no call graph. The users of a name are found in the postings, which hold every identifier whole;
whether it is called or only mentioned there is read in the text of the few chunks that count.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.context import Carry, ContextualQuestion
from rag.retrieval.question import ParsedQuestion
from rag.retrieval.rank import CODE, TEST, Chunks, Signal
from rag.types import Subject

_MAX_USERS = 250
_MENTION_WEIGHT = 0.4
"""The weight of a mention; a call weighs 1."""
_COMMON_USERS = 8
"""A name with this many users counts half as much."""
_DEFINITION_WEIGHT = 0.35
"""The weight of a definition where its users are asked for."""
_RELATIONS = frozenset({"callers", "tests"})
_SHOWN_AGAIN = frozenset({"behaviour", "docs"})
"""What is asked of a place that was shown: what happens there, and what its comments say."""
_NAMES_DOCUMENTS = re.compile(
    r"\b(?:documentation|docs|readme|tutorial|changelog|guide|manual|man ?pages?)\b", re.I
)


def is_relation(question: ParsedQuestion) -> bool:
    """Return whether a follow-up asks what uses or tests the place last shown: "And who calls it?"."""
    return question.dependent and not question.asks.isdisjoint(_RELATIONS)


def users(index: ChunkIndex, sought: ContextualQuestion) -> Chunks:
    """Return the chunks that use, but do not define, the names the conversation is about, where that is asked
    for.
    """
    if not sought.question.asks & _RELATIONS:
        return np.zeros(0, np.int64)
    found = [chunk for name in sought.focus for chunk in _users_of(index, name)[:_MAX_USERS]]
    return np.asarray(found, np.int64)


def near_signal(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion, carry: Carry) -> Signal:
    """Return the signal for the files last shown, scaled by the weight of the past."""
    files = index.file[chunks].tolist()
    if not sought.near:
        return np.zeros(len(chunks), np.float32)
    near = {file for file in set(files) if index.file_path(file) in sought.near}
    return np.asarray([carry.near * sought.share * (file in near) for file in files], np.float32)


def uses_signal(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion, carry: Carry) -> Signal:
    """Return the signal for chunks that use the names the conversation is about: calls in full, mentions
    less, tests if asked for.
    """
    values = np.zeros(len(chunks), np.float32)
    if not sought.question.asks & _RELATIONS:
        return values
    # "Who calls it?" has no terms of its own: the relation is the whole question.
    user = carry.user * sought.share * (carry.user_alone if sought.bare else 1.0)
    position = {chunk: i for i, chunk in enumerate(chunks.tolist())}
    for name, weight in sought.focus.items():
        call = re.compile(rf"(?<![\w$]){re.escape(name)}\s*(?:\(|<|::|!\()")
        using = _users_of(index, name)[:_MAX_USERS]
        weight /= 1 + len(using) / _COMMON_USERS
        for chunk in using:
            if chunk in position:
                is_call = call.search(index.hit(chunk, 0.0, {}).text) is not None
                values[position[chunk]] += user * weight * (1.0 if is_call else _MENTION_WEIGHT)
    if "tests" in sought.question.asks:
        values[index.kind[chunks] != TEST] *= np.float32(0.5)
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
    if not sought.shown or not asks.isdisjoint(_SHOWN_AGAIN) or (sought.bare and not asks):
        return factors
    paths = {place.path for place in sought.shown}
    for i, chunk in enumerate(chunks.tolist()):
        if (path := index.file_path(int(index.file[chunk]))) in paths:
            first, last = index.lines(chunk)
            if any(p.path == path and p.start <= last and first <= p.end for p in sought.shown):
                factors[i] = carry.shown
    return factors


def defined_factor(index: ChunkIndex, chunks: Chunks, sought: ContextualQuestion) -> Signal:
    """Return a factor below 1 for the definitions of the names the conversation is about, where their users
    are asked for.
    """
    factors = np.ones(len(chunks), np.float32)
    if is_relation(sought.question):
        defining = {chunk for name in sought.focus for chunk in index.defining(name)}
        factors[[chunk in defining for chunk in chunks.tolist()]] = _DEFINITION_WEIGHT
    return factors


def _users_of(index: ChunkIndex, name: str) -> list[int]:
    """Return the chunks that have a name in their body and do not define it, ascending."""
    whole = terms(name)[-1:]
    if not whole:
        return []
    found, defining = index.postings(whole[0]), set(index.defining(name))
    return [chunk for chunk in found.chunks[found.body > 0].tolist() if chunk not in defining]
