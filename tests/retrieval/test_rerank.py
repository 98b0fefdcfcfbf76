"""The second stage of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rag.retrieval.rerank import RERANKED, rerank
from rag.types import Hit
from tests.contracts.reranker import passage


class Scripted:
    """Returns these scores."""

    fingerprint = "scripted:1"

    def __init__(self, *scores: float) -> None:
        self._scores = scores

    def scores(self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]) -> np.ndarray:
        return np.asarray(self._scores[: len(hits)], np.float32)


def ranked(*scores: float) -> list[Hit]:
    return [replace(passage(f"text {i}"), score=score) for i, score in enumerate(scores)]


def texts(hits: Sequence[Hit]) -> list[int]:
    return [int(hit.text.removeprefix("text ")) for hit in hits]


def test_both_stages_are_added() -> None:
    hits = rerank(Scripted(0.1, 0.9, 0.2), "question", ranked(4.0, 2.0, 1.0), {})
    assert texts(hits) == [1, 0, 2]
    assert [hit.score for hit in hits] == [4.0, 2.0, 1.0]
    assert [hit.legs["second"] for hit in hits] == [0.9, 0.1, 0.2]


def test_a_hit_without_a_score_keeps_its_place() -> None:
    hits = rerank(Scripted(0.1, np.nan, 0.9, 0.2), "question", ranked(4.0, 3.9, 3.8, 1.0), {})
    assert texts(hits) == [2, 1, 0, 3]
    assert "second" not in hits[1].legs


def test_hits_that_the_question_refers_to_stay_first() -> None:
    first, *rest = ranked(10.0, 2.0, 1.9)
    hits = rerank(Scripted(0.1, 0.9), "question", [replace(first, legs={"pointed": 10.0}), *rest], {})
    assert texts(hits) == [0, 2, 1]


def test_equal_hits_keep_their_order() -> None:
    assert texts(rerank(Scripted(0.5, 0.5, 0.5), "question", ranked(2.0, 2.0, 2.0), {})) == [0, 1, 2]


def test_only_the_first_hits_take_part() -> None:
    scores = [0.0] * RERANKED + [1.0] * 5
    assert texts(rerank(Scripted(*scores), "question", ranked(*[1.0] * (RERANKED + 5)), {})) == list(
        range(RERANKED + 5)
    )


def test_hits_without_a_score_of_the_first_stage_are_left_alone() -> None:
    assert texts(rerank(Scripted(0.1, 0.9), "question", ranked(0.0, 0.0), {})) == [0, 1]
    assert rerank(Scripted(), "question", [], {}) == []
