"""Questions that a model rewrites before they are searched, beside the same ones as they were typed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.answer.extract import ExtractiveGenerator
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.runner import Outcome, judge
from rag.evaluation.summary import summarise
from rag.evaluation.systems import System
from rag.ports import CompletingGenerator, TextGenerator
from rag.service import Engine
from rag.service.ask import converse
from rag.service.dialog import Dialog
from rag.settings import load_settings
from rag.types import Answer
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, show_quality
from tools.benchmarks.quality import repositories_of

SHOWN_HITS = 12
"""So many places are found for an answer."""


class _Rewriting(ExtractiveGenerator):
    """Answers by quotes, after a model has put the question on its own."""

    def __init__(self, complete: Callable[[str], str]) -> None:
        super().__init__()
        self.complete = complete


def rewriting(bench: Bench) -> None:
    """Dev questions as typed, and with `reword` by the model that is configured: follow-ups on their own."""
    settings = load_settings()
    if not settings.has_model:
        raise NotMeasured("no model is configured: set RAG_BASE_URL and RAG_MODEL, or a key")
    files = [QUESTIONS / "dev.jsonl", QUESTIONS / "dev_conversations.jsonl"]
    questions = read_questions(files, {"newcomer", "first", "follow-up"})
    folders = repositories_of(QUESTIONS / "dev_repositories.toml", questions, bench.cache)
    with TemporaryDirectory(prefix="rag-bench-") as home:
        engine = Engine(replace(settings, home=Path(home), memory="memory:", reword=True))
        with closing(engine):
            model = engine.generator()
            if not isinstance(model, CompletingGenerator):
                raise NotMeasured(f"{settings.model} writes no short texts")
            systems = {"as typed": ExtractiveGenerator(), model.model: _Rewriting(model.complete)}
            outcomes = [
                _asked(engine, name, generator, questions, folders) for name, generator in systems.items()
            ]
    show_quality("Questions as typed, and rewritten by a model", summarise(questions, outcomes, k=SHOWN_HITS))


def _asked(
    engine: Engine, name: str, generator: TextGenerator, questions: list[Question], folders: dict[str, Path]
) -> Outcome:
    scores = {}
    for question in questions:
        dialog = Dialog(engine, [engine.repository(str(folders[question.repo]))])
        for earlier in question.history:
            list(converse(dialog, earlier, ExtractiveGenerator()))
        began = time.perf_counter()
        answer = list(converse(dialog, question.text, generator))[-1]
        assert isinstance(answer, Answer)
        spans = [LineSpan(hit.path, hit.start, hit.end) for hit in answer.hits]
        scores[question.id] = judge(question, spans, time.perf_counter() - began)
    return Outcome(System(name, (name,)), False, (), scores)
