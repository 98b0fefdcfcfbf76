"""Summarise the scores of single questions: means by kind and language, differences with intervals."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rag.evaluation.questions import Question
from rag.evaluation.runner import Outcome, Scores

RESAMPLES = 10_000
SEED = 20_260_101
LEVEL = 0.95
HALF = 0.5
"""The share of an answer's lines that counts as found."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric of one question, averaged over questions. `of` returns None where it does not apply."""

    name: str
    title: str
    of: Callable[[Scores], float | None]


MEASURES = (
    Measure("ndcg", "NDCG@10", lambda s: s.ndcg),
    Measure("mrr", "MRR@10", lambda s: s.mrr),
    Measure("recall", "recall@10", lambda s: s.recall),
    Measure("lines_any", "lines > 0", lambda s: None if s.lines is None else float(s.lines > 0)),
    Measure("lines_half", "lines ≥ ½", lambda s: None if s.lines is None else float(s.lines >= HALF)),
    Measure("lines_share", "lines", lambda s: s.lines),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean (of one system, or of its differences from another) with the interval that holds 95 % of the
    resampled ones.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One system in one group: means by measure (None where no question has it), the differences of the first
    system's means from them, and the intervals of the means.
    """

    system: str
    means: Mapping[str, float | None]
    differences: Mapping[str, Difference]
    intervals: Mapping[str, Difference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """The questions of one kind or language, or all: `by` is "kind", "language" or "all"."""

    by: str
    name: str
    count: int
    rows: tuple[SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a system: medians over the trees, percentiles over all queries, including the pipe."""

    system: str
    command: str
    history: bool
    chunks: int
    ready_s: float
    ready_total_s: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that is reported. `machine` describes where the times were measured."""

    machine: str
    k: int
    groups: tuple[QuestionGroup, ...]
    costs: tuple[Cost, ...]

    @property
    def first(self) -> str:
        """The system that the others are compared to."""
        return self.costs[0].system

    @property
    def distinct_groups(self) -> list[QuestionGroup]:
        """The groups that are not all questions under another name."""
        several = {by for by in ("kind", "language") if sum(g.by == by for g in self.groups) > 1}
        return [group for group in self.groups if group.by == "all" or group.by in several]


def measures_of(summary: Summary) -> list[Measure]:
    """Return the measures that some question has, without those that equal an earlier one everywhere."""
    found: list[Measure] = []
    seen: set[tuple[float | None, ...]] = set()
    for measure in MEASURES:
        values = tuple(row.means[measure.name] for group in summary.groups for row in group.rows)
        if any(value is not None for value in values) and values not in seen:
            found.append(measure)
            seen.add(values)
    return found


def summarise(questions: Sequence[Question], outcomes: Sequence[Outcome], *, k: int) -> Summary:
    """Average the scores by kind, by language and in all; kinds and languages in alphabetical order."""
    groups = [_group("all", "all", questions, outcomes)]
    for by in ("kind", "language"):
        names = sorted({getattr(question, by) for question in questions})
        groups += [_group(by, n, [q for q in questions if getattr(q, by) == n], outcomes) for n in names]
    return Summary(machine(), k, tuple(groups), tuple(_cost(outcome) for outcome in outcomes))


def machine() -> str:
    """Return a short description of this machine."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has the process's CPU affinity
        cores = os.cpu_count() or 1
    return f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"


def _group(by: str, name: str, questions: Sequence[Question], outcomes: Sequence[Outcome]) -> QuestionGroup:
    weights = Resampling([question.conversation for question in questions])
    first = outcomes[0]
    rows = []
    for outcome in outcomes:
        means: dict[str, float | None] = {}
        differences, intervals = {}, {}
        for measure in MEASURES:
            values = _values(measure, outcome, questions)
            known = ~np.isnan(values)
            means[measure.name] = float(values[known].mean()) if known.any() else None
            if known.any():
                intervals[measure.name] = weights.mean(values)
            if outcome is not first and known.any():
                ahead = _values(measure, first, questions) - values
                differences[measure.name] = weights.mean(ahead)
        rows.append(SummaryRow(outcome.system.name, means, differences, intervals))
    return QuestionGroup(by, name, len(questions), tuple(rows))


def _values(measure: Measure, outcome: Outcome, questions: Sequence[Question]) -> Numbers:
    values = (measure.of(outcome.scores[question.id]) for question in questions)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


class Resampling:
    """Bootstrap over conversations: the turns of one are drawn together, since they are not independent.

    A single question is a conversation of one. Percentile intervals, as in Efron, Tibshirani: An Introduction
    to the Bootstrap (1993).
    """

    def __init__(self, conversations: Sequence[str]) -> None:
        _, self._member = np.unique(np.array(conversations), return_inverse=True)
        count = int(self._member.max()) + 1
        random = np.random.default_rng([SEED, count])
        self._draws = random.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float32)

    def mean(self, values: Numbers) -> Difference:
        """Return the mean of values or paired differences, and its interval. NaN is ignored."""
        known = ~np.isnan(values)
        size = self._draws.shape[1]
        sums = np.bincount(self._member[known], values[known], minlength=size)
        counts = np.bincount(self._member[known], minlength=size)
        drawn = self._draws @ counts.astype(np.float32)
        means = (self._draws @ sums.astype(np.float32))[drawn > 0] / drawn[drawn > 0]
        tail = 100 * (1 - LEVEL) / 2
        low, high = np.percentile(means, [tail, 100 - tail])
        return Difference(float(values[known].mean()), float(low), float(high))


def _cost(outcome: Outcome) -> Cost:
    latencies = [scores.latency_s * 1000 for scores in outcome.scores.values()]
    ready = [start.ready_s for start in outcome.starts]
    return Cost(
        system=outcome.system.name,
        command=" ".join(outcome.system.command),
        history=outcome.history,
        chunks=sum(start.chunks for start in outcome.starts),
        ready_s=float(np.median(ready)),
        ready_total_s=float(np.sum(ready)),
        p50_ms=float(np.percentile(latencies, 50)),
        p95_ms=float(np.percentile(latencies, 95)),
    )
