"""`rag index --list-file`: index many repositories, here or by workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli.terminal import out, out_json, say, wants_json
from rag.errors import ConfigError, ProviderError
from rag.quoting import counted, visible
from rag.settings import Settings

if TYPE_CHECKING:
    from rag.job_queue import Jobs
    from rag.worker.bulk import BulkOutcome

_BULK = "Many repositories"


@dataclass(frozen=True, kw_only=True)
class BulkOptions:
    """Many repositories at once."""

    list_file: Annotated[
        Path | None,
        typer.Option(
            "--list-file",
            metavar="FILE",
            help="Index all repositories of this file: a path or git URL per line; a tab and a ref may "
            "follow. A second run continues an unfinished one.",
            rich_help_panel=_BULK,
        ),
    ] = None
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            min=1,
            max=64,
            help="How many repositories of the list are indexed here at once. Default: the workers of the "
            "database of shared jobs (--shared) index them, or 1 without one.",
            rich_help_panel=_BULK,
        ),
    ] = None
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Index the whole list, even what an unfinished run has done.",
            rich_help_panel=_BULK,
        ),
    ] = False

    def check(self, source: str | None) -> None:
        """Refuse options that do not fit together. Raises ConfigError."""
        if self.list_file is None and (self.slots or self.again):
            raise ConfigError("--slots and --again need --list-file")
        if self.list_file is not None and source is not None:
            raise ConfigError(f"name either {source} or --list-file")


def index_list(settings: Settings, bulk: BulkOptions, *, rebuild: bool, publish: bool) -> None:
    """Index a list; print each failure, then the figures. The exit code is that of the failures."""
    from rag.worker.bulk import FinishedSources, index_all, read_list

    assert bulk.list_file is not None
    listed = read_list(bulk.list_file)
    finished = FinishedSources(bulk.list_file, settings)
    if bulk.again:
        finished.forget()
    number = 0

    def ended(outcome: BulkOutcome) -> None:
        nonlocal number
        number += 1
        report = outcome.job.result.get("report", {}) if outcome.job is not None else {}
        what = outcome.error or ("done by an earlier run" if outcome.skipped else _bulk_line(report))
        failed = "failed: " if outcome.error else ""
        say(f"rag: {number:,} of {len(listed):,}: {visible(outcome.listed.text)}: {failed}{visible(what)}")

    with _running(settings, bulk) as (jobs, slots):
        began = time.monotonic()
        outcomes = index_all(
            listed,
            jobs,
            settings,
            finished=finished,
            rebuild=rebuild,
            publish=publish or slots is None,
            ended=ended,
        )
        took_s = time.monotonic() - began
    _report(outcomes, took_s, None if slots is None else min(slots, len(listed)))


@contextmanager
def _running(settings: Settings, bulk: BulkOptions) -> Iterator[tuple[Jobs, int | None]]:
    """Give a queue whose jobs are run, and how many are run at once, if that is known."""
    from rag.service.repositories.jobs import local_jobs, open_jobs
    from rag.worker.bulk import working

    is_shared = bool(settings.shared) and bulk.slots is None
    with closing(open_jobs(settings) if is_shared else local_jobs()) as jobs:
        if is_shared:
            yield jobs, None
            return
        slots = bulk.slots or 1
        with working(jobs, settings, slots=slots):
            yield jobs, slots


def _report(outcomes: Sequence[BulkOutcome], took_s: float, slots: int | None) -> None:
    """Print the failures and the figures, and exit accordingly."""
    failed = [outcome for outcome in outcomes if outcome.error]
    done = [outcome.job.result["report"] for outcome in outcomes if outcome.job and not outcome.error]
    indexing_s = sum(float(report["seconds"]) for report in done)
    overhead_s = None if slots is None or not done else max(0.0, took_s * slots - indexing_s) / len(done)
    if wants_json():
        found = [{"source": one.listed.text, "error": one.error, "skipped": one.skipped} for one in outcomes]
        out_json({"seconds": round(took_s, 3), "overhead_s": overhead_s, "repositories": found})
    else:
        for outcome in failed:
            out(f"failed\t{visible(outcome.listed.text)}\t{visible(outcome.error)}")
        skipped = sum(outcome.skipped for outcome in outcomes)
        parts = [f"{len(done):,} indexed", f"{len(failed):,} failed"]
        parts += [f"{skipped:,} done by an earlier run"] if skipped else []
        times = f"{took_s:.1f} s, of which indexing {indexing_s:.1f} s"
        each = "" if overhead_s is None else f"; overhead per repository {overhead_s:.2f} s"
        say(f"rag: {', '.join(parts)} in {times}{each}")
    if failed:
        passing = all(outcome.is_passing for outcome in failed)
        raise typer.Exit(ProviderError.exit_code if passing else ConfigError.exit_code)


def _bulk_line(report: Mapping[str, Any]) -> str:
    chunks = counted(int(report.get("chunks", 0)), "chunk")
    return f"{report.get('action', 'done')}, {chunks}, {float(report.get('seconds', 0)):.2f} s"
