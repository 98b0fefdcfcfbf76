"""Words of code for the plain words of a question: `data/code_words.txt`.

A developer asks how two people are kept from *grabbing* the same job; the code says `claim` and `lease`. The
table describes some thousand words of code in plain words; it was written from general knowledge of programs,
without sight of any set of questions. A code word that several words of a question describe is a better guess
than one that a single word does, and a plain word of few descriptions says more than one of many.

Where rules look for the answer (callers, lists, settings, failures, pasted messages) no code words are
searched: the rules take the order of the search as it is. docs/benchmarks.md has the figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from itertools import islice
from math import log

import numpy as np

from rag.ports import ChunkIndex
from rag.resources import shipped
from rag.retrieval.lexical import Chunks, Rarity
from rag.retrieval.synonyms import own_use

_MAX_CODE_WORDS = 30
"""How many code words a question is searched with at most."""
_WEIGHT = 1.6
"""The weight of a code word with full evidence, where no chunk has a word of the question (of weight 1)."""
_FULL_EVIDENCE, _LEAST_EVIDENCE = 12.0, 6.0
"""The evidence for a code word, summed over the plain words that describe it: what counts in full, and
what is enough to search it. A single plain word is enough if it describes few.
"""
_DESCRIPTIONS = 12_000
"""About how many code words the table describes."""
_FEW = 3
"""A plain word of fewer descriptions is no better evidence: the table is not complete."""


def code_words(
    index: ChunkIndex, wanted: Mapping[str, float], rarity: Rarity, best: Chunks
) -> dict[str, float]:
    """Return terms of the repository that the wanted terms describe, with weights.

    They weigh less the more of the question the words of a single chunk cover: then it is asked in the words
    of the code. As with synonyms, a word that the repository uses in names, or that is more common than the
    code word, needs it less. Terms that are wanted themselves are left out.

    Args:
        index: the store.
        wanted: terms of the question, with their weights.
        rarity: counted over all stores that are searched.
        best: the best chunks for the wanted terms.
    """
    described = _described(wanted)
    known = ((word, found) for word, found in described.items() if len(index.postings(word).chunks))
    likeliest = list(islice(known, _MAX_CODE_WORDS))
    if not likeliest:
        return {}
    missing = _WEIGHT * (1.0 - _covered(index, wanted, rarity, best))
    shares = {term: weight / own_use(index, term) for term, weight in wanted.items()}
    return {
        word: missing
        * strength
        * max(shares[term] * min(1.0, rarity(term) / max(rarity(word), 1e-6)) for term in by)
        for word, (strength, by) in likeliest
    }


def _described(wanted: Collection[str]) -> dict[str, tuple[float, list[str]]]:
    """Return the code words that terms describe, the likeliest first, ties by name, each with the strength of
    the evidence (up to 1) and the terms.
    """
    evidence: dict[str, float] = defaultdict(float)
    by: dict[str, list[str]] = defaultdict(list)
    for term in wanted:
        found = _describes(term)
        says = log(_DESCRIPTIONS / max(len(found), _FEW))
        for word in found:
            evidence[word] += says
            by[word].append(term)
    enough = [word for word, sum_ in evidence.items() if sum_ >= _LEAST_EVIDENCE and word not in wanted]
    enough.sort(key=lambda word: (-evidence[word], word))
    return {word: (min(evidence[word] / _FULL_EVIDENCE, 1.0), by[word]) for word in enough}


def _covered(index: ChunkIndex, wanted: Mapping[str, float], rarity: Rarity, best: Chunks) -> float:
    """Return how much of the question, by rarity, the chunk that has most of its words has; 0 to 1."""
    total = sum(weight * rarity(term) for term, weight in wanted.items())
    if not len(best) or not total:
        return 0.0
    covered = np.zeros(len(best))
    for term, weight in wanted.items():
        covered += weight * rarity(term) * np.isin(best, index.postings(term).chunks)
    return float(covered.max()) / total


def _describes(term: str) -> list[str]:
    """Return the code words that a plain word describes."""
    table = _table()
    begin = table.find(f"\n{term}: ")
    if begin < 0:
        return []
    begin += len(term) + 3
    return table[begin : table.index("\n", begin)].split()


@cache
def _table() -> str:
    """Return the text of the table: finding a dozen of its lines is faster than parsing all."""
    return shipped("data/code_words.txt").read_text(encoding="utf-8")
