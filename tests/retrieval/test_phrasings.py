"""A question and its phrasings, searched together and ordered again by the words of the phrasings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from rag.backends.student_reranker import StudentReranker
from rag.retrieval.phrasings import with_phrasings
from rag.retrieval.search import RetrievalResult, Searcher, search
from rag.service import Engine
from rag.types import Hit

QUESTION = "How are people kept from asking too often?"
PHRASINGS = ["RateLimiter token bucket limit", "raise TooManyRequests with retry after"]


@dataclass
class Recorded:
    """Prefers the hits of one file, and records what it was asked."""

    path: str
    fingerprint: str = "recorded:1"
    questions: list[str] = field(default_factory=list)
    terms: list[Mapping[str, float]] = field(default_factory=list)

    def scores(self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]) -> np.ndarray:
        self.questions.append(question)
        self.terms.append(terms)
        return np.asarray([5.0 * (hit.path == self.path) for hit in hits], np.float32)


@pytest.fixture
def searcher(engine: Engine, sample_repo: Path) -> Searcher:
    repository = engine.repository(str(sample_repo))
    return replace(repository.searcher, reranker=None, fused_reranker=None)


def fused(searcher: Searcher, question: str, phrasings: Sequence[str]) -> RetrievalResult:
    return with_phrasings([searcher], search([searcher], question, k=12), phrasings, k=12)


def test_what_the_phrasings_find_together_is_ordered_again_once(searcher: Searcher) -> None:
    first = fused(searcher, QUESTION, PHRASINGS).hits[0]
    assert first.path == "snip/ratelimit.py"
    reranker = Recorded("snip/errors.py")
    found = fused(replace(searcher, fused_reranker=reranker), QUESTION, PHRASINGS)
    assert found.hits[0].path == "snip/errors.py"
    assert reranker.questions == [" ".join(PHRASINGS)]
    assert {"bucket", "retri"} <= set(reranker.terms[0])
    assert all(weight > 0 for weight in reranker.terms[0].values())


def test_a_question_alone_is_not_ordered_again(searcher: Searcher) -> None:
    reranker = Recorded("snip/errors.py")
    assert fused(replace(searcher, fused_reranker=reranker), QUESTION, []) == fused(searcher, QUESTION, [])
    assert not reranker.questions


def test_the_second_stage_of_single_questions_sees_no_phrasing(searcher: Searcher) -> None:
    alone, together = Recorded("snip/errors.py"), Recorded("snip/errors.py")
    fused(replace(searcher, reranker=alone, fused_reranker=together), QUESTION, PHRASINGS)
    assert alone.questions == [QUESTION]
    assert len(together.questions) == 1


def test_a_place_that_the_question_names_stays_first_and_one_that_a_phrasing_names_does_not(
    searcher: Searcher,
) -> None:
    reranked = replace(searcher, fused_reranker=Recorded("snip/errors.py"))
    named = fused(reranked, "What does snip/auth.py:27 do?", PHRASINGS)
    assert named.hits[0].path == "snip/auth.py"
    guessed = fused(reranked, QUESTION, ["snip/auth.py:27"])
    assert guessed.hits[0].path == "snip/errors.py"


def test_the_settings_decide(engine: Engine) -> None:
    assert isinstance(engine.fused_reranker, StudentReranker)
    none = Engine(replace(engine.settings, reranker="none"))
    assert none.fused_reranker is None
    student = Engine(replace(engine.settings, reranker="student"))
    assert student.fused_reranker is student.reranker


def test_a_search_without_facts_ranks_the_same(searcher: Searcher) -> None:
    question = "Who calls authenticate?"
    with_facts, without = (search([searcher], question, with_facts=wanted) for wanted in (True, False))
    assert with_facts.code_facts is not None
    assert without.code_facts is None
    assert without.ranked == without.hits == with_facts.ranked
