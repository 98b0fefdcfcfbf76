"""Several repositories in one question: what one loses by the others."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.runner import Outcome, Scores, Start, judge
from rag.evaluation.summary import summarise
from rag.evaluation.systems import System
from rag.retrieval.search import Searcher, search
from rag.service import Engine
from rag.settings import Settings
from tools.benchmarks.bench import QUESTIONS, Bench, show_quality
from tools.benchmarks.quality import repositories_of

DEPTH = 50
SMALL = {
    "viper": ("rubocop", "fastify"),
    "httpie": ("rubocop", "commons-io"),
    "rxjs": ("rubocop", "fastify"),
    "leveldb": ("rubocop", "commons-io"),
    "monolog": ("rubocop", "tornado"),
    "jq": ("bat", "fastify"),
}
LARGE = {"rubocop": ("viper", "httpie"), "fastify": ("viper", "rxjs"), "commons-io": ("viper", "httpie")}


def together(bench: Bench) -> None:
    """Dev questions about one repository, asked of it alone and of three together."""
    files = [QUESTIONS / "dev.jsonl", QUESTIONS / "dev_conversations.jsonl"]
    questions = read_questions(files, {"newcomer", "first"})
    folders = repositories_of(QUESTIONS / "dev_repositories.toml", questions, bench.cache)
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="rag-bench-")))
        engine = Engine(Settings(home=home))
        names = {repo: engine.repository(str(folder)) for repo, folder in folders.items()}
        searchers = {repo: opened.searcher for repo, opened in names.items()}
        called = {repo: opened.source.name for repo, opened in names.items()}
        for title, cases in (("A small repository with two large", SMALL), ("A large with two small", LARGE)):
            about = [_placed(question, called) for question in questions if question.repo in cases]
            outcomes = [
                _asked("together", about, {r: [searchers[n] for n in (r, *o)] for r, o in cases.items()}),
                _asked("alone", about, {repo: [searchers[repo]] for repo in cases}),
            ]
            show_quality(title, summarise(about, outcomes, k=DEPTH))


def _placed(question: Question, called: dict[str, str]) -> Question:
    """The question with its answers' paths beginning with the repository's name, as in a hit's place here."""
    name = called[question.repo]
    return replace(
        question,
        files=frozenset(f"{name}/{path}" for path in question.files),
        spans=tuple(replace(span, path=f"{name}/{span.path}") for span in question.spans),
    )


def _asked(name: str, questions: list[Question], searchers: dict[str, list[Searcher]]) -> Outcome:
    scores: dict[str, Scores] = {}
    for question in questions:
        began = time.perf_counter()
        hits = search(searchers[question.repo], question.text, k=DEPTH).hits
        spans = [LineSpan(f"{hit.repo}/{hit.path}", hit.start, hit.end) for hit in hits]
        scores[question.id] = judge(question, spans, time.perf_counter() - began)
    starts = [Start(repo, 0.0, sum(len(s.index) for s in those)) for repo, those in searchers.items()]
    return Outcome(System(name, (name,)), False, tuple(starts), scores)
