"""The repositories that are served: an allow-list, kept indexed in the background.

A shelf is one repository at one ref. Its store is built or refreshed by a child process, one at a time;
meanwhile the state before it goes on answering. Nothing that a request says is opened unless it is the
name of a repository of the list, such a name at a ref, or an https URL on a host that is allowed.

A question is answered from the store that is on disk when it is asked, whoever wrote it: a store of another
generation than the open one is opened instead. Before that the files are compared with it (`tree_checks`).

Everything here runs in the server's event loop; only opening a store and comparing are done in threads.
"""

from __future__ import annotations

import asyncio
import re
import time
from asyncio import to_thread
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rag.database.store import delta_path
from rag.errors import NotFound, RagError, SourceError, StoreCorrupt, StoreError, TooManyOpenFiles
from rag.serve.access.keys import Caller
from rag.serve.access.ssrf import public_place
from rag.serve.errors import (
    Forbidden,
    IndexingFailed,
    ServeError,
    StillIndexing,
    TooMany,
    UnknownRepository,
)
from rag.serve.settings import ServerSettings
from rag.serve.telemetry import log
from rag.serve.workers.indexing import Indexed, Indexers
from rag.serve.workers.open_files import most_open_stores
from rag.serve.workers.tree_checks import TreeChecks
from rag.service import Engine, Repository, locate
from rag.service.engine import Generation, at_checkout
from rag.service.ref_retention import RefRetention, RetentionFull
from rag.types import Checkout, Source

State = Literal["waiting", "indexing", "ready", "failed", "cancelled"]

_MOST_UNLISTED = 50
"""Refs and URLs that requests may add to the list."""
_SHOWN_NAMES = 20
_MIN_PAUSE_FACTOR = 20.0
"""Looking for changes takes at most one part in this many of the time."""
_RECHECK_S = 30.0
"""A folder that is watched is compared at least so often all the same, while it is asked."""
_TAKES_IN_S = 0.3
"""A question waits so long for changed files to be indexed; what takes longer is named in its answer."""
_OPENINGS = 2
"""A refresh that is under way may not come upon the damage of a store; the rebuild after it replaces it."""
_AFTER_FAILURE_S = 30.0
"""A question does not begin again what has just failed."""


@dataclass(slots=True, eq=False)
class ServedRepository:
    """One repository that is served, and how far its index is.

    `state` is "ready" as soon as questions can be answered, also while a later job runs (`running`).
    """

    name: str
    source: Source
    is_listed: bool = True
    state: State = "waiting"
    running: bool = False
    stage: str = ""
    done: int = 0
    total: int = 0
    error: ServeError | None = None
    damage: str = ""
    """What is wrong with the store on disk, until one that is sound takes its place."""
    repository: Repository | None = None
    """The store, while it is open: those that were not asked for longest are closed."""
    generation: Generation | None = None
    """Which state of the store on disk that is."""
    stored: bool = False
    """Whether a store that can be used was on disk when it was last looked for."""
    checkout: Checkout | None = None
    report: dict[str, Any] | None = None
    jobs: int = 0
    indexed: float | None = None
    """When the last job ended, seconds since 1970."""
    checked: float = 0.0
    requested: float = 0.0
    """When the last job was asked for, on the monotonic clock, as `checked`, when it ended."""
    asked_by: set[str] = field(default_factory=set)
    """Of one beyond the list: the namespaces of those who have asked for it."""
    took_s: float = 0.0
    _task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def can_answer(self) -> bool:
        """Whether questions are answered at once."""
        return self.stored or self.repository is not None

    @property
    def is_of_use(self) -> bool:
        """Whether it can be asked, or may soon."""
        return self.running or self.can_answer

    def tell(self, stage: str, done: int, total: int) -> None:
        """Progress of the job."""
        self.stage, self.done, self.total = stage, done, total
        self.changed()

    def changed(self) -> None:
        """Wake those who watch."""
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def change(self) -> Coroutine[None, None, bool]:
        """Wait until something about the shelf is different from what it is as this is called."""
        return self._changed.wait()


