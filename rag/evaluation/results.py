"""The results of a measurement: questions, the scores of each system, and the conditions; also as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from rag.errors import SettingsError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.runner import Outcome, Scores, Start
from rag.evaluation.summary import Summary, summarise
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
class Results:
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

    def expected(self, question: Question) -> tuple[LineSpan, ...]:
        """Return the places that answer a question."""
        return self.outcomes[0].expected.get(question.id, ())

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
            "expected": [_place_json(one) for one in self.expected(question)],
            "scores": {o.system.name: _scores_json(o.scores[question.id]) for o in self.outcomes},
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Return the results that `to_json` wrote.

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
            return cls(*_read(written))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise SettingsError(
                f"this result of `rag eval --json` is damaged ({type(error).__name__}: {error}); "
                "measure again"
            ) from error


def _scores_json(scores: Scores) -> dict[str, Any]:
    places = [_place_json(one) for one in scores.places]
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
        tuple(_place_from(one) for one in written["places"]),
        None if right is None else float(right),
    )


def _read(
    written: Mapping[str, Any],
) -> tuple[tuple[Question, ...], tuple[Outcome, ...], int, Conditions, str]:
    about = written["conditions"]
    repositories = tuple(MeasuredRepository(**one) for one in about["repositories"])
    expected = {
        str(one["id"]): tuple(_place_from(place) for place in one["expected"]) for one in written["questions"]
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
    return questions, tuple(outcomes), int(written["k"]), conditions, str(written["machine"])


def _question(written: Mapping[str, Any], expected: Sequence[LineSpan]) -> Question:
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


def _place_json(one: LineSpan) -> dict[str, Any]:
    lines = {"start_line": one.start, "end_line": one.end} if one.start else {}
    return {"path": one.path, **lines}


def _place_from(written: Mapping[str, Any]) -> LineSpan:
    start, end = written.get("start_line", 0), written.get("end_line", 0)
    return LineSpan(str(written["path"]), int(start), int(end))
