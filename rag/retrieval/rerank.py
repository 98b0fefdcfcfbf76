"""The second stage of the search: order the first hits again with a reranker.

    score = first-stage score / best first-stage score + WEIGHT x score of the reranker

Only the first `RERANKED` hits take part. A hit without a score of the reranker (not computed in time) keeps
its place, and the others are ordered among the remaining places. The weight was fixed before any question set
was looked at; `docs/benchmarks.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rag.ports import Reranker
from rag.types import Hit

RERANKED = 50
"""How many of the first hits are ordered again."""
WEIGHT = 1.0
"""The weight of the reranker's score; the best score of the first stage counts 1."""


def rerank(reranker: Reranker, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in the order of both stages; ties keep the order of the first stage.

    The score of a hit is that of the place it comes to, so that scores still fall from first to last and
    those of several searches can be compared; its leg `second` is what the reranker added.

    Args:
        reranker: judges the hits.
        question: the question with its context.
        hits: best first.
    """
    first = list(hits[:RERANKED])
    if len(first) < 2 or first[0].score <= 0:
        return list(hits)
    second = WEIGHT * reranker.scores(question, first)
    scored = np.flatnonzero(~np.isnan(second))
    both = second[scored] + np.asarray([first[i].score for i in scored.tolist()], np.float32) / first[0].score
    ordered = list(first)
    for place, hit in zip(scored.tolist(), scored[np.argsort(-both, kind="stable")].tolist(), strict=True):
        legs = {**first[hit].legs, "second": round(float(second[hit]), 4)}
        ordered[place] = replace(first[hit], score=first[place].score, legs=legs)
    return ordered + list(hits[RERANKED:])
