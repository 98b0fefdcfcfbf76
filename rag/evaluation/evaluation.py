"""`Evaluation`: a measurement with its questions, as a value: to look at, to save, to compare with another.

from rag.evaluation import evaluate

before = evaluate("path", questions="questions.jsonl")
after = evaluate("path", questions="questions.jsonl", settings={"reranker": "student"})
before.compare(after).to_frame()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rag.errors import ConfigError
from rag.evaluation.results import Results
from rag.frames import frame


@dataclass(frozen=True)
class Evaluation(Results):
    """The results of systems for questions. The first system is compared with the others."""

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each question and system.

        Raises:
            BackendMissing: pandas is not installed.
        """
        table = frame(
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
        return table.astype({"rank": "Int64"})  # a rank is a whole number, or missing

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
