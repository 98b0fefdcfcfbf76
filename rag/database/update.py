"""Build a store, or update it with what changed.

    scan      compare the walk with the store: size and time first, git's blob id where they differ
    digest    read and chunk changed files, count their terms
    embed     embed their chunks
    write     write a whole store, or a delta; merge a delta that has grown into the base

A store made with another analyzer, chunker or embedder is rebuilt, with the reason in the report. A store
that cannot be read raises an error, and is rebuilt only on request.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rag.analysis import ANALYZER_VERSION
from rag.code.references import GRAPH_VERSION
from rag.corpus import CHUNKER_VERSION, SECRET_RULES_VERSION
from rag.corpus.read import file_blob
from rag.corpus.walk import Walk, walk
from rag.corpus.worktree import git_folder
from rag.database import format as store_format
from rag.database.approximate import with_lists
from rag.database.columns import Columns, assemble, merge_bags, pack_strings, unpack_strings
from rag.database.lock import building
from rag.database.merge import merge
from rag.database.share import keep_link, sharable
from rag.database.store import Store, delta_path
from rag.errors import NothingToIndex, StoreCorrupt, StoreOutdated
from rag.ports import Embedder, Gather
from rag.types import PARSER_GAVE_UP, Checkout, FileEntry, IndexReport, Skipped, Source, SourceFile

if TYPE_CHECKING:
    from rag.database.digest import Digest

Progress = Callable[[str, int, int], None]
Action = Literal["built", "rebuilt", "updated", "fresh"]

_SETTLED_NS = 50_000_000
_COARSE_NS = 2_000_000_000
_MUCH = 0.25
"""The share of changed files from which another store of the repository may be nearer."""
_SMALL_DELTA = 4_000
"""A delta of up to this many chunks is never merged; a larger one is, from a quarter of the base."""


def _no_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


def _accept(texts: Sequence[str]) -> None:
    """Accept without asking."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a source is indexed.

    `max_chars` limits a chunk. A store of `approximate_from` chunks is searched by lists, which `gather`
    makes; without it every search is exact.
    """

    max_file_bytes: int = 1_000_000
    max_chars: int = 1_600
    wait_s: float = 600.0
    approximate_from: int = 200_000
    gather: Gather | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of a scan. `touched` files have the same bytes with another time, mode or name."""

    changed: tuple[FileEntry, ...]
    removed: tuple[str, ...]
    touched: Mapping[str, tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


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

    Raises:
        NothingToIndex: no file can be indexed.
        StoreTooNew: a newer version of rag wrote the file there (with `rebuild` it is replaced).
        StoreBusy, StoreUnwritable: it cannot be written.
    """
    try:
        return _build_or_update(checkout, path, embedder, options, rebuild, progress, confirm)
    except (StoreCorrupt, *store_format.DAMAGE_ERRORS) as error:
        damage = None if rebuild else _damage_of(path, error)
        if damage is None:
            raise
    store, report = _build_or_update(checkout, path, embedder, options, True, progress, confirm)
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
) -> tuple[Store, IndexReport]:
    began = time.perf_counter()
    scanned_ns = time.time_ns()
    progress("scan", 0, 0)
    walked = walk(checkout.root, checkout.source.filters, max_file_bytes=options.max_file_bytes)
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
        git_dir = git_folder(checkout.root) if checkout.commit else ""
        changes = scan(store, checkout.root, walked.files) if store else Changes(tuple(walked.files), (), {})
        differs = len(changes.changed) > _MUCH * len(walked.files)
        shared = sharable(path, wanted, checkout, git_dir, walked.files) if differs and not rebuild else None
        if shared:
            changes = scan(shared, checkout.root, walked.files, by_bytes=True)
        usable = shared or store
        builder = _Builder(
            checkout,
            path,
            embedder,
            options,
            wanted,
            scanned_ns,
            progress,
            confirm,
            reasons(walked.skipped),
            git_dir,
        )
        action: Action = "updated" if store else "rebuilt" if reason else "built"
        if store is None and shared is None:
            builder.build(changes.changed, walked)
        elif usable and (shared or changes or changes.touched):
            builder.update(usable, changes)
        if shared:
            shared.path.unlink(missing_ok=True)
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """A store compared with the files on disk.

    `behind` are the paths of files that differ from the store, ascending. `touched` is True if files have
    other times and the same bytes. `skipped` counts the files that are not indexed, by reason.
    """

    behind: tuple[str, ...]
    touched: bool
    skipped: Mapping[str, int]


def compare(store: Store, checkout: Checkout, options: Options) -> Comparison:
    """Compare a store with the files of a checkout.

    Raises:
        SourceError: the folder cannot be read.
    """
    walked = walk(checkout.root, checkout.source.filters, max_file_bytes=options.max_file_bytes)
    changes = scan(store, checkout.root, walked.files)
    behind = sorted({*(entry.path for entry in changes.changed), *changes.removed})
    skipped = reasons((*walked.skipped, *store.content_skips()))
    return Comparison(tuple(behind), bool(changes.touched), skipped)


def reasons(skipped: Iterable[Skipped]) -> dict[str, int]:
    """Count the files that are not indexed, by reason. A file that is cut by lines is indexed."""
    return dict(Counter(skip.reason for skip in skipped if skip.reason != PARSER_GAVE_UP))


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
    from rag.database.embed import embed_digests
    from rag.database.quarantine import Quarantine

    stats = [(0, len(file.text)) for file in files]
    quarantine = Quarantine(path.parent)
    digests = [digest_texts(files, stats, max_chars=options.max_chars, given_up=quarantine.known)]
    quarantine.add_from(digests)
    bags = digests[0].bags
    if not len(bags):
        raise NothingToIndex(source=str(checkout.source), seen=len(files), reasons={"empty": len(files)})
    languages: list[str] = []
    vectors = embed_digests(embedder, digests, bags, None, _no_progress, _accept)
    by_path = {file.path: stat for file, stat in zip(files, stats, strict=True)}
    columns = assemble(digests, bags, vectors, languages)
    columns |= _skip_columns(digests[0].skipped, {}, by_path)
    wanted = fingerprint(checkout.source, embedder, options)
    with building(path, wait_s=options.wait_s):
        builder = _Builder(checkout, path, embedder, options, wanted, time.time_ns(), _no_progress, _accept)
        builder.write_base(columns, languages)
        return Store.open(path).at(checkout)


@dataclass(frozen=True, slots=True)
class _Builder:
    """The steps from changed files to a written store; created for one build."""

    checkout: Checkout
    path: Path
    embedder: Embedder
    options: Options
    wanted: Mapping[str, Any]
    scanned_ns: int
    progress: Progress
    confirm: Callable[[Sequence[str]], None]
    skipped: Mapping[str, int] = field(default_factory=dict)
    git_dir: str = ""

    def build(self, files: Sequence[FileEntry], walked: Walk) -> None:
        """Write the whole store."""
        languages: list[str] = []
        digests, columns = self._segment(files, None, languages)
        skips = [skip for part in digests for skip in part.skipped]
        if not len(columns["chunk_file"]):
            why = reasons((*walked.skipped, *skips))
            raise NothingToIndex(source=str(self.checkout.source), seen=walked.seen, reasons=why)
        columns |= _skip_columns(skips, {entry.path: entry for entry in files})
        self.write_base(columns, languages)

    def update(self, store: Store, changes: Changes) -> None:
        """Write the changes: a delta, or the whole store when the delta would be large.

        A changed file that has the bytes again that the base has for its path is taken from there.
        """
        gone = {*changes.removed, *(entry.path for entry in changes.changed)}
        languages = list(store.header["languages"])
        base = store.segments[0]
        again = self._again_as_in_base(store, changes.changed)
        changed = [entry for entry in changes.changed if entry.path not in again]
        digests, fresh = self._segment(changed, store, languages)
        parts = [(fresh, np.ones(len(fresh["file_size"]), np.bool_))]
        for old in store.segments[1:]:
            keep = np.asarray([path not in gone for path in old.paths], np.bool_)
            parts.insert(0, (old.columns, keep))
        delta = merge(parts)
        dead = store.dead_files | np.asarray([path in gone for path in base.paths], np.bool_)
        dead[[base.file_numbers[path] for path in again]] = False
        skips = [s for s in store.content_skips() if s.path not in gone]
        skips += [skip for skip in base.content_skips() if skip.path in again]
        skips += [skip for part in digests for skip in part.skipped]
        stats = {entry.path: entry for entry in changes.changed}
        extra = _skip_columns(skips, stats, store.skip_stats())
        touched = {p: s for p, s in (store.touched() | dict(changes.touched)).items() if p not in gone}
        touched |= again
        if len(delta["chunk_file"]) > max(_SMALL_DELTA, base.chunk_count // 4):
            whole = merge([(base.columns, ~dead), (delta, np.ones(len(delta["file_size"]), np.bool_))])
            _apply_touched(whole, touched)
            self.write_base(whole | extra, languages)
            return
        _apply_touched(delta, touched)
        extra |= {"replaced": np.flatnonzero(dead).astype(np.int32)} | _touched_columns(touched)
        header = self._header(languages) | {"base_id": base.header["id"]}
        store_format.write(delta_path(self.path), header, delta | extra)
        if store.path != self.path:
            keep_link(store, self.path)

    def _again_as_in_base(self, store: Store, changed: Sequence[FileEntry]) -> dict[str, tuple[int, int]]:
        """Return the changed files that have the bytes of a file of the base which the delta replaced."""
        base, found = store.segments[0], {}
        for entry in changed if store.dead_files.any() else ():
            number = base.file_numbers.get(entry.path)
            if number is None or not store.dead_files[number]:
                continue
            if int(base.columns["file_size"][number]) == entry.size_bytes:
                blob = base.columns["file_blob"][number].tobytes().hex()
                if file_blob(self.checkout.root, entry.path) == blob:
                    found[entry.path] = (entry.mtime_ns, entry.size_bytes)
        return found

    def _segment(
        self, files: Sequence[FileEntry], store: Store | None, languages: list[str]
    ) -> tuple[list[Digest], Columns]:
        # Imported here: most often nothing has changed, and the grammars are not needed.
        from rag.database.embed import embed_digests
        from rag.database.quarantine import Quarantine
        from rag.database.workers import digest_all

        quarantine = Quarantine(self.path.parent)
        digests = digest_all(
            self.checkout.root,
            files,
            max_chars=self.options.max_chars,
            progress=lambda done, total: self.progress("chunk", done, total),
            given_up=quarantine.known,
        )
        quarantine.add_from(digests)
        bags = merge_bags([part.bags for part in digests])
        vectors = embed_digests(self.embedder, digests, bags, store, self.progress, self.confirm)
        self.progress("write", 0, 0)
        return digests, assemble(digests, bags, vectors, languages)

    def write_base(self, columns: Columns, languages: list[str]) -> None:
        """Write a whole store, and remove the delta of the previous one."""
        header = self._header(languages)
        if self.options.gather is not None and len(columns["chunk_file"]) >= self.options.approximate_from:
            self.progress("lists", 0, 0)
            lists, header["approximate"] = with_lists(columns, self.options.gather)
            columns = {**columns, **lists}
        store_format.write(self.path, header, columns)
        delta_path(self.path).unlink(missing_ok=True)

    def _header(self, languages: list[str]) -> dict[str, Any]:
        source = self.checkout.source
        return {
            "id": uuid.uuid4().hex,
            "name": source.name,
            "location": source.location,
            "ref": source.ref,
            "commit": self.checkout.commit,
            "remote": self.checkout.remote,
            "git_dir": self.git_dir,
            "fingerprint": dict(self.wanted),
            "languages": languages,
            "skipped": dict(self.skipped),
            "scanned_ns": self.scanned_ns,
            "built": time.time(),
        }


def _skip_columns(
    skips: Sequence[Skipped],
    entries: Mapping[str, FileEntry],
    older: Mapping[str, tuple[int, int]] | None = None,
) -> Columns:
    """Return the columns of files that were read and are unusable, so that the next scan skips them.

    Files that are cut by lines are included, so that each report names them.
    """
    stats = dict(older or {})
    stats |= {path: (entry.mtime_ns, entry.size_bytes) for path, entry in entries.items()}
    rows = np.asarray([stats[skip.path] for skip in skips], np.int64).reshape(-1, 2)
    packed = [
        "\0".join((skip.path, skip.reason, skip.detail)).encode("utf-8", "surrogateescape") for skip in skips
    ]
    return pack_strings("skip", packed) | {"skip_stat": rows}


def _touched_columns(touched: Mapping[str, tuple[int, int]]) -> Columns:
    paths = [path.encode("utf-8", "surrogateescape") for path in touched]
    return pack_strings("touched", paths) | {
        "touched_stat": np.asarray(list(touched.values()), np.int64).reshape(-1, 2)
    }


def _apply_touched(columns: Columns, touched: Mapping[str, tuple[int, int]]) -> None:
    """Set the new times of a segment's files."""
    if not touched:
        return
    times = columns["file_mtime_ns"].copy()
    for row, path in enumerate(unpack_strings(columns, "file_path")):
        if stat := touched.get(path.decode("utf-8", "surrogateescape")):
            times[row] = stat[0]
    columns["file_mtime_ns"] = times
