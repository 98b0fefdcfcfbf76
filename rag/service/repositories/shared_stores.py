"""Stores that several machines share: what they are called on a shelf, and how they get there and back.

A key does not depend on where a repository is on disk. It is made of the repository's URL or a given name,
the ref, the filters, and everything that makes a store usable: the format, the embedder, the chunker. So two
versions of rag, or machines with different embedders, use different keys and never replace each other's
stores.

A fetched store is never used as it is: it is where an update begins. The files on disk are compared with it
by their bytes, and those that differ are indexed, so an answer is about the code that is here, whichever
commit was published. If the shelf cannot be reached, a notice names the reason and the index is made here.

A generation carries its commit and the committer's time, so that a machine that is behind does not replace
the index of a newer commit: descent decides where the history here has both commits, else the times.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rag import backends
from rag.corpus.git import GitError
from rag.corpus.history import commit_time, is_ancestor
from rag.corpus.worktree import current_branch
from rag.database.format import FORMAT
from rag.database.lock import building
from rag.database.parts import place_part, segment_files
from rag.database.share import place_store
from rag.database.store import Store
from rag.database.update import Options, fingerprint
from rag.errors import (
    ConfigError,
    NotFound,
    ShelfDamaged,
    ShelfError,
    ShelfOutdated,
    ShelfUnreachable,
    StoreCorrupt,
    StoreError,
)
from rag.ports import Embedder
from rag.quoting import visible
from rag.resources import make_private
from rag.settings import Settings
from rag.store_shelf import Collected, ShelfGeneration, StoreShelf, Verified
from rag.types import Checkout, Source

if TYPE_CHECKING:
    from rag.backends.shelf.shelf import ObjectShelf

NEWEST = "store.pkl"
"""The name of a store's newest segment in a generation; its parts are named as usual next to it."""
_MAX_NAME = 60
_PAUSE_S = 60.0
"""For this time after an error the shelf is not asked for seeds again."""
_paused_until: dict[str, float] = {}
"""By the address of a shelf, for all engines of this process."""
_ATTEMPTS = 3
_SECONDS = re.compile(r"[0-9]{1,18}")
_STALE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Publication:
    """A store that is now on a shelf, and what had to be uploaded for it."""

    shelf: str
    key: str
    generation: str
    commit: str | None
    files: int
    size_bytes: int
    uploaded_files: int
    uploaded_bytes: int
    seconds: float


def shelf_key(
    source: Source, embedder: Embedder, options: Options, *, name: str | None = None, ref: str | None = None
) -> str:
    """Return the key of a source's store.

    Args:
        source: a URL; or any source, if a name is given.
        embedder: makes the vectors.
        options: how the source is indexed.
        name: identifies the repository on all machines, a URL or another name; None for the source's URL.
        ref: what is at that name; None for the ref of the source.

    Raises:
        ConfigError: the source is a folder and has no name.
    """
    if name is None and not source.is_url:
        raise ConfigError(
            f"{source} is a folder, which other machines do not know; give it a name with --publish-as NAME"
        )
    identity = name if name is not None else source.location
    wanted = fingerprint(source, embedder, options)
    parts = [identity, ref if ref is not None else source.ref, FORMAT, wanted]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
    tail = Source(identity).name if "/" in identity else identity
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", tail).strip(".-")[:_MAX_NAME] or "store"
    return f"{readable}-{digest[:32]}"


