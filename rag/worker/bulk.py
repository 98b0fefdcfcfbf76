"""Index all repositories of a list: in this process, or by the workers of a queue.

Of an interrupted run, or one with failures, the finished repositories are remembered in the data folder, and
the next run of the same list skips them. A run without failures forgets them, so the next one updates all.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from rag.decoding import text_of
from rag.errors import SettingsError, SourceError, StoreUnwritable
from rag.job_queue import Jobs, QueuedJob
from rag.resources import make_private
from rag.service import locate
from rag.service.repositories.jobs import JobRequest, index_request
from rag.settings import Settings
from rag.types import Source, now_utc
from rag.worker.loop import Worker

MAX_LISTED = 100_000
MAX_LIST_BYTES = 32 << 20
_POLL_S = 0.5
_MAX_READ = 500
"""How many jobs one query reads."""


class ListedSource(NamedTuple):
    """A line of a list: its source, or why it has none."""

    text: str
    source: Source | None
    error: str = ""


class BulkOutcome(NamedTuple):
    """What became of a line of a list. `job` is None if it was skipped, or is not a source."""

    listed: ListedSource
    job: QueuedJob | None = None
    skipped: bool = False

    @property
    def error(self) -> str:
        """Why it was not indexed; "" if it was."""
        if self.job is None:
            return self.listed.error
        if self.job.state == "done":
            return ""
        return self.job.error or self.job.state

    @property
    def is_passing(self) -> bool:
        """Whether it failed although it was attempted several times, so a later run may succeed."""
        return bool(self.error) and self.job is not None and self.job.attempts > 1


def read_list(file: Path) -> list[ListedSource]:
    """Return the sources of a file: a path or git URL per line, and after a tab a branch, tag or commit.

    Empty lines and those that begin with `#` are left out, repeated sources too. Paths are relative to the
    folder of the file.

    Raises:
        SettingsError: the file cannot be read, or lists nothing or too much.
    """
    try:
        with file.open("rb") as content:
            written = content.read(MAX_LIST_BYTES + 1)
        lines = text_of(written).split("\n")
    except (OSError, ValueError) as error:
        raise SettingsError(f"the list {file} cannot be read: {error}") from error
    if len(written) > MAX_LIST_BYTES:
        raise SettingsError(f"the list {file} has more than {MAX_LIST_BYTES >> 20} MB; divide it")
    texts = dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not texts or len(texts) > MAX_LISTED:
        raise SettingsError(
            f"{file} lists {len(texts):,} repositories; write one path or git URL per line, "
            f"at most {MAX_LISTED:,}"
        )
    return [_listed(text, file.parent) for text in texts]


def _listed(text: str, folder: Path) -> ListedSource:
    place, _, ref = text.partition("\t")
    place = place.strip()
    if "://" not in place and not place.startswith(("~", "git@")):
        place = str(folder.absolute() / place)
    try:
        return ListedSource(text, locate(place, ref.strip() or None))
    except SourceError as error:
        return ListedSource(text, None, str(error))


class FinishedSources:
    """The sources of a list that an unfinished run has indexed."""

    def __init__(self, file: Path, settings: Settings) -> None:
        name = sha256(
            "\0".join([str(file.absolute()), settings.embedder, *filter(None, [settings.stores])]).encode(
                "utf-8", "surrogateescape"
            )
        )
        self._path = settings.home / "lists" / f"{name.hexdigest()[:16]}.jsonl"

    def read(self) -> set[str]:
        """Return the texts of the lines that were finished."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return set()
        found = set()
        for line in lines:
            try:
                found.add(str(json.loads(line)))
            except ValueError:  # the run was interrupted while it wrote this line
                continue
        return found

    def add(self, *texts: str) -> None:
        """Add lines; none, to learn whether they can be stored. Raises StoreUnwritable if they cannot."""
        with self._translated():
            make_private(self._path.parent)
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(text) + "\n" for text in texts)

    def forget(self) -> None:
        """Forget all lines. Raises StoreUnwritable."""
        with self._translated():
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnwritable(path=str(self._path), why=error.strerror or str(error)) from error


@contextmanager
def working(jobs: Jobs, settings: Settings, *, slots: int) -> Iterator[None]:
    """Run the jobs of a queue of this process in the background of the block."""
    worker = Worker(jobs, settings, slots=slots)
    thread = threading.Thread(target=worker.run, name="worker")
    thread.start()
    try:
        yield
    finally:
        worker.stop(grace_s=0)
        thread.join()


def index_all(
    listed: Sequence[ListedSource],
    jobs: Jobs,
    settings: Settings,
    *,
    finished: FinishedSources,
    rebuild: bool = False,
    publish: bool = False,
    ended: Callable[[BulkOutcome], None] = lambda outcome: None,
) -> list[BulkOutcome]:
    """Index the sources of a list, and wait until all have ended.

    Args:
        listed: the list.
        jobs: the queue whose workers index; if this is interrupted, its jobs stay there.
        settings: those of the stores.
        finished: what an earlier run has done, which is skipped.
        rebuild: rebuild the stores from scratch.
        publish: share the stores with other machines, if the settings name a place.
        ended: is called with each outcome, as soon as it is known.

    Raises:
        StoreUnwritable: what is finished cannot be stored.
        StoreError: the queue cannot be used.
    """
    finished.add()  # a home that cannot be written is an error now, not of every repository
    done = finished.read()
    found: list[BulkOutcome] = []
    requests: dict[str, JobRequest] = {}
    waiting: dict[str, list[ListedSource]] = {}
    for one in listed:
        if one.source is None or one.text in done:
            found.append(BulkOutcome(one, skipped=one.source is not None))
            ended(found[-1])
        else:
            request = index_request(one.source, settings, rebuild=rebuild, publish=publish)
            requests[request.key] = request
            waiting.setdefault(request.key, []).append(one)  # two lines may be one store
    names = {request.enqueue(jobs).id: name for name, request in requests.items()}
    for job in _ended(jobs, list(names)):
        for one in waiting[names[job.id]]:
            found.append(BulkOutcome(one, job))
            if job.state == "done":
                finished.add(one.text)
            ended(found[-1])
    if not any(outcome.error for outcome in found):
        finished.forget()
    return found


def _ended(jobs: Jobs, ids: Iterable[int]) -> Iterator[QueuedJob]:
    """Yield the jobs as they end. One that its queue has deleted counts as failed."""
    open_ids = list(ids)
    while open_ids:
        began = time.monotonic()
        still_open: list[int] = []
        for at in range(0, len(open_ids), _MAX_READ):
            some = open_ids[at : at + _MAX_READ]
            found = {job.id: job for job in jobs.jobs(ids=some, limit=len(some))}
            for number in some:
                job = found.get(number)
                if job is None:
                    yield _deleted(number)
                elif job.has_ended:
                    yield job
                else:
                    still_open.append(number)
        open_ids = still_open
        # Reading many jobs takes the queue's time, so it is done for a fifth of the time at most.
        until = time.monotonic() + max(_POLL_S, 4 * (time.monotonic() - began))
        while open_ids and (left := until - time.monotonic()) > 0:  # changes may be many
            jobs.wait(left)


def _deleted(number: int) -> QueuedJob:
    error = f"job {number} is no longer in the queue, so its outcome is not known; index it again"
    return QueuedJob(number, "", {}, now_utc(), state="failed", error=error)
