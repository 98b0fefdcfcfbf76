"""What stands in a relation to the places a conversation is at: the same file, callers, tests.

There is no call graph in a store. Who uses a name is read off the postings, which hold every identifier
whole; whether it is called there, or only mentioned, is read in the text of the few chunks that count.
"""

from __future__ import annotations

import re

import numpy as np

from rag.analysis import terms
from rag.ports import ChunkIndex
from rag.retrieval.context import Carry, Sought
from rag.retrieval.question import ParsedQuestion
from rag.retrieval.rank import TEST, Chunks, Signal

_MOST_USERS = 250
_MENTIONED = 0.4
"""What a mention is worth beside a call."""
_COMMON = 8
"""A name with so many users says half as much."""
_DEFINED = 0.35
"""What a definition is worth where its users are asked for."""
_RELATIONS = frozenset({"callers", "tests"})


def is_relation(question: ParsedQuestion) -> bool:
    """Whether a follow-up asks what uses or tests that which was shown: "And who calls it?"."""
    return question.dependent and not question.asks.isdisjoint(_RELATIONS)


def users(index: ChunkIndex, sought: Sought) -> Chunks:
    """Chunks that name what the conversation is at without defining it, where that is asked for."""
    if not sought.question.asks & _RELATIONS:
        return np.zeros(0, np.int64)
    found = [chunk for name in sought.focus for chunk in _users_of(index, name)[:_MOST_USERS]]
    return np.asarray(found, np.int64)


def near_signal(index: ChunkIndex, chunks: Chunks, sought: Sought, carry: Carry) -> Signal:
    """For the files last shown, as far as the past counts."""
    files = index.file[chunks].tolist()
    if not sought.near:
        return np.zeros(len(chunks), np.float32)
    near = {file for file in set(files) if index.file_path(file) in sought.near}
    return np.asarray([carry.near * sought.share * (file in near) for file in files], np.float32)


def uses_signal(index: ChunkIndex, chunks: Chunks, sought: Sought, carry: Carry) -> Signal:
    """For chunks that use the names the conversation is at: calls whole, mentions less; tests as asked."""
    values = np.zeros(len(chunks), np.float32)
    if not sought.question.asks & _RELATIONS:
        return values
    # "Who calls it?" has no words of its own: then the relation is the whole question.
    alone = not sought.terms.keys() - sought.carried.keys()
    user = carry.user * sought.share * (carry.user_alone if alone else 1.0)
    position = {chunk: i for i, chunk in enumerate(chunks.tolist())}
    for name, weight in sought.focus.items():
        call = re.compile(rf"(?<![\w$]){re.escape(name)}\s*(?:\(|<|::|!\()")
        using = _users_of(index, name)[:_MOST_USERS]
        weight /= 1 + len(using) / _COMMON
        for chunk in using:
            if chunk in position:
                is_call = call.search(index.hit(chunk, 0.0, {}).text) is not None
                values[position[chunk]] += user * weight * (1.0 if is_call else _MENTIONED)
    if "tests" in sought.question.asks:
        values[index.kind[chunks] != TEST] *= np.float32(0.5)
    return values


def defined_factor(index: ChunkIndex, chunks: Chunks, sought: Sought) -> Signal:
    """Below 1 for the definitions of what the conversation is at, where their users are asked for."""
    factors = np.ones(len(chunks), np.float32)
    if is_relation(sought.question):
        defining = {chunk for name in sought.focus for chunk in index.defining(name)}
        factors[[chunk in defining for chunk in chunks.tolist()]] = _DEFINED
    return factors


def _users_of(index: ChunkIndex, name: str) -> list[int]:
    """Chunks in whose body a name stands that do not define it, ascending."""
    whole = terms(name)[-1:]
    if not whole:
        return []
    found, defining = index.postings(whole[0]), set(index.defining(name))
    return [chunk for chunk in found.chunks[found.body > 0].tolist() if chunk not in defining]
