"""A store that nobody uses is closed at once: its files would count against the limit of open files."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.answer.extract import ExtractiveGenerator
from rag.database.segment import Segment
from rag.service import Dialog, Engine, converse
from rag.service.tools.search import SearchQuery, search_repositories
from rag.settings import Settings
from rag.types import Source

QUESTIONS = (
    "Where is a short code made?",
    "Who calls make_code?",
    "Which tests cover make_code?",
    "What does make_code return?",
    "What happens when a link is visited?",
    "List all subclasses of Exception.",
    "What is the default of the code length?",
    "Which files import codes?",
    "Who last changed make_code?",
    "Wo wird ein kurzer Code erzeugt?",
    "LinkExpired: the link is too old",
)


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_store_is_closed_without_the_garbage_collector(
    tmp_path: Path, committed_sample: Path, question: str
) -> None:
    engine = Engine(Settings(home=tmp_path, memory="memory:"))
    source = Source(str(committed_sample.resolve()))
    engine.repository(source)

    def used() -> list[weakref.ref[Segment]]:
        repository = engine.stored(source)
        outcome = search_repositories([repository], SearchQuery(question, k=3))
        assert outcome.confidence
        list(converse(Dialog(engine, [repository]), question, ExtractiveGenerator()))
        return [weakref.ref(segment) for segment in repository.store.segments]

    segments = used()
    engine.release(source)
    assert [segment() for segment in segments] == [None] * len(segments)
    engine.close()
