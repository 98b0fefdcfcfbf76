"""Repositories in their current state or at a commit, for comparison with cited lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from rag.code.languages import language_of_path
from rag.code.layout import syntaxes
from rag.corpus.acquire import acquire, clone_folder
from rag.corpus.history import (
    Listing,
    commit_time,
    files_at,
    is_ancestor,
    path_kind,
    present,
    read_blobs,
)
from rag.corpus.lineage import Lineage
from rag.corpus.read import file_bytes, parsed_as
from rag.corpus.refs import ref_not_found
from rag.corpus.worktree import is_bare
from rag.database.store import Store
from rag.errors import RefNotFound, SourceError
from rag.memory.freshness import State
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import without_files
from rag.service.repositories.storage import LINEAGES
from rag.service.upkeep.retention import KeptFiles, kept_files
from rag.types import Checkout, Source, blob_id

_MAX_PARSED = 64
"""How many parsed files are kept for the next check."""
_UNREADABLE = "unreadable"
"""Replaces the blob id of a file that cannot be read."""


def states(
    engine: Engine, sources: Collection[Source], *, as_of: str | None = None, refresh: bool = False
) -> dict[str, State | str]:
    """Return the state of each source by its location, or why there is none.

    Args:
        engine: provides the clones and the turns.
        sources: the repositories; of several refs of one, the first counts.
        as_of: a commit, tag or branch; None is the current folder, or what was last fetched of a URL.
        refresh: fetch URLs first, if possible.

    Raises:
        RefNotFound: no source has `as_of`.
    """
    found: dict[str, State | str] = {}
    kept = kept_files(engine)
    for source in {one.location: one for one in reversed([*sources])}.values():
        try:
            found[source.location] = _state(engine, source, kept, as_of, refresh=refresh)
        except RefNotFound as error:
            if len(sources) == 1:
                raise
            found[source.location] = str(error)
        except SourceError as error:
            found[source.location] = str(error)
    return found


def _state(engine: Engine, source: Source, kept: KeptFiles, as_of: str | None, *, refresh: bool) -> State:
    if as_of is None and not refresh and (store := _published_store(engine, source)) is not None:
        checkout = without_files(source, engine.settings.home, store.commit)
        return FolderState(checkout, kept, store=store)
    checkout = _checkout(engine, source, refresh=refresh)
    if as_of is None:
        return FolderState(checkout, kept, lineages=engine.settings.home / LINEAGES)
    root, commit = _at(engine, source, checkout, as_of)
    return CommitState(root, commit, kept, lineages=engine.settings.home / LINEAGES)


def _published_store(engine: Engine, source: Source) -> Store | None:
    """Return the store of a URL that is answered from its published index; None if there is a clone."""
    settings = engine.settings
    if not source.is_url or not settings.stores or clone_folder(source, settings.home).is_dir():
        return None
    return engine.stored_index(source)


@dataclass(frozen=True)
class CommitHistory:
    """The history of a repository up to a commit; "" for a folder without commits."""

    root: Path
    commit: str

    def is_before(self, commit: str, time: datetime) -> bool:
        """Whether another commit is this one or an ancestor of it.

        If git does not have it, its time decides, compared with that of this commit.
        """
        known = self._is_ancestor(commit) if commit else None
        return time <= self._time if known is None else known

    @cached_property
    def _is_ancestor(self) -> Callable[[str], bool | None]:
        return cache(lambda commit: is_ancestor(self.root, commit, self.commit))

    @cached_property
    def _time(self) -> datetime:
        return commit_time(self.root, self.commit)


def history_of(engine: Engine, source: Source, ref: str | None) -> CommitHistory:
    """Return the history of a repository up to a branch, tag or commit; None is its current commit.

    Nothing is fetched, unless a URL has no clone with the `ref`.

    Raises:
        RefNotFound: it has no such ref.
        SourceError: it cannot be read.
    """
    checkout = _checkout(engine, source, refresh=False)
    if ref is None:
        return CommitHistory(checkout.root, checkout.commit or "")
    return CommitHistory(*_at(engine, source, checkout, ref))


def _at(engine: Engine, source: Source, checkout: Checkout, as_of: str) -> tuple[Path, str]:
    """Return the folder and the full id of a commit, tag or branch of a source. Raises RefNotFound."""
    commit = engine.named_commit(checkout.root, as_of) if checkout.commit else None
    if commit is None:
        if not source.is_url:
            raise ref_not_found(checkout.root, as_of, engine.refs, source.location)
        checkout = _checkout(engine, replace(source, ref=as_of), refresh=True)
        commit = checkout.commit or ""
    return checkout.root, commit


def _checkout(engine: Engine, source: Source, *, refresh: bool) -> Checkout:
    settings = engine.settings
    fetched = source.is_url or source.ref is not None or is_bare(Path(source.location))
    if fetched and not refresh and not clone_folder(source, settings.home).is_dir():
        engine.on_missing_files(source)
        if source.is_url and settings.stores:
            raise SourceError(f"the files and the history of {source.name} are not on this machine yet")
        raise SourceError(f"the clone of {source} was removed")

    def get(again: bool) -> Checkout:
        return acquire(
            source,
            home=settings.home,
            token=settings.git_token,
            timeout_s=settings.git_timeout_s,
            refresh=again,
            refs=engine.refs,
        )

    try:
        return get(refresh)
    except SourceError as error:
        if not (refresh and source.is_url and clone_folder(source, settings.home).is_dir()):
            raise
        engine.notice(f"could not fetch {source}; using the last fetched state ({error})")
        return get(False)


class _Tree:
    """What is known of the history of a repository."""

    def __init__(self, root: Path, commit: str, lineages: Path | None, *, has_history: bool = True) -> None:
        self.root, self.commit, self.has_history = root, commit, has_history
        self.lineage = Lineage(root, commit, lineages) if has_history else None
        self._files_at = cache(lambda commit: files_at(root, commit))

    def files_at(self, commit: str | None) -> Mapping[str, str] | None:
        """Return the blob ids at a commit; None if git does not have it."""
        listing = self._files_at(commit) if commit and self.has_history else None
        return None if listing is None else listing.files

    def renamed(self, commit: str | None) -> Mapping[str, str] | None:
        """Return the later path of files renamed or deleted since a commit; None if it is not known."""
        files = self.files_at(commit)
        if commit is None or files is None or self.lineage is None:
            return None
        return self.lineage.since(commit, files)

    def syntax(self, path: str, content: bytes) -> Sequence[Any] | None:
        """Return the tokens and definitions of a text; None if its language has no grammar."""
        text, language = parsed_as(content, language_of_path(path))
        return _parsed(text, language)


class CommitState(_Tree):
    """A repository as it was at a commit. `lineages` is a folder for its history of renames."""

    def __init__(self, root: Path, commit: str, kept: KeptFiles, *, lineages: Path | None = None) -> None:
        super().__init__(root, commit, lineages)
        self._kept = kept
        self._listing = self._files_at(commit) or Listing()

    @property
    def files(self) -> Mapping[str, str]:
        """The blob id of every regular file, by path."""
        return self._listing.files

    def instead(self, path: str) -> str | None:
        """Return what else is at a path that is not a regular file."""
        return self._listing.others.get(path)

    def contents(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        """Return the bytes of these blobs from git, else from the retained files."""
        found = read_blobs(self.root, blobs)
        return found | self._kept.contents([blob for blob in blobs if blob not in found])


class FolderState(_Tree):
    """A folder in its current state. Single paths are read from disk; git lists all files.

    With a store that was just refreshed nothing is read and git is not called; without files the store is all
    that is known. `lineages` is a folder for the history of renames; `lineage` is None without a history.
    """

    def __init__(
        self, checkout: Checkout, kept: KeptFiles, *, store: Store | None = None, lineages: Path | None = None
    ) -> None:
        has_history = checkout.commit is not None and checkout.has_files
        super().__init__(checkout.root, checkout.commit or "", lineages, has_history=has_history)
        self._checkout, self._kept, self.source = checkout, kept, checkout.source
        self.files = _Files(checkout, store)

    @property
    def differing(self) -> set[str]:
        """The paths that may not be as committed."""
        return self.files.present.differing

    def instead(self, path: str) -> str | None:
        """Return what else is at a path that is not a regular file."""
        return path_kind(self._checkout.root, path)

    def contents(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        """Return the bytes of these blobs from disk, else from git, else from the retained files."""
        found = self.files.contents(blobs)
        if self.has_history and (rest := [blob for blob in blobs if blob not in found]):
            found |= read_blobs(self._checkout.root, rest)
        return found | self._kept.contents([blob for blob in blobs if blob not in found])


@lru_cache(maxsize=_MAX_PARSED)
def _parsed(text: str, language: str) -> Sequence[Any] | None:
    return syntaxes([(text, language)])[0]


class _Files(Mapping[str, str]):
    """The blob ids of a folder's files, read on access unless git or a store knows them."""

    def __init__(self, checkout: Checkout, store: Store | None) -> None:
        self._checkout, self._store = checkout, store
        self._known: dict[str, str | None] = {}
        self._paths: dict[str, str] = {}  # paths on disk by blob id

    @cached_property
    def present(self) -> Listing:
        """The files as git lists them, or as a store has them."""
        if self._store is not None:
            return Listing({path: blob for path, (_, _, blob) in self._store.known_files().items()})
        return present(self._checkout)

    def __getitem__(self, path: str) -> str:
        if path not in self._known:
            # Git may list other bytes than those on disk, so its list is only used for other paths.
            listed = self._store is not None or "present" in self.__dict__
            blob = (self.present.files.get(path) if listed else None) or self._read(path)
            self._known[path] = blob
            if blob is not None:
                self._paths[blob] = path
        blob = self._known[path]
        if blob is None:
            raise KeyError(path)
        return blob

    def __iter__(self) -> Iterator[str]:
        return (path for path in self.present.files if path in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def contents(self, blobs: Collection[str]) -> dict[str, bytes]:
        """Return the bytes of blobs that were accessed by path and are unchanged on disk."""
        found = {}
        for blob in self._paths.keys() & set(blobs):
            content = self._content(self._paths[blob])
            if content is not None and blob_id(content) == blob:
                found[blob] = content
        return found

    def _content(self, path: str) -> bytes | None:
        if not self._checkout.has_files:
            return None if self._store is None else self._store.bytes_of(path)
        return file_bytes(self._checkout.root, path)

    def _read(self, path: str) -> str | None:
        if not self._checkout.has_files and self._store is not None:  # a file that is not indexed may exist
            return _UNREADABLE if path in self._store.skip_stats() else None
        content = self._content(path)
        if content is not None:
            return blob_id(content)
        return _UNREADABLE if path_kind(self._checkout.root, path) == "" else None
