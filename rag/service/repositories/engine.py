"""Opens repositories: fetched, indexed and updated as the settings say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rag import backends
from rag.corpus.acquire import acquire, changed_since_clone, fetched_ago_s, fetched_folder, is_in_place
from rag.corpus.git import pinned_connection
from rag.corpus.history import named_commit
from rag.corpus.refs import allowed_commit
from rag.database.locate import mark_used, store_path
from rag.database.parts import FileState, belongs, file_state, segment_files
from rag.database.store import Store
from rag.database.update import (
    Comparison,
    Listed,
    Options,
    compare,
    open_usable,
    reasons,
    refresh,
    stored_skips,
)
from rag.errors import (
    ConfigError,
    ConversationMismatch,
    NotFound,
    SourceError,
    StoreCorrupt,
    StoreError,
    StoreUnwritable,
    TooManyOpenFiles,
)
from rag.ports import Embedder
from rag.retrieval.search import Searcher
from rag.service.repositories.named_sources import locate
from rag.service.repositories.open_backends import Notice, OpenBackends
from rag.service.repositories.repository import Repository, covered, without_files
from rag.settings import Settings
from rag.types import (
    Checkout,
    Conversation,
    Coverage,
    DialogTurn,
    IndexReport,
    Progress,
    Reach,
    Source,
    now_utc,
)

if TYPE_CHECKING:
    from rag.service.repositories.background_budget import Allowance
    from rag.service.repositories.shared_stores import Publication, SharedStores
    from rag.service.repositories.tree_watch import TreeWatch

Confirm = Callable[[Sequence[str], Embedder], None]

_UPDATE_HINT = "; omit --no-refresh to update it"
_MAX_VERIFIED = 10_000
"""The maximum number of verified store states that are remembered."""
_RECHECK_S = 30.0
"""The interval at which a watched folder is compared anyway, as the kernel does not report everything."""
_ID_BEGINS = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")


class _Compared(NamedTuple):
    """A repository when its folder was last compared, and the state of the folder; None if not watched."""

    repository: Repository
    state: int | None
    began: float


class Engine(OpenBackends):
    """Opens what the settings name, each thing on first use, and keeps it open.

    Args:
        settings: what to open.
        progress: called with stage, done, total during indexing.
        notice: called with a sentence for the user that needs no action.
        confirm: called before texts are sent to an embedding service; an exception stops the indexing.
        place: the only hosts that git may connect to, as `HOST:PORT:ADDRESS,…`; None is any.
        refs: patterns of the refs that may be read, see `rag.corpus.refs`; None is any.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        progress: Progress = lambda stage, done, total: None,
        notice: Notice = lambda text: None,
        confirm: Confirm = lambda texts, embedder: None,
        place: str | None = None,
        refs: Sequence[str] | None = None,
    ) -> None:
        super().__init__(settings, notice=notice)
        self.progress, self.confirm, self.place, self.refs = progress, confirm, place, refs
        self._open: dict[Source, Repository] = {}
        self._current: dict[Source, _Compared] = {}
        self.shared_name: str | None = None
        """Identifies the repositories that are opened in the shared stores, instead of their URLs."""
        self.on_missing_files: Callable[[Source], None] = lambda source: None
        """Called with a source whose files or history are wanted, but not on this machine."""
        self.reach = Reach()
        """What may be looked up in files that are not indexed."""
        self._verified: dict[Path, Generation] = {}
        """The verified states of stores."""

    def named_commit(self, root: Path, ref: str) -> str | None:
        """Return the id of a branch, tag or commit; None if there is none that may be read."""
        return named_commit(root, ref) if self.refs is None else allowed_commit(root, ref, self.refs)

    @cached_property
    def shared(self) -> SharedStores | None:
        """The stores that the settings share with other machines, if they do."""
        shelf = backends.open_shelf(self.settings)
        if shelf is None:
            return None
        from rag.service.repositories.shared_stores import SharedStores

        return SharedStores(shelf, self.embedder, self._options, lambda text: self.notice(text))

    def with_settings(self, **changes: Any) -> Engine:
        """Return an engine with other settings and the same callbacks; it opens everything again.

        The turn store is shared unless the settings of the memory change.
        """
        settings = backends.fitted(replace(self.settings, **changes))
        if settings == self.settings:
            return self
        other = Engine(
            settings,
            progress=self.progress,
            notice=self.notice,
            confirm=self.confirm,
            place=self.place,
            refs=self.refs,
        )
        other.shared_name, other.on_missing_files = self.shared_name, self.on_missing_files
        other.reach = self.reach
        if settings.memory == self.settings.memory and settings.home == self.settings.home:
            other.__dict__["turns"] = self.turns
            other.__dict__["turn_vectors"] = self.turn_vectors
        return other

    def repository(
        self,
        source: str | Source,
        *,
        ref: str | None = None,
        refreshing: bool = True,
        rebuild: bool = False,
        counting: bool = True,
        else_old: bool = False,
    ) -> Repository:
        """Open a repository; fetch, index or update it first if necessary.

        Without `refreshing`, an existing store is opened as it is, and a notice says how many files differ
        from it; a missing store is still built. Without `counting` too, the files are not compared. With
        `else_old`, a store that cannot be written is opened as it is, and notices say why and what differs.

        Raises:
            SourceError, StoreError: as fetching, reading and indexing raise them.
        """
        located = locate(source, ref) if isinstance(source, str) else source
        with pinned_connection(self.place) if self.place else nullcontext():
            try:
                return self._repository(located, refreshing=refreshing, rebuild=rebuild, counting=counting)
            except StoreUnwritable as error:
                if rebuild or not (refreshing and else_old) or not self.usable(located):
                    raise
                self.notice(f"answering from the index as it is: {error}")
                return self._repository(located, refreshing=False, rebuild=False, counting=True, hint="")

    def _repository(
        self, located: Source, *, refreshing: bool, rebuild: bool, counting: bool, hint: str = _UPDATE_HINT
    ) -> Repository:
        path, options = self.store_file(located), self._options
        if rebuild:
            self._current.pop(located, None)
        checkout = self._acquire(located, path, refreshing=refreshing or rebuild)
        if not refreshing and not rebuild and (store := self._usable(path, located, options)):
            opened = self._opened(located, checkout, store.at(checkout), None)
            if not counting:
                return opened
            opened = covered(opened, checkout, compare(store, checkout, options))
            if count := opened.coverage.not_indexed_count:
                files = "1 file differs" if count == 1 else f"{count} files differ"
                self.notice(f"{located.name}: {files} from the index{hint}")
            return opened
        return self._refreshed(located, checkout, rebuild=rebuild)

    def _refreshed(
        self, located: Source, checkout: Checkout, *, rebuild: bool = False, listed: Listed | None = None
    ) -> Repository:
        store, report = refresh(
            checkout,
            self.store_file(located),
            self.embedder,
            self._options,
            rebuild=rebuild,
            progress=self.progress,
            confirm=lambda texts: self.confirm(texts, self.embedder),
            elsewhere=lambda much: self._from_shelf(checkout, much),
            listed=listed,
        )
        if report.action == "rebuilt" and not rebuild:
            self.notice(f"the index of {located.name} was rebuilt: {report.reason}")
        if report.action in ("built", "rebuilt"):
            for remark in report.remarks:
                self.notice(f"{located.name}: {remark}")
        opened = self._opened(located, checkout, store, report)
        if report.action in ("built", "rebuilt"):
            self._keep_within_cap()
        return opened

    def _from_shelf(self, checkout: Checkout, much: bool) -> Store | None:
        """Return a store of the same repository that another machine has published, if it helps."""
        shared = self.shared
        return None if shared is None else shared.nearest(checkout, much, name=self.shared_name)

    def publish(self, repository: Repository, *, force: bool = False) -> Publication:
        """Publish the store of a repository in the shared stores.

        Args:
            repository: as it was opened.
            force: whether to replace the store of a newer commit.

        Raises:
            ConfigError: the settings name none; or as `SharedStores.publish`.
            ShelfError, StoreError: as `SharedStores.publish`.
        """
        if self.shared is None:
            raise ConfigError(
                "no shared indexes are configured; set RAG_STORES to a folder or s3://BUCKET/PREFIX"
            )
        return self.shared.publish(
            repository.checkout, repository.store.path, name=self.shared_name, force=force
        )

    def _keep_within_cap(self) -> None:
        """Remove the indexes and clones that were not used longest, if the settings limit their size."""
        if self.settings.storage_cap_bytes is None:
            return
        from rag.service.repositories.storage import within_cap

        opened = [repository.store.path for repository in self._open.values()]
        for item in within_cap(self.settings, opened, now_utc()):
            self.notice(
                f"removed the {item.kind} of {item.name}, last used {item.used:%F} (storage_cap_bytes)"
            )

    def _usable(self, path: Path, source: Source, options: Options) -> Store | None:
        try:
            return open_usable(path, source, self.embedder, options)
        except StoreCorrupt:
            return None  # it is rebuilt, and the report gives the reason

    def rebuilt(self, repositories: Sequence[Repository], damage: StoreCorrupt) -> tuple[Repository, ...]:
        """Return the repositories after re-indexing those whose store is damaged.

        Raises:
            StoreCorrupt: the store belongs to none of them.
            SourceError, StoreError: it cannot be indexed.
        """
        damaged = [r for r in repositories if belongs(damage.path, r.store.path)]
        if not damaged:
            raise damage
        for repository in damaged:
            self.notice(f"the index of {repository.source.name} is damaged ({damage.why}) and is rebuilt")
        return tuple(self.repository(r.source, rebuild=True) if r in damaged else r for r in repositories)

    def as_indexed(self, checkout: Checkout) -> Repository:
        """Open the store of a checkout as it is, without reading the files.

        Raises:
            NotFound: there is no store that fits these settings.
            StoreCorrupt, StoreTooNew: it cannot be read.
        """
        path = self.store_file(checkout.source)
        store = open_usable(path, checkout.source, self.embedder, self._options)
        if store is None:
            raise NotFound(f"there is no index of {checkout.source} yet; create one with `rag index`")
        return self._opened(checkout.source, checkout, store.at(checkout), None)

    def stored(self, source: Source, checkout: Checkout | None = None) -> Repository:
        """Open the store of a source as it is on disk; nothing is fetched, compared or indexed.

        Its checksums are verified once per state of the file, since a search of a damaged column may find
        nothing without an error.

        Args:
            source: the indexed source.
            checkout: where the source is on disk, if already known.

        Raises:
            NotFound: there is no store that fits these settings, or its clone is missing.
            StoreCorrupt: it is damaged.
            SourceError, StoreError: as `repository`.
        """
        path, generation = self.store_file(source), self.generation(source)
        store = open_usable(path, source, self.embedder, self._options)
        if store is not None:
            store.verify(since=self._verified.get(path, ()), now=generation)
            if len(self._verified) >= _MAX_VERIFIED:
                self._verified.clear()
            self._verified[path] = generation
        found = checkout if store is None else checkout or self._on_disk(source, store)
        if store is None or found is None:
            raise NotFound(f"there is no index of {source} yet; create one with `rag index`")
        return self._opened(source, found, store.at(found), None)

    def _on_disk(self, source: Source, store: Store) -> Checkout | None:
        """Return where a source is on disk: a folder in its current state, a clone at the indexed commit."""
        if is_in_place(source):
            return acquire(source, home=self.settings.home)
        root = fetched_folder(source, self.settings.home)
        if root is None and source.is_url and self.settings.stores:
            return without_files(source, self.settings.home, store.commit)
        remote = source.location if source.is_url else None
        return None if root is None else Checkout(source, root, store.commit, remote=remote)

    def generation(self, source: Source) -> Generation:
        """Return an id of the state of a source's store on disk; it differs after each change."""
        path = self.store_file(source)
        state = file_state(path)
        return state, *(file_state(file) for file in _parts(path, state))

    def fetched_ago_s(self, repository: Repository) -> float | None:
        """Return the seconds since a URL was last fetched, by any process; None if this is another state."""
        return fetched_ago_s(repository.source, self.settings.home, repository.store.commit)

    def usable(self, source: Source) -> bool:
        """Whether a source has a store that fits these settings. The store is not kept open."""
        try:
            return open_usable(self.store_file(source), source, self.embedder, self._options) is not None
        except StoreError:
            return False

    def stored_index(self, source: Source) -> Store | None:
        """Open the store of a source as it is on disk, for a look at it; None if there is no usable one.

        The store is not kept open, nothing is compared, and its columns are not verified.

        Raises:
            TooManyOpenFiles: the limit of open files is reached.
        """
        try:
            return open_usable(self.store_file(source), source, self.embedder, self._options)
        except TooManyOpenFiles:
            raise
        except StoreError:
            return None

    def current(self, repository: Repository, allowance: Allowance | None = None) -> Repository:
        """Return the repository updated with all changes of its folder since it was opened.

        Where the kernel reports changes, an unchanged folder costs microseconds. A URL is not fetched again;
        its index is reopened if another process updated it.

        Args:
            repository: as it was last open.
            allowance: limits the time for comparing a folder that cannot be watched, which is compared once
                in any case; None is no limit.

        Raises:
            SourceError, StoreError: as `repository`.
        """
        source = repository.source
        if source.is_url:
            return self.repository(source, refreshing=False, counting=False, else_old=True)
        known = self._current.get(source)
        if known is not None and known.repository.store.header["id"] == repository.store.header["id"]:
            is_spent = known.state is None and allowance is not None and not allowance.is_left()
            if is_spent or self._is_unchanged(known):
                return known.repository
        began = time.monotonic()
        watched = self._watch if is_in_place(source) else None
        state = watched.begin(repository.checkout.root) if watched else None
        now = self.repository(source, else_old=True)
        if now.report is not None:  # else its index could not be updated
            self._current[source] = _Compared(now, state, began)
        if allowance is not None and state is None:
            allowance.spend(time.monotonic() - began)
        return now

    def _is_unchanged(self, known: _Compared) -> bool:
        """Whether a folder is as it was when it was compared, not long ago."""
        if self._watch is None or known.state is None or time.monotonic() - known.began > _RECHECK_S:
            return False
        return self._watch.is_unchanged(known.repository.checkout.root, known.state)

    @cached_property
    def _watch(self) -> TreeWatch | None:
        from rag.service.repositories.tree_watch import TreeWatch

        try:
            return TreeWatch()
        except OSError:
            return None

    def close(self) -> None:
        """Close the turn store, and stop watching folders. Closing twice is allowed."""
        super().close()
        if (watch := self.__dict__.get("_watch")) is not None:
            watch.close()

    def compared(self, repository: Repository) -> tuple[Repository, bool]:
        """Compare the files of a local source with its store.

        Returns:
            The repository with its coverage, and whether a refresh would write anything: changed bytes, or
            changed times of the same bytes.

        Raises:
            SourceError: the source cannot be read.
        """
        source, checkout, store = repository.source, repository.checkout, repository.store
        if source.is_url:
            return repository, False
        if not is_in_place(source):
            found = Comparison(changed_since_clone(checkout), False, stored_skips(store))
            return covered(repository, checkout, found), bool(found.behind)
        now = acquire(source, home=self.settings.home)
        found = compare(store, now, self._options)
        return covered(repository, now, found), bool(found.behind or found.touched)

    def caught_up(self, repository: Repository) -> Repository:
        """Return a repository with the changes in its index that a comparison has found, without another one.

        Raises:
            SourceError, StoreError: as `repository`.
        """
        listed = repository.compared.listed
        return self._refreshed(repository.source, repository.checkout, listed=listed)

    def release(self, source: Source) -> None:
        """Close the store of a source once its users are done with it."""
        self._open.pop(source, None)
        self._current.pop(source, None)

    @cached_property
    def _options(self) -> Options:
        return Options(max_file_bytes=self.settings.max_file_bytes, shorten=backends.shorten_rows)

    def store_file(self, source: Source) -> Path:
        """Return the path of a source's store, which may not exist yet."""
        return store_path(self.settings.home, source, embedder=self.settings.embedder)

    def _acquire(self, source: Source, store: Path, *, refreshing: bool) -> Checkout:
        def fetch(again: bool) -> Checkout:
            return acquire(
                source,
                home=self.settings.home,
                token=self.settings.git_token,
                timeout_s=self.settings.git_timeout_s,
                refresh=again,
                refs=self.refs,
                progress=lambda text: self.progress(text, 0, 0),
            )

        try:
            return fetch(refreshing)
        except SourceError as error:
            if not (source.is_url and refreshing and store.exists()):
                raise
            self.notice(f"could not fetch {source}; using the last fetched state ({error})")
            return fetch(False)

    def _opened(
        self, source: Source, checkout: Checkout, store: Store, report: IndexReport | None
    ) -> Repository:
        known = self._open.get(source)
        if known is not None and known.store.header["id"] == store.header["id"]:
            searcher = replace(known.searcher, index=store)
        else:
            vectors = backends.open_vector_index(store.vectors)
            searcher = Searcher(
                store,
                self.embedder,
                vectors,
                reranker=self.reranker,
                fused_reranker=self.fused_reranker,
            )
        skipped = stored_skips(store) if report is None else reasons(report.skipped)
        coverage = Coverage(
            repository=source.name,
            commit=checkout.commit,
            dirty=checkout.dirty,
            skipped=skipped,
            checked_ago_s=None if report is None else 0.0,
            has_files=checkout.has_files,
        )
        repository = Repository(source, checkout, store, searcher, report, coverage)
        self._open[source] = repository
        mark_used(store.path)
        return repository

    def find_conversation(self, name: str, asked: Sequence[Source] = ()) -> Conversation:
        """Return the conversation with this id or name, or the only one whose id starts with it.

        Raises:
            NotFound: there is none.
            ConversationMismatch: it is about other repositories than `asked`, if any are given.
        """
        namespace = self.settings.namespace
        try:
            found = self.turns.conversation(name, namespace=namespace)
        except NotFound:
            every = self.turns.conversations(namespace=namespace) if _ID_BEGINS.fullmatch(name) else []
            matching = [conversation for conversation in every if conversation.id.startswith(name)]
            if len(matching) != 1:
                raise
            found = matching[0]
        if asked and set(asked) != set(found.sources):
            raise ConversationMismatch(
                conversation=name,
                about=", ".join(map(str, found.sources)) or "nothing yet",
                asked=", ".join(map(str, asked)),
            )
        return found

    def conversation_of(self, turn: DialogTurn) -> Conversation:
        """Return the conversation of a turn; if it is deleted, the most recently written fork that shows it.

        Raises:
            NotFound: there is neither.
        """
        namespace = self.settings.namespace
        try:
            return self.turns.conversation(turn.conversation_id or "", namespace=namespace)
        except NotFound:
            at = turn.order or 0
            for fork in self.turns.conversations(namespace=namespace):
                there = self.turns.turns(fork.id, namespace=namespace, after=at - 1, before=at + 1)
                if any(each.id == turn.id for each in there):
                    return fork
            raise

    def begin_conversation(self, name: str, sources: Sequence[Source]) -> Conversation:
        """Create a conversation; return the existing one if another process has just created it.

        Raises:
            ConversationMismatch: the existing one is about other repositories.
        """
        try:
            return self.turns.create_conversation(
                namespace=self.settings.namespace, name=name, sources=sources
            )
        except ConversationMismatch:
            return self.find_conversation(name, sources)

    def last_conversation(self) -> Conversation:
        """Return the most recently written conversation. Raises NotFound if there is none."""
        for conversation in self.turns.conversations(namespace=self.settings.namespace):
            return conversation
        raise NotFound('there is no conversation to continue; start one with `rag ask SOURCE "question"`')


Generation = tuple[FileState | None, ...]
"""The states of the files of a store: the newest segment, then the parts; None for a missing file."""


@lru_cache(maxsize=4096)
def _parts(path: Path, state: FileState | None) -> list[Path]:
    """Return the parts that the store at `path` lists when its file is in a state."""
    return segment_files(path)[1:] if state else []
