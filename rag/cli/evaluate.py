"""`rag eval`: measure retrieval on any repository and questions, next to other systems."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.terminal import counted, errors_as_exit_codes, out, out_json, say, table
from rag.errors import SettingsError

if TYPE_CHECKING:
    from rag.evaluation.answers import Shares
    from rag.evaluation.questions import Question
    from rag.evaluation.summary import QuestionGroup, Summary, SummaryRow
    from rag.evaluation.trees import Tree


class Mine(StrEnum):
    """The source of mined questions."""

    commits = "commits"
    docstrings = "docstrings"


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
        Mine | None,
        typer.Option(
            "--mine",
            help="Take questions from the repository itself: commit titles or docstrings.",
        ),
    ] = None
    number: Annotated[int, typer.Option("-n", min=1, help="The number of questions for --mine.")] = 100
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the mined questions to this file."),
    ] = None
    repositories: Annotated[
        Path | None,
        typer.Option("--repositories", metavar="TOML", help="A list of the repositories of the questions."),
    ] = None
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="The folder for these repositories.")
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
            help="Another system: a command with {path} and the protocol of `rag search --batch`.",
        ),
    ] = None,
    without_rag: Annotated[
        bool, typer.Option("--without-rag", help="Measure only the systems of --system.")
    ] = False,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers",
            help='Measure answers without a model instead: their quotes, and whether "not found" is right. '
            "Includes questions without answers.",
        ),
    ] = False,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="The number of results of each system.")] = 50,
    json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML report with plots.")
    ] = None,
) -> None:
    """Measure retrieval on your questions: NDCG, MRR, recall, lines and times, next to other systems.

    rag eval . --questions questions.jsonl

    rag eval . --mine commits -n 100

    rag eval . --questions questions.jsonl --answers

    rag eval . --questions questions.jsonl --system 'bm25=python bm25.py {path}' --html report.html
    """
    with errors_as_exit_codes():
        from rag.evaluation.report import html_report
        from rag.evaluation.runner import run
        from rag.evaluation.summary import as_json, summarise
        from rag.evaluation.systems import OURS, read_systems
        from rag.evaluation.trees import plan

        if answers and (system or html is not None or without_rag):
            raise SettingsError("--answers cannot be combined with --system, --without-rag or --html")
        systems = read_systems(system or [], first=() if without_rag else (OURS,))
        if not systems:
            raise SettingsError("there is nothing to measure: add --system, or remove --without-rag")
        with _opened_material(folder, material) as (asked, folders):
            if answers:
                _measure_answers(plan([*asked, *_unanswerable(material)], folders), json=json)
                return
            outcomes = run(systems, plan(asked, folders), k=k, progress=_progress())
        summary = summarise(asked, outcomes, k=k)
        if json:
            out_json(as_json(summary, asked, outcomes))
        else:
            print_summary(summary)
        if html is not None:  # last, so that a missing folder does not lose the measurement
            _write(html, html_report(summary))


@contextmanager
def _opened_material(
    folder: Path | None, material: QuestionOptions
) -> Iterator[tuple[list[Question], dict[str, Path]]]:
    """Yield the questions and the folders they are about; mined ones are removed at the end."""
    from rag.evaluation.questions import read_questions

    kinds = material.wanted_kinds()
    if material.mine is not None:
        if material.questions or material.repositories is not None or folder is None:
            raise SettingsError(
                "--mine takes the questions from one folder: give DIR, without --questions and --repositories"
            )
        with _mined(material.mine, folder, material.number, material.save) as (file, root):
            yield read_questions([file], kinds), {"": root}
        return
    if not material.questions:
        raise SettingsError(
            "give questions with --questions FILE, or take them from the repository with --mine; "
            "docs/evaluation.md shows the format"
        )
    asked = read_questions(material.questions, kinds)
    names = {question.repo for question in asked}
    yield asked, _folders(folder, material.repositories, material.cache, names)


@contextmanager
def _mined(mine: Mine, folder: Path, number: int, save: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield a file of mined questions and the folder they are about."""
    import json

    from rag.evaluation.mine import mine_commits, mine_docstrings
    from rag.service import Engine
    from rag.settings import Settings

    if not folder.is_dir():
        raise SettingsError(f"there is no folder {folder}")
    with TemporaryDirectory(prefix="rag-mine-") as workplace:
        engine = Engine(Settings(home=Path(workplace)))
        miner = mine_commits if mine is Mine.commits else mine_docstrings
        mined = miner(engine, folder.resolve(), number)
        engine.close()
        asked = counted(len(mined.records), "question")
        if mined.commit:
            commits = counted(mined.considered, "commit")
            say(f"rag: {asked} from {commits}, run on the tree before the oldest, {mined.commit[:10]}")
        else:
            definitions = counted(mined.considered, "documented definition")
            say(f"rag: {asked} of {definitions}; their documentation is removed from the searched copy")
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in mined.records)
        file = Path(workplace) / "questions.jsonl"
        file.write_text(text, encoding="utf-8")
        if save is not None:
            _write(save, text)
        yield file, mined.root


def _folders(
    folder: Path | None, repositories: Path | None, cache: Path | None, wanted: set[str]
) -> dict[str, Path]:
    from rag.evaluation.repositories import obtain_all, read_repositories
    from rag.settings import default_home

    if (folder is None) == (repositories is None):
        raise SettingsError("give either the folder of the questions, or --repositories TOML")
    if repositories is not None:
        chosen = [entry for entry in read_repositories(repositories) if entry.name in wanted]
        return obtain_all(chosen, cache or default_home() / "evaluation")
    assert folder is not None
    if not folder.is_dir():
        raise SettingsError(f"there is no folder {folder}")
    if len(wanted) > 1:
        raise SettingsError(
            f"the questions are about {', '.join(sorted(map(repr, wanted)))}; list them with "
            "--repositories TOML"
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


def _unanswerable(material: QuestionOptions) -> list[Question]:
    from rag.evaluation.answers import UNANSWERABLE, read_unanswerable

    kinds = material.wanted_kinds()
    return read_unanswerable(material.questions or []) if not kinds or UNANSWERABLE in kinds else []


def _measure_answers(trees: list[Tree], *, json: bool) -> None:
    from dataclasses import asdict

    from rag.evaluation.answers import answer_all, shares

    answered = answer_all(trees, _progress())
    found = shares(answered)
    if json:
        questions = [
            {
                "id": a.question.id,
                "kind": a.question.kind,
                "refused": a.refused,
                "warned": a.warned,
                "first": a.is_first_right,
                "on_target": a.on_target,
                "named": a.is_cited,
            }
            for a in answered
        ]
        out_json({"answers": [asdict(share) for share in found], "questions": questions})
        return
    print_shares(found)


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


def print_summary(summary: Summary) -> None:
    """Print the tables: quality by kind, by language and in total, then the cost of each system."""
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


def _row(group: QuestionGroup, row: SummaryRow) -> list[str]:
    means = ["–" if value is None else f"{value:.3f}" for value in row.means.values()]
    ahead = row.differences.get("ndcg")
    interval = f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]" if ahead else ""
    return [group.name, str(group.count), row.system, *means, interval]
