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

from rag.cli.terminal import out, table
from rag.errors import SettingsError
from rag.evaluation.metrics import LineSpan
from rag.evaluation.questions import Question, read_records
from rag.evaluation.trees import Tree, indexed_folder
from rag.service import Dialog, Engine, converse
from rag.settings import Settings
from rag.types import Answer

UNANSWERABLE = "unanswerable"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result for one question.

    `first` are the quoted lines of the first source, `quoted` those of all quoted ones, `cited` the sources
    and the lines that are only named. All are empty if it was refused. `confidence` and `first_right` are
    from 0 to 1.
    """

    question: Question
    refused: bool
    quoted: tuple[LineSpan, ...]
    cited: tuple[LineSpan, ...] = ()
    first: tuple[LineSpan, ...] = ()
    warned: bool = False
    confidence: float = 0.0
    first_right: float = 0.0

    @property
    def is_first_right(self) -> bool:
        """Whether the first quote has a line that answers."""
        return _meet(self.first, self.question.spans)

    @property
    def on_target(self) -> bool:
        """Whether a quoted line is one of the lines that answer."""
        return _meet(self.quoted, self.question.spans)

    @property
    def is_cited(self) -> bool:
        """Whether a place that the answer names has a line that answers."""
        return _meet((*self.quoted, *self.cited), self.question.spans)

    def share_of(self, lines: Sequence[LineSpan]) -> float:
        """Return the share of lines (members of a list, call sites) in places that the answer names."""
        return sum(_meet((*self.quoted, *self.cited), (line,)) for line in lines) / len(lines)

    @property
    def site_precision(self) -> float | None:
        """The share of the named places that have a call site; None if no place is named."""
        named = self.cited or self.quoted
        return sum(_meet((one,), self.question.sites) for one in named) / len(named) if named else None


def _meet(shown: Sequence[LineSpan], spans: Sequence[LineSpan]) -> bool:
    """Return whether one of the shown places has a line of one of the spans."""
    return any(
        one.path == span.path and one.start <= span.end and span.start <= one.end
        for one in shown
        for span in spans
    )


@dataclass(frozen=True, slots=True)
class Shares:
    """Means over the questions of one kind.

    The shares of right places are None where no question has answering lines, those of lists and callers
    where none has `members` or `sites`; `complete` is the share of lists whose members are all named.
    """

    kind: str
    count: int
    refused: float
    warned: float
    first: float | None
    on_target: float | None
    cited: float | None
    members: float | None = None
    complete: float | None = None
    sites: float | None = None
    site_precision: float | None = None

    @property
    def wrong(self) -> float:
        """For questions with an answer the share refused; for others the share neither refused nor warned."""
        return 1 - self.refused - self.warned if is_unanswerable(self.kind) else self.refused


def is_unanswerable(kind: str) -> bool:
    """Return whether questions of a kind have no answer."""
    return kind.split()[0] == UNANSWERABLE


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
                    kind=" ".join(filter(None, (UNANSWERABLE, record.get("kind")))),
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
            answered += [ask(*each) for each in conversations(engine, root, tree.questions)]
    progress("", total, total)
    return answered


def conversations(
    engine: Engine, root: Path, questions: Sequence[Question]
) -> Iterator[tuple[Dialog, Question]]:
    """Yield each question about a folder with the conversation in which it is to be asked next."""
    repository = engine.repository(str(root))
    dialog, at = Dialog(engine, [repository]), ""
    for question in questions:
        if question.conversation != at or not question.history:
            dialog, at = Dialog(engine, [repository]), question.conversation
        yield dialog, question


def ask(dialog: Dialog, question: Question) -> Answered:
    """Ask a question in its conversation, without a model."""
    generator: Any = dialog.engine.generator()  # without a model: the one that quotes
    *_, answer = converse(dialog, question.text, generator)
    assert isinstance(answer, Answer)
    shown = [(n, LineSpan(*place)) for n, *place in generator.quoted] if answer.found else []
    cited = [LineSpan(c.path, c.start, c.end) for c in answer.citations] if answer.found else []
    sources = list(dict.fromkeys(n for n, _ in shown if n))
    whole = sources[: generator.quoted_sources]
    return Answered(
        question,
        not answer.found,
        quoted=tuple(lines for n, lines in shown if n in whole),
        cited=(*cited, *(lines for n, lines in shown if n not in whole)),
        first=tuple(lines for n, lines in shown if n in sources[:1]),
        warned=bool(answer.warning),
        confidence=answer.confidence.value if answer.confidence else 0.0,
        first_right=answer.confidence.first_right or 0.0 if answer.confidence else 0.0,
    )


def shares(answered: Sequence[Answered]) -> list[Shares]:
    """Return means by kind, in alphabetical order, then over all that have an answer ("answerable")."""
    kinds = sorted({a.question.kind for a in answered})
    groups = [(kind, [a for a in answered if a.question.kind == kind]) for kind in kinds]
    answerable = [a for a in answered if not is_unanswerable(a.question.kind)]
    unanswerable = [a for a in answered if is_unanswerable(a.question.kind)]
    if answerable:
        groups.append(("answerable", answerable))
    if unanswerable and UNANSWERABLE not in kinds:
        groups.append((UNANSWERABLE, unanswerable))
    return [_shares(kind, group) for kind, group in groups]


def print_shares(found: Sequence[Shares]) -> None:
    """Print what answers without a model quote and name, by kind."""

    def shown(share: float | None) -> str:
        return "–" if share is None else f"{share:.3f}"

    table(
        "Answers without a model",
        [
            "kind",
            "n",
            "right first",
            "quoted",
            "named",
            '"not found"',
            "warned",
            "wrongly refused or not warned",
        ],
        [
            (
                share.kind,
                share.count,
                *map(shown, (share.first, share.on_target, share.cited, share.refused, share.warned)),
                f"{share.wrong:.1%}",
            )
            for share in found
        ],
    )
    complete = [share for share in found if share.members is not None or share.sites is not None]
    if complete:
        out()
        table(
            "Lists and callers",
            ["kind", "members named", "complete lists", "call sites named", "places that are call sites"],
            [
                (one.kind, *map(shown, (one.members, one.complete, one.sites, one.site_precision)))
                for one in complete
            ],
        )


def _shares(kind: str, group: Sequence[Answered]) -> Shares:
    lines = [a for a in group if a.question.spans]
    lists = [a.share_of(a.question.members) for a in group if a.question.members]
    callers = [a for a in group if a.question.sites]
    return Shares(
        kind=kind,
        count=len(group),
        refused=sum(a.refused for a in group) / len(group),
        warned=sum(a.warned for a in group) / len(group),
        first=_mean([a.is_first_right for a in lines]),
        on_target=_mean([a.on_target for a in lines]),
        cited=_mean([a.is_cited for a in lines]),
        members=_mean(lists),
        complete=_mean([share == 1 for share in lists]),
        sites=_mean([a.share_of(a.question.sites) for a in callers]),
        site_precision=_mean([p for a in callers if (p := a.site_precision) is not None]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
