"""Fit the gate that warns, on the dev questions and the train questions by kind; check it on the other half
of their repositories.

A question is *warned* below the threshold, and *refused* ("not found") only where none of its words occurs.

Unanswerable questions are asked twice: alone, and as the second turn of a conversation. The weights come from
a logistic regression in which answerable and unanswerable questions weigh the same in all; the bias is then
set so that as many answerable questions are warned as wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from rag.cli.terminal import out
from rag.evaluation.answers import read_unanswerable
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.trees import indexed_folder, plan
from rag.retrieval.answerability import FITTED, AnswerabilityWeights, Signals, judge, signals
from rag.retrieval.search import Searcher, search_in_turn
from rag.service import Engine
from rag.settings import Settings
from tools.benchmarks.bench import QUESTIONS, Bench, show
from tools.benchmarks.quality import repositories_of

WARNED = 0.03
"""The share of answerable questions that may be warned where the weights are fitted. The promise is 5 %: new
repositories are warned more than those fitted on."""
RIDGE = 0.05

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """A question with the signals of its search, and whether it is answered "not found"."""

    repo: str
    kind: str
    signals: Signals
    refused: bool

    @property
    def answerable(self) -> bool:
        return not self.kind.startswith("unanswerable")


def gate(bench: Bench) -> None:
    """Fit the gate that warns on the dev questions; print the weights to take over."""
    asked = [*_searched(bench, "dev"), *_searched(bench, "kinds/train")]
    halves = _halves(asked)
    rows = [_row("as shipped, all dev", FITTED, asked)]
    for number, (fit, other) in enumerate((halves, halves[::-1]), 1):
        rows.append(_row(f"fitted on the other half, half {number}", fitted(fit), other))
    weights = fitted(asked)
    rows.append(_row("fitted on all dev", weights, asked))
    show("The gate: share warned", ["weights", *_KINDS, "false warnings", "unanswerable, no warning"], rows)
    refused = [
        [name, f"{np.mean([a.refused for a in asked if a.answerable is answerable]):.1%}"]
        for name, answerable in (("answerable", True), ("unanswerable", False))
    ]
    show('The gate: share answered "not found"', ["questions", "refused"], refused)
    values = ", ".join(f"{getattr(weights, name):.2f}" for name in AnswerabilityWeights.__dataclass_fields__)
    out(f"\nrag/retrieval/answerability.py: FITTED = AnswerabilityWeights({values})")


def fitted(asked: Sequence[Asked]) -> AnswerabilityWeights:
    """Weights by iteratively reweighted least squares (Hastie, Tibshirani, Friedman: ESL, 4.4.1)."""
    x = np.array([[*a.signals, 1.0] for a in asked])
    y = np.array([float(a.answerable) for a in asked])
    share = np.where(y == 1, 0.5 / y.sum(), 0.5 / (1 - y).sum()) * len(y)
    ridge = np.diag([RIDGE * len(y) / 100] * (x.shape[1] - 1) + [0.0])
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-(x @ weights)))
        gradient = x.T @ (share * (y - p)) - ridge @ weights
        curvature = (x * (share * p * (1 - p))[:, None]).T @ x + ridge
        weights += np.linalg.solve(curvature, gradient)
    sums = x[y == 1] @ weights
    weights[-1] -= float(np.quantile(sums, WARNED))
    return AnswerabilityWeights(*(round(float(weight), 2) for weight in weights))


_KINDS = ("newcomer", "first", "docstring", "follow-up", "unanswerable", "unanswerable later")


def _row(name: str, weights: AnswerabilityWeights, asked: Sequence[Asked]) -> list[str]:
    warned = np.array([not _is_sure(a.signals, weights) for a in asked])
    kinds = np.array([a.kind for a in asked])
    answerable = np.array([a.answerable for a in asked])
    by_kind = [f"{warned[kinds == kind].mean():.1%}" for kind in _KINDS]
    alone = kinds == "unanswerable"
    return [name, *by_kind, f"{warned[answerable].mean():.1%}", f"{1 - warned[alone].mean():.1%}"]


def _is_sure(given: Signals, weights: AnswerabilityWeights) -> bool:
    values = [getattr(weights, name) for name in AnswerabilityWeights.__dataclass_fields__]
    return float(np.dot([*given, 1.0], values)) >= 0


def _halves(asked: Sequence[Asked]) -> tuple[list[Asked], list[Asked]]:
    repos = sorted({a.repo for a in asked})
    first = set(repos[::2])
    return [a for a in asked if a.repo in first], [a for a in asked if a.repo not in first]


def _searched(bench: Bench, name: str) -> Iterator[Asked]:
    """Every question of a set with the signals of its search; those without a hit are left out."""
    answered = read_questions([QUESTIONS / f"{name}.jsonl", QUESTIONS / f"{name}_conversations.jsonl"])
    unanswerable = read_unanswerable([QUESTIONS / f"{name}_unanswerable.jsonl"])
    openings = {q.repo: q.text for q in reversed(answered) if q.kind == "first"}
    later = [_later(q, openings) for q in unanswerable if q.repo in openings]
    questions = [*answered, *unanswerable, *later]
    folders = repositories_of(QUESTIONS / f"{name}_repositories.toml", questions, bench.cache)
    for tree in plan(questions, folders):
        with indexed_folder(tree) as root, _Searcher(root) as searcher:
            for question in tree.questions:
                found = search_in_turn([searcher], question.text, question.history, k=12)
                if found.hits:
                    refused = not judge([searcher], found).found
                    yield Asked(question.repo, question.kind, signals([searcher], found), refused)


def _later(question: Question, openings: Mapping[str, str]) -> Question:
    return replace(question, kind="unanswerable later", history=(openings[question.repo],))


class _Searcher:
    """A folder, indexed from nothing, for as long as the context lasts."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = TemporaryDirectory(prefix="rag-gate-")

    def __enter__(self) -> Searcher:
        with closing(Engine(Settings(home=Path(self._home.name), memory="memory:"))) as engine:
            return engine.repository(str(self._root)).searcher

    def __exit__(self, *_: object) -> None:
        self._home.cleanup()
