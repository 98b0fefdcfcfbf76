"""The second stage of the search: order the first hits again with a reranker.

    score = first-stage score / best first-stage score + score of the reranker

Only the first `RERANKED` hits take part. A hit without a score of the reranker (not computed in time) keeps
its place, and the others are ordered among the remaining places. Hits that the question refers to directly,
which come first, keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rag.ports import Reranker
from rag.types import Hit

RERANKED = 50
"""How many of the first hits are ordered again."""


def rerank(reranker: Reranker, question: str, hits: Sequence[Hit], terms: Mapping[str, float]) -> list[Hit]:
    """Return the hits in the order of both stages; ties keep the order of the first stage.

    The score of a hit is that of the place it comes to, so that scores still fall from first to last and
    those of several searches can be compared; its leg `second` is what the reranker added.

    Args:
        reranker: judges the hits.
        question: the question as asked.
        hits: best first.
        terms: the terms that were searched, with their weights.
    """
    fixed = sum(1 for hit in hits if hit.legs.get("pointed"))
    first = list(hits[fixed:RERANKED])
    if len(first) < 2 or first[0].score <= 0:
        return list(hits)
    second = reranker.scores(question, first, terms=terms)
    scored = np.flatnonzero(~np.isnan(second))
    both = second[scored] + np.asarray([first[i].score for i in scored.tolist()], np.float32) / first[0].score
    ordered = list(first)
    for place, hit in zip(scored.tolist(), scored[np.argsort(-both, kind="stable")].tolist(), strict=True):
        legs = {**first[hit].legs, "second": round(float(second[hit]), 4)}
        ordered[place] = replace(first[hit], score=first[place].score, legs=legs)
    return [*hits[:fixed], *ordered, *hits[RERANKED:]]
