"""Run jobs on the nodes of an existing cluster, each in a child process there: `rag index --executor`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rag.errors import SettingsError
from rag.job_queue import QueuedJob
from rag.resources import make_private
from rag.service.jobs import JobRequest, source_of
from rag.settings import Settings, with_absolute_paths
from rag.types import now_utc
from rag.worker.bulk import Runner
from rag.worker.node import NodeCheck, NodeJob, node_version, problem, run_on_node

MAX_ATTEMPTS = 3
_PAUSE_S = 5.0
_MAX_NAMED = 5


class Cluster(Protocol):
    """Machines that run functions of this package; see `rag.backends.dask_cluster`."""

    def on_scheduler(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function returns on the scheduler, or the exception that it raises."""
        ...

    def on_workers(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Return what a function returns on each worker, or the exception, by the worker's address."""
        ...

    def run(self, function: Callable[..., Any], calls: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Run `function(argument, is_cancelled)` for each argument; yield name and result, as they end."""
        ...


@contextmanager
def on_cluster(cluster: Cluster, settings: Settings, *, pause_s: float = _PAUSE_S) -> Iterator[Runner]:
    """Check the nodes of a cluster; return a function that runs jobs there, by any names, as a queue would.

    Indexes are published to `settings.stores`; without that, all nodes use the data folder of `settings`,
    which they must mount at the same path. Of what may pass, each job is attempted three times.

    Raises:
        SettingsError: a node has another version of rag, none, or does not see the shared folder.
    """
    settings = with_absolute_paths(settings)
    is_bucket = "://" in settings.stores
    with _marker(None if is_bucket else Path(settings.stores or settings.home)) as marker:
        check = NodeCheck(node_version(), marker)
        _refuse_other_nodes(cluster, check)
        home = "" if settings.stores else str(settings.home)

        def job_of(request: JobRequest) -> NodeJob:
            return NodeJob(check, request.kind, request.args, settings.embedder, settings.stores, home)

        yield lambda requests: _run_all(cluster, requests, job_of, pause_s)


@contextmanager
def _marker(folder: Path | None) -> Iterator[str]:
    """Put a file in the shared folder, by which a node recognizes it."""
    if folder is None:
        yield ""
        return
    make_private(folder)
    file = folder / f"cluster-{uuid.uuid4().hex}"
    try:
        file.touch()
    except OSError as error:
        raise SettingsError(f"cannot write {file}: {error}") from error
    try:
        yield str(file)
    finally:
        file.unlink(missing_ok=True)


def _refuse_other_nodes(cluster: Cluster, check: NodeCheck) -> None:
    scheduler = cluster.on_scheduler(problem, check._replace(marker=""))  # it reads no files
    found = {}
    for node, why in {"the scheduler": scheduler, **cluster.on_workers(problem, check)}.items():
        if isinstance(why, Exception):
            found[node] = f"it cannot run rag {check.version} ({why}); install it there"
        elif why:
            found[node] = why
    if found:
        named = [f"{node}: {why}" for node, why in list(found.items())[:_MAX_NAMED]]
        more = f" (and {len(found) - _MAX_NAMED:,} more)" if len(found) > _MAX_NAMED else ""
        raise SettingsError(f"the cluster cannot be used. {'. '.join(named)}{more}")


def _run_all(
    cluster: Cluster,
    requests: Mapping[str, JobRequest],
    job_of: Callable[[JobRequest], NodeJob],
    pause_s: float,
) -> Generator[tuple[str, QueuedJob], None, None]:
    """Run jobs and yield them as they end. What may pass is attempted again after all others."""
    left = dict(requests)
    for name in [name for name in left if not _is_reachable(job_of(left[name]))]:
        error = (
            "it is a folder, which other machines do not know; list its git URL, or index without RAG_STORES"
        )
        yield name, _ended(left.pop(name), 1, error=error)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        run = uuid.uuid4().hex
        again = {}
        calls = {f"rag-{run}-{name}": job_of(request) for name, request in left.items()}
        for call, result in cluster.run(run_on_node, calls):
            name = call.removeprefix(f"rag-{run}-")
            request = left[name]
            match result:
                case {"done": dict() as done}:
                    yield name, _ended(request, attempt - 1, result=done)
                case {"error": {"retry": True}} if attempt < MAX_ATTEMPTS:
                    again[name] = request
                case {"error": {"message": str() as message}} if message:
                    yield name, _ended(request, attempt, error=message)
                case _:  # an exception, or of a node that runs something else
                    yield (
                        name,
                        _ended(request, MAX_ATTEMPTS, error=f"{type(result).__name__}: {result}"[:500]),
                    )
        left = again
        if not left:
            return
        threading.Event().wait(pause_s * attempt)


def _is_reachable(job: NodeJob) -> bool:
    """Return whether others can use its index: a folder has no name on a shelf."""
    return bool(job.home) or source_of(job.args["source"]).is_url


def _ended(
    request: JobRequest, attempts: int, *, error: str = "", result: Mapping[str, Any] | None = None
) -> QueuedJob:
    return QueuedJob(
        0,
        request.kind,
        request.key,
        request.args,
        now_utc(),
        state="failed" if error else "done",
        attempts=attempts,
        error=error,
        result=result or {},
    )
