"""`rag worker`: run the jobs that servers and commands share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import out_json, say, wants_json
from rag.quoting import visible

if TYPE_CHECKING:
    from types import FrameType

    from rag.settings import Settings


@options.grouped
def worker(
    *,
    slots: Annotated[int, typer.Option("--slots", min=1, max=64, help="How many jobs run at once.")] = 1,
    drain: Annotated[bool, typer.Option("--drain", help="End when no job waits or runs any more.")] = False,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            min=0,
            metavar="SECONDS",
            help="How long running jobs may continue after a stop signal, before they return to the queue.",
        ),
    ] = 10.0,
) -> None:
    """Run shared jobs, each in a process of its own.

    Several workers share a queue; start them on any machine with access to the same indexes. A killed worker
    loses nothing: another one runs its jobs again.

    rag worker --shared postgresql://rag@db.example.org/rag

    rag worker --slots 2
    """
    from rag.service.repositories.jobs import open_jobs
    from rag.worker.loop import Worker

    settings = settings_from()
    jobs = open_jobs(settings)
    running = Worker(
        jobs,
        settings,
        notice=lambda text: say(f"rag: {visible(text)}"),
        slots=slots,
        grace_s=grace,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        running.stop(grace_s=0 if running.is_stopping else None)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    jobs.jobs(limit=1)  # the queue is reachable, or the command fails now
    say(f"rag: worker {running.name} runs jobs (Ctrl-C to stop)")
    try:
        with _retention(settings, running.notice):
            ended = running.run(drain=drain)
    finally:
        jobs.close()
    counts = dict(sorted(ended.items()))
    if wants_json():
        out_json(counts)
    else:
        say(f"rag: {', '.join(f'{count:,} {state}' for state, count in counts.items()) or 'no jobs'}")


@contextmanager
def _retention(settings: Settings, notice: Callable[[str], None]) -> Iterator[None]:
    """Apply the retention of namespaces in the block, to the turns of the servers that share the queue."""
    from rag.service import Engine
    from rag.service.upkeep.namespace_retention import RetentionTimer

    with (
        closing(Engine(replace(settings, memory=settings.memory or settings.shared))) as engine,
        closing(RetentionTimer(lambda: engine.turns, notice)),
    ):
        yield
