"""Write a store: the whole of it, or what changed."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag.corpus.walk import Walk
from rag.database import compact
from rag.database import format as store_format
from rag.database.approximate import with_short_codes
from rag.database.columns import Columns, Stats, apply_touched, assemble, pack_strings, paths_of, skip_columns
from rag.database.merge import merge
from rag.database.parts import keep_as_part, part_ids, part_path, remove_unlisted
from rag.database.rewrite import LiveFiles, Rewriter, StorePart
from rag.database.segment import Segment, open_segment
from rag.database.store import Store
from rag.errors import NothingToIndex
from rag.ports import Embedder, Shorten, takes_bags
from rag.types import INDEXED, Checkout, FileEntry, Progress, Skipped

if TYPE_CHECKING:
    from rag.database.groups import Group, GroupsOnDisk

_MOST_IN_GROUP = 75_000
"""Chunks that are embedded and written at a time: about half a gigabyte of memory."""
_LEAST_SHORTENED = 16
"""A part has short codes if it has at least the chunks from which on a store has them, divided by this."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a source is indexed.

    `max_chars` limits a chunk. A store of `approximate_from` chunks has short codes, which `shorten`
    computes; without it every search is exact.
    """

    max_file_bytes: int = 1_000_000
    max_chars: int = 1_600
    wait_s: float = 600.0
    approximate_from: int = 200_000
    shorten: Shorten | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of a scan. `touched` files have the same bytes with another time, mode or name.

    `again` are the numbers, in the store, of dead files whose path and bytes changed files have.
    """

    changed: tuple[FileEntry, ...]
    removed: tuple[str, ...]
    touched: Stats
    again: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def becomes_part(store: Store) -> bool:
    """Return whether the newest segment is made a part by the next update, not written again."""
    return not store.all_parts or store.segments[-1].chunk_count > compact.SMALL


