"""Search a question together with phrasings of it in the words of code, which a model or a caller wrote.

The rankings of the question and of each phrasing are fused by reciprocal ranks. The question itself counts
the more, the more likely its own first place is right: in everyday words it leads elsewhere. What the rules
find for the question, such as the members of a list, and the places that it refers to, still come first.

The constants were chosen on half of the 36 everyday questions of `tools/questions/kinds/dev.jsonl`, with
three phrasings written from the question and the repository's name alone, and with worse ones: without
identifiers, one phrasing alone, one of another question; and on other questions with wrong phrasings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.retrieval.answerability import judge
from rag.retrieval.kinds.asked import merged_hits
from rag.retrieval.search import FURTHER_HITS, RetrievalResult, Searcher, search
from rag.types import Confidence, Hit

_OWN_WEIGHT = 10.0
"""The weight of the question itself is this times the square of the probability that its first place is
right; that of a phrasing is 1.
"""
_OFFSET = 10
"""The smaller, the more a first place counts against several lower ones."""


def with_phrasings(
    searchers: Sequence[Searcher], found: RetrievalResult, phrasings: Sequence[str], *, k: int
) -> RetrievalResult:
    """Return the result of a question with the hits of its phrasings; the same if there are none.

    Args:
        searchers: the stores.
        found: the result of the question itself, with its context.
        phrasings: any texts.
        k: the number of hits; there are further ones if `found` has some.

    Raises:
        StoreCorrupt: as `search`.
    """
    texts = list(dict.fromkeys(text.strip() for text in phrasings if text.strip()))
    if not texts:
        return found
    depth, right = max(k, FURTHER_HITS), judge(searchers, found).first_right or 0.0
    own = found.ranked if found.code_facts else (*found.hits, *found.further)
    rankings = [(own, _OWN_WEIGHT * right**2)]
    phrased = tuple(search(searchers, text, k=depth) for text in texts)
    rankings += [(one.ranked, 1.0) for one in phrased]
    ranked = _fused([hit for hit in own if hit.legs.get("pointed")], rankings)
    facts, indexes = found.code_facts, [searcher.index for searcher in searchers]
    hits = merged_hits(facts, ranked, indexes, depth) if facts else tuple(ranked[:depth])
    further = hits[k:] if found.further else ()
    return replace(found, hits=hits[:k], further=further, ranked=tuple(ranked[:k]), phrased=phrased)


def best_confidence(
    searchers: Sequence[Searcher], found: RetrievalResult, own: Confidence | None = None
) -> Confidence:
    """Return the confidence in the best of a question and its phrasings.

    `own` is that in the question; by default it is judged with the hits of all. A part that the question
    names and that does not exist exists under no phrasing.
    """
    own = own or judge(searchers, found)
    if own.is_sure or own.missing_part is not None:
        return own
    phrased = (judge(searchers, one) for one in found.phrased)
    return max((one for one in phrased if one.is_sure), key=lambda one: one.value, default=own)


def _fused(first: Sequence[Hit], rankings: Sequence[tuple[Sequence[Hit], float]]) -> list[Hit]:
    """Return the hits of weighted rankings, best first, those in `first` before all others.

    Scores are from 0 to 1, and above 1 for those in `first`.
    """
    best = sum(weight for _, weight in rankings) / (_OFFSET + 1)
    scores = {_key(hit): best for hit in first}
    hits: dict[tuple[str, str, int], Hit] = {}
    for ranking, weight in rankings:
        for rank, hit in enumerate(ranking, 1):
            hits.setdefault(_key(hit), hit)
            scores[_key(hit)] = scores.get(_key(hit), 0.0) + weight / (_OFFSET + rank)
    ordered = sorted(hits, key=lambda key: -scores[key])
    return [replace(hits[key], score=scores[key] / best) for key in ordered]


def _key(hit: Hit) -> tuple[str, str, int]:
    return hit.location, hit.path, hit.start