class RepositoryRegistry:
    """The shelves, by name.

    Args:
        settings: what is on the list, and how often it is looked at.
        engine: opens the stores.
        notice: told in a sentence what the operator ought to know.
    """

    def __init__(
        self, settings: ServerSettings, engine: Engine, *, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        self._settings, self._engine, self._notice = settings, engine, notice
        self._shelves = {name: ServedRepository(name, source) for name, source in settings.repositories}
        self._indexers: Indexers | None = None
        home = settings.engine.home
        self._retention = RefRetention(
            home, self._store_file, max_entries=settings.max_refs, max_bytes=settings.max_refs_bytes
        )
        self._checks: TreeChecks | None = None
        self._probing: asyncio.Task[None] | None = None
        self._open: OrderedDict[ServedRepository, None] = OrderedDict()
        """The shelves whose stores are open, those asked last at the end."""

    # ------------------------------------------------------------ what there is

    def names(self) -> list[str]:
        """Names of the list, in its order, then those that requests added."""
        return list(self._shelves)

    def listed_names(self) -> str:
        """The names of the list, as a sentence tells them; "none" where it is empty."""
        listed = [shelf.name for shelf in self.shelves() if shelf.is_listed]
        more = f" and {len(listed) - _SHOWN_NAMES} more" if len(listed) > _SHOWN_NAMES else ""
        return (", ".join(listed[:_SHOWN_NAMES]) or "none") + more

    def shelves(self) -> list[ServedRepository]:
        """All shelves, in the order of their names here."""
        return list(self._shelves.values())

    def seen_by(self, caller: Caller) -> list[ServedRepository]:
        """The shelves of the list, then those that the caller has asked for: which branches and URLs others
        look at is their business."""
        return [s for s in self.shelves() if s.is_listed or caller.namespace in s.asked_by]

    def shelf(self, name: str, ref: str | None = None, *, caller: Caller | None = None) -> ServedRepository:
        """The shelf that a request names: `NAME`, `NAME@REF`, or an allowed URL (`@REF` too).

        With a `caller` one beyond the list is among those that this caller sees.

        Raises:
            UnknownRepository: no such name is served.
            Forbidden: a path, or a URL that is not allowed.
            TooMany: requests have too many refs and URLs indexed at once.
        """
        full, source = self._named(name, ref)
        shelf = self._shelves.get(full) or self._added(full, source)
        if caller is not None and not shelf.is_listed:
            shelf.asked_by.add(caller.namespace)
        return shelf

    def only_one(self) -> ServedRepository:
        """The shelf that a request means which names none: the one of a list of one.

        Raises:
            UnknownRepository: the list has none, or several.
        """
        listed = [shelf for shelf in self.shelves() if shelf.is_listed]
        if len(listed) != 1:
            raise UnknownRepository(f"no repository is named; there are: {self.listed_names()}")
        return listed[0]

    def named(self, name: str, ref: str | None = None) -> str:
        """What the shelf is called that a request names; it is not added.

        Raises:
            UnknownRepository, Forbidden: as `shelf`.
        """
        return self._named(name, ref)[0]

    def source(self, name: str) -> Source:
        """The source that a request names; no shelf is added for it. Raises as `named`."""
        return self._named(name, None)[1]

    def base_name(self, source: Source) -> str:
        """What a source is called before any `@REF`: as the list calls it, at whatever ref, else its URL."""
        there = (source.location, source.filters)
        listed = (s for s in self.shelves() if s.is_listed and (s.source.location, s.source.filters) == there)
        return next((shelf.name for shelf in listed), source.location)

    def _named(self, name: str, ref: str | None) -> tuple[str, Source]:
        full = f"{name}@{ref}" if ref else name
        if known := self._shelves.get(full):
            return full, known.source
        base, named_ref = (name, ref) if ref else _split_ref(name)
        listed = self._shelves.get(base)
        if listed is not None and listed.is_listed and named_ref:
            source = _at(listed.source, named_ref)
        elif "://" in base:
            base = self._allowed_url(base)
            source = locate(base, named_ref)
        else:
            raise self._unknown(base)
        return (f"{base}@{named_ref}" if named_ref else base), source

    def of_source(self, source: Source) -> ServedRepository | None:
        """The shelf of a source, as a conversation remembers it; None when it is not served.

        Raises:
            TooMany: as `shelf`.
        """
        found = next((shelf for shelf in self._shelves.values() if shelf.source == source), None)
        if found is not None:
            return found
        try:  # a ref or URL that nobody has asked for since the server started, or for long
            name, known = self._named(self.base_name(source), source.ref)
        except RagError:
            return None
        return self.shelf(name) if known == source else None

    async def repository(self, name: str, *, caller: Caller | None = None) -> Repository:
        """The repository a request names, open; begins to index it, and to look for changes.

        Raises:
            StillIndexing: its first index takes longer than a request should wait.
            IndexingFailed: it could not be indexed.
            ServeError: as `shelf`.
        """
        return await self.opened(self.shelf(name, caller=caller))

    async def opened(self, shelf: ServedRepository) -> Repository:
        """The repository of a shelf as its files are now, see `repository`.

        A store on disk is opened at once, also while its repository waits to be indexed. Changed files are
        indexed first where that takes no more than 0.3 s; else `coverage` of the repository names them.
        """
        self._look_again(shelf)
        if not shelf.is_listed:
            self._retention.used(shelf.source)
        self._hurry(shelf)
        repository = await self._from_disk(shelf)
        for _ in range(_OPENINGS):
            if repository is None:
                await self._indexed_first(shelf)
                repository = await self._from_disk(shelf)
        if repository is None:
            raise _damaged(shelf) or shelf.error or _still_indexing(shelf)
        return await self._as_it_is_now(shelf, repository)

    async def _indexed_first(self, shelf: ServedRepository) -> None:
        """Wait for the first index. Raises StillIndexing when a request should not wait any longer."""
        deadline = time.monotonic() + self._settings.wait_for_index_s
        while not shelf.can_answer and shelf.running:
            try:
                await asyncio.wait_for(shelf.change(), deadline - time.monotonic())
            except TimeoutError:
                raise _still_indexing(shelf) from None

    async def _from_disk(
        self, shelf: ServedRepository, checkout: Checkout | None = None
    ) -> Repository | None:
        """The repository with the store that is on disk now, whoever wrote it; None where none can be used.

        The store that was open before is closed when the last question that it is asked has been answered.
        """
        if shelf.repository is not None and self._engine.generation(shelf.source) == shelf.generation:
            self._asked(shelf)
            return shelf.repository
        if not shelf.is_listed and shelf.report is None:
            return None  # only a job finds out whether this ref may be asked
        async with shelf._opening:
            generation = self._engine.generation(shelf.source)
            if shelf.repository is not None and shelf.generation == generation:
                return shelf.repository
            try:
                opened = await self._opened_store(shelf, checkout)
            except (NotFound, SourceError, StoreError) as error:
                if isinstance(error, TooManyOpenFiles):
                    raise
                shelf.stored = False  # what is open already goes on answering
                if isinstance(error, StoreCorrupt):
                    self._replace_damaged(shelf, generation, error)
                elif not isinstance(error, NotFound):
                    log.warning("the store of %s is not opened: %s", shelf.name, error)
            else:
                shelf.damage = ""
                shelf.repository, shelf.generation, shelf.stored = opened, generation, True
                shelf.checkout = opened.checkout
                if shelf.state != "ready":
                    shelf.state = "ready"
                    shelf.changed()
                self._asked(shelf)
            return shelf.repository

    def _replace_damaged(self, shelf: ServedRepository, found: Generation, damage: StoreCorrupt) -> None:
        """Begin to rebuild a damaged store.

        What is open of it goes on answering if another file took its place. It is closed if the file itself
        was written to: it is mapped, and reading beyond the end of a truncated file ends the process.
        """
        if _is_written_to(shelf.generation, found):
            self._close_store(shelf)
        if not shelf.damage:
            log.warning("the store of %s is rebuilt: %s", shelf.name, damage)
        shelf.damage = damage.why
        if not self._has_just_failed(shelf):
            self.index(shelf, rebuild=True)

    async def _opened_store(self, shelf: ServedRepository, checkout: Checkout | None) -> Repository:
        try:
            return await to_thread(self._engine.stored, shelf.source, checkout)
        except TooManyOpenFiles:
            self._close_stores(len(self._open) // 2)
            return await to_thread(self._engine.stored, shelf.source, checkout)

    def _asked(self, shelf: ServedRepository) -> None:
        """Keep the stores open that were asked last, no more than the system lets this process open."""
        self._open[shelf] = None
        self._open.move_to_end(shelf)
        self._close_stores(most_open_stores())

    def _close_stores(self, most: int) -> None:
        """Close those that were not asked for longest, until so many are open."""
        while len(self._open) > most:
            self._close_store(next(iter(self._open)))

    def _close_store(self, shelf: ServedRepository) -> None:
        self._open.pop(shelf, None)
        self._engine.release(shelf.source)
        if self._checks is not None:
            self._checks.forget(shelf.source)
        shelf.repository = shelf.generation = None

    async def _as_it_is_now(self, shelf: ServedRepository, repository: Repository) -> Repository:
        """The repository, compared with its files, with those that changed where that is quickly done."""
        if repository.source.is_url:
            ago = time.monotonic() - shelf.checked if shelf.report else None
            coverage = replace(repository.coverage, checked_ago_s=None if ago is None else round(ago, 3))
            return replace(repository, coverage=coverage)
        if self._checks is None or self._settings.refresh_s <= 0:
            return repository
        deadline = time.monotonic() + _TAKES_IN_S
        while True:
            now, is_behind = await self._checks.checked(repository)
            self._keep(shelf, now)
            if not is_behind or self._has_just_failed(shelf):
                return now
            self.index(shelf)
            self._hurry(shelf)
            if not now.coverage.not_indexed_count or not await self._ended(shelf, deadline):
                return now
            repository = await self._from_disk(shelf) or now

    def _keep(self, shelf: ServedRepository, now: Repository) -> None:
        """Open at the checkout that was found, so that hits of the next question say its commit at once."""
        if shelf.repository is not None and shelf.repository.store.segments is now.store.segments:
            shelf.repository, shelf.checkout = now, now.checkout

    async def _ended(self, shelf: ServedRepository, deadline: float) -> bool:
        """Whether the job of a shelf ends before a question has waited long enough for it."""
        deadline = min(deadline, shelf.requested + _TAKES_IN_S)
        while shelf.running:
            try:
                await asyncio.wait_for(shelf.change(), deadline - time.monotonic())
            except TimeoutError:
                return False
        return True

    def _hurry(self, shelf: ServedRepository) -> None:
        if self._indexers is not None and shelf.running and shelf.stage == "waiting":
            self._indexers.hurry(shelf.source)

    def _has_just_failed(self, shelf: ServedRepository) -> bool:
        return shelf.error is not None and time.monotonic() - shelf.checked < _AFTER_FAILURE_S

    # ------------------------------------------------------------ indexing

    async def start(self) -> None:
        """Begin to index the list. What has an index on disk can be asked before that."""
        self._indexers = Indexers(self._engine.settings, notice=self._notice)
        self._checks = TreeChecks(self._engine, recheck_s=max(_RECHECK_S, self._settings.refresh_s))
        try:
            await to_thread(self._retention.adopt, self._requestable)
        except OSError as error:
            self._notice(f"refs and URLs indexed by an older server are not counted: {error}")
        for shelf in self.shelves():
            self.index(shelf)
        self._probing = asyncio.create_task(self._find_stored())
        self._probing.add_done_callback(_log_mistake)

    async def _find_stored(self) -> None:
        """Find out which repositories of the list can be asked at once, because their stores are on disk."""
        for shelf in self.shelves():
            if not shelf.can_answer and await to_thread(self._engine.usable, shelf.source):
                shelf.stored, shelf.state = True, "ready"
                shelf.changed()

    async def close(self) -> None:
        """End what is being indexed. What was indexed stays."""
        await asyncio.sleep(0)  # a job that never began could not say that it ended
        tasks = [shelf._task for shelf in self.shelves() if shelf._task is not None]
        tasks += [self._probing] if self._probing is not None else []
        for task in tasks:  # all, before the first has ended: else the next of those that wait would begin
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._checks is not None:
            await self._checks.close()
        if self._indexers is not None:
            await self._indexers.close()
        self._retention.close()

    def index(self, shelf: ServedRepository, *, rebuild: bool = False) -> bool:
        """Begin to index, unless that is going on; returns whether it began."""
        if shelf.running:
            return False
        shelf.running, shelf.jobs, shelf.error = True, shelf.jobs + 1, None
        shelf.requested = time.monotonic()
        if not shelf.can_answer:
            shelf.state = "waiting"
        shelf.tell("waiting", 0, 0)
        shelf._task = asyncio.create_task(self._job(shelf, rebuild=rebuild))
        shelf._task.add_done_callback(_log_mistake)
        return True

    def rebuild_damaged(self, damage: StoreCorrupt) -> str | None:
        """Begin to rebuild the index that an error is about; returns the shelf's name, None for no index."""
        for shelf in self.shelves():
            path = shelf.repository.store.path if shelf.repository is not None else None
            if path is not None and damage.path in (str(path), str(delta_path(path))):
                self.index(shelf, rebuild=True)
                return shelf.name
        return None

    async def cancel(self, shelf: ServedRepository) -> bool:
        """End the job of a shelf; returns whether there was one. The index before it stays."""
        task = shelf._task
        if task is None or task.done():
            return False
        await asyncio.sleep(0)  # a job that never began could not say that it ended
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return True

    async def events(self, shelf: ServedRepository) -> AsyncIterator[ServedRepository]:
        """The shelf, now and at each change, until its job has ended. Changes that come at once are one."""
        yield shelf
        while shelf.running:
            await shelf.change()
            yield shelf

    async def _job(self, shelf: ServedRepository, *, rebuild: bool) -> None:
        assert self._indexers is not None, "the library is started with the server"

        def tell(stage: str, done: int, total: int) -> None:
            if not shelf.can_answer:
                shelf.state = "indexing"
            shelf.tell(stage, done, total)

        try:
            place = None if self._is_trusted(shelf.source) else await public_place(shelf.source.location)
            refs = None if shelf.is_listed else self._settings.allowed_refs
            async with self._kept_on_disk(shelf):
                indexed = await self._indexers.index(
                    shelf.source, rebuild=rebuild, place=place, tell=tell, refs=refs
                )
                await self._put_up(shelf, indexed)
        except RagError as error:
            shelf.error = error if isinstance(error, ServeError) else _failed(error)
            shelf.state = "ready" if shelf.can_answer else "failed"
            self._notice(f"{shelf.name} could not be indexed: {error}")
        except asyncio.CancelledError:
            shelf.state = "ready" if shelf.can_answer else "cancelled"
            shelf.error = IndexingFailed(f"the indexing of {shelf.name} was cancelled", kind="Cancelled")
            raise
        finally:
            if not shelf.can_answer and shelf.error is None:
                # A mistake of ours: whoever waits is told, else they would be told to wait for ever.
                shelf.state = "failed"
                shelf.error = IndexingFailed(
                    f"{shelf.name} could not be indexed; the server's log says why", kind="Internal"
                )
            shelf.running, shelf.checked = False, time.monotonic()
            shelf.indexed = time.time()
            shelf.tell("", 0, 0)

    async def _put_up(self, shelf: ServedRepository, indexed: Indexed) -> None:
        """Take the store that was written, if the one before it is open: others are opened when asked."""
        if shelf.repository is not None:
            opened = await self._from_disk(shelf, indexed.checkout)
            if shelf.repository is opened is not None:
                shelf.repository = at_checkout(opened, indexed.checkout)
        shelf.checkout, shelf.stored = indexed.checkout, True
        shelf.report, shelf.state, shelf.error = indexed.report, "ready", None
        shelf.took_s = float(indexed.report["seconds"])

    def _look_again(self, shelf: ServedRepository) -> None:
        """Look for changes in the background, when that was not done for a while.

        A folder that can be asked is compared with its index at each question instead.
        """
        if shelf.running or (shelf.jobs and shelf.can_answer and not shelf.source.is_url):
            return
        pause = self._settings.fetch_s if shelf.source.is_url else self._settings.refresh_s
        if shelf.error is not None and shelf.jobs:
            pause = max(pause, _AFTER_FAILURE_S)
        age = time.monotonic() - shelf.checked
        if not shelf.jobs or (pause > 0 and age > max(pause, _MIN_PAUSE_FACTOR * shelf.took_s)):
            self.index(shelf)

    # ------------------------------------------------------------ what is not on the list

    def _added(self, name: str, source: Source) -> ServedRepository:
        if self._unlisted() >= _MOST_UNLISTED:
            # What was only named, or could not be indexed, makes room: nobody is answered from it.
            self._shelves = {known: s for known, s in self._shelves.items() if s.is_listed or s.is_of_use}
        if self._unlisted() >= _MOST_UNLISTED:
            # Then the one that nobody has asked for longest. Its store stays on disk while there is room.
            idle = [s for s in self._shelves.values() if not (s.is_listed or s.running)]
            if not idle:
                raise TooMany(
                    f"{_MOST_UNLISTED} refs and URLs beyond the list are being indexed; come again when some "
                    "are done, or have the server list more with --repo",
                    retry_after_s=60,
                )
            dropped = min(idle, key=lambda s: s.checked)
            del self._shelves[dropped.name]
            self._retention.release(dropped.source)
        shelf = self._shelves[name] = ServedRepository(name, source, is_listed=False)
        return shelf

    @asynccontextmanager
    async def _kept_on_disk(self, shelf: ServedRepository) -> AsyncIterator[None]:
        """Count what a job leaves on disk for a ref or URL beyond the list, and evict what is too much.

        Raises:
            TooMany: there is no room, and what takes it is in use.
        """
        if shelf.is_listed:
            yield
            return
        try:
            self._forget(await to_thread(self._retention.begin, shelf.source))
            try:
                yield
            finally:
                self._forget(await to_thread(self._retention.end, shelf.source))
        except RetentionFull as error:
            self._close_store(shelf)
            shelf.stored = False
            raise TooMany(str(error), retry_after_s=60) from error
        except OSError as error:
            raise IndexingFailed(f"{shelf.name} cannot be kept: {error}", kind="StoreUnwritable") from error

    def _forget(self, evicted: Sequence[Source]) -> None:
        """Drop the shelves of what is not on disk any more."""
        for shelf in self.shelves():
            if shelf.source in evicted and not (shelf.is_listed or shelf.running):
                del self._shelves[shelf.name]
                self._close_store(shelf)

    def _requestable(self, location: str, ref: str | None) -> list[Source]:
        """The sources of a location at a ref that requests may name and that are not on the list."""
        listed = [source for _, source in self._settings.repositories]
        found = [replace(one, ref=ref) for one in listed if ref is not None and one.location == location]
        with suppress(ServeError, SourceError):
            if "://" in location and self._allowed_url(location) == location:
                found.append(Source(location, ref))
        return [source for source in dict.fromkeys(found) if source not in listed]

    def _store_file(self, source: Source) -> Path:
        return self._engine.store_file(source)

    def _is_trusted(self, source: Source) -> bool:
        """Whether its place is the operator's choice, at whatever ref, rather than a request's."""
        return not source.is_url or any(
            source.location == listed.location for _, listed in self._settings.repositories
        )

    def _unlisted(self) -> int:
        return sum(not shelf.is_listed for shelf in self._shelves.values())

    def _allowed_url(self, url: str) -> str:
        """The URL, in the one spelling, if it is allowed.

        Raises:
            Forbidden: it is not https on an allowed host, carries a credential, or the host is no public one.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Forbidden(f"that URL cannot be read: {error}") from error
        host = (parts.hostname or "").lower()
        shown = f"{host}:{port}" if port not in (None, 443) else host
        if parts.scheme.lower() != "https" or shown not in {h.lower() for h in self._settings.allow_urls}:
            raise Forbidden(
                "this URL is not served; the operator allows hosts with --allow-urls HOST, over https"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise Forbidden("a URL of a repository has no user, password, query or fragment here")
        if any(part in (".", "..") for part in parts.path.split("/")) or "%" in parts.path:
            raise Forbidden("that is no path of a repository")
        return locate(url).location

    def _unknown(self, name: str) -> ServeError:
        there = self.listed_names()
        return UnknownRepository(f"no repository of that name is served ({name[:80]!r}); there are: {there}")


def _log_mistake(job: asyncio.Task[None]) -> None:
    """Nobody waits for a job's end, so what it raised would be told much later."""
    if not job.cancelled() and (error := job.exception()) is not None:
        log.error("a job of the library failed", exc_info=error)


def _split_ref(name: str) -> tuple[str, str | None]:
    """`NAME@REF`; a URL has its ref behind the last `@` of its path."""
    head, at, ref = name.rpartition("@")
    if not at or ("://" in name and not re.fullmatch(r"[a-z+]+://[^/@]+/.+", head, re.IGNORECASE)):
        return name, None
    return head, ref


def _at(source: Source, ref: str) -> Source:
    """The same source at another ref; the ref is checked."""
    return replace(locate(source.location, ref), filters=source.filters)


def _still_indexing(shelf: ServedRepository) -> StillIndexing:
    how_far = f" ({shelf.stage} {shelf.done:,} of {shelf.total:,})" if shelf.total else ""
    return StillIndexing(f"{shelf.name} is being indexed{how_far}; ask again in a moment", retry_after_s=2)


def _damaged(shelf: ServedRepository) -> IndexingFailed | None:
    """The error of a damaged store that could not be rebuilt; None where it may yet be."""
    if not shelf.damage or not isinstance(shelf.error, IndexingFailed) or shelf.running:
        return None
    return IndexingFailed(
        f"the index of {shelf.name} is damaged ({shelf.damage}) and could not be rebuilt: {shelf.error}",
        kind=shelf.error.kind,
    )


def _is_written_to(opened: Generation | None, found: Generation) -> bool:
    """Whether a file of a store changed in place since it was opened."""
    pairs = zip(opened or (), found, strict=False)
    return any(old is not None and now is not None and old[0] == now[0] and old != now for old, now in pairs)


def _failed(error: RagError) -> IndexingFailed:
    return IndexingFailed(str(error), kind=type(error).__name__)
