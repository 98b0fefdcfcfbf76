"""Words of code for the plain words of a question: `data/code_words.txt`.

A developer asks how two people are kept from *grabbing* the same job; the code says `claim` and `lease`. The
table describes some 7,800 words of code in plain words; it was written from general knowledge of programs,
without sight of any set of questions. A code word that several words of a question describe is a better guess
than one that a single word does, and a plain word of few descriptions says more than one of many.

Where rules look for the answer (callers, lists, settings, failures, pasted messages) no code words are
searched: the rules take the order of the search as it is. docs/benchmarks.md has the figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from itertools import islice
from math import log

import numpy as np

from rag.ports import ChunkIndex
from rag.resources import shipped
from rag.retrieval.lexical import Chunks, Rarity
from rag.retrieval.synonyms import own_use
from rag.top_k import find_sorted

_MAX_CODE_WORDS = 30
"""How many code words a question is searched with at most."""
_WEIGHT = 1.6
"""The weight of a code word with full evidence, where no chunk has a word of the question (of weight 1)."""
_FULL_EVIDENCE, _LEAST_EVIDENCE = 12.0, 6.0
"""The evidence for a code word, summed over the plain words that describe it: what counts in full, and
what is enough to search it. A single plain word is enough if it describes few.
"""
_DESCRIPTIONS = 12_000
"""Evidence is counted as for a table of this many words; ours, of 7,800, is not complete."""
_FEW = 3
"""A plain word of fewer descriptions is no better evidence."""


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
    missing = 1.0 - _covered(index, wanted, rarity, best)
    known = ((word, says) for word, says in _evidence(wanted) if len(index.postings(word).chunks))
    shares = {term: weight / own_use(index, term) for term, weight in wanted.items()}
    found = {}
    for word, says in islice(known, _MAX_CODE_WORDS) if missing else ():
        common = max(rarity(word), 1e-6)
        share = max(
            shares[term] * min(1.0, rarity(term) / common) for term in wanted if word in _describes(term)
        )
        found[word] = _WEIGHT * missing * min(says / _FULL_EVIDENCE, 1.0) * share
    return found


def is_described(term: str) -> bool:
    """Return whether a term is a plain word that describes words of code."""
    return bool(_describes(term))


def _evidence(wanted: Collection[str]) -> list[tuple[str, float]]:
    """Return the code words that terms describe, with enough evidence, the likeliest first, ties by name."""
    evidence: dict[str, float] = {}
    for term in wanted:
        found = _describes(term)
        says = log(_DESCRIPTIONS / max(len(found), _FEW))
        for word in found:
            evidence[word] = evidence.get(word, 0.0) + says
    enough = [pair for pair in evidence.items() if pair[1] >= _LEAST_EVIDENCE and pair[0] not in wanted]
    return sorted(enough, key=lambda pair: (-pair[1], pair[0]))


def _covered(index: ChunkIndex, wanted: Mapping[str, float], rarity: Rarity, best: Chunks) -> float:
    """Return how much of the question, by rarity, the chunk that has most of its words has; 0 to 1."""
    total = sum(weight * rarity(term) for term, weight in wanted.items())
    if not len(best) or not total:
        return 0.0
    covered = np.zeros(len(best))
    for term, weight in wanted.items():
        found = index.postings(term).chunks
        if len(found):
            place = np.minimum(find_sorted(found, best), len(found) - 1)
            covered += weight * rarity(term) * (found[place] == best)
    return float(covered.max()) / total


@lru_cache(maxsize=4096)
def _describes(term: str) -> Mapping[str, None]:
    """Return the code words that a plain word describes."""
    return dict.fromkeys(_table().get(term, "").split())


@cache
def _table() -> dict[str, str]:
    """Return the code words of each plain word, as written: a question needs a dozen of 3,000."""
    text = shipped("data/code_words.txt").read_text(encoding="utf-8")
    return dict(line.split(": ") for line in text.splitlines() if not line.startswith("#"))
