"""Build a store, or update it with what changed.

    scan      compare the walk with the store: size and time first, git's blob id where they differ
    digest    read and chunk changed files, count their terms
    embed     embed their chunks
    write     write a whole store, or a new newest segment (`rag.database.build`)

A store made with another analyzer, chunker or embedder is rebuilt, with the reason in the report. A store
that cannot be read raises an error, and is rebuilt only on request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rag.analysis import ANALYZER_VERSION
from rag.code.file_graph import GRAPH_VERSION
from rag.corpus import CHUNKER_VERSION, SECRET_RULES_VERSION
from rag.corpus.read import file_blob
from rag.corpus.walk import Walk, walk
from rag.corpus.worktree import git_folder
from rag.database import format as store_format
from rag.database.build import Builder, Changes
from rag.database.build import Options as Options
from rag.database.build import reasons as reasons
from rag.database.columns import assemble, skip_columns
from rag.database.lock import building
from rag.database.parts import part_ids, remove_unlisted
from rag.database.share import Elsewhere as Elsewhere
from rag.database.share import sharable, taken
from rag.database.store import Store
from rag.errors import NothingToIndex, StoreCorrupt, StoreError, StoreOutdated
from rag.ports import Embedder
from rag.types import Checkout, FileEntry, IndexReport, Progress, Source, SourceFile

Action = Literal["built", "rebuilt", "updated", "fresh"]

_SETTLED_NS = 50_000_000
_COARSE_NS = 2_000_000_000
_MUCH = 0.25
"""The share of changed files from which another store of the repository may be nearer."""


def _no_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


def _accept(texts: Sequence[str]) -> None:
    """Accept without asking."""


def _nowhere(much: bool) -> None:
    """Return no store."""


def fingerprint(source: Source, embedder: Embedder, options: Options) -> dict[str, Any]:
    """Return the values that must be equal for a store to be usable."""
    return {
        "analyzer": ANALYZER_VERSION,
        "chunker": f"{CHUNKER_VERSION}:{options.max_chars}",
        "embedder": embedder.fingerprint,
        "graph": GRAPH_VERSION,
        "filters": [list(source.filters.include), list(source.filters.exclude)],
        "max_file_bytes": options.max_file_bytes,
        "secret_rules": SECRET_RULES_VERSION,
    }


def refresh(
    checkout: Checkout,
    path: Path,
    embedder: Embedder,
    options: Options,
    *,
    rebuild: bool = False,
    progress: Progress = _no_progress,
    confirm: Callable[[Sequence[str]], None] = _accept,
    elsewhere: Elsewhere = _nowhere,
    listed: Listed | None = None,
) -> tuple[Store, IndexReport]:
    """Open the store at `path`, built or updated first if needed.

    Args:
        checkout: the source, on disk.
        path: the store's file.
        embedder: makes the vectors.
        options: how to index.
        rebuild: rebuild it in any case.
        progress: called with stage, done, total.
        confirm: called with the texts before a non-local embedder is used; raising stops the build.
        elsewhere: called when files are to be indexed, for a store that has most of them already.
        listed: the files of the checkout, if they were just listed.

    Raises:
        NothingToIndex: no file can be indexed.
        StoreTooNew: a newer version of rag wrote the file there (with `rebuild` it is replaced).
        StoreBusy, StoreUnwritable: it cannot be written.
    """
    progress("scan", 0, 0)
    files = listed or _listed(checkout, options)
    try:
        return _build_or_update(
            checkout, path, embedder, options, rebuild, progress, confirm, elsewhere, files
        )
    except (StoreCorrupt, *store_format.DAMAGE_ERRORS) as error:
        damage = None if rebuild else _damage_of(path, error)
        if damage is None:
            raise
    store, report = _build_or_update(
        checkout, path, embedder, options, True, progress, confirm, _nowhere, files
    )
    return store, replace(report, reason=f"it was damaged: {damage.why}")


def _damage_of(path: Path, error: Exception) -> StoreCorrupt | None:
    """Return the damage to the store that may have caused an error; None if it is intact."""
    try:
        if isinstance(error, StoreCorrupt):
            raise error
        Store.open(path).verify()
    except StoreCorrupt as damage:
        return damage
    except FileNotFoundError:
        return None
    return None


def _build_or_update(
    checkout: Checkout,
    path: Path,
    embedder: Embedder,
    options: Options,
    rebuild: bool,
    progress: Progress,
    confirm: Callable[[Sequence[str]], None],
    elsewhere: Elsewhere,
    listed: Listed,
) -> tuple[Store, IndexReport]:
    began, walked = listed.began, listed.walked
    wanted = fingerprint(checkout.source, embedder, options)
    store, reason = (None, "asked for") if rebuild else _usable(path, wanted)
    if store is not None:
        changes = scan(store, checkout.root, walked.files)
        if not changes and not changes.touched:
            return store.at(checkout), _report("fresh", "", store, checkout, walked, changes, began)
    with building(path, wait_s=options.wait_s) as waited:
        _sweep(path)
        if waited or not rebuild:
            store, reason = _usable(path, wanted)
        if store is not None and int(store.header["scanned_ns"]) > listed.scanned_ns:
            listed = _listed(checkout, options)  # else files that another process has just added were removed
            walked = listed.walked
        git_dir = git_folder(checkout.root) if checkout.commit else ""
        changes = _changes(store, checkout, walked) if store else Changes(tuple(walked.files), (), {})
        differs = len(changes.changed) - len(changes.again) > _MUCH * len(walked.files)
        shared = sharable(path, wanted, checkout, git_dir, walked.files) if differs and not rebuild else None
        if shared is None and changes and not rebuild and (other := elsewhere(differs)) is not None:
            shared = taken(other, path, wanted, walked.files)
        if shared:
            changes = _changes(shared, checkout, walked, by_bytes=True)
        builder = Builder(
            checkout,
            path,
            embedder,
            options,
            wanted,
            listed.scanned_ns,
            progress,
            confirm,
            reasons(walked.skipped),
            git_dir,
        )
        action: Action = "updated" if store else "rebuilt" if reason else "built"
        usable = shared or store
        if usable is None:
            builder.build(changes.changed, walked)
        elif shared or changes or changes.touched:
            builder.update(usable, changes)
        reason = "" if store else reason
        store = Store.open(path)
    return store.at(checkout), _report(action, reason, store, checkout, walked, changes, began)


def scan(store: Store, root: Path, files: Sequence[FileEntry], *, by_bytes: bool = False) -> Changes:
    """Compare the files on disk with those in the store.

    A file with the stored size and time counts as unchanged, unless its time is so close to the last scan
    that it may have been written just after, or its status change time is later: archives and copies create
    files of other bytes with the same size and time. With `by_bytes` the bytes decide in any case, as the
    store was made from other files.
    """
    known = store.known_files()
    scanned_ns, now_ns = int(store.header["scanned_ns"]), time.time_ns()
    changed, touched = [], {}
    for entry in files:
        old = known.pop(entry.path, None)
        if old is not None:
            mtime_ns, size, blob = old
            window = _SETTLED_NS if entry.mtime_ns % 1_000_000_000 else _COARSE_NS
            same = mtime_ns == entry.mtime_ns and size == entry.size_bytes
            if (
                same
                and not by_bytes
                and entry.mtime_ns < scanned_ns - window
                and entry.changed_ns <= scanned_ns
            ):
                continue
            if size == entry.size_bytes and file_blob(root, entry.path) == blob:
                if by_bytes or not same or scanned_ns < entry.changed_ns <= now_ns:
                    touched[entry.path] = (entry.mtime_ns, entry.size_bytes)
                continue
        changed.append(entry)
    return Changes(tuple(changed), tuple(known), touched)


def _changes(store: Store, checkout: Checkout, walked: Walk, *, by_bytes: bool = False) -> Changes:
    """Return the result of a scan, with the dead files whose bytes changed files have again."""
    changes = scan(store, checkout.root, walked.files, by_bytes=by_bytes)
    again: dict[str, int] = {}
    for entry in changes.changed if store.archived or store.dead_files.any() else ():
        earlier = [(n, blob) for n, size, blob in store.replaced_as(entry.path) if size == entry.size_bytes]
        blob = file_blob(checkout.root, entry.path) if earlier else ""
        for number, known in earlier:
            if known == blob:  # what is archived comes last: a part that questions read costs nothing more
                again.setdefault(entry.path, number)
    return replace(changes, again=again)


@dataclass(frozen=True, slots=True)
class Listed:
    """The files of a checkout, and when their listing began, on a monotonic clock and as a file's time."""

    walked: Walk
    began: float
    scanned_ns: int