@dataclass(frozen=True, slots=True)
class Builder:
    """The steps from changed files to a written store; created for one build, under the lock of the store."""

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
        """Write the whole store.

        Raises:
            NothingToIndex: no file holds text.
        """
        languages: list[str] = []
        made, columns, skips = self._digested(files, None, languages)
        if not made and not len(columns["chunk_file"]):
            why = reasons((*walked.skipped, *skips))
            raise NothingToIndex(source=str(self.checkout.source), seen=walked.seen, reasons=why)
        columns |= skip_columns(skips, _stats(files))
        if not made:
            self.write_whole(columns, languages)
            return
        self._write(
            columns | _touched_columns({}), languages, [StorePart.whole(one, self.scanned_ns) for one in made]
        )

    def write_whole(self, columns: Columns, languages: list[str]) -> None:
        """Write a store of one segment, and remove the parts of the previous one."""
        columns, header = self._shortened(columns, len(columns["chunk_file"]), self._header(languages))
        header["recall_at_10"] = _least_recall([header])
        store_format.write(self.path, header, columns)
        remove_unlisted(self.path, ())

    def update(self, store: Store, changes: Changes) -> None:
        """Write the changes as the newest segment.

        The one before becomes a part, or is merged with the new one while it is small. A changed file that
        has the bytes again of a dead file is taken from there. `store` is the present one, or one over links
        of the same names to the files of another (`rag.database.share`).
        """
        gone = {*changes.removed, *(entry.path for entry in changes.changed)}
        languages = list(store.header["languages"])
        changed = [entry for entry in changes.changed if entry.path not in changes.again]
        made, columns, unusable = self._digested(changed, store, languages)
        parts, newest = self._parts_of(store, gone, changes.again), store.segments[-1]
        if not becomes_part(store):
            kept = np.asarray([path not in gone for path in newest.paths], np.bool_)
            columns = merge([(newest.columns, kept), (columns, np.ones(len(columns["file_size"]), np.bool_))])
        skips = [skip for skip in store.content_skips() if skip.path not in gone]
        skips += _skips_of(store, changes.again)
        skips += unusable
        parts += (StorePart.whole(one, self.scanned_ns) for one in made)
        stats = store.skip_stats() | _stats(changes.changed)
        touched = {p: s for p, s in (store.touched() | dict(changes.touched)).items() if p not in gone}
        touched |= {path: stats[path] for path in changes.again}
        self._compact(parts, len(columns["chunk_file"]), languages, LiveFiles(touched, skips, stats))
        apply_touched(columns, touched)
        for path in paths_of(columns):
            touched.pop(path, None)
        columns |= skip_columns(skips, stats) | _touched_columns(touched)
        self._write(columns, languages, parts, newest)

    def _parts_of(self, store: Store, gone: Collection[str], again: Mapping[str, int]) -> list[StorePart]:
        """Return the parts of the updated store, before any are merged or split."""
        used = dict(zip(store.all_parts, store.parts_used_ns, strict=True))
        parts, first, taken = list[StorePart](), 0, np.asarray(list(again.values()), np.int64)
        for segment in (*store.segments, *store.archived):
            end = first + segment.file_count
            if segment in used or becomes_part(store):
                dead = np.fromiter((path in gone for path in segment.paths), np.bool_, segment.file_count)
                dead |= store.dead_files[first:end] if end <= store.total_files else True
                again_here = taken[(first <= taken) & (taken < end)] - first
                dead[again_here] = False
                used_ns = self.scanned_ns if len(again_here) else used.get(segment, self.scanned_ns)
                parts.append(StorePart(segment, dead, used_ns))
            first = end
        return parts

    def _compact(
        self, parts: list[StorePart], newest_chunks: int, languages: list[str], known: LiveFiles
    ) -> None:
        """Merge and split parts, as `compact` decides."""
        total = sum(part.use.live for part in parts) + newest_chunks

        def write(columns: Columns) -> Segment:
            self.progress("merge", 0, 0)
            return self._write_part(columns, total, languages)

        rewriter = Rewriter(parts, write, self.scanned_ns)
        while numbers := compact.to_merge([part.use for part in parts], newest_chunks):
            rewriter.merge([parts[number] for number in numbers], known)
        own = [part for part in parts if not part.dead.all() and not self._is_shared(part.segment)]
        for group in compact.to_split([part.use for part in own]):
            rewriter.split([own[number] for number in group], known)

    def _is_shared(self, segment: Segment) -> bool:
        """Return whether another store has the same file, so that another version would need more disk."""
        file = part_path(self.path, segment.header["id"])
        return (file if file.exists() else self.path).stat().st_nlink > 1

    def _write_part(self, columns: Columns, total: int, languages: list[str]) -> Segment:
        """Write a part of a store of `total` chunks; it belongs to the store once that lists it."""
        columns, header = self._shortened(columns, total, self._header(languages))
        file = part_path(self.path, header["id"])
        store_format.write(file, header, columns)
        return open_segment(file)

    def _write(
        self, columns: Columns, languages: list[str], parts: list[StorePart], promoted: Segment | None = None
    ) -> None:
        """Write the newest segment over `parts`, of which `promoted` may be one; remove all other parts."""
        live = [part for part in parts if not part.dead.all()]
        archived = [part for part in parts if part.dead.all()]
        total = sum(part.use.live for part in live) + len(columns["chunk_file"])
        columns, header = self._shortened(columns, total, self._header(languages))
        header["parts"], header["archived"] = (
            [part.segment.header["id"] for part in some] for some in (live, archived)
        )
        header["used_ns"] = [part.used_ns for part in (*live, *archived)]
        header["recall_at_10"] = _least_recall([header, *(part.segment.header for part in live)])
        dead = np.concatenate([np.zeros(0, np.bool_), *(part.dead for part in live)])
        columns = {**columns, "replaced": np.flatnonzero(dead).astype(np.int32)}
        listed = part_ids(self.path, header)
        if (
            promoted is not None
            and promoted.header["id"] in listed
            and not part_path(self.path, promoted.header["id"]).exists()
        ):
            keep_as_part(self.path, promoted.header["id"])
        store_format.write(self.path, header, columns)
        remove_unlisted(self.path, listed)

    def _digested(
        self, files: Sequence[FileEntry], store: Store | None, languages: list[str]
    ) -> tuple[list[Segment], Columns, list[Skipped]]:
        """Digest and embed files.

        Returns:
            Parts, written, if there are very many chunks; the columns of the other chunks; and the unusable
            files and those that are cut by lines.

        Raises:
            BackendMissing: the grammar of a language is not installed.
        """
        # Imported here: most often nothing has changed, and the grammars are not needed.
        from rag.code.grammars import require_grammars
        from rag.database.groups import GroupsOnDisk, grouped
        from rag.database.quarantine import Quarantine
        from rag.database.workers import digest_all

        require_grammars(file.language for file in files)
        quarantine = Quarantine(self.path.parent)
        found = digest_all(
            self.checkout.root,
            files,
            max_chars=self.options.max_chars,
            progress=lambda done, total: self.progress("chunk", done, total),
            given_up=quarantine.known,
        )
        # A user is asked for all texts at once, so those of an embedder of texts are one group.
        most, stats = _MOST_IN_GROUP if takes_bags(self.embedder) else None, _stats(files)
        skips: list[Skipped] = []
        with GroupsOnDisk(self.path) as groups:
            with closing(found) as digests:
                for group, is_last in grouped(digests, most):
                    quarantine.add_from(group.digests)
                    skips += [skip for part in group.digests for skip in part.skipped]
                    if is_last and not groups:
                        return [], self._columns(group, languages, store, stats), skips
                    groups.add(group)
                    del group
            return *self._written(groups, languages, store, stats), skips

    def _written(
        self, groups: GroupsOnDisk, languages: list[str], store: Store | None, stats: Stats
    ) -> tuple[list[Segment], Columns]:
        """Write all groups but the last as parts; return them, and the columns of the last."""
        total, rest = groups.chunks + (0 if store is None else store.live_count), iter(groups)
        made: list[Segment] = []
        for _ in range(len(groups) - 1):
            columns = self._columns(next(rest), languages, store, stats, groups)
            made.append(self._write_part(columns, total, languages))
            del columns
        return made, self._columns(next(rest), languages, store, stats, groups)

    def _columns(
        self,
        group: Group,
        languages: list[str],
        store: Store | None,
        stats: Stats,
        groups: GroupsOnDisk | None = None,
    ) -> Columns:
        from rag.database.embed import embed_digests, idf_over

        digests, bags = group.digests, group.bags
        dim, idf_of = None if store is None else store.dim, idf_over(store, groups)
        vectors = embed_digests(self.embedder, digests, bags, idf_of, dim, self.progress, self.confirm)
        self.progress("write", 0, 0)
        skips = [skip for part in digests for skip in part.skipped]
        return assemble(digests, bags, vectors, languages) | skip_columns(skips, stats)

    def _shortened(
        self, columns: Columns, total: int, header: dict[str, Any]
    ) -> tuple[Columns, dict[str, Any]]:
        """Return columns and header, with short codes if a store of `total` chunks has them."""
        least = self.options.approximate_from
        if self.options.shorten is None or total < least:
            return columns, header
        if len(columns["chunk_file"]) < max(least // _LEAST_SHORTENED, 1):
            return columns, header
        self.progress("shorten", 0, 0)
        short, about = with_short_codes(columns, self.options.shorten)
        return {**columns, **short}, header | {"short_codes": about}

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
            "languages": list(languages),
            "skipped": dict(self.skipped),
            "scanned_ns": self.scanned_ns,
            "built": time.time(),
        }


