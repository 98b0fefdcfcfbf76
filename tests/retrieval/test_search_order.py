"""What is asked for first comes first, however much is asked for."""

from __future__ import annotations

import pytest

from rag.retrieval.search import Searcher, search

QUESTIONS = (
    "Where is a token checked?",
    "How are sessions signed?",
    "Which links are dead?",
    "What calls the rate limiter?",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_fewer_hits_are_the_first_of_more(searcher: Searcher, question: str):
    every = search([searcher], question, k=40).hits
    assert [hit.score for hit in every] == sorted((hit.score for hit in every), reverse=True)
    for k in range(1, 12):
        assert search([searcher], question, k=k).hits == every[:k]
