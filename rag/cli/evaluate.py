"""`rag eval`: measure retrieval on any repository and questions, next to other systems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rag.cli import options
from rag.cli.terminal import out, out_json, say, table, wants_json
from rag.errors import SettingsError
from rag.quoting import counted
from rag.types import MAX_HITS

if TYPE_CHECKING:
    from rag.evaluation.evaluation import Evaluation
    from rag.evaluation.measure import Material
    from rag.evaluation.mine import Mined
    from rag.evaluation.summary import Measure, Summary, SummaryRow


@dataclass(frozen=True, kw_only=True)
class QuestionOptions:
    """Which questions are asked, and of which repositories."""

    questions: Annotated[
        list[Path] | None,
        typer.Option(
            "--questions", metavar="FILE", help="Questions and their answers, as JSON lines. Repeatable."
        ),
    ] = None
    mine: Annotated[
        Literal["docstrings"] | None,
        typer.Option(
            "--mine",
            metavar="docstrings",
            help="Take questions from the repository itself: its docstrings.",
        ),
    ] = None
    number: Annotated[int, typer.Option("-n", min=1, help="The number of questions for --mine.")] = 100
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the mined questions to this file."),
    ] = None
    kinds: Annotated[
        str, typer.Option("--kinds", help="Only these kinds: newcomer,first,docstring,follow-up …")
    ] = ""

    def wanted_kinds(self) -> set[str]:
        """Return the kinds to ask; empty for all."""
        return {kind.strip() for kind in self.kinds.split(",") if kind.strip()}


@options.grouped
def evaluate(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The repository of the questions."),
    ] = None,
    *,
    material: QuestionOptions,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="[NAME=]COMMAND",
            help="Another system: a command with {path} that acts as `rag search --batch`. Repeatable.",
        ),
    ] = None,
    without_rag: Annotated[
        bool, typer.Option("--without-rag", help="Measure only the systems of --system.")
    ] = False,
    k: Annotated[int, typer.Option("-k", min=1, max=MAX_HITS, help="The hits of each system.")] = 50,
) -> None:
    """Measure retrieval on your questions: NDCG, MRR, recall, lines and times, next to other systems.

    rag eval . --questions questions.jsonl

    rag eval . --mine docstrings -n 100

    rag eval . --questions questions.jsonl --system 'bm25=python bm25.py {path}'
    """
    from rag.evaluation.measure import measure
    from rag.evaluation.systems import OURS, read_systems

    systems = read_systems(system or [], first=() if without_rag else (OURS,))
    if not systems:
        raise SettingsError("there is nothing to measure: add --system, or remove --without-rag")
    with _opened_material(folder, material) as opened:
        found = measure(systems, opened, k=k, progress=_progress())
    _show(found)


def _show(found: Evaluation) -> None:
    if wants_json():
        out_json(found.to_json())
    else:
        print_summary(found.summary)


@contextmanager
def _opened_material(folder: Path | None, material: QuestionOptions) -> Iterator[Material]:
    """Yield the questions and the folders they are about; mined ones are removed at the end."""
    from rag.evaluation.measure import Material, mined
    from rag.evaluation.questions import read_questions

    kinds = material.wanted_kinds()
    if material.mine is not None:
        if material.questions or folder is None:
            raise SettingsError("--mine takes the questions from one folder: give DIR, without --questions")
        if not folder.is_dir():
            raise SettingsError(f"there is no folder {folder}")

        def keep(text: str, found: Mined) -> None:
            _say_mined(found)
            if material.save is not None:
                _write(material.save, text)

        with mined(folder.resolve(), material.number, keep) as found:
            chosen = [one for one in found.questions if not kinds or one.kind in kinds]
            if not chosen:
                raise SettingsError(f"--mine {material.mine} gives no question of the kinds {material.kinds}")
            yield replace(found, questions=chosen)
        return
    if not material.questions:
        raise SettingsError(
            "give questions with --questions FILE, or take them from the repository with --mine; "
            "docs/evaluation.md shows the format"
        )
    asked = read_questions(material.questions, kinds)
    names = {question.repo for question in asked}
    about = ", ".join(file.name for file in material.questions)
    yield Material(asked, _folders(folder, names), about)


def _say_mined(found: Mined) -> None:
    asked = counted(len(found.records), "question")
    definitions = counted(found.considered, "documented definition")
    say(f"rag: {asked} of {definitions}; their documentation is removed from the searched copy")


def _folders(folder: Path | None, wanted: set[str]) -> dict[str, Path]:
    if folder is None:
        raise SettingsError("give the folder that the questions are about: rag eval DIR --questions FILE")
    if not folder.is_dir():
        raise SettingsError(f"there is no folder {folder}")
    if len(wanted) > 1:
        raise SettingsError(
            f"the questions are about {', '.join(sorted(map(repr, wanted)))}; measure one repository at a "
            "time, with a file for each"
        )
    return dict.fromkeys(wanted, folder.resolve())


def _progress() -> Callable[[str, int, int], None]:
    """Return a progress callback: one changing line on a terminal, elsewhere a line per tree and system."""
    drawn = sys.stderr.isatty()

    def report(label: str, done: int, total: int) -> None:
        if drawn:
            sys.stderr.write(f"\r\033[K{f'{done}/{total} {label}' if label else ''}")
            sys.stderr.flush()
        elif label:
            say(f"rag: {done}/{total} {label}")

    return report


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error}") from error
    say(f"rag: wrote {path}")


def print_summary(summary: Summary) -> None:
    """Print the tables: quality by kind, by language and in total, then the cost of each system."""
    from rag.evaluation.summary import measures_of

    measures, several = measures_of(summary), len(summary.costs) > 1
    ahead = [f"{summary.first} ahead by"] if several else []
    columns = ["group", "n", "system", *(measure.title for measure in measures), *ahead]
    rows = [
        [
            group.name,
            str(group.count),
            row.system,
            *_means(row, measures),
            *([_ahead(row)] if several else []),
        ]
        for group in summary.distinct_groups
        for row in group.rows
    ]
    table("Quality (lines: within the first 200 shown)", columns, rows)
    out()
    table(
        f"Cost, around the pipe, on {summary.machine}",
        ["system", "chunks", "ready, median s", "query p50 ms", "p95 ms", "uses history"],
        [
            (c.system, c.chunks, f"{c.ready_s:.2f}", f"{c.p50_ms:.2f}", f"{c.p95_ms:.2f}", c.history)
            for c in summary.costs
        ],
    )


def _means(row: SummaryRow, measures: Sequence[Measure]) -> list[str]:
    values = [row.means[measure.name] for measure in measures]
    return ["–" if value is None else f"{value:.3f}" for value in values]


def _ahead(row: SummaryRow) -> str:
    ahead = row.differences.get("ndcg")
    return f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]" if ahead else ""
