"""`rag eval`: how good retrieval is, ours and others' side by side, on anybody's repository and questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.terminal import errors_as_exit_codes, out, out_json, say, table
from rag.errors import SettingsError

if TYPE_CHECKING:
    from rag.evaluation.summary import Group, Row, Summary


def evaluate(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The repository that the questions are about."),
    ] = None,
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            "--questions", metavar="FILE", help="Questions with their answers, JSON lines. Repeatable."
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="[NAME=]COMMAND",
            help="Another system: a command with {path} in it that speaks what `rag search --batch` does.",
        ),
    ] = None,
    without_rag: Annotated[
        bool, typer.Option("--without-rag", help="Measure only the systems named by --system.")
    ] = False,
    repositories: Annotated[
        Path | None,
        typer.Option("--repositories", metavar="TOML", help="Where the questions' repositories come from."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Where they are unpacked and kept.")
    ] = None,
    kinds: Annotated[
        str, typer.Option("--kinds", help="Only these kinds: newcomer,first,docstring,follow-up …")
    ] = "",
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many results each system gives.")] = 50,
    json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a report with plots.")
    ] = None,
) -> None:
    """Measure retrieval on your own questions: NDCG, MRR, recall, lines found, times, side by side.

    rag eval . --questions questions.jsonl

    rag eval . --questions questions.jsonl --system 'bm25=python bm25.py {path}' --html report.html
    """
    with errors_as_exit_codes():
        from rag.evaluation.questions import read_questions
        from rag.evaluation.report import html_report
        from rag.evaluation.runner import run
        from rag.evaluation.summary import as_json, summarise
        from rag.evaluation.systems import OURS, read_systems
        from rag.evaluation.trees import plan

        if not questions:
            raise SettingsError(
                "name the questions with --questions FILE; README.md shows what one looks like"
            )
        asked = read_questions(questions, {kind.strip() for kind in kinds.split(",") if kind.strip()})
        systems = read_systems(system or [], first=() if without_rag else (OURS,))
        if not systems:
            raise SettingsError("there is nothing to measure: name a --system, or leave out --without-rag")
        trees = plan(asked, _folders(folder, repositories, cache, {question.repo for question in asked}))
        outcomes = run(systems, trees, k=k, progress=_progress())
        summary = summarise(asked, outcomes, k=k)
        if html is not None:
            _write(html, html_report(summary))
        if json:
            out_json(as_json(summary, asked, outcomes))
        else:
            print_summary(summary)


def _folders(
    folder: Path | None, repositories: Path | None, cache: Path | None, wanted: set[str]
) -> dict[str, Path]:
    from rag.evaluation.repositories import obtain_all, read_repositories
    from rag.settings import default_home

    if (folder is None) == (repositories is None):
        raise SettingsError("name either the folder that the questions are about, or --repositories TOML")
    if repositories is not None:
        chosen = [entry for entry in read_repositories(repositories) if entry.name in wanted]
        return obtain_all(chosen, cache or default_home() / "evaluation")
    assert folder is not None
    if not folder.is_dir():
        raise SettingsError(f"there is no folder {folder}")
    if len(wanted) > 1:
        raise SettingsError(
            f"the questions are about {', '.join(sorted(map(repr, wanted)))}; say where these come from with "
            "--repositories TOML"
        )
    return dict.fromkeys(wanted, folder.resolve())


def _progress() -> Callable[[str, int, int], None]:
    """One line that changes on a terminal; elsewhere a line for each tree and system."""
    drawn = sys.stderr.isatty()

    def tell(label: str, done: int, total: int) -> None:
        if drawn:
            sys.stderr.write(f"\r\033[K{f'{done}/{total} {label}' if label else ''}")
            sys.stderr.flush()
        elif label:
            say(f"rag: {done}/{total} {label}")

    return tell


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot write the report {path}: {error}") from error
    say(f"rag: report in {path}")


def print_summary(summary: Summary) -> None:
    """Print the tables: quality by kind, by language and in all, then what each system takes."""
    from rag.evaluation.summary import MEASURES

    columns = ["group", "n", "system", *(measure.title for measure in MEASURES), f"{summary.first} ahead by"]
    rows = [_row(group, row) for group in summary.groups for row in group.rows]
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


def _row(group: Group, row: Row) -> list[str]:
    means = ["–" if value is None else f"{value:.3f}" for value in row.means.values()]
    ahead = row.differences.get("ndcg")
    interval = f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]" if ahead else ""
    return [group.name, str(group.count), row.system, *means, interval]
