"""Fit how likely the first place of an answer is right, and write data/first_right.json.

`python -m tools.train.first_right` asks the train questions by kind without a model (some minutes), fits a
logistic regression, prints its figures on questions of repositories that it was not fitted on, and writes
the weights. An argument names another folder of obtained repositories than .bench/repositories. Run it again
after every change of the ranking; `make bench ONLY=kinds` checks the result on the dev repositories.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from rag.evaluation.questions import read_questions
from rag.evaluation.trees import indexed_folder, plan
from rag.retrieval.answerability import signals_of_first
from rag.retrieval.first_right import FirstSignals
from rag.service import Engine
from rag.settings import Settings
from tools.benchmarks.answered import Answered, ask, conversations
from tools.benchmarks.kinds import KINDS, calibration_error, separation, wrapped
from tools.benchmarks.quality import repositories_of

WEIGHTS = Path("data/first_right.json")
CACHE = Path(".bench/repositories")
RIDGE = 10.0

Numbers = npt.NDArray[np.float64]


def main() -> None:
    """Ask, fit, print, write."""
    cache = Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE
    asked = _asked("train", cache)
    x = np.array([signals for signals, _ in asked])
    y = np.array([float(one.is_first_right) for _, one in asked])
    repos = np.array([one.question.repo for _, one in asked])
    others = np.zeros(len(y))
    for repo in sorted(set(repos.tolist())):
        *factors, bias = fitted(x[repos != repo], y[repos != repo])
        others[repos == repo] = probability(x[repos == repo], np.array(factors), bias)
    area = separation(others.tolist(), (y == 1).tolist()) or 0.0
    error = calibration_error(others.tolist(), (y == 1).tolist())
    print(f"{len(y)} questions, right {y.mean():.3f}; other repositories: AUROC {area:.3f}, ECE {error:.3f}")
    names = (*FirstSignals._fields, "bias")
    weights = {name: round(float(value), 3) for name, value in zip(names, fitted(x, y), strict=True)}
    print(weights)
    WEIGHTS.write_text(json.dumps(weights, indent=1) + "\n", encoding="utf-8")


def fitted(x: Numbers, y: Numbers) -> Numbers:
    """Return one weight for each signal, then the bias: logistic regression with a ridge penalty on the
    weights of the standardised signals, by Newton's method (Hastie, Tibshirani, Friedman: ESL, 4.4.1).
    """
    middle, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = np.column_stack([(x - middle) / spread, np.ones(len(x))])
    ridge = np.diag([RIDGE] * x.shape[1] + [1e-6])
    weights = np.zeros(z.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-(z @ weights)))
        curvature = (z * (p * (1 - p))[:, None]).T @ z + ridge
        weights += np.linalg.solve(curvature, z.T @ (y - p) - ridge @ weights)
    scaled = weights[:-1] / spread
    return np.append(scaled, weights[-1] - scaled @ middle)


def probability(x: Numbers, factors: Numbers, bias: float) -> Numbers:
    """Return the probabilities of rows of signals."""
    return np.asarray(1 / (1 + np.exp(-(x @ factors + bias))))


def _asked(split: str, cache: Path) -> list[tuple[FirstSignals, Answered]]:
    """Ask the answerable questions of a split; leave out those for which nothing is found."""
    questions = read_questions([KINDS / f"{split}.jsonl", KINDS / f"{split}_conversations.jsonl"])
    folders = repositories_of(KINDS / f"{split}_repositories.toml", questions, cache)
    found: list[tuple[FirstSignals, Answered]] = []
    for tree in plan([*questions, *wrapped(questions)], folders):
        print(tree.label, file=sys.stderr)
        with (
            indexed_folder(tree) as root,
            TemporaryDirectory(prefix="rag-train-") as home,
            closing(Engine(Settings(home=Path(home), memory="memory:"))) as engine,
        ):
            for dialog, question in conversations(engine, root, tree.questions):
                search = dialog.search(question.text, k=12)
                searchers = [repository.searcher for repository in dialog.repositories]
                answered = ask(dialog, question)
                if search.hits:
                    found.append((signals_of_first(searchers, search), answered))
    return found


if __name__ == "__main__":
    main()
