"""An open store: the data that retrieval reads. Opening maps the files; data is loaded on first use.

A store is one or more segments: the parts (`rag.database.parts`), which never change, and the newest one,
which says which files of the parts are dead: replaced or removed since. A path is live in at most one
segment. Chunks and files are numbered through all segments, dead ones included; the statistics are of the
live ones. A part in which every file is dead is archived: no search reads it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import copy
from functools import cached_property, partial
from itertools import accumulate, compress, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.code.above import above
from rag.code.file_graph import Defined, FileGraph, ReferenceColumns
from rag.code.graph import RepositoryGraph
from rag.code.packed_graph import unpacked, unpacked_definitions, unpacked_references
from rag.code.resolve import Above
from rag.database import format as store_format
from rag.database.column_codes import KINDS, UNITS, term_hash, term_hashes
from rag.database.columns import unpack_strings
from rag.database.parts import archived_ids, file_state, open_segments, part_path, size_on_disk
from rag.database.quantise import restored
from rag.database.segment import Segment, short_codes_of
from rag.errors import StoreCorrupt
from rag.identifiers import folded
from rag.lines import whole_lines_of, without_blank_end
from rag.parsing import decompressed
from rag.ports import CodeGraph, Postings, Rows, Vectors
from rag.top_k import distinct, find_sorted
from rag.types import PARSER_GAVE_UP, Checkout, Hit, Kind, Skipped, Span

Array = npt.NDArray[Any]


_KEPT_POSTINGS = 1024
_KEPT_COPIED = 1 << 20
"""Postings merged from several segments are copies: at most this many numbers of them are cached."""
_NO_POSTINGS = Postings(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.uint8))


class Store:
    """Implements `rag.ports.ChunkIndex` over the mapped files. Read-only; safe to share between threads."""

    def __init__(
        self,
        path: Path,
        segments: Sequence[Segment],
        *,
        archived: Sequence[Segment] = (),
        commit: str | None = None,
        dirty: bool = False,
        hidden: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.path = path
        self.hidden = hidden
        self.segments = tuple(segments)
        self.archived = tuple(archived)
        self.commit, self.dirty = commit, dirty
        self._postings: dict[str, Postings] = {}
        self._copied = 0
        self._first = [0, *accumulate(segment.chunk_count for segment in self.segments)]
        self._numbered = (*self.segments, *self.archived)  # in the order in which their files are numbered
        self._first_file = [0, *accumulate(segment.file_count for segment in self._numbered)]

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the store at `path`, with its parts.

        Raises:
            FileNotFoundError, StoreTooNew, StoreCorrupt, StoreOutdated: as `parts.open_segments`.
        """
        segments = open_segments(path)
        header = segments[-1].header
        live = len(segments) - 1 - len(archived_ids(path, header))
        archived = segments[live:-1]
        return cls(path, [*segments[:live], segments[-1]], archived=archived, commit=header.get("commit"))

    def at(self, checkout: Checkout) -> Store:
        """Return the same store with the checkout's commit in its hits."""
        return self._as(checkout.commit, checkout.dirty, self.hidden)

    def without(self, files: npt.NDArray[np.bool_]) -> Store:
        """Return the same store in which the chunks of some files, shape (total_files,), count as deleted."""
        hidden = files if self.hidden is None else files | self.hidden
        return self._as(self.commit, self.dirty, hidden)

    def _as(self, commit: str | None, dirty: bool, hidden: npt.NDArray[np.bool_] | None) -> Store:
        return Store(
            self.path, self.segments, archived=self.archived, commit=commit, dirty=dirty, hidden=hidden
        )

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the newest segment: source, commit, fingerprints, times."""
        return self.segments[-1].header

    @property
    def parts(self) -> tuple[Segment, ...]:
        """The segments before the newest one that have a live file."""
        return self.segments[:-1]

    @property
    def all_parts(self) -> tuple[Segment, ...]:
        """The parts, with the archived ones at the end, as the header lists them."""
        return (*self.parts, *self.archived)

    @property
    def parts_used_ns(self) -> list[int]:
        """When each of `all_parts` was made, or a dead file of it was taken again."""
        found, count = self.header.get("used_ns"), len(self.all_parts)
        fits = isinstance(found, list) and len(found) == count
        return [int(used) for used in found] if found and fits else [0] * count

    @property
    def segment_files(self) -> list[Path]:
        """The files of the segments: the newest one, then all parts."""
        return [self.path, *(part_path(self.path, part.header["id"]) for part in self.all_parts)]

    def verify(self, *, since: Collection[object] = (), now: Collection[object] = ()) -> None:
        """Compare the columns with their checksums, which takes about as long as reading the files.

        A file is skipped if its state (`parts.file_state`) is in `since` and in `now`: the states at the last
        verification, and before the store was opened.

        Raises:
            StoreCorrupt: they differ.
        """
        for file, segment in zip(self.segment_files, (self.segments[-1], *self.all_parts), strict=True):
            state = file_state(file)
            if state is None or state not in since or state not in now:
                store_format.verify(file, segment.header, segment.columns)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return size_on_disk(self.segment_files)

    @cached_property
    def dead_files(self) -> npt.NDArray[np.bool_]:
        """Files that were replaced or removed, shape (total_files,)."""
        dead = np.zeros(self.total_files, np.bool_)
        if self.parts:
            dead[: self._first_file[len(self.parts)]][self.segments[-1].columns["replaced"]] = True
        return dead

    @cached_property
    def _gone_files(self) -> npt.NDArray[np.bool_]:
        return self.dead_files if self.hidden is None else self.dead_files | self.hidden

    @cached_property
    def dead(self) -> npt.NDArray[np.bool_] | None:
        """Deleted and hidden chunks, shape (len(self),); None when there are none."""
        return np.asarray(self._gone_files[self.file]) if self._gone_files.any() else None

    @cached_property
    def _deleted(self) -> npt.NDArray[np.bool_] | None:
        """As `dead`, without the hidden chunks."""
        if self.hidden is None:
            return self.dead
        return np.asarray(self.dead_files[self.file]) if self.dead_files.any() else None

    def _in_segments(self, flags: npt.NDArray[np.bool_] | None) -> list[npt.NDArray[np.bool_] | None]:
        """Return flags of chunks, segment by segment; None for a segment in which none is set."""
        if flags is None:
            return [None] * len(self.segments)
        parts = [flags[a:b] for a, b in pairwise(self._first)]
        return [part if part.any() else None for part in parts]

    def __len__(self) -> int:
        return int(self._first[-1])

    @cached_property
    def live_count(self) -> int:
        """The number of chunks that are not deleted."""
        return len(self) if self.dead is None else int(len(self) - self.dead.sum())

    @cached_property
    def file_count(self) -> int:
        """The number of files that are not deleted, and that a filter allows."""
        return self.total_files - int(self._gone_files.sum())

    @property
    def max_file_bytes(self) -> int:
        """Larger files were skipped."""
        return int(self.header["fingerprint"]["max_file_bytes"])

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return int(self.segments[0].columns["vector_codes"].shape[1])

    @cached_property
    def vectors(self) -> list[Rows]:
        """The unit rows of each segment, in chunk order, including deleted ones."""
        return [
            Rows(s.columns["vector_codes"], s.columns["vector_scale"], short_codes_of(s))
            for s in self.segments
        ]

    def _across(self, name: str) -> Array:
        parts = [s.columns[name] for s in self.segments]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @cached_property
    def length_body(self) -> npt.NDArray[np.int32]:
        """Terms in the body of each chunk."""
        return self._across("chunk_length_body")

    @cached_property
    def length_head(self) -> npt.NDArray[np.int32]:
        """Terms in the head (path and names) of each chunk."""
        return self._across("chunk_length_head")

    @property
    def recall_at_10(self) -> float | None:
        """The share of the ten nearest that a search by short codes finds; None where there are none."""
        found = self.header.get("recall_at_10")
        return float(found) if isinstance(found, float) else None

    @cached_property
    def mean_lengths(self) -> tuple[float, float]:
        """Average number of terms in the body and in the head of a chunk that is not deleted; at least 1
        each.
        """
        counted: slice | npt.NDArray[np.bool_] = slice(None) if self._deleted is None else ~self._deleted
        body, head = self.length_body[counted], self.length_head[counted]
        return (max(float(body.mean()), 1.0), max(float(head.mean()), 1.0)) if len(body) else (1.0, 1.0)

    @cached_property
    def kind(self) -> npt.NDArray[np.uint8]:
        """Kind of each chunk, a position in `codes.KINDS`: code, test, doc, config."""
        return self._across("chunk_kind")

    @cached_property
    def unit(self) -> npt.NDArray[np.uint8]:
        """Unit of each chunk, a position in `codes.UNITS`: function, class, section, block."""
        return self._across("chunk_unit")

    @cached_property
    def file(self) -> npt.NDArray[np.int32]:
        """File of each chunk, ascending; files are numbered through all segments."""
        columns = [segment.columns["chunk_file"] for segment in self.segments]
        if len(columns) == 1:
            return columns[0]
        files = [column + np.int32(n) for column, n in zip(columns, self._first_file, strict=False)]
        return np.concatenate(files)

    @property
    def total_files(self) -> int:
        """The number of files in all segments, with deleted ones: the largest number in `file` plus one."""
        return self._first_file[len(self.segments)]

    def file_path(self, file: int) -> str:
        """Return the path of a file by its number."""
        segment, row = self._locate_file(file)
        return segment.path(row)

    def segment_of(self, file: int) -> Segment:
        """Return the segment that holds a file, by its number; those of archived files come last."""
        return self._locate_file(file)[0]

    def _locate_file(self, file: int) -> tuple[Segment, int]:
        number = bisect_right(self._first_file, file) - 1
        return self._numbered[number], file - self._first_file[number]

    @cached_property
    def languages(self) -> list[str]:
        """The language of each file, by its number."""
        return [
            str(segment.header["languages"][number])
            for segment in self.segments
            for number in segment.columns["file_language"].tolist()
        ]

    @cached_property
    def divided(self) -> npt.NDArray[np.bool_]:
        """Which files have a line that is divided between chunks, or text that is in none; (total_files,)."""
        file = self.file
        same_line = self._across("chunk_end")[:-1] == self._across("chunk_start")[1:]
        has_gap = self._across("chunk_to")[:-1] != self._across("chunk_from")[1:]
        divided = np.zeros(self.total_files, np.bool_)
        divided[file[:-1][(same_line | has_gap) & (file[:-1] == file[1:])]] = True
        return divided

    def file_bytes(self, file: int) -> bytes:
        """Return the text of a file by its number, as UTF-8; it is not cached.

        Raises:
            StoreCorrupt: it is damaged.
        """
        segment, row = self._locate_file(file)
        try:
            return decompressed(segment.string("file_text", row))
        except zlib.error as error:
            raise StoreCorrupt(path=str(self.path), why=f"a text is damaged ({error})") from error

    def postings(self, term: str) -> Postings:
        """Return the live chunks that hold `term`, ascending, with its counts in body and head.

        The last results are cached: a search uses each of its terms several times.
        """
        found = self._postings.get(term)
        if found is None:
            found = self._read_postings(term_hash(term))
            if len(self.segments) > 1:
                self._copied += len(found.chunks)
            if len(self._postings) >= _KEPT_POSTINGS or self._copied > _KEPT_COPIED:
                self._postings.clear()
                self._copied = 0
            self._postings[term] = found
        return found

    def _read_postings(self, key: int) -> Postings:
        found: list[Postings] = []
        for first, segment in zip(self._first, self.segments, strict=False):
            row, end = segment.find("term_hash", key)
            if row == end:
                continue
            a, b = segment.view("term_indptr")[row : row + 2]
            chunks, body, head = (segment.columns[f"posting_{n}"][a:b] for n in ("chunk", "body", "head"))
            found.append(Postings(chunks + np.int32(first) if first else chunks, body, head))
        if not found:
            return _NO_POSTINGS
        chunks, body, head = found[0]
        if len(found) > 1:
            chunks, body, head = (np.concatenate(columns) for columns in zip(*found, strict=True))
        if self.dead is not None:
            # Row numbers and `take` cost a third of indexing each column with flags.
            live = np.flatnonzero(~self.dead.take(chunks))
            if len(live) < len(chunks):
                chunks, body, head = chunks.take(live), body.take(live), head.take(live)
        return Postings(chunks, body, head)

    def document_frequency(self, vocabulary: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the number of chunks with each term, without deleted ones; shape (len(vocabulary),)."""
        hashes = term_hashes(vocabulary)
        total = np.zeros(len(hashes), np.int64)
        for segment, dead in zip(self.segments, self._in_segments(self._deleted), strict=True):
            known, indptr = segment.columns["term_hash"], segment.columns["term_indptr"]
            if not len(known):
                continue
            row = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            row = np.where(known[row] == hashes, row, -1)
            if dead is None:
                total += np.where(row >= 0, indptr[row + 1] - indptr[row], 0)
                continue
            for term in np.flatnonzero(row >= 0).tolist():
                chunks = segment.columns["posting_chunk"][indptr[row[term]] : indptr[row[term] + 1]]
                total[term] += len(chunks) - np.count_nonzero(dead[chunks])
        return total

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file as it was indexed, and its blob id; None when it is not indexed."""
        found = self._find_file(path)
        if found is None:
            return None
        segment, file = found
        blob = segment.columns["file_blob"][file].tobytes().hex()
        return segment.text(file).decode("utf-8", "replace"), blob

    def bytes_of(self, path: str) -> bytes | None:
        """Return the text of a file as it was indexed, as UTF-8; None when it is not indexed."""
        found = self._find_file(path)
        return None if found is None else found[0].text(found[1])

    def chunks_of(self, path: str) -> range:
        """Return the chunks of a file, in the order of its lines; none when it is not indexed."""
        found = self._find_file(path)
        if found is None:
            return range(0)
        number = self._first_file[self.segments.index(found[0])] + found[1]
        first, end = find_sorted(self.file, [number, number + 1])
        return range(int(first), int(end))

    def file_language(self, path: str) -> str:
        """Return the language of a file; "" when no such file is indexed."""
        found = self._find_file(path)
        if found is None:
            return ""
        segment, file = found
        return str(segment.header["languages"][int(segment.columns["file_language"][file])])

    @cached_property
    def graph(self) -> CodeGraph:
        """The graph of the repository's code, read from the files' graphs as needed.

        It reads a copy of the store, which shares the files: with the store itself there would be a cycle,
        and a store that nobody uses would hold its files open until the next garbage collection.
        """
        return RepositoryGraph(copy(self))

    def files(self) -> dict[str, tuple[str, Kind]]:
        """Return the language and kind of each file, by path; the paths are in their order in the store."""
        found: dict[str, tuple[str, Kind]] = {}
        for first, segment in zip(self._first_file, self.segments, strict=False):
            languages, columns = segment.header["languages"], segment.columns
            live = ~self.dead_files[first : first + segment.file_count]
            rows = zip(
                segment.paths, columns["file_language"].tolist(), columns["file_kind"].tolist(), strict=True
            )
            for path, language, kind in compress(rows, live.tolist()):
                found[path] = (str(languages[language]), KINDS[kind])
        return found

    def above(self) -> Above:
        """Return what is above the source, as it is now on this machine."""
        return above(str(self.header["location"]))

    @cached_property
    def left_out(self) -> dict[str, list[tuple[int, int]]]:
        """Which bytes of the files' texts are in no chunk, by path: of long lines and long values."""
        start, end = self._across("chunk_to")[:-1], self._across("chunk_from")[1:]
        file = self.file[:-1]
        has_gap = (start != end) & (file == self.file[1:]) & ~self._gone_files[file]
        found: dict[str, list[tuple[int, int]]] = {}
        for row in np.flatnonzero(has_gap).tolist():
            found.setdefault(self.file_path(int(file[row])), []).append((int(start[row]), int(end[row])))
        return found

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file: what it defines, imports and refers to; an empty one if it has none."""
        with self._graph_damage():
            packed = self._of_file("file_graph", path)
            return unpacked(packed, partial(self._references, path)) if packed else FileGraph()

    def _references(self, path: str, count: int) -> ReferenceColumns:
        with self._graph_damage():
            return unpacked_references(self._of_file("file_references", path), count)

    def definitions_in(self, path: str, names: Set[str]) -> list[Defined]:
        """Return the definitions of `code_graph` with one of these names, at a fraction of its cost."""
        with self._graph_damage():
            packed = self._of_file("file_graph", path)
            return unpacked_definitions(packed, names) if packed else []

    def _of_file(self, column: str, path: str) -> bytes:
        found = self._find_file(path)
        return found[0].string(column, found[1]) if found else b""

    @contextmanager
    def _graph_damage(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, LookupError, zlib.error) as error:
            raise StoreCorrupt(path=str(self.path), why=f"a graph is damaged ({error})") from error

    def holding(self, name: str) -> list[str]:
        """Return the paths of the files that hold an identifier, and perhaps of others, ascending."""
        whole = terms(name)[-1:]
        chunks = self.postings(whole[0]).chunks if whole else np.arange(len(self), dtype=np.int32)
        return sorted(self.file_path(file) for file in distinct(self.file[chunks]).tolist())

    def files_defining(self, name: str) -> list[str]:
        """Return the paths of the files that define a name, ascending."""
        return self._files_with("defined", name)

    def files_referring(self, name: str) -> list[str]:
        """Return the paths of the files that refer to a name, or import it, ascending."""
        return self._files_with("referred", name)

    def _files_with(self, column: str, name: str) -> list[str]:
        key, found = term_hash(name), list[str]()
        for first, segment in zip(self._first_file, self.segments, strict=False):
            row, end = segment.find(f"{column}_hash", key)
            files = segment.columns[f"{column}_file"][row:end].tolist()
            found += [segment.path(file) for file in files if not self._gone_files[first + file]]
        return sorted(found)

    def _find_file(self, path: str) -> tuple[Segment, int] | None:
        firsts = reversed(self._first_file[: len(self.segments)])
        for first, segment in zip(firsts, reversed(self.segments), strict=True):
            file = segment.file_numbers.get(path)
            if file is not None and not self._gone_files[first + file]:
                return segment, file
        return None

    def known_files(self) -> dict[str, tuple[int, int, str]]:
        """Return modification time, size and blob id of each file that was read, by path; "" if unusable."""
        known: dict[str, tuple[int, int, str]] = {}
        for first, segment in zip(self._first_file, self.segments, strict=False):
            columns, blobs = segment.columns, segment.columns["file_blob"].tobytes().hex()
            times, sizes = columns["file_mtime_ns"].tolist(), columns["file_size"].tolist()
            live = np.flatnonzero(~self.dead_files[first : first + segment.file_count]).tolist()
            paths = segment.paths
            for row in live:
                known[paths[row]] = (times[row], sizes[row], blobs[40 * row : 40 * row + 40])
        for path, (mtime_ns, size) in self.touched().items():
            if path in known:
                known[path] = (mtime_ns, size, known[path][2])
        # A file that is cut by lines is in both; its blob id comes from here.
        return {path: (*stat, "") for path, stat in self.skip_stats().items()} | known

    def replaced_as(self, path: str) -> Iterator[tuple[int, int, str]]:
        """Yield number, size and blob id of each deleted file of a path: its earlier contents."""
        total, dead = self.total_files, self.dead_files
        for first, segment in zip(self._first_file, self._numbered, strict=False):
            file = segment.file_numbers.get(path)
            if file is not None and (first >= total or dead[first + file]):
                blob = segment.columns["file_blob"][file].tobytes().hex()
                yield first + file, int(segment.columns["file_size"][file]), blob

    def content_skips(self) -> tuple[Skipped, ...]:
        """Return the files that were read and are unusable, or are cut by lines because the parser failed."""
        return self.segments[-1].content_skips()

    @cached_property
    def unparsed(self) -> dict[str, str]:
        """Why the parser failed on files, by path: the graph lacks their references."""
        skips = self.content_skips()
        return {skip.path: skip.detail or skip.reason for skip in skips if skip.reason == PARSER_GAVE_UP}

    def skip_stats(self) -> dict[str, tuple[int, int]]:
        """Modification time and size of the files of `content_skips`."""
        stats = self.segments[-1].columns["skip_stat"].tolist()
        return {skip.path: (a, b) for skip, (a, b) in zip(self.content_skips(), stats, strict=True)}

    def touched(self) -> dict[str, tuple[int, int]]:
        """Return the files of the parts with a new modification time and unchanged bytes."""
        if not self.parts:
            return {}
        columns = self.segments[-1].columns
        paths = (path.decode("utf-8", "surrogateescape") for path in unpack_strings(columns, "touched"))
        return {path: (a, b) for path, (a, b) in zip(paths, columns["touched_stat"].tolist(), strict=True)}

    def defining(self, symbol: str) -> list[int]:
        """Return the live chunks that define `symbol`, ignoring case, ascending."""
        key = term_hash(folded(symbol))
        found: list[int] = []
        for first, segment in zip(self._first, self.segments, strict=False):
            row, end = segment.find("symbol_hash", key)
            found += (segment.columns["symbol_chunk"][row:end] + first).tolist()
        return found if self.dead is None else [chunk for chunk in found if not self.dead[chunk]]

    def _locate(self, chunk: int) -> tuple[Segment, int]:
        if not 0 <= chunk < self._first[-1]:
            raise IndexError(chunk)
        number = bisect_right(self._first, chunk) - 1
        return self.segments[number], chunk - self._first[number]

    def names(self, chunks: npt.NDArray[np.int64]) -> list[tuple[str, str]]:
        """(symbol, scope) of each of these chunks, "" where there is none."""
        if len(self.segments) == 1:
            return self.segments[0].names(chunks.tolist())
        numbers = np.searchsorted(self._first, chunks, side="right") - 1
        rows = chunks - np.asarray(self._first)[numbers]
        segments = self.segments
        return [segments[n].name(row) for n, row in zip(numbers.tolist(), rows.tolist(), strict=True)]

    def unnamed(self, chunks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of these chunks have no symbol, without reading the symbols."""
        result = np.zeros(len(chunks), np.bool_)
        for first, segment in zip(self._first, self.segments, strict=False):
            here = (chunks >= first) & (chunks < first + segment.chunk_count)
            symbol = segment.columns["chunk_symbol"][chunks[here] - first]
            offsets = segment.columns["string_offsets"]
            result[here] = offsets[symbol] == offsets[symbol + 1]
        return result

    def lines(self, chunk: int) -> tuple[int, int]:
        """First and last line of a chunk."""
        segment, row = self._locate(chunk)
        return segment.view("chunk_start")[row], segment.view("chunk_end")[row]

    def vector(self, chunk: int) -> Vectors:
        """Return the unit row of a chunk, shape (dim,)."""
        segment, row = self._locate(chunk)
        codes, scale = (segment.columns[f"vector_{name}"][row : row + 1] for name in ("codes", "scale"))
        return np.asarray(restored(codes, scale)[0])

    def hit(self, chunk: int, score: float, legs: Mapping[str, float]) -> Hit:
        """Return the chunk as a hit: with its text, lines and names."""
        segment, row = self._locate(chunk)
        columns, header = segment.columns, self.header
        file = int(columns["chunk_file"][row])
        try:
            text = segment.text(file)[int(columns["chunk_from"][row]) : int(columns["chunk_to"][row])]
        except zlib.error as error:
            raise StoreCorrupt(path=str(self.path), why=f"a text is damaged ({error})") from error
        symbol, scope = segment.name(row)
        start, end = self.lines(chunk)
        shown, blank_end = without_blank_end(text.decode("utf-8", "replace"))
        span = Span(
            repo=str(header["name"]),
            path=segment.path(file),
            start=start,
            end=end - len(whole_lines_of(blank_end)),
            blob=columns["file_blob"][file].tobytes().hex(),
            commit=self.commit,
            symbol=symbol,
            scope=scope,
        )
        return Hit(
            span,
            shown,
            score,
            unit=UNITS[int(columns["chunk_unit"][row])],
            kind=KINDS[int(columns["chunk_kind"][row])],
            language=str(segment.header["languages"][int(columns["file_language"][file])]),
            dirty=self.dirty,
            location=str(header["location"]),
            legs=legs,
            blank_end=blank_end,
        )
