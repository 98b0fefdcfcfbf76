"""An open store: the data that retrieval reads. Opening maps the files; data is loaded on first use.

A store is one segment (`NAME.pkl`) and, after small updates, a second one (`NAME.delta.pkl`) with the files
that changed since. The delta names the base it belongs to and the base's files it replaces; a delta of
another base is ignored. Chunks are numbered across both segments.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.code.graph import RepositoryGraph
from rag.code.parsing import unpacked, unpacked_definitions
from rag.code.references import Defined, FileGraph
from rag.database import format as store_format
from rag.database.codes import KINDS, UNITS, term_hash, term_hashes
from rag.database.columns import unpack_strings
from rag.database.quantise import restored
from rag.database.segment import Segment, lists_of, open_segment
from rag.errors import StoreCorrupt, StoreOutdated
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import CodeGraph, Postings, Rows, Vectors
from rag.types import Checkout, Hit, Kind, Skipped, Span

Array = npt.NDArray[Any]


_KEPT_POSTINGS = 1024
_KEPT_COPIED = 1 << 20
"""Postings merged from two segments are copies: at most this many numbers of them are cached."""


class Store:
    """Implements `rag.ports.ChunkIndex` over the mapped files. Read-only; safe to share between threads."""

    def __init__(
        self,
        path: Path,
        segments: Sequence[Segment],
        *,
        commit: str | None = None,
        dirty: bool = False,
        hidden: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.path = path
        self.hidden = hidden
        self.segments = tuple(segments)
        self.commit, self.dirty = commit, dirty
        self._postings: dict[str, Postings] = {}
        self._copied = 0
        self._first = [0, *np.cumsum([s.chunk_count for s in self.segments]).tolist()]

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the store at `path`, with its delta if it has one.

        Raises:
            FileNotFoundError, StoreTooNew, StoreCorrupt: as `format.read`.
            StoreOutdated: an older version of rag wrote it.
        """
        segments = [open_segment(path)]
        try:
            delta = open_segment(delta_path(path))
            if delta.header.get("base_id") == segments[0].header["id"]:
                segments.append(delta)
        except (FileNotFoundError, StoreOutdated):
            pass
        return cls(path, segments, commit=segments[-1].header.get("commit"))

    def at(self, checkout: Checkout) -> Store:
        """Return the same store with the checkout's commit in its hits."""
        return Store(
            self.path, self.segments, commit=checkout.commit, dirty=checkout.dirty, hidden=self.hidden
        )

    def without(self, files: npt.NDArray[np.bool_]) -> Store:
        """Return the same store in which the chunks of some files, shape (total_files,), count as deleted."""
        hidden = files if self.hidden is None else files | self.hidden
        return Store(self.path, self.segments, commit=self.commit, dirty=self.dirty, hidden=hidden)

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the newest segment: source, commit, fingerprints, times."""
        return self.segments[-1].header

    def verify(self, *, since: Sequence[object] = (), now: Sequence[object] = ()) -> None:
        """Compare the columns with their checksums, which takes about as long as reading the files.

        A file is skipped if its entries in `since` and `now`, its states at the last verification and now,
        are equal: base first, then delta.

        Raises:
            StoreCorrupt: they differ.
        """
        files = zip([self.path, delta_path(self.path)], self.segments, strict=False)
        for number, (file, segment) in enumerate(files):
            known = [states[number] for states in (since, now) if number < len(states)]
            if len(known) < 2 or known[0] is None or known[0] != known[1]:
                store_format.verify(file, segment.header, segment.columns)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        files = [self.path, delta_path(self.path)][: len(self.segments)]
        return sum(file.stat().st_size for file in files)

    @cached_property
    def dead_files(self) -> npt.NDArray[np.bool_]:
        """Files of the base that the delta replaces or removes, shape (base files,)."""
        dead = np.zeros(self.segments[0].file_count, np.bool_)
        if len(self.segments) > 1:
            dead[self.segments[1].columns["replaced"]] = True
        return dead

    @cached_property
    def dead(self) -> npt.NDArray[np.bool_] | None:
        """Deleted and hidden chunks, shape (len(self),); None when there are none."""
        if len(self.segments) == 1 and self.hidden is None:
            return None
        gone = np.zeros(self.total_files, np.bool_) if self.hidden is None else self.hidden.copy()
        gone[: len(self.dead_files)] |= self.dead_files
        return np.asarray(gone[self.file])

    def __len__(self) -> int:
        return int(self._first[-1])

    @cached_property
    def live_count(self) -> int:
        """The number of chunks that are not deleted."""
        return len(self) if self.dead is None else int(len(self) - self.dead.sum())

    @cached_property
    def file_count(self) -> int:
        """The number of files that are not deleted."""
        return sum(s.file_count for s in self.segments) - int(self.dead_files.sum())

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return int(self.segments[0].columns["vector_codes"].shape[1])

    @cached_property
    def vectors(self) -> list[Rows]:
        """The unit rows of each segment, in chunk order, including deleted ones."""
        return [
            Rows(s.columns["vector_codes"], s.columns["vector_scale"], lists_of(self.path, s))
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
        """The share of the ten nearest that a search by lists finds; None where there are no lists."""
        about = self.segments[0].header.get("approximate")
        return None if about is None else float(about.get("recall_at_10", 0.0))

    @cached_property
    def mean_lengths(self) -> tuple[float, float]:
        """Average number of terms in the body and in the head of a chunk, deleted ones included; at least 1
        each.
        """
        if not len(self):
            return 1.0, 1.0
        return max(float(self.length_body.mean()), 1.0), max(float(self.length_head.mean()), 1.0)

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
        """File of each chunk; files are numbered through both segments."""
        if len(self.segments) == 1:
            return self.segments[0].columns["chunk_file"]
        base, delta = self.segments
        return np.concatenate([base.columns["chunk_file"], delta.columns["chunk_file"] + base.file_count])

    @cached_property
    def total_files(self) -> int:
        """The number of files in both segments, with deleted ones: the largest number in `file` plus one."""
        return sum(s.file_count for s in self.segments)

    def file_path(self, file: int) -> str:
        """Return the path of a file by its number."""
        base = self.segments[0]
        return base.path(file) if file < base.file_count else self.segments[1].path(file - base.file_count)

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
        """Which files have a line that is divided between chunks, shape (total_files,)."""
        file = self.file
        same_line = self._across("chunk_end")[:-1] == self._across("chunk_start")[1:]
        divided = np.zeros(self.total_files, np.bool_)
        divided[file[:-1][same_line & (file[:-1] == file[1:])]] = True
        return divided

    def file_bytes(self, file: int) -> bytes:
        """Return the text of a file by its number, as UTF-8; it is not cached.

        Raises:
            StoreCorrupt: it is damaged.
        """
        base = self.segments[0].file_count
        segment, row = (self.segments[0], file) if file < base else (self.segments[1], file - base)
        try:
            return zlib.decompress(segment.string("file_text", row))
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
        chunks, body, head = [], [], []
        for first, segment in zip(self._first, self.segments, strict=False):
            row, end = segment.find("term_hash", key)
            if row == end:
                continue
            a, b = segment.view("term_indptr")[row : row + 2]
            numbers = segment.columns["posting_chunk"][a:b]
            chunks.append(numbers + first if first else numbers)
            body.append(segment.columns["posting_body"][a:b])
            head.append(segment.columns["posting_head"][a:b])
        if not chunks:
            return Postings(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.uint8))
        if len(chunks) == 1:
            found = Postings(chunks[0], body[0], head[0])
        else:
            found = Postings(np.concatenate(chunks), np.concatenate(body), np.concatenate(head))
        if self.dead is None:
            return found
        live = ~self.dead[found.chunks]
        return Postings(found.chunks[live], found.body[live], found.head[live])

    def document_frequency(self, vocabulary: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the number of chunks with each term, deleted ones included; shape (len(vocabulary),)."""
        hashes = term_hashes(vocabulary)
        total = np.zeros(len(hashes), np.int64)
        for segment in self.segments:
            known, indptr = segment.columns["term_hash"], segment.columns["term_indptr"]
            if len(known):
                row = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
                total += np.where(known[row] == hashes, indptr[row + 1] - indptr[row], 0)
        return total

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file as it was indexed, and its blob id; None when it is not indexed."""
        found = self._find_file(path)
        if found is None:
            return None
        segment, file = found
        blob = segment.columns["file_blob"][file].tobytes().hex()
        return segment.text(file).decode("utf-8", "replace"), blob

    def chunks_of(self, path: str) -> range:
        """Return the chunks of a file, in the order of its lines; none when it is not indexed."""
        found = self._find_file(path)
        if found is None:
            return range(0)
        segment, file = found
        number = file if segment is self.segments[0] else file + self.segments[0].file_count
        first, end = np.searchsorted(self.file, [number, number + 1])
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
        """The graph of the repository's code, read from the files' graphs as needed."""
        return RepositoryGraph(self)

    def files(self) -> dict[str, tuple[str, Kind]]:
        """Return the language and kind of each file, by path; the paths are in their order in the store."""
        found: dict[str, tuple[str, Kind]] = {}
        for number, segment in enumerate(self.segments):
            languages, columns = segment.header["languages"], segment.columns
            rows = zip(
                segment.paths, columns["file_language"].tolist(), columns["file_kind"].tolist(), strict=True
            )
            for file, (path, language, kind) in enumerate(rows):
                if number or not self.dead_files[file]:
                    found[path] = (str(languages[language]), KINDS[kind])
        return found

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file: what it defines, imports and refers to; an empty one if it has none."""
        with self._graph_damage():
            packed = self._packed_graph(path)
            return unpacked(packed) if packed else FileGraph()

    def definitions_in(self, path: str) -> list[Defined]:
        """Return the definitions of `code_graph`, at a fraction of its cost."""
        with self._graph_damage():
            packed = self._packed_graph(path)
            return unpacked_definitions(packed) if packed else []

    def _packed_graph(self, path: str) -> bytes:
        found = self._find_file(path)
        return found[0].string("file_graph", found[1]) if found else b""

    @contextmanager
    def _graph_damage(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, zlib.error) as error:
            raise StoreCorrupt(path=str(self.path), why=f"a graph is damaged ({error})") from error

    def holding(self, name: str) -> list[str]:
        """Return the paths of the files that hold an identifier, and perhaps of others, ascending."""
        whole = terms(name)[-1:]
        chunks = self.postings(whole[0]).chunks if whole else np.arange(len(self), dtype=np.int32)
        return sorted(self.file_path(file) for file in np.unique(self.file[chunks]).tolist())

    def _find_file(self, path: str) -> tuple[Segment, int] | None:
        for number, segment in reversed(list(enumerate(self.segments))):
            if (file := segment.file_numbers.get(path)) is not None:
                is_hidden = (
                    self.hidden is not None and self.hidden[file + number * self.segments[0].file_count]
                )
                if not is_hidden and (number or not self.dead_files[file]):
                    return segment, file
        return None

    def known_files(self) -> dict[str, tuple[int, int, str]]:
        """Return modification time, size and blob id of each file that was read, by path; "" if unusable."""
        known: dict[str, tuple[int, int, str]] = {}
        dead = set(np.flatnonzero(self.dead_files).tolist())
        for number, segment in enumerate(self.segments):
            columns, blobs = segment.columns, segment.columns["file_blob"].tobytes().hex()
            times, sizes = columns["file_mtime_ns"].tolist(), columns["file_size"].tolist()
            for row, (path, mtime_ns, size) in enumerate(zip(segment.paths, times, sizes, strict=True)):
                if number or row not in dead:
                    known[path] = (mtime_ns, size, blobs[40 * row : 40 * row + 40])
        for path, (mtime_ns, size) in self.touched().items():
            if path in known:
                known[path] = (mtime_ns, size, known[path][2])
        # A file that is cut by lines is in both; its blob id comes from here.
        return {path: (*stat, "") for path, stat in self.skip_stats().items()} | known

    def content_skips(self) -> tuple[Skipped, ...]:
        """Return the files that were read and are unusable, or are cut by lines because the parser failed."""
        return self.segments[-1].content_skips()

    def skip_stats(self) -> dict[str, tuple[int, int]]:
        """Modification time and size of the files of `content_skips`."""
        stats = self.segments[-1].columns["skip_stat"].tolist()
        return {skip.path: (a, b) for skip, (a, b) in zip(self.content_skips(), stats, strict=True)}

    def touched(self) -> dict[str, tuple[int, int]]:
        """Return the files of the base with a new modification time and unchanged bytes."""
        if len(self.segments) == 1:
            return {}
        columns = self.segments[1].columns
        paths = (path.decode("utf-8", "surrogateescape") for path in unpack_strings(columns, "touched"))
        return {path: (a, b) for path, (a, b) in zip(paths, columns["touched_stat"].tolist(), strict=True)}

    def defining(self, symbol: str) -> list[int]:
        """Return the live chunks that define `symbol`, ignoring case, ascending."""
        key = term_hash(symbol.lower())
        found: list[int] = []
        for first, segment in zip(self._first, self.segments, strict=False):
            row, end = segment.find("symbol_hash", key)
            found += (segment.columns["symbol_chunk"][row:end] + first).tolist()
        return sorted(c for c in found if self.dead is None or not self.dead[c])

    def _locate(self, chunk: int) -> tuple[Segment, int]:
        if 0 <= chunk < self._first[1]:
            return self.segments[0], chunk
        for first, segment in zip(reversed(self._first[:-1]), reversed(self.segments), strict=True):
            if chunk >= first:
                return segment, chunk - first
        raise IndexError(chunk)

    def names(self, chunks: npt.NDArray[np.int64]) -> list[tuple[str, str]]:
        """(symbol, scope) of each of these chunks, "" where there is none."""
        if len(self.segments) > 1:
            return [segment.name(row) for segment, row in map(self._locate, chunks.tolist())]
        return self.segments[0].names(chunks.tolist())

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


def delta_path(path: Path) -> Path:
    """Return the path of the delta of the store at `path`."""
    return path.with_suffix(".delta.pkl")


def newest_header(path: Path) -> Mapping[str, Any]:
    """Return the header of the store at `path`: that of its delta if it has one, as `Store.header`.

    Raises:
        FileNotFoundError, StoreUnreadable, StoreTooNew, StoreCorrupt: as `format.read`.
    """
    base = store_format.read_header(path)
    try:
        delta = store_format.read_header(delta_path(path))
    except FileNotFoundError:
        return base
    return delta if delta.get("base_id") == base.get("id") else base
