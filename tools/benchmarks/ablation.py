"""What each signal of the ranking is worth, all of them but one, on the dev questions; then each rule."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rag.cli.terminal import out
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import read_questions
from rag.evaluation.runner import Outcome, Scores, Start, judge
from rag.evaluation.summary import Summary, SummaryRow, summarise
from rag.evaluation.systems import System
from rag.evaluation.trees import indexed_folder, plan
from rag.retrieval.search import Searcher, search_in_turn
from rag.service import Engine
from rag.settings import Settings
from tools.benchmarks.bench import QUESTIONS, Bench, show, where
from tools.benchmarks.quality import DEPTH, repositories_of
from tools.benchmarks.rule_ablation import rule_ablation

SUMS = ("lexical", "synonym", "dense", "symbol", "mention", "path", "file", "about")
"""Signals that are added: switched off at 0."""
FACTORS = ("test", "doc", "config", "aside", "class_", "section", "unnamed", "repeat", "bundle")
"""Signals that are multiplied: switched off at 1."""
WHOLE = "as shipped"
_KINDS = ("newcomer", "first", "docstring", "follow-up")


def ablation(bench: Bench) -> None:
    """What each signal of the ranking is worth on the dev questions, and each rule on those by kind."""
    questions = read_questions([QUESTIONS / "dev.jsonl", QUESTIONS / "dev_conversations.jsonl"])
    folders = repositories_of(QUESTIONS / "dev_repositories.toml", questions, bench.cache)
    scores: dict[str, dict[str, Scores]] = {}
    starts = []
    for tree in plan(questions, folders):
        with indexed_folder(tree) as root, indexed(root) as searcher:
            starts.append(Start(tree.label, 0.0, len(searcher.index)))
            for name, changed in variants(searcher).items():
                for question in tree.questions:
                    began = time.perf_counter()
                    found = search_in_turn([changed], question.text, question.history, k=DEPTH)
                    spans = [LineSpan(hit.path, hit.start, hit.end) for hit in found.hits]
                    judged = judge(question, spans, time.perf_counter() - began)
                    scores.setdefault(name, {})[question.id] = judged
    outcomes = [Outcome(System(name, ()), True, tuple(starts), given) for name, given in scores.items()]
    summary = summarise(questions, outcomes, k=DEPTH)
    columns, rows = _table(summary)
    show("What NDCG@10 loses without a signal (95 %), and the lines of newcomers' questions", columns, rows)
    _write(bench.results, summary, columns, rows)
    rule_ablation(bench)


def variants(searcher: Searcher) -> Mapping[str, Searcher]:
    """The searcher as it is, and without each signal, by name; the whole one first."""
    off = dict.fromkeys(SUMS, 0.0) | dict.fromkeys(FACTORS, 1.0)
    changed = {
        f"without {name.rstrip('_')}": replace(searcher, weights=replace(searcher.weights, **{name: value}))
        for name, value in off.items()
    }
    nothing = replace(searcher.carry, question=0.0, near=0.0, user=0.0)
    alone = replace(searcher, carry=nothing)
    return {WHOLE: searcher, **changed, "without history": alone}


def _table(summary: Summary) -> tuple[list[str], list[list[str]]]:
    groups = {group.name: group for group in summary.groups if group.by == "kind"}
    kinds = [kind for kind in _KINDS if kind in groups]
    rows = []
    for number, row in enumerate(groups[kinds[0]].rows):
        cells = [_cell(groups[kind].rows[number], "ndcg") for kind in kinds]
        rows.append([row.system, *cells, _cell(groups["newcomer"].rows[number], "lines_any")])
    return ["ranking", *kinds, "newcomer, lines > 0"], rows


def _cell(row: SummaryRow, measure: str) -> str:
    """The mean of the whole; the change without a signal, with its interval."""
    if measure not in row.differences:
        return f"{row.means[measure] or 0:.3f}"
    lost = row.differences[measure]
    return f"{0 - lost.mean:+.3f} [{0 - lost.high:+.3f}, {0 - lost.low:+.3f}]"


def _write(folder: Path, summary: Summary, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The table as Markdown, and all figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [columns, ["---"] * len(columns), *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    (folder / "ablation.md").write_text(f"{where()}\n\n{text}\n", encoding="utf-8")
    figures = json.dumps(asdict(summary), indent=1)
    (folder / "ablation.json").write_text(figures, encoding="utf-8")
    out(f"table: {folder / 'ablation.md'}")


@contextmanager
def indexed(root: Path) -> Iterator[Searcher]:
    """A folder, indexed from nothing, for as long as the context lasts."""
    with (
        TemporaryDirectory(prefix="rag-ablation-") as home,
        closing(Engine(Settings(home=Path(home), memory="memory:"))) as engine,
    ):
        yield engine.repository(str(root)).searcher
