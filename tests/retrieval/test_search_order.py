"""What is asked for first comes first, however much is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rag.retrieval.search import Searcher, search
from rag.service import Engine
from rag.settings import Settings

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample_repo"
QUESTIONS = (
    "Where is a token checked?",
    "How are sessions signed?",
    "Which links are dead?",
    "What calls the rate limiter?",
)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    home = tmp_path_factory.mktemp("home")
    with closing(Engine(Settings(home=home, memory="memory:"))) as engine:
        yield engine.repository(str(SAMPLE)).searcher


@pytest.mark.parametrize("question", QUESTIONS)
def test_fewer_hits_are_the_first_of_more(searcher: Searcher, question: str):
    every = search([searcher], question, k=40).hits
    assert [hit.score for hit in every] == sorted((hit.score for hit in every), reverse=True)
    for k in range(1, 12):
        assert search([searcher], question, k=k).hits == every[:k]
