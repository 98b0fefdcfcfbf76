"""Retrieval quality beside BM25, the AdalFlow pipeline and semble, on our questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rag.errors import RagError
from rag.evaluation.measure import Material
from rag.evaluation.measure import measure as evaluation_of
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.systems import OURS, System
from tools.benchmarks.bench import QUESTIONS, Bench, NotMeasured, not_measured, show_quality
from tools.benchmarks.peer_systems import peer_systems
from tools.benchmarks.repositories import obtain_all, read_repositories

DEPTH = 50


def dev(bench: Bench) -> None:
    """Quality on the dev questions."""
    _measure(bench, "dev")


def test(bench: Bench) -> None:
    """Quality on the test questions: for final figures, by hand, never to choose anything by."""
    _measure(bench, "test")


def _measure(bench: Bench, name: str) -> None:
    questions = read_questions([QUESTIONS / f"{name}.jsonl", QUESTIONS / f"{name}_conversations.jsonl"])
    folders = repositories_of(QUESTIONS / f"{name}_repositories.toml", questions, bench.cache)
    measure(bench, name, f"Quality on the {name} questions, side by side", questions, folders)


def measure(bench: Bench, name: str, title: str, questions: list[Question], folders: dict[str, Path]) -> None:
    """Measure our search and the peers' on the questions; print, and write the results as `name`."""
    found = evaluation_of(
        [OURS, *_peers(bench)],
        Material(questions, folders, title),
        k=DEPTH,
        progress=lambda label, done, total: print(f"{done}/{total} {label}", file=sys.stderr),
    )
    bench.results.mkdir(parents=True, exist_ok=True)
    (bench.results / f"{name}.json").write_text(json.dumps(found.to_json(), indent=1), encoding="utf-8")
    show_quality(title, found.summary)


def repositories_of(toml: Path, questions: list[Question], cache: Path) -> dict[str, Path]:
    """The folders of the repositories that the questions are about. Raises NotMeasured."""
    wanted = {question.repo for question in questions}
    try:
        return obtain_all([entry for entry in read_repositories(toml) if entry.name in wanted], cache)
    except RagError as error:
        raise NotMeasured(str(error)) from error


def _peers(bench: Bench) -> list[System]:
    try:
        return peer_systems(bench.peers)
    except NotMeasured as reason:
        not_measured(reason)
        return []
