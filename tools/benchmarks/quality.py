"""Retrieval quality beside BM25, the AdalFlow pipeline and semble, on our questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    found.save(bench.results / f"{name}.json")
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


def separation(scores: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the area under the ROC curve: how often a right answer's score is above a wrong one's.

    Equal scores count half. None if all are right, or none is.
    """
    good = [score for score, is_right in zip(scores, right, strict=True) if is_right]
    bad = [score for score, is_right in zip(scores, right, strict=True) if not is_right]
    if not good or not bad:
        return None
    return sum((g > b) + (g == b) / 2 for g in good for b in bad) / (len(good) * len(bad))


def calibration_error(scores: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Return the expected calibration error, in bins of equal width from 0 to 1 (Naeini et al., 2015)."""
    total = 0.0
    for n in range(bins):
        inside = [
            (score, is_right)
            for score, is_right in zip(scores, right, strict=True)
            if min(int(score * bins), bins - 1) == n
        ]
        total += abs(sum(score for score, _ in inside) - sum(is_right for _, is_right in inside))
    return total / len(scores) if scores else 0.0