def _least_recall(headers: Sequence[Mapping[str, Any]]) -> float | None:
    found = [float(header["short_codes"]["recall_at_10"]) for header in headers if "short_codes" in header]
    return min(found, default=None)


def reasons(skipped: Iterable[Skipped]) -> dict[str, int]:
    """Count the files that are not indexed, by reason."""
    return dict(Counter(skip.reason for skip in skipped if skip.reason not in INDEXED))


def _stats(entries: Iterable[FileEntry]) -> dict[str, tuple[int, int]]:
    return {entry.path: (entry.mtime_ns, entry.size_bytes) for entry in entries}


def _skips_of(store: Store, files: Mapping[str, int]) -> list[Skipped]:
    """Return why files, path and number, are cut by lines: as the segment says that holds them."""
    holding = {path: store.segment_of(file) for path, file in files.items()}
    segments = {id(segment): segment for segment in holding.values()}
    return [
        skip
        for segment in segments.values()
        for skip in segment.content_skips()
        if holding.get(skip.path) is segment
    ]


def _touched_columns(touched: Stats) -> Columns:
    paths = [path.encode("utf-8", "surrogateescape") for path in touched]
    return pack_strings("touched", paths) | {
        "touched_stat": np.asarray(list(touched.values()), np.int64).reshape(-1, 2)
    }
