"""Ask every system every question, and score the results.

All systems use one protocol (rag/evaluation/systems.py), one after another, each on a folder that it indexes
from scratch. Documentation files in the results are skipped, as if they had not been shown, unless one of
them answers the question: the questions are about code, and only some systems index prose.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

_DOC_SUFFIXES = frozenset(".md .markdown .mdx .rst .txt .adoc .asciidoc .org .rdoc .textile".split())
_DOC_NAMES = frozenset("readme license licence copying notice changelog changes news authors todo".split())
_NO_DOCS = frozenset({"cmakelists.txt"})


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one system for one question. `lines` is None when no answer of the question has lines."""

    ndcg: float
    mrr: float
    recall: float
    lines: float | None
    latency_s: float


@dataclass(frozen=True, slots=True)
class Start:
    """The start of one system on one tree."""

    tree: str
    ready_s: float
    chunks: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one system: its scores by question id, and its starts in the order of the trees."""

    system: System
    history: bool
    starts: tuple[Start, ...]
    scores: Mapping[str, Scores]


def is_documentation(path: str) -> bool:
    """Return whether the file is prose, by its name: Markdown and similar formats, a README, a licence."""
    pure = PurePosixPath(path.lower())
    if pure.name in _NO_DOCS or pure.name.startswith("requirements"):
        return False
    return pure.suffix in _DOC_SUFFIXES or (not pure.suffix and pure.stem in _DOC_NAMES)


def judge(question: Question, results: Sequence[LineSpan], latency_s: float) -> Scores:
    """Score one question's results, best first."""
    if not any(is_documentation(path) for path in question.files):
        results = [span for span in results if not is_documentation(span.path)]
    ranking = ranked_files(results)
    return Scores(
        ndcg=ndcg(ranking, question.files, DEPTH),
        mrr=reciprocal_rank(ranking, question.files, DEPTH),
        recall=recall(ranking, question.files, DEPTH),
        lines=lines_found(results, question.spans, BUDGET_LINES) if question.spans else None,
        latency_s=latency_s,
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
    done = 0
    for tree in trees:
        with indexed_folder(tree) as root:
            for system in systems:
                progress(f"{tree.label}: {system.name}", done, total)
                with _fresh_home() as environment, Running(system, root, environment) as running:
                    starts[system.name].append(Start(tree.label, running.ready_s, running.chunks))
                    history[system.name] = running.history
                    for number, question in enumerate(tree.questions):
                        reply = running.ask(number, question.text, question.history, k)
                        scores[system.name][question.id] = judge(question, reply.results, reply.seconds)
                done += len(tree.questions)
    progress("", total, total)
    return [
        Outcome(system, history[system.name], tuple(starts[system.name]), scores[system.name])
        for system in systems
    ]


@contextmanager
def _fresh_home() -> Iterator[dict[str, str]]:
    """Yield variables for a RAG_HOME with the user's settings and no stores, so that no index is reused."""
    settings = default_home() / "config.toml"
    with TemporaryDirectory(prefix="rag-eval-home-") as home:
        if settings.is_file():
            shutil.copy(settings, Path(home) / settings.name)
        yield {"RAG_HOME": home}
