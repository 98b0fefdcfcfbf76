"""`rag jobs`: add, list and cancel shared jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import listing, result
from rag.errors import ConfigError, ProviderError
from rag.quoting import visible

if TYPE_CHECKING:
    from rag.job_queue import Jobs, QueuedJob
    from rag.settings import Settings

app = typer.Typer(help="Add, list and cancel jobs that workers share.", no_args_is_help=True)


class StateOption(StrEnum):
    """The state of a job."""

    waiting = "waiting"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


@app.command("list")
def list_jobs(
    *,
    state: Annotated[
        list[StateOption] | None, typer.Option("--state", help="Only jobs in this state. Repeatable.")
    ] = None,
    number: Annotated[int, typer.Option("-n", min=1, max=10_000, help="The number of jobs.")] = 50,
) -> None:
    """List shared jobs, the newest first.

    rag jobs list

    rag jobs list --state waiting --state running
    """
    with _opened() as (jobs, _):
        found = jobs.jobs(states=[each.value for each in state or ()], limit=number)
    rows = [(job.id, job.state, _about(job), _progress(job), job.worker) for job in found]
    values = [as_json(job) for job in found]
    listing(values, ("job", "state", "about", "progress", "worker"), rows, "no jobs")


@app.command()
def show(
    job: Annotated[int, typer.Argument(metavar="JOB", help="The number of a job.")],
) -> None:
    """Show a job: its state, progress, attempts, error and result.

    rag jobs show 12
    """
    with _opened() as (jobs, _):
        found = jobs.job(job)
    values = as_json(found)
    rows = [(name, value) for name, value in values.items() if value not in ("", None, {}, [])]
    listing(values, ("what", "value"), rows)


@app.command()
def cancel(
    job: Annotated[int, typer.Argument(metavar="JOB", help="The number of a job.")],
) -> None:
    """Cancel a job. One that runs is ended by its worker within a few seconds.

    rag jobs cancel 12
    """
    with _opened() as (jobs, _):
        if not jobs.cancel(job):
            raise ConfigError(f"job {job} has ended already ({jobs.job(job).state})")
        now = jobs.job(job)
        result(as_json(now), f"job {job} is {'cancelled' if now.has_ended else 'being cancelled'}")


@app.command()
def add(
    source: Annotated[str | None, options.RepositoryArgument] = None,
    *,
    ref: options.Ref = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild the index from scratch.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job has ended.")] = False,
) -> None:
    """Add a job that indexes a repository. If it waits or runs already, nothing is added.

    rag jobs add https://example.org/team/app.git --wait
    """
    with _opened() as (jobs, settings):
        from rag.service import locate
        from rag.service.repositories.jobs import index_request

        request = index_request(locate(source, ref), settings, rebuild=rebuild)
        job = request.enqueue(jobs, namespace=settings.namespace, asked=True)
        while wait and not job.has_ended:
            jobs.wait(1.0)
            job = jobs.job(job.id)
    result(as_json(job), f"job {job.id} is {job.state}{f': {visible(job.error)}' if job.error else ''}")
    if job.state in ("failed", "cancelled"):
        raise typer.Exit(ProviderError.exit_code if job.attempts > 1 else ConfigError.exit_code)


@contextmanager
def _opened() -> Iterator[tuple[Jobs, Settings]]:
    from rag.service.repositories.jobs import open_jobs

    settings = settings_from()
    jobs = open_jobs(settings)
    try:
        yield jobs, settings
    finally:
        jobs.close()


def as_json(job: QueuedJob) -> dict[str, Any]:
    """Return a job as JSON values."""
    return {
        "id": job.id,
        "about": _about(job),
        "namespace": job.namespace,
        "state": job.state,
        "asked": job.asked,
        "cancelling": job.cancelling,
        "attempts": job.attempts,
        "stage": job.stage,
        "done": job.done,
        "total": job.total,
        "worker": job.worker,
        "request_id": job.request_id,
        "error": job.error,
        "result": dict(job.result),
        "created": job.created.isoformat(),
        "ended": None if job.ended is None else job.ended.isoformat(),
    }


def _about(job: QueuedJob) -> str:
    from rag.service.repositories.jobs import name_of

    return name_of(job)


def _progress(job: QueuedJob) -> str:
    if job.state == "running":
        return f"{job.stage} {job.done:,} of {job.total:,}" if job.total else job.stage
    return job.error[:80]
