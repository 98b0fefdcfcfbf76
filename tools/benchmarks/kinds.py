"""Answers without a model, by kind of question, on repositories that nothing was tuned on."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rag.cli.terminal import out
from rag.evaluation.questions import Question, read_questions, read_records
from rag.evaluation.trees import plan
from tools.benchmarks.answered import (
    Answered,
    answer_all,
    is_unanswerable,
    print_shares,
    read_unanswerable,
    shares,
)
from tools.benchmarks.bench import QUESTIONS, Bench, show, where
from tools.benchmarks.quality import measure, repositories_of

KINDS = QUESTIONS / "kinds"


def kinds(bench: Bench) -> None:
    """Answers by kind of question, on the dev repositories."""
    _measure(bench, "dev")


def final(bench: Bench) -> None:
    """Answers by kind of question, on the final repositories: for final figures, never to choose by."""
    _measure(bench, "final")


def _measure(bench: Bench, split: str) -> None:
    files = [KINDS / f"{split}{part}.jsonl" for part in ("", "_conversations", "_unanswerable")]
    questions = read_questions(files[:2])
    folders = repositories_of(KINDS / f"{split}_repositories.toml", questions, bench.cache)
    trees = plan([*questions, *wrapped(questions), *read_unanswerable(files)], folders)
    answered = answer_all(trees, lambda label, done, total: print(f"{done}/{total} {label}", file=sys.stderr))
    out(f"\nAnswers by kind, {split} repositories\n{where()}")
    found = shares(answered)
    print_shares(found)
    _show_confidence(split, answered)
    measure(bench, f"kinds-{split}", f"Search by kind, {split} repositories", questions, folders)


def wrapped(questions: Sequence[Question]) -> Iterator[Question]:
    """Yield questions of the set inside greetings, instructions and small talk, one for each wrapping."""
    plain = [one for one in questions if not one.history and one.kind not in ("error", "exact")]
    templates = [one["template"] for one in read_records(KINDS / "wrappings.jsonl") if "template" in one]
    for template, one in zip(templates, random.Random(0).sample(plain, len(templates)), strict=True):
        text = template.replace("{question}", one.text[:1].upper() + one.text[1:])
        name = f"{one.id} wrapped"
        yield replace(one, id=name, conversation=name, kind="wrapped", text=text, members=(), sites=())


def _show_confidence(split: str, answered: Sequence[Answered]) -> None:
    """Show whether the confidence separates what can be answered, and answers whose first place is right."""
    answerable = [one for one in answered if not is_unanswerable(one.question.kind)]
    rows = []
    for name, group, scores, right in (
        (
            "an answer is in the repository",
            answered,
            [one.confidence for one in answered],
            [not is_unanswerable(one.question.kind) for one in answered],
        ),
        (
            "the first place is right",
            answerable,
            [one.first_right for one in answerable],
            [one.is_first_right for one in answerable],
        ),
    ):
        area = separation(scores, right)
        rows.append((name, len(group), f"{area or 0:.3f}", f"{calibration_error(scores, right):.3f}"))
    show(f"Confidence, {split} repositories", ("it says", "n", "AUROC", "calibration error"), rows)


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
