"""Ask every system every question, and score the results.

All systems use one protocol (rag/evaluation/systems.py), one after another, each on a folder that it indexes
from scratch. Documentation files in the results are skipped, as if they had not been shown, unless one of
them answers the question: the questions are about code, and only some systems index prose.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from rag.evaluation.metrics import LineSpan, lines_found, ndcg, ranked_files, recall, reciprocal_rank
from rag.evaluation.questions import Question
from rag.evaluation.systems import Running, System
from rag.evaluation.trees import Tree, indexed_folder
from rag.settings import default_home

DEPTH = 10
"""The number of files that count in NDCG, MRR and recall."""
BUDGET_LINES = 200
"""The number of lines that a reader reads."""
SHOWN = 3
"""The number of first places that a result has."""

_DOC_SUFFIXES = frozenset(".md .markdown .mdx .rst .txt .adoc .asciidoc .org .rdoc .textile".split())
_DOC_NAMES = frozenset("readme license licence copying notice changelog changes news authors todo".split())
_NO_DOCS = frozenset({"cmakelists.txt"})


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one system for one question. `lines` is None when no answer of the question has lines.

    `rank` is the position of the first place that answers (by lines if the question has lines, else by file),
    None if none was shown. `places` are the first places that were shown. `first_right` is the probability
    that the system gives its first place of being right, None if it gives none.
    """

    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    latency_s: float
    rank: int | None = None
    places: tuple[LineSpan, ...] = ()
    first_right: float | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one system on one tree."""

    tree: str
    ready_s: float
    chunks: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one system: its scores by question id, and its starts in the order of the trees.

    `expected` are the places that answer each question.
    """

    system: System
    history: bool
    starts: tuple[Start, ...]
    scores: Mapping[str, Scores]
    expected: Mapping[str, tuple[LineSpan, ...]] = field(default_factory=dict)


def is_documentation(path: str) -> bool:
    """Return whether the file is prose, by its name: Markdown and similar formats, a README, a licence."""
    pure = PurePosixPath(path.lower())
    if pure.name in _NO_DOCS or pure.name.startswith("requirements"):
        return False
    return pure.suffix in _DOC_SUFFIXES or (not pure.suffix and pure.stem in _DOC_NAMES)


def judge(question: Question, results: Sequence[LineSpan], latency_s: float) -> Scores:
    """Score one question's results, best first."""
    results = counted_results(question, results)
    ranking = ranked_files(results)
    return Scores(
        ndcg=ndcg(ranking, question.files, DEPTH),
        mrr=reciprocal_rank(ranking, question.files, DEPTH),
        recall=recall(ranking, question.files, DEPTH),
        lines=lines_found(results, question.spans, BUDGET_LINES) if question.spans else None,
        latency_s=latency_s,
        rank=next((n for n, span in enumerate(results, 1) if _answers(question, span)), None),
    )


def counted_results(question: Question, results: Sequence[LineSpan]) -> list[LineSpan]:
    """Return the results that count: without documentation, unless that answers the question."""
    if any(is_documentation(path) for path in question.files):
        return list(results)
    return [span for span in results if not is_documentation(span.path)]


def _answers(question: Question, span: LineSpan) -> bool:
    if not question.spans:
        return span.path in question.files
    return any(
        span.path == one.path and span.start <= one.end and one.start <= span.end for one in question.spans
    )


def run(
    systems: Sequence[System],
    trees: Sequence[Tree],
    *,
    k: int = 50,
    progress: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> list[Outcome]:
    """Ask all systems the questions of all trees; return outcomes in the order of the systems.

    Args:
        systems: with unique names.
        trees: with unique question ids.
        k: how many results each system is asked for.
        progress: called with the current tree and system, the number of answered questions, and the total.

    Raises:
        SettingsError: a system cannot be started.
        ProviderBroke: a system failed or returned an invalid answer; it is not scored as zero.
        SourceError: the copy of a tree cannot be made.
    """
    total = sum(len(tree.questions) for tree in trees) * len(systems)
    scores: dict[str, dict[str, Scores]] = {system.name: {} for system in systems}
    starts: dict[str, list[Start]] = {system.name: [] for system in systems}
    history = dict.fromkeys(scores, False)
    expected: dict[str, tuple[LineSpan, ...]] = {}
    done = 0
    for tree in trees:
        with indexed_folder(tree) as root:
            expected |= {one.id: _expected(one) for one in tree.questions}
            for system in systems:
                progress(f"{tree.label}: {system.name}", done, total)
                with _fresh_home() as home, Running(system, root, {**home, **system.variables}) as running:
                    starts[system.name].append(Start(tree.label, running.ready_s, running.chunks))
                    history[system.name] = running.history
                    scores[system.name] |= _asked(running, tree.questions, k)
                done += len(tree.questions)
    progress("", total, total)
    return [
        Outcome(system, history[system.name], tuple(starts[system.name]), scores[system.name], expected)
        for system in systems
    ]


def _asked(running: Running, questions: Sequence[Question], k: int) -> dict[str, Scores]:
    """Ask all questions; then, untimed, how sure the system is."""
    found = {}
    replies = [running.ask(n, one.text, one.history, k) for n, one in enumerate(questions)]
    for number, (question, reply) in enumerate(zip(questions, replies, strict=True)):
        shown = counted_results(question, reply.results)[:SHOWN]
        found[question.id] = replace(
            judge(question, reply.results, reply.seconds),
            places=tuple(shown),
            first_right=running.first_right(number, question.text, question.history, k),
        )
    return found


def _expected(question: Question) -> tuple[LineSpan, ...]:
    known = {span.path for span in question.spans}
    return (*question.spans, *(LineSpan(path, 0, 0) for path in sorted(question.files - known)))


@contextmanager
def _fresh_home() -> Iterator[dict[str, str]]:
    """Yield variables for a RAG_HOME with the user's settings and no stores, so that no index is reused."""
    settings = default_home() / "config.toml"
    with TemporaryDirectory(prefix="rag-eval-home-") as home:
        if settings.is_file():
            shutil.copy(settings, Path(home) / settings.name)
        yield {"RAG_HOME": home}
