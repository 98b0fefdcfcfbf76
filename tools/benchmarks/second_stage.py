"""What the second stage of the search changes: the same searches without one and with each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from rag.backends.minilm_reranker import MiniLmReranker
from rag.backends.student_reranker import StudentReranker
from rag.errors import BackendMissing
from rag.evaluation.questions import Question, read_questions
from rag.evaluation.trees import indexed_folder, plan
from rag.ports import Reranker
from rag.retrieval.search import Searcher, search_in_turn
from tools.benchmarks.ablation import indexed
from tools.benchmarks.bench import QUESTIONS, Bench, show
from tools.benchmarks.quality import repositories_of

SETS = ("kinds/train", "kinds/dev", "dev")
_RESAMPLES = 2000
_PATIENCE_S = 600.0
"""How long MiniLM may compute here, so that every hit has a score."""


def second_stage(bench: Bench) -> None:
    """The second stage of the search, on the questions by kind and the older dev questions."""
    for name in SETS:
        files = [QUESTIONS / f"{name}.jsonl", QUESTIONS / f"{name}_conversations.jsonl"]
        questions = read_questions(files)
        folders = repositories_of(QUESTIONS / f"{name}_repositories.toml", questions, bench.cache)
        rerankers = _rerankers(bench.cache)
        found: dict[str, list[tuple[float, float, float]]] = {stage: [] for stage in rerankers}
        asked: list[Question] = []
        for tree in plan(questions, folders):
            with indexed_folder(tree) as root, indexed(root) as searcher:
                for stage, reranker in rerankers.items():
                    changed = replace(searcher, reranker=reranker)
                    found[stage] += [_judged(changed, question) for question in tree.questions]
                asked += tree.questions
        groups = {"all": list(range(len(asked)))}
        for row, question in enumerate(asked):
            groups.setdefault(question.kind, []).append(row)
        _show(name, groups, {stage: np.asarray(rows) for stage, rows in found.items()})


def _rerankers(cache: Path) -> Mapping[str, Reranker | None]:
    """Return the second stages that are installed, by name; none first."""
    stages: dict[str, Reranker | None] = {"none": None, "student": StudentReranker()}
    with suppress(BackendMissing):
        stages["minilm"] = MiniLmReranker(cache / "minilm_vectors.db", wait_s=_PATIENCE_S)
    return stages


def _judged(searcher: Searcher, question: Question) -> tuple[float, float, float]:
    """Return whether the first hit is right, the reciprocal rank of the first right one, and CPU-ms."""
    began = time.process_time()
    hits = search_in_turn([searcher], question.text, question.history, k=10).hits
    took = (time.process_time() - began) * 1000
    right = [
        any(hit.path == one.path and hit.start <= one.end and one.start <= hit.end for one in question.spans)
        for hit in hits
    ]
    rank = right.index(True) + 1 if any(right) else 0
    return float(rank == 1), 1 / rank if rank else 0.0, took


def _show(name: str, groups: Mapping[str, list[int]], found: Mapping[str, np.ndarray]) -> None:
    stages = list(found)
    columns = ["kind", "n", *(f"{stage} {figure}" for stage in stages for figure in ("first", "MRR"))]
    rows = [
        [kind, str(len(of)), *(f"{found[stage][of, i].mean():.3f}" for stage in stages for i in (0, 1))]
        for kind, of in groups.items()
    ]
    show(f"{name}: right line first, and MRR by lines", columns, rows)
    show(
        f"{name}: difference to no second stage (95 %)",
        ["stage", "first", "MRR", "CPU-ms"],
        [*_changes(found)],
    )


def _changes(found: Mapping[str, np.ndarray]) -> Iterator[list[str]]:
    for stage, rows in found.items():
        change = rows - found["none"]
        drawn = np.random.default_rng(1).integers(0, len(change), (_RESAMPLES, len(change)))
        low, high = np.percentile(change[drawn].mean(axis=1), [2.5, 97.5], axis=0)
        cells = [f"{change[:, i].mean():+.3f} [{low[i]:+.3f}, {high[i]:+.3f}]" for i in (0, 1)]
        yield [stage, *cells, f"{rows[:, 2].mean():.1f}"]
