"""A served repository and the state of its index."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from rag.errors import RagError
from rag.serve.errors import IndexingFailed, ServeError, StillIndexing
from rag.service import Repository
from rag.service.repositories.engine import Generation
from rag.types import Checkout, Source

State = Literal["waiting", "indexing", "ready", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class ServedRepository:
    """A served repository and the state of its index.

    `state` is "ready" as soon as questions can be answered, even while a later job runs (`running`).
    """

    name: str
    source: Source
    is_listed: bool = True
    state: State = "waiting"
    running: bool = False
    rebuilding: bool = False
    """Whether the running job builds the whole store again; no question waits for that."""
    stage: str = ""
    done: int = 0
    total: int = 0
    error: ServeError | None = None
    damage: str = ""
    """What is wrong with the store on disk, until it is replaced."""
    repository: Repository | None = None
    """The open store; the least recently used stores are closed."""
    generation: Generation | None = None
    """The generation of the open store."""
    stored: bool = False
    """Whether a usable store was on disk at the last check."""
    checkout: Checkout | None = None
    report: dict[str, Any] | None = None
    jobs: int = 0
    indexed: float | None = None
    """When the last job ended, in seconds since 1970."""
    checked: float = 0.0
    """When the last job ended, on the monotonic clock."""
    started_by: str | None = None
    """The namespace of the caller that has started the last job explicitly; None for the server's own."""
    wants_files: bool = False
    """Whether the next job is to clone a URL that is answered from a published index."""
    asked_by: set[str] = field(default_factory=set)
    """For an unlisted repository: the namespaces of the callers that have requested it."""
    took_s: float = 0.0
    update: asyncio.Task[Repository] | None = None
    """Indexes a few changed files in a thread."""
    _task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def can_answer(self) -> bool:
        """Whether questions can be answered immediately."""
        return self.stored or self.repository is not None

    @property
    def is_usable(self) -> bool:
        """Whether it can answer, or a job may soon make it so."""
        return self.running or self.can_answer

    def report_progress(self, stage: str, done: int, total: int) -> None:
        """Record the progress of the job and notify the watchers."""
        self.stage, self.done, self.total = stage, done, total
        self.notify()

    def notify(self) -> None:
        """Wake up all tasks that wait for a change."""
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def wait_for_change(self) -> Coroutine[None, None, bool]:
        """Wait for the first change after this call."""
        return self._changed.wait()


def still_indexing(entry: ServedRepository) -> StillIndexing:
    """Return the error for a question that comes before the first index."""
    how_far = f" ({entry.stage} {entry.done:,} of {entry.total:,})" if entry.total else ""
    return StillIndexing(f"{entry.name} is being indexed{how_far}; ask again in a moment", retry_after_s=2)


def damaged(entry: ServedRepository) -> IndexingFailed | None:
    """Return the error for a damaged store that could not be rebuilt, or None while it may be."""
    if not entry.damage or not isinstance(entry.error, IndexingFailed) or entry.running:
        return None
    return IndexingFailed(
        f"the index of {entry.name} is damaged ({entry.damage}) and could not be rebuilt: {entry.error}",
        kind=entry.error.kind,
    )


def failed(error: RagError) -> IndexingFailed:
    """Return the error of a job that an error has ended."""
    return IndexingFailed(str(error), kind=type(error).__name__)
