"""A store that follows its folder: whatever changes in the files is in the store a moment later.

    for update in updates(engine, source):
        print(update.changed, update.seconds)

The system says which paths changed (the package `watchfiles`); whether anything is to be done about them is
decided by the rules of the walk, and what, by the ordinary refresh. Events come in batches that end when
the folder is quiet and git does not write in it, so that a branch switch is one update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rag.code.languages import language_of_path
from rag.corpus import skip
from rag.corpus.ignore import Patterns, read_patterns
from rag.corpus.worktree import work_tree
from rag.errors import BackendMissing, RagError, SettingsError, SourceError, SourceNotFound
from rag.service.engine import Engine, Repository
from rag.types import IndexReport, Source

QUIET_MS = 100
"""A batch of events ends when nothing happened for so long,"""
LONGEST_MS = 1_600
"""or when it has lasted so long."""
GIT_WRITES_S = 60.0
"""How long git's lock on its index holds an update back."""
_LOOK_MS = 250

_RULES = frozenset({".gitignore", ".ragignore"})


@dataclass(frozen=True, slots=True)
class Update:
    """What one update came to. Paths are sorted.

    When the update failed there is an `error` and nothing else; the store is as it was, and the next change
    takes up what is missing. The first update of a watch is the first indexing: only its report says what
    that came to.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    chunks: int
    seconds: float
    report: IndexReport | None = None
    error: RagError | None = None


def updates(engine: Engine, source: Source, *, stop: Event | None = None) -> Iterator[Update]:
    """Index a folder, then keep its store fresh; an `Update` for the first indexing and each that follows.

    Changes that leave the store as it is (ignored files, a file written with the same bytes) give none.
    Ends when `stop` is set, within a moment; an interrupt is raised as such. What reads the store elsewhere
    sees the old state or the new one, never half of one.

    Raises:
        BackendMissing: the extra `watch` is not installed.
        SettingsError: the source is no folder in its present state (a URL, another ref).
        SourceNotFound: the folder has gone.
        RagError: the first indexing failed, or the system cannot watch the folder.
    """
    if source.is_url or source.ref is not None:
        mend = "give a folder" if source.is_url else "leave --ref out"
        raise SettingsError(f"{source} cannot be watched: only the files of a folder change; {mend}")
    root = Path(source.location)
    batches = _batches(root, stop or Event())
    if next(batches, None) is None:
        return
    # The watch is on: nothing that changes during the first indexing is lost.
    began = time.perf_counter()
    repository = engine.repository(source)
    known = _blobs(repository)
    yield _update(repository, known, known, began)
    for paths in batches:
        if not _concern(root, source, paths, known):
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


def _concern(root: Path, source: Source, paths: Iterable[str], known: Mapping[str, str]) -> bool:
    """Whether any of the changed paths may be one that the walk would list, or that the store holds.

    Errs towards yes: the refresh finds out.
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
            return True  # a folder that came or went; which files were in it is not told
        if skip.reason_by_name(path) or language_of_path(path) is None:
            continue
        if (ragignore and ragignore.match(path)) or (include and not include.match(path)):
            continue
        if not exclude.match(path):
            return True
    return False


def _gitignored(root: Path, path: str) -> bool:
    """Whether the innermost `.gitignore` below the root that has an opinion leaves the path out."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        patterns = read_patterns(root / folder / ".gitignore", strict=False)
        inside = path[len(folder) + 1 :] if folder else path
        opinion = patterns.opinion(inside) if patterns else None
        if opinion is not None:
            return opinion
    return False


# ---------------------------------------------------------------- what the system says


def _batches(root: Path, stop: Event) -> Generator[set[str], None, None]:
    """Sets of changed paths, relative to the root; the first is empty and says that the watch is on."""
    events = _events(root, stop)
    lock = _index_lock(root)
    waiting, since = next(events, None), time.monotonic()
    if waiting is None:
        return
    yield set()
    for paths in events:
        if not root.is_dir():
            raise SourceNotFound(f"{root} is gone; there is nothing left to watch")
        if not waiting:
            since = time.monotonic()
        waiting |= paths
        if waiting and not (lock() and time.monotonic() - since < GIT_WRITES_S):
            yield waiting
            waiting = set()


def _index_lock(root: Path) -> Callable[[], bool]:
    """Says whether git is about to write many files: it holds the lock of its index meanwhile."""
    top = work_tree(root)
    file = top / ".git" / "index.lock" if top else None
    return lambda: file is not None and file.exists()


def _events(root: Path, stop: Event) -> Iterator[set[str]]:
    """Changed paths, and an empty set every now and then."""
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
            f"cannot watch {root}: {error}; where the system watches no more folders, raise its limit "
            "(fs.inotify.max_user_watches) or set WATCHFILES_FORCE_POLLING=true"
        ) from error
