"""Keeps a store up to date with its folder: changes of files are indexed a moment later.

    for update in updates(engine, source):
        print(update.changed, update.seconds)

The package `watchfiles` reports which paths changed; the rules of the walk decide whether they matter, and an
ordinary refresh indexes them. Events are batched until the folder is quiet and git does not write in it, so
that a branch switch is one update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rag.corpus import skip
from rag.corpus.ignore import Patterns, read_patterns
from rag.corpus.worktree import work_tree
from rag.errors import BackendMissing, RagError, SettingsError, SourceError, SourceNotFound
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.types import IndexReport, Source

QUIET_MS = 100
"""A batch of events ends after this time without an event,"""
LONGEST_MS = 1_600
"""or after this time in total."""
GIT_WRITES_S = 60.0
"""How long git's index lock delays an update."""
_LOOK_MS = 250

_RULES = frozenset({".gitignore", ".ragignore"})


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one update. Paths are sorted.

    If the update failed, only `error` is set; the store is unchanged, and the next change retries. The first
    update of a watch is the initial indexing, whose results are only in its report.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    chunks: int
    seconds: float
    report: IndexReport | None = None
    error: RagError | None = None


def updates(engine: Engine, source: Source, *, stop: Event | None = None) -> Iterator[Update]:
    """Index a folder and then keep its store up to date; yield an `Update` for each time it was written.

    Changes that do not affect the store (ignored files, a file rewritten with the same bytes) yield nothing.
    Ends soon after `stop` is set. Other readers of the store see either the old state or the new one.

    Raises:
        BackendMissing: the extra `watch` is not installed.
        SettingsError: the source is not the work tree of a folder (but a URL, or another ref).
        SourceNotFound: the folder was deleted.
        RagError: the first indexing failed, or the system cannot watch the folder.
    """
    if source.is_url or source.ref is not None:
        advice = "name a folder" if source.is_url else "omit --ref"
        raise SettingsError(f"{source} cannot be watched: only the files of a folder change; {advice}")
    root = Path(source.location)
    batches = _batches(root, stop or Event())
    if next(batches, None) is None:
        return
    # The watch has started, so no change during the first indexing is lost.
    began = time.perf_counter()
    repository = engine.repository(source)
    known = _blobs(repository)
    yield _update(repository, known, known, began)
    for paths in batches:
        if not _is_relevant(root, source, paths, known):
            continue
        began = time.perf_counter()
        try:
            repository = engine.repository(source)
        except RagError as error:
            yield Update((), (), (), 0, time.perf_counter() - began, error=error)
            continue
        before, known = known, _blobs(repository)
        if before != known:
            yield _update(repository, before, known, began)


def _update(
    repository: Repository, before: Mapping[str, str], after: Mapping[str, str], began: float
) -> Update:
    return Update(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(path for path in after.keys() & before.keys() if after[path] != before[path])),
        removed=tuple(sorted(before.keys() - after.keys())),
        chunks=repository.store.live_count,
        seconds=time.perf_counter() - began,
        report=repository.report,
    )


def _blobs(repository: Repository) -> dict[str, str]:
    return {path: blob for path, (_, _, blob) in repository.store.known_files().items()}


# ---------------------------------------------------------------- which changes matter


def _is_relevant(root: Path, source: Source, paths: Iterable[str], known: Mapping[str, str]) -> bool:
    """Whether any of the changed paths may be one that is indexed or that the store contains.

    In case of doubt True: the refresh finds out.
    """
    ragignore = read_patterns(root / ".ragignore", strict=False)
    include = Patterns.of(source.filters.include, where="--include")
    exclude = Patterns.of(source.filters.exclude, where="--exclude")
    for path in paths:
        if path in known or path.rpartition("/")[2] in _RULES:
            return True
        parts = path.split("/")
        if any(part.lower() in skip.VERSION_CONTROL_FOLDERS for part in parts):
            continue
        if skip.vendored_folder(path.rpartition("/")[0]) or _gitignored(root, path):
            continue
        if (root / path).is_dir() or any(file.startswith(f"{path}/") for file in known):
            return True  # a folder was added or removed, with unknown files
        if skip.reason_by_name(path):
            continue
        if (ragignore and ragignore.match(path)) or (include and not include.match(path)):
            continue
        if not exclude.match(path):
            return True
    return False


def _gitignored(root: Path, path: str) -> bool:
    """Whether the innermost `.gitignore` with a matching pattern ignores the path."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        patterns = read_patterns(root / folder / ".gitignore", strict=False)
        inside = path[len(folder) + 1 :] if folder else path
        if (ignored := patterns.opinion(inside) if patterns else None) is not None:
            return ignored
    return False


# ---------------------------------------------------------------- events


def _batches(root: Path, stop: Event) -> Generator[set[str], None, None]:
    """Yield sets of changed paths, relative to the root; the first one is empty: the watch has started."""
    events = _events(root, stop)
    lock = _index_lock(root)
    waiting, since = next(events, None), time.monotonic()
    if waiting is None:
        return
    yield set()
    for paths in events:
        if not root.is_dir():
            raise SourceNotFound(f"{root} was deleted, so it cannot be watched any more")
        if not waiting:
            since = time.monotonic()
        waiting |= paths
        if waiting and not (lock() and time.monotonic() - since < GIT_WRITES_S):
            yield waiting
            waiting = set()


def _index_lock(root: Path) -> Callable[[], bool]:
    """Return a function that checks for git's index lock: git is about to write many files."""
    top = work_tree(root)
    file = top / ".git" / "index.lock" if top else None
    return lambda: file is not None and file.exists()


def _events(root: Path, stop: Event) -> Iterator[set[str]]:
    """Yield sets of changed paths, and an empty set after each timeout."""
    try:
        from watchfiles import watch
    except ImportError as error:
        raise BackendMissing(backend="watching a folder", missing="watchfiles", extra="watch") from error
    prefix = f"{root}/".replace("//", "/")
    found = watch(
        root,
        watch_filter=None,
        debounce=LONGEST_MS,
        step=QUIET_MS,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    try:
        for changes in found:
            yield {path.removeprefix(prefix) for _, path in changes if path.startswith(prefix)}
    except (OSError, RuntimeError) as error:
        raise SourceError(
            f"cannot watch {root}: {error}; if the limit of watched folders is reached, raise it "
            "(fs.inotify.max_user_watches) or set WATCHFILES_FORCE_POLLING=true"
        ) from error
