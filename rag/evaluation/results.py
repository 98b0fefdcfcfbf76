"""The results of a measurement: questions, the scores of each system, and the conditions; also as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.runner import Outcome, Scores
from rag.evaluation.summary import Summary, summarise

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


def _place_json(one: LineSpan) -> dict[str, Any]:
    lines = {"start_line": one.start, "end_line": one.end} if one.start else {}
    return {"path": one.path, **lines}
