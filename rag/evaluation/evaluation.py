"""`Evaluation`: a measurement with its questions, as a value: to look at, to save, to compare with another.

from rag.evaluation import evaluate

before = evaluate("path", questions="questions.jsonl")
after = evaluate("path", questions="questions.jsonl", settings={"reranker": "student"})
before.compare(after).plot()
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rag.display.dots import Dot, DotRow, multiples
from rag.display.frames import frame
from rag.display.plot import Plot
from rag.display.svg import share
from rag.errors import ConfigError, SettingsError
from rag.evaluation.excerpts import Excerpt, excerpt_from, excerpt_json
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.runner import Outcome, Scores, Start
from rag.evaluation.summary import LEVEL, Measure, Summary, SummaryRow, measures_of, summarise
from rag.evaluation.systems import System

VERSION = 2
"""The version of the JSON form. Version 1 had no texts of the questions, and cannot be compared."""


@dataclass(frozen=True, slots=True)
class MeasuredRepository:
    """A searched repository; `commit` is None if it has no history."""

    name: str
    commit: str | None = None
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """What was measured, and when: `date` is UTC, `settings` are those of our own search."""

    date: str = ""
    repositories: tuple[MeasuredRepository, ...] = ()
    questions: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The results of systems for questions. The first system is compared with the others."""

    questions: tuple[Question, ...]
    outcomes: tuple[Outcome, ...]
    k: int
    conditions: Conditions = Conditions()
    machine: str = ""

    @cached_property
    def summary(self) -> Summary:
        """The means by kind, by language and in all, with their intervals."""
        found = summarise(self.questions, self.outcomes, k=self.k)
        return replace(found, machine=self.machine) if self.machine else found

    @property
    def systems(self) -> list[str]:
        """The names of the systems."""
        return [outcome.system.name for outcome in self.outcomes]

    def expected(self, question: Question) -> tuple[Excerpt, ...]:
        """Return the places that answer a question."""
        return self.outcomes[0].expected.get(question.id, ())

    # ------------------------------------------------------------ to look at

    def plot(self) -> Plot:
        """Return the means with their intervals: a panel for each measure, a row for each kind."""
        return plot_of(self.summary)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each question and system.

        Raises:
            BackendMissing: pandas is not installed.
        """
        return frame(
            {
                "id": question.id,
                "question": question.text,
                "kind": question.kind,
                "system": outcome.system.name,
                "rank": scores.rank,
                "ndcg": scores.ndcg,
                "lines": scores.lines,
                "expected": ", ".join(one.place for one in self.expected(question)),
                "first": scores.places[0].place if scores.places else "",
                "first_right": scores.first_right,
                "latency_ms": scores.latency_s * 1000,
            }
            for question in self.questions
            for outcome in self.outcomes
            for scores in [outcome.scores[question.id]]
        )

    def compare(self, other: Evaluation) -> Evaluation:
        """Return an evaluation of the questions of both, by the first systems of this run and a later one.

        The later one comes first, so that a positive difference is a gain.

        Raises:
            ConfigError: no question is in both.
        """
        theirs = {(one.id, one.text): one for one in other.questions}
        common = tuple(one for one in self.questions if (one.id, one.text) in theirs)
        if not common:
            raise ConfigError(
                f"the two runs have no question in common ({len(self.questions)} and "
                f"{len(other.questions)} questions); ask both the same ones: --questions FILE"
            )
        names = _two_names(self, other)
        pair = [
            replace(one.outcomes[0], system=replace(one.outcomes[0].system, name=name))
            for one, name in zip((other, self), reversed(names), strict=True)
        ]
        about = replace(
            other.conditions,
            date=f"{other.conditions.date}, compared with {self.conditions.date}",
            repositories=tuple(
                dict.fromkeys((*other.conditions.repositories, *self.conditions.repositories))
            ),
        )
        return Evaluation(common, tuple(pair), min(self.k, other.k), about, other.machine)

    def html(self) -> str:
        """Return the report: one HTML page that loads nothing."""
        from rag.evaluation.report import html_report

        return html_report(self)

    def save(self, path: str | Path) -> Path:
        """Write the report (`.html`) or the JSON form (`.json`); return the path.

        Raises:
            ConfigError: the name ends with neither, or the file cannot be written.
        """
        target = Path(path)
        if target.suffix not in (".html", ".json"):
            raise ConfigError(f"{target.name} ends with neither .html nor .json; name it report.html")
        text = self.html() if target.suffix == ".html" else json.dumps(self.to_json(), indent=1)
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}; check the folder") from error
        return target

    def _repr_html_(self) -> str:
        """Render the plot for a notebook."""
        return self.plot()._repr_html_()

    # ------------------------------------------------------------ as JSON

    def to_json(self) -> dict[str, Any]:
        """Return the summary, each system's starts and every question with its scores, as JSON values."""
        return {
            "version": VERSION,
            "conditions": asdict(self.conditions),
            **asdict(self.summary),
            "starts": {o.system.name: [asdict(start) for start in o.starts] for o in self.outcomes},
            "questions": [self._question_json(question) for question in self.questions],
        }

    def _question_json(self, question: Question) -> dict[str, Any]:
        return {
            "id": question.id,
            "repo": question.repo,
            "kind": question.kind,
            "language": question.language,
            "question": question.text,
            "conversation": question.conversation,
            "history": [*question.history],
            "expected": [excerpt_json(one) for one in self.expected(question)],
            "scores": {o.system.name: _scores_json(o.scores[question.id]) for o in self.outcomes},
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation that `to_json` wrote.

        Raises:
            SettingsError: it is not one, or of another version.
        """
        version = written.get("version", 1) if isinstance(written, Mapping) else None
        if version != VERSION:
            raise SettingsError(
                f"this is not a result of `rag eval --json` of version {VERSION} (its version is {version}); "
                "measure again"
            )
        try:
            return _read(written)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise SettingsError(
                f"this result of `rag eval --json` is damaged ({type(error).__name__}: {error}); "
                "measure again"
            ) from error


def read_evaluation(path: Path) -> Evaluation:
    """Return the evaluation in a file that `rag eval --json` or `Evaluation.save` wrote.

    Raises:
        SettingsError: the file cannot be read, or is not such a result.
    """
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"cannot read the result in {path}: {error}") from error
    try:
        return Evaluation.from_json(written)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def plot_of(summary: Summary) -> Plot:
    """Return the means with their intervals: a panel for each measure, a row for each group of questions."""
    measures = measures_of(summary)
    groups = summary.distinct_groups
    systems = [cost.system for cost in summary.costs]
    drawn = [
        DotRow(
            f"{group.name} ({group.count})",
            [[_dot(row, measure) for row in group.rows] for measure in measures],
        )
        for group in groups
    ]
    marks = [
        {
            "group": group.name,
            "n": group.count,
            "system": row.system,
            "measure": measure.title,
            **_values(one),
        }
        for group in groups
        for row in group.rows
        for measure in measures
        if (one := _dot(row, measure))
    ]
    count = summary.groups[0].count
    title = f"{', '.join(one.title for one in measures)} of {', '.join(systems)}"
    return Plot(
        multiples(title, [one.title for one in measures], systems, drawn),
        caption=f"Means of {count} question{'s' * (count != 1)}, with {LEVEL:.0%} intervals (bootstrap).",
        rows=marks,
        vega_lite=_vega(),
    )


def _vega() -> dict[str, Any]:
    x = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": None}
    y = {"field": "system", "type": "nominal", "title": None}
    return {
        "facet": {
            "column": {"field": "measure", "type": "nominal", "title": None},
            "row": {"field": "group", "type": "nominal", "title": None},
        },
        "spec": {
            "width": 120,
            "layer": [
                {"mark": "rule", "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}, "y": y}},
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "tooltip": {"content": "data"}},
                    "encoding": {"x": {"field": "value", **x}, "y": y, "color": {"field": "system"}},
                },
            ],
        },
    }


def _dot(row: SummaryRow, measure: Measure) -> Dot | None:
    value = row.means[measure.name]
    if value is None:
        return None
    interval = row.intervals.get(measure.name)
    low, high = (interval.low, interval.high) if interval else (value, value)
    note = f"{row.system}, {measure.title}: {share(value)} [{share(low)}, {share(high)}]"
    return Dot(value, low, high, share(value), note)


def _values(one: Dot) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def _two_names(before: Evaluation, after: Evaluation) -> tuple[str, str]:
    """Return names for the two runs: those of their systems, with what differs if they are the same."""
    first, second = before.systems[0], after.systems[0]
    if first != second:
        return first, second
    changed = {
        name: (before.conditions.settings.get(name, "–"), after.conditions.settings.get(name, "–"))
        for name in {**before.conditions.settings, **after.conditions.settings}
        if before.conditions.settings.get(name) != after.conditions.settings.get(name)
    }
    if changed:
        pairs = [", ".join(f"{name} {value[n]}" for name, value in changed.items()) for n in (0, 1)]
        return f"before: {pairs[0]}", f"after: {pairs[1]}"
    return f"before: {before.conditions.date}", f"after: {after.conditions.date}"


def _scores_json(scores: Scores) -> dict[str, Any]:
    places = [excerpt_json(one) for one in scores.places]
    return {
        "ndcg": scores.ndcg,
        "mrr": scores.mrr,
        "recall": scores.recall,
        "lines": scores.lines,
        "latency_s": scores.latency_s,
        "rank": scores.rank,
        "first_right": scores.first_right,
        "places": places,
    }


def _scores_from(written: Mapping[str, Any]) -> Scores:
    lines, right, rank = written["lines"], written["first_right"], written["rank"]
    return Scores(
        float(written["ndcg"]),
        float(written["mrr"]),
        float(written["recall"]),
        None if lines is None else float(lines),
        float(written["latency_s"]),
        None if rank is None else int(rank),
        tuple(excerpt_from(one) for one in written["places"]),
        None if right is None else float(right),
    )


def _read(written: Mapping[str, Any]) -> Evaluation:
    about = written["conditions"]
    repositories = tuple(MeasuredRepository(**one) for one in about["repositories"])
    expected = {
        str(one["id"]): tuple(excerpt_from(place) for place in one["expected"])
        for one in written["questions"]
    }
    outcomes = [
        Outcome(
            System(str(cost["system"]), (str(cost["command"]),)),
            bool(cost["history"]),
            tuple(Start(**start) for start in written["starts"][cost["system"]]),
            {str(one["id"]): _scores_from(one["scores"][cost["system"]]) for one in written["questions"]},
            expected,
        )
        for cost in written["costs"]
    ]
    questions = tuple(_question(one, expected[str(one["id"])]) for one in written["questions"])
    if not questions or not outcomes:
        raise ValueError("it has no questions")
    conditions = Conditions(
        str(about["date"]),
        repositories,
        str(about["questions"]),
        {str(name): str(value) for name, value in about["settings"].items()},
        str(about["version"]),
    )
    return Evaluation(questions, tuple(outcomes), int(written["k"]), conditions, str(written["machine"]))


def _question(written: Mapping[str, Any], expected: Sequence[Excerpt]) -> Question:
    return Question(
        id=str(written["id"]),
        repo=str(written["repo"]),
        language=str(written["language"]),
        kind=str(written["kind"]),
        text=str(written["question"]),
        files=frozenset(one.path for one in expected),
        spans=tuple(LineSpan(one.path, one.start, one.end) for one in expected if one.start),
        history=tuple(map(str, written["history"])),
        conversation=str(written["conversation"]),
    )
