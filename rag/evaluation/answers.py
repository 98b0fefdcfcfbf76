"""Evaluate answers without a model: whether the quoted lines hold the target, and whether "not found" is
right.

The questions are asked like a person's, follow-ups in their conversation, on a new index. The gate is
evaluated without human judgement: an answer is *refused* ("not found"), *warned* ("probably not in this
repository") or neither. A *false refusal* is a refusal, and a *false warning* a warning, on a question that
has an answer; a *false answer* is neither of both on a question that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rag.errors import SettingsError
from rag.evaluation.checks import read_records
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question
from rag.evaluation.trees import Tree, indexed_folder
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer

UNANSWERABLE = "unanswerable"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result for one question. `quoted` are the lines shown; none when it was refused."""

    question: Question
    refused: bool
    quoted: tuple[LineSpan, ...]
    warned: bool = False

    @property
    def on_target(self) -> bool:
        """Whether a quoted line is one of the lines that answer."""
        return any(
            shown.path == span.path and shown.start <= span.end and span.start <= shown.end
            for shown in self.quoted
            for span in self.question.spans
        )


@dataclass(frozen=True, slots=True)
class Shares:
    """Means over the questions of one kind; `on_target` is None where no question has answering lines."""

    kind: str
    count: int
    refused: float
    warned: float
    on_target: float | None

    @property
    def wrong(self) -> float:
        """For questions with an answer the share refused; for others the share neither refused nor warned."""
        return 1 - self.refused - self.warned if self.kind == UNANSWERABLE else self.refused


def read_unanswerable(paths: Sequence[Path]) -> list[Question]:
    """Return the unanswerable questions of the files: records with neither answers nor turns.

    Raises:
        SettingsError: a file cannot be read, or such a record has no question.
    """
    found = []
    for path in paths:
        for number, record in enumerate(read_records(path), 1):
            if "turns" in record or record.get("answers"):
                continue
            if not isinstance(record.get("question"), str):
                raise SettingsError(f'{path}, record {number} has no "question"; fix the line')
            name = str(record.get("id") or f"{path.name}:{number}")
            found.append(
                Question(
                    id=name,
                    repo=str(record.get("repo") or ""),
                    language=str(record.get("language") or "other"),
                    kind=UNANSWERABLE,
                    text=record["question"],
                    files=frozenset(),
                    spans=(),
                    conversation=name,
                )
            )
    return found


def answer_all(
    trees: Sequence[Tree], progress: Callable[[str, int, int], None] = lambda label, done, total: None
) -> list[Answered]:
    """Ask the questions of all trees, in their order; the turns of a conversation are consecutive.

    Raises:
        SourceError: the copy of a tree cannot be made.
    """
    total = sum(len(tree.questions) for tree in trees)
    answered: list[Answered] = []
    for tree in trees:
        progress(f"{tree.label}: answers", len(answered), total)
        with (
            indexed_folder(tree) as root,
            TemporaryDirectory(prefix="rag-eval-home-") as home,
            closing(Engine(Settings(home=Path(home), memory="memory:"))) as engine,
        ):
            answered += _answer(engine, root, tree.questions)
    progress("", total, total)
    return answered


def _answer(engine: Engine, root: Path, questions: Sequence[Question]) -> Iterator[Answered]:
    repository = engine.repository(str(root))
    generator: Any = engine.generator()  # without a model: the one that quotes
    dialog, at = Dialog(engine, [repository]), ""
    for question in questions:
        if question.conversation != at or not question.history:
            dialog, at = Dialog(engine, [repository]), question.conversation
        *_, answer = converse(dialog, question.text, generator)
        assert isinstance(answer, Answer)
        quoted = tuple(LineSpan(*place) for place in generator.quoted) if answer.found else ()
        yield Answered(question, not answer.found, quoted, warned=bool(answer.warning))


def shares(answered: Sequence[Answered]) -> list[Shares]:
    """Return means by kind, in alphabetical order, then over all that have an answer ("answerable")."""
    kinds = sorted({a.question.kind for a in answered})
    groups = [(kind, [a for a in answered if a.question.kind == kind]) for kind in kinds]
    answerable = [a for a in answered if a.question.kind != UNANSWERABLE]
    if answerable:
        groups.append(("answerable", answerable))
    return [_shares(kind, group) for kind, group in groups]


def _shares(kind: str, group: Sequence[Answered]) -> Shares:
    with_lines = [a for a in group if a.question.spans]
    return Shares(
        kind=kind,
        count=len(group),
        refused=sum(a.refused for a in group) / len(group),
        warned=sum(a.warned for a in group) / len(group),
        on_target=sum(a.on_target for a in with_lines) / len(with_lines) if with_lines else None,
    )