def _listed(checkout: Checkout, options: Options) -> Listed:
    began, scanned_ns = time.perf_counter(), time.time_ns()
    walked = walk(checkout.root, checkout.source.filters, max_file_bytes=options.max_file_bytes)
    return Listed(walked, began, scanned_ns)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A store compared with the files on disk.

    `behind` are the paths of files that differ from the store, ascending. `touched` is True if files have
    other times and the same bytes. `skipped` counts the files that are not indexed, by reason. `listed` are
    the files, if the store differs from them.
    """

    behind: tuple[str, ...] = ()
    touched: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)
    listed: Listed | None = None


def compare(store: Store, checkout: Checkout, options: Options) -> Comparison:
    """Compare a store with the files of a checkout.

    Raises:
        SourceError: the folder cannot be read.
    """
    listed = _listed(checkout, options)
    changes = scan(store, checkout.root, listed.walked.files)
    behind = sorted({*(entry.path for entry in changes.changed), *changes.removed})
    skipped = reasons((*listed.walked.skipped, *store.content_skips()))
    return Comparison(tuple(behind), bool(changes.touched), skipped, listed if behind else None)


def stored_skips(store: Store) -> dict[str, int]:
    """Return how many files were skipped when the store was last written, by reason."""
    written = store.header.get("skipped")
    known = written if isinstance(written, dict) else {}
    counts = {str(reason): count for reason, count in known.items() if isinstance(count, int)}
    return dict(Counter(counts) + Counter(reasons(store.content_skips())))


def open_usable(path: Path, source: Source, embedder: Embedder, options: Options) -> Store | None:
    """Open the store at `path` without updating it; None when there is none, or its fingerprint differs.

    Raises:
        StoreCorrupt, StoreTooNew: it cannot be read.
    """
    return _usable(path, fingerprint(source, embedder, options))[0]


def _usable(path: Path, wanted: Mapping[str, Any]) -> tuple[Store | None, str]:
    """Return the store, if it was made as `wanted`; else None and the reason, "" when there is none."""
    try:
        store = Store.open(path)
    except FileNotFoundError:
        return None, ""
    except StoreOutdated:
        return None, "an older version of rag wrote it"
    found = store.header.get("fingerprint")
    if found == wanted:
        return store, ""
    found = found if isinstance(found, dict) else {}
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    return None, f"another {' and '.join(differing)} than the store was made with"


def _sweep(path: Path) -> None:
    """Remove what a killed builder left behind. Call only while holding the lock."""
    for leftover in path.parent.glob(f".{path.stem}*.tmp"):
        leftover.unlink(missing_ok=True)
    try:
        remove_unlisted(path, part_ids(path, store_format.read_header(path)))
    except FileNotFoundError:
        remove_unlisted(path, ())
    except StoreError:
        pass  # what replaces it removes its parts


def _report(
    action: Action,
    reason: str,
    store: Store,
    checkout: Checkout,
    walked: Walk,
    changes: Changes,
    began: float,
) -> IndexReport:
    return IndexReport(
        source=checkout.source,
        action=action,
        reason=reason,
        path=store.path,
        seen=walked.seen,
        files=store.file_count,
        chunks=store.live_count,
        changed=len(changes.changed) if action != "fresh" else 0,
        removed=len(changes.removed),
        skipped=(*walked.skipped, *store.content_skips()),
        size_bytes=store.size_bytes,
        commit=checkout.commit,
        seconds=time.perf_counter() - began,
        recall_at_10=store.recall_at_10,
    )


def write_texts(
    files: Sequence[SourceFile], checkout: Checkout, path: Path, embedder: Embedder, options: Options
) -> Store:
    """Build a whole store from texts in memory, and open it. `checkout` is their source.

    Raises:
        NothingToIndex: the files hold no text.
        StoreBusy, StoreUnwritable: it cannot be written.
    """
    from rag.database.digest import digest_texts
    from rag.database.embed import embed_digests, idf_over
    from rag.database.quarantine import Quarantine

    stats = [(0, len(file.text)) for file in files]
    quarantine = Quarantine(path.parent)
    digests = [digest_texts(files, stats, max_chars=options.max_chars, given_up=quarantine.known)]
    quarantine.add_from(digests)
    bags = digests[0].bags
    if not len(bags):
        raise NothingToIndex(source=str(checkout.source), seen=len(files), reasons={"empty": len(files)})
    languages: list[str] = []
    vectors = embed_digests(embedder, digests, bags, idf_over(None), None, _no_progress, _accept)
    by_path = {file.path: stat for file, stat in zip(files, stats, strict=True)}
    columns = assemble(digests, bags, vectors, languages)
    columns |= skip_columns(digests[0].skipped, by_path)
    wanted = fingerprint(checkout.source, embedder, options)
    with building(path, wait_s=options.wait_s):
        builder = Builder(checkout, path, embedder, options, wanted, time.time_ns(), _no_progress, _accept)
        builder.write_whole(columns, languages)
        return Store.open(path).at(checkout)