class SharedStores:
    """Publishes the stores of one engine and finds those of other machines.

    Args:
        shelf: where they are.
        embedder: makes the vectors.
        options: how sources are indexed.
        notice: called with a sentence for the user.
    """

    def __init__(
        self,
        shelf: ObjectShelf,
        embedder: Embedder,
        options: Options,
        notice: Callable[[str], None],
    ) -> None:
        self.shelf: StoreShelf = shelf
        self._cache = shelf.cache
        self._embedder, self._options, self._notice = embedder, options, notice

    # ------------------------------------------------------------ publish

    def publish(
        self, checkout: Checkout, path: Path, *, name: str | None = None, force: bool = False
    ) -> Publication:
        """Make the store of a checkout the current generation of its key.

        Args:
            checkout: the source on disk.
            path: its store, which was just updated.
            name: see `shelf_key`. Without one, a folder is published under its remote URL and its branch.
            force: whether to replace the store of a newer commit.

        Raises:
            ConfigError: a folder has no remote, no branch, or changes that are not committed, and no name.
            ShelfConflict: another process published meanwhile.
            ShelfOutdated: the current generation is of a newer commit.
            ShelfError, StoreError: as the shelf raises them, or the store is damaged.
        """
        began = time.monotonic()
        key = self.key(checkout, name=name)
        with self._snapshot(path) as files:
            store = Store.open(files[NEWEST])
            store.verify()
            try:
                present = self.shelf.current(key)
            except ShelfDamaged:
                present = None  # it is replaced
            about = _about(store, checkout, self._identity(checkout, name)[1])
            if present is not None and not force and _is_newer(present.about, about, checkout.root):
                raise ShelfOutdated(
                    shelf=self.shelf.name, key=key, published=present.about["commit"], commit=about["commit"]
                )
            done = self.shelf.publish(
                key,
                files,
                about=about,
                expect=None if present is None else present.id,
            )
        generation = done.generation
        return Publication(
            self.shelf.name,
            key,
            generation.id,
            store.header.get("commit"),
            len(generation.files),
            generation.size_bytes,
            done.uploaded_files,
            done.uploaded_bytes,
            time.monotonic() - began,
        )

    def key(self, checkout: Checkout, *, name: str | None = None) -> str:
        """Return the key under which a checkout is published.

        Raises:
            ConfigError: as `publish`.
        """
        name, ref = self._identity(checkout, name)
        return shelf_key(checkout.source, self._embedder, self._options, name=name, ref=ref)

    def key_of(self, source: Source) -> str:
        """Return the key of a git URL's store."""
        return shelf_key(source, self._embedder, self._options)

    def _identity(self, checkout: Checkout, name: str | None) -> tuple[str | None, str | None]:
        """Return the name and the ref under which a checkout is published; None for those of its source."""
        source = checkout.source
        if name is not None or source.is_url:
            return name, source.ref
        hint = "give it a name with --publish-as NAME"
        if not checkout.remote:
            raise ConfigError(f"{source} is a folder without a remote, which others do not know; {hint}")
        if checkout.dirty:
            raise ConfigError(
                f"{source} has changes that are not committed, which would be published for "
                f"{checkout.remote}; commit them, or {hint}"
            )
        ref = source.ref or current_branch(checkout.root)
        if not ref:
            raise ConfigError(f"{source} is at no branch; say which with --ref, or {hint}")
        return checkout.remote, ref

    @contextmanager
    def _snapshot(self, path: Path) -> Iterator[dict[str, Path]]:
        """Yield links to the files of a store, which stay as they are while another process updates it."""
        folder = self._cache.folder / "outgoing" / uuid.uuid4().hex
        try:
            make_private(folder)
            _remove_stale(folder.parent)
            with building(path, wait_s=self._options.wait_s):
                newest, *parts = segment_files(path)
                place_part(newest, folder / NEWEST)
                for part in parts:
                    place_part(part, folder / f"store{part.name.removeprefix(path.stem)}")
            yield {file.name: file for file in sorted(folder.iterdir())}
        except OSError as error:
            raise StoreError(f"{path} cannot be published: {error.strerror or error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    # ------------------------------------------------------------ open

    def nearest(self, checkout: Checkout, much: bool, *, name: str | None = None) -> Store | None:
        """Return a verified store from the shelf to begin with, or None.

        A folder in which little has changed, and a clone at a commit that was not published, are indexed
        faster from what is here.

        Args:
            checkout: what is to be indexed.
            much: whether there is no index of it here, or much of it differs.
            name: see `publish`.
        """
        is_paused = time.monotonic() < _paused_until.get(self.shelf.name, 0.0)
        if is_paused or not (much or checkout.source.is_url):
            return None
        for key in self._candidates(checkout, name):
            try:
                found = self.shelf.current(key)
                if found is None or not (much or found.about.get("commit") == checkout.commit):
                    continue
                store, generation = self._fetched(key)
            except NotFound:
                continue
            except (ShelfError, StoreError) as error:
                _paused_until[self.shelf.name] = time.monotonic() + _PAUSE_S
                return self._last(key, checkout.source.name, error)
            self._notice(
                f"{checkout.source.name}: took the index of {_named(generation)} from {self.shelf.name}"
            )
            return store
        return None

    def take(self, source: Source, path: Path, commit: str | None) -> bool:
        """Make the published index of a source the store at `path`; return whether that is its state now.

        Args:
            source: a git URL.
            path: where its store is, which may not exist.
            commit: the commit that the index must be of; None takes the current one.

        Returns:
            False if there is none of this commit, or it was made of a folder, whose places it has.

        Raises:
            ShelfError: as `StoreShelf.fetch`.
            StoreError: what was published is no valid store, or it cannot be written here.
        """
        key = self.key_of(source)
        found = self.shelf.current(key)
        if found is None or (commit is not None and found.about.get("commit") != commit):
            return False
        with suppress(FileNotFoundError, StoreError):
            if Store.open(path).header["id"] == found.about.get("store"):
                return True
        try:
            store, generation = self._fetched(key)
        except NotFound:
            return False
        header = store.header
        if (header["location"], header["ref"]) != (source.location, source.ref):
            return False
        if header.get("fingerprint") != fingerprint(source, self._embedder, self._options):
            return False
        if commit is not None and header.get("commit") != commit:  # replaced meanwhile
            return False
        place_store(store, path, wait_s=self._options.wait_s)
        self._notice(f"{source.name}: took the index of {_named(generation)} from {self.shelf.name}")
        return True

    def _last(self, key: str, name: str, error: ConfigError) -> Store | None:
        """Return the store that was fetched last, if the shelf failed and it is still in the cache."""
        fetched = self.shelf.last_fetched(key) if isinstance(error, ShelfUnreachable) else None
        if fetched is not None:
            with suppress(StoreError, FileNotFoundError):
                store = Store.open(fetched.folder / NEWEST)
                store.verify()
                self._notice(
                    f"{name}: took the index of {_named(fetched.generation)} fetched before: {error}"
                )
                return store
        self._notice(f"{name} is indexed here: {error}")
        return None

    def _candidates(self, checkout: Checkout, name: str | None) -> list[str]:
        """Return the keys that may have most files of a checkout, the nearest first."""
        source = checkout.source
        if name is not None or source.is_url:
            return [shelf_key(source, self._embedder, self._options, name=name)]
        if not checkout.remote:
            return []
        refs = [source.ref or current_branch(checkout.root) or None, None]
        keys = [
            shelf_key(source, self._embedder, self._options, name=checkout.remote, ref=ref)
            for ref in dict.fromkeys(refs)
        ]
        return list(dict.fromkeys(keys))

    def _fetched(self, key: str) -> tuple[Store, ShelfGeneration]:
        """Return the current store of a key, verified; files that were damaged on this disk are replaced.

        Raises:
            NotFound, ShelfError: as `StoreShelf.fetch`.
            StoreError: what was published is no valid store.
        """
        for left in reversed(range(_ATTEMPTS)):
            fetched = self.shelf.fetch(key)
            try:
                store = Store.open(fetched.folder / NEWEST)
                store.verify()
            except FileNotFoundError as error:  # another process needed the space
                if not left:
                    raise ShelfDamaged(shelf=self.shelf.name, why=f"{key} has no {NEWEST}") from error
            except StoreCorrupt:
                if not left:
                    raise
                self._cache.discard(fetched.generation.id)
            else:
                return store, fetched.generation
        raise AssertionError("not reached")


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """A published index. `error` says why its description cannot be read; the rest is then empty."""

    key: str
    source: str = ""
    ref: str | None = None
    commit: str | None = None
    generation: str = ""
    size_bytes: int = 0
    published: datetime | None = None
    error: str = ""


def shared_indexes(settings: Settings) -> tuple[str, list[SharedIndex]]:
    """Return the address of the shared stores, and what is published there, by key.

    Raises:
        ConfigError: the settings name none.
        ShelfError: as `StoreShelf.keys`.
    """
    shelf = opened_shelf(settings)
    keys, found = shelf.keys(), list[SharedIndex]()
    for key in keys:
        try:
            generation = shelf.current(key)
        except ShelfDamaged as error:
            found.append(SharedIndex(key, error=error.why))
            continue
        if generation is not None:
            found.append(_shared_index(generation))
    return shelf.name, found


def _shared_index(generation: ShelfGeneration) -> SharedIndex:
    about = generation.about
    return SharedIndex(
        generation.key,
        about.get("url") or about.get("name", ""),
        about.get("ref"),
        about.get("commit"),
        generation.id,
        generation.size_bytes,
        generation.published,
    )


def remove_shared(settings: Settings, key: str | None, *, collect: bool) -> Collected:
    """Remove a published index, and the files that no index needs; return which files were removed.

    Raises:
        NotFound: there is no such key.
        ConfigError: the settings name no shared stores.
        ShelfError: as `StoreShelf.delete`.
    """
    shelf = opened_shelf(settings)
    if key is not None and not shelf.delete(key):
        raise NotFound(f"{shelf.name} has no index {key!r}; `rag storage shared` lists what there is")
    return shelf.collect_garbage() if collect else Collected(0, 0)


def verify_shared(settings: Settings) -> Verified:
    """Read all published files, and remove those that have other bytes than were published.

    Raises:
        ConfigError: the settings name no shared stores.
        ShelfError: as `StoreShelf.verify`.
    """
    return opened_shelf(settings).verify()


def opened_shelf(settings: Settings) -> StoreShelf:
    """Open the shared stores. Raises ConfigError if the settings name none."""
    shelf = backends.open_shelf(settings)
    if shelf is None:
        raise ConfigError(
            "no shared indexes are configured; set RAG_STORES to a folder or s3://BUCKET/PREFIX"
        )
    return shelf


def _is_newer(published: Mapping[str, str], ours: Mapping[str, str], root: Path) -> bool:
    """Return whether a published store is of a newer commit than ours.

    A clone of depth 1, and a branch that was rewritten, have no path between the commits: then the later
    committer's time is newer. What an older version of rag published has no time, and is replaced.
    """
    theirs, commit = published.get("commit"), ours.get("commit")
    if not theirs or not commit or theirs == commit or is_ancestor(root, theirs, of=commit):
        return False
    if is_ancestor(root, commit, of=theirs):
        return True
    times = published.get("committed", ""), ours.get("committed", "")
    return all(map(_SECONDS.fullmatch, times)) and int(times[0]) > int(times[1])


def _about(store: Store, checkout: Checkout, ref: str | None) -> dict[str, str]:
    """Return the facts of a store that a reader wants before it fetches. None of them is a path here."""
    header, source = store.header, checkout.source
    commit, committed = header.get("commit"), None
    if commit is not None:
        with suppress(GitError):  # the store of a commit that the clone has no more
            committed = int(commit_time(checkout.root, commit).timestamp())
    embedder = header["fingerprint"].get("embedder") if isinstance(header.get("fingerprint"), dict) else None
    about = {
        "name": source.name,
        "url": source.location if source.is_url else header.get("remote"),
        "ref": ref,
        "commit": commit,
        "committed": committed,
        "embedder": embedder,
        "files": store.file_count,
        "chunks": store.live_count,
        "store": header["id"],
    }
    return {name: str(value) for name, value in about.items() if value is not None}


def _named(generation: ShelfGeneration) -> str:
    """Return a generation for a message: its commit, if it has one, and its id."""
    commit = generation.about.get("commit")
    return f"{f'commit {visible(commit[:10])}' if commit else 'a folder'} (generation {generation.id[:10]})"


def _remove_stale(folder: Path) -> None:
    """Remove the links that killed publishers have left."""
    before = time.time() - _STALE_S
    for left in folder.iterdir():
        with suppress(FileNotFoundError):
            if left.stat().st_mtime < before:
                shutil.rmtree(left, ignore_errors=True)
