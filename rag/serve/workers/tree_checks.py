"""Each answer rests on the files as they are when it is asked for: they are compared with the index first.

Comparing costs about 20 µs for each file and four calls of git, 72 ms for the 4,079 files of Django. Three
things keep that from every question:

- Where the kernel tells that nothing changed since the last comparison (`TreeWatch`), nothing is compared.
- A comparison that began after a question came is shared by all that came before it began.
- All comparisons of a server take at most a tenth of one processor over time. The first two seconds of them
  are free, so that somebody who edits and asks, again and again, never meets this bound; under constant load
  on a folder that cannot be watched, an answer rests on a comparison that is some tenths of a second old. The
  answer says how old (`Coverage.checked_ago_s`).

Besides, a folder that is watched is compared every half minute while it is asked, in the background, for what
the kernel does not report. Comparisons have threads of their own, so that git on a slow disk keeps no other
question waiting.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rag.errors import RagError
from rag.serve.telemetry import log
from rag.service import Engine, Repository
from rag.service.background_budget import Allowance
from rag.service.tree_watch import TreeWatch
from rag.types import Source

_SHARE = 0.1
"""Of one processor, over time, for comparing."""
_BURST_S = 2.0
"""Seconds of comparing that were saved up at most while nobody asked."""
_MOST_WAIT_S = 2.0
"""A question waits no longer for a comparison: a folder of a hundred thousand files takes longer."""
_THREADS = 2


@dataclass(slots=True, eq=False)
class _Tree:
    """What is known of one source."""

    checked: Repository | None = None
    """The repository as the last comparison found it."""
    outdated: bool = False
    """Whether a refresh would write anything, as the last comparison found."""
    began: float = 0.0
    state: int | None = None
    """Which state of the folder that comparison saw, as `TreeWatch` numbers them; None where not watched."""
    running: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a comparison came to."""

    repository: Repository
    outdated: bool
    state: int | None
    took_s: float


class TreeChecks:
    """Compares the sources that are asked with their indexes.

    Args:
        engine: compares.
        recheck_s: a watched folder is compared again after so long, in the background.
    """

    def __init__(self, engine: Engine, *, recheck_s: float) -> None:
        self._engine, self._recheck_s = engine, recheck_s
        self._trees: dict[Source, _Tree] = {}
        self._allowance = Allowance(_SHARE, _BURST_S)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rag-compare")
        self._watch: TreeWatch | None = None
        try:
            self._watch = TreeWatch()
        except OSError as error:
            log.info("folders are not watched (%s); they are compared from time to time", error)

    async def close(self) -> None:
        """End what is under way, as far as it can be ended."""
        running = [tree.running for tree in self._trees.values() if tree.running]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._watch is not None:
            self._watch.close()

    def forget(self, source: Source) -> None:
        """A source is not open any more."""
        self._trees.pop(source, None)

    async def checked(self, repository: Repository) -> tuple[Repository, bool]:
        """A repository as it is now, and whether its index is behind.

        Returns:
            The repository, its `coverage` saying what is not indexed and how old the comparison is; and
            whether a refresh has something to write.
        """
        tree = self._trees.setdefault(repository.source, _Tree())
        arrived = time.monotonic()
        deadline = arrived + _MOST_WAIT_S
        while not self._is_current(tree, repository, arrived):
            if tree.running is None and not self._begin(tree, repository):
                break
            assert tree.running is not None
            try:
                await asyncio.wait_for(asyncio.shield(tree.running), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                break
        if tree.checked is None or tree.checked.store.segments is not repository.store.segments:
            return repository, False
        ago = 0.0 if self._is_unchanged(tree, repository) else max(0.0, arrived - tree.began)
        return _aged(tree.checked, ago), tree.outdated

    def _is_current(self, tree: _Tree, repository: Repository, arrived: float) -> bool:
        """Whether the last comparison was of this store, and nothing has changed from then to `arrived`."""
        if tree.checked is None or tree.checked.store.segments is not repository.store.segments:
            return False
        if tree.began >= arrived:
            return True
        if not self._is_unchanged(tree, repository):
            return False
        if tree.running is None and arrived - tree.began > self._recheck_s:
            self._begin(tree, repository)
        return True

    def _is_unchanged(self, tree: _Tree, repository: Repository) -> bool:
        if self._watch is None or tree.state is None:
            return False
        return self._watch.is_unchanged(repository.checkout.root, tree.state)

    def _begin(self, tree: _Tree, repository: Repository) -> bool:
        """Begin to compare, unless too much of that was done lately; the first comparison is always made."""
        known = tree.checked is not None and tree.checked.store.segments is repository.store.segments
        if known and not self._allowance.is_left():
            return False
        tree.running = asyncio.create_task(self._compare(tree, repository))
        tree.running.add_done_callback(_log_mistake)
        return True

    async def _compare(self, tree: _Tree, repository: Repository) -> None:
        began = time.monotonic()
        try:
            done = await asyncio.get_running_loop().run_in_executor(self._pool, self._compared, repository)
        except RagError as error:
            log.warning("%s could not be compared with its index: %s", repository.source.name, error)
            coverage = replace(repository.coverage, checked_ago_s=None)
            done = _Compared(replace(repository, coverage=coverage), outdated=False, state=None, took_s=0.0)
        finally:
            tree.running = None
        self._allowance.spend(done.took_s)
        tree.checked, tree.outdated, tree.state = done.repository, done.outdated, done.state
        tree.began = began

    def _compared(self, repository: Repository) -> _Compared:
        began = time.monotonic()
        state = None
        if self._watch is not None and repository.source.ref is None:
            state = self._watch.begin(repository.checkout.root)
        found, outdated = self._engine.compared(repository)
        return _Compared(found, outdated, state, time.monotonic() - began)


def _log_mistake(comparing: asyncio.Task[None]) -> None:
    """Nobody may have waited for it."""
    if not comparing.cancelled() and (error := comparing.exception()) is not None:
        log.error("a comparison failed", exc_info=error)


def _aged(repository: Repository, ago_s: float) -> Repository:
    known = repository.coverage.checked_ago_s
    if known is None or round(known, 3) == round(ago_s, 3):
        return repository
    return replace(repository, coverage=replace(repository.coverage, checked_ago_s=round(ago_s, 3)))
