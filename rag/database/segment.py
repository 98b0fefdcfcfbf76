"""One file of a store: its columns, and the look-ups that need more than an index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rag.database import format as store_format
from rag.database.columns import Columns, unpack_strings
from rag.errors import StoreCorrupt, StoreOutdated
from rag.parsing import decompressed
from rag.ports import SHORT_BLOCK, ShortCodes
from rag.types import Skipped

_KEPT_TEXT_BYTES = 8 << 20
_KEPT_NAMES = 100_000

_SEGMENT_COLUMNS = frozenset(
    """file_path_bytes file_path_offsets file_text_bytes file_text_offsets file_graph_bytes
    file_graph_offsets file_references_bytes file_references_offsets
    defined_hash defined_file referred_hash referred_file file_blob file_mtime_ns file_size
    file_language file_kind chunk_file chunk_start chunk_end chunk_from chunk_to chunk_unit chunk_kind
    chunk_symbol chunk_scope chunk_length_body chunk_length_head string_bytes string_offsets term_hash
    term_indptr posting_chunk posting_body posting_head symbol_hash symbol_chunk
    vector_codes vector_scale skip_bytes skip_offsets skip_stat""".split()
)
_LIST_OF_PARTS = frozenset({"replaced", "touched_bytes", "touched_offsets", "touched_stat"})


_SHORT_COLUMNS = ("short_codebook", "short_codes")
_CODEBOOK_ENTRIES = 16


class Segment:
    """The header and columns of one file, memory-mapped; names and texts that were read are cached."""

    def __init__(self, header: Mapping[str, Any], columns: Columns) -> None:
        self.header = header
        self.columns = columns
        self.file_count = len(columns["file_size"])
        self.chunk_count = len(columns["chunk_file"])
        self._texts: OrderedDict[int, bytes] = OrderedDict()
        self._texts_size = 0
        self._views: dict[str, memoryview] = {}
        self._words: dict[int, str] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self._paths: dict[int, str] = {}

    def view(self, column: str) -> memoryview:
        """Return a column for access to single numbers: a memoryview is ten times faster than numpy there."""
        found = self._views.get(column)
        if found is None:
            found = self._views[column] = self.columns[column].data
        return found

    def string(self, name: str, number: int) -> bytes:
        """Return string `number` of the packed column `name`."""
        offsets = self.view(f"{name}_offsets")
        return self.view(f"{name}_bytes")[offsets[number] : offsets[number + 1]].tobytes()

    def path(self, file: int) -> str:
        """Return the path of a file."""
        found = self._paths.get(file)
        if found is None:
            found = self._paths[file] = self.string("file_path", file).decode("utf-8", "surrogateescape")
        return found

    def content_skips(self) -> tuple[Skipped, ...]:
        """Return the files that were unusable or cut by lines when the segment was written."""
        packed = unpack_strings(self.columns, "skip")
        parts = (text.decode("utf-8", "surrogateescape").split("\0") for text in packed)
        return tuple(Skipped(path, reason, detail) for path, reason, detail in parts)

    def word(self, number: int) -> str:
        """Return string `number` of the string table. Names are cached up to a maximum number."""
        found = self._words.get(number)
        if found is None:
            if len(self._words) >= _KEPT_NAMES:
                self._words.clear()
            found = self._words[number] = self.string("string", number).decode("utf-8", "replace")
        return found

    def name(self, row: int) -> tuple[str, str]:
        """(symbol, scope) of a chunk of this segment, "" where there is none."""
        found = self._names.get(row)
        if found is None:
            if len(self._names) >= _KEPT_NAMES:
                self._names.clear()
            symbol, scope = self.view("chunk_symbol")[row], self.view("chunk_scope")[row]
            found = self._names[row] = self.word(symbol), self.word(scope)
        return found

    def names(self, rows: Iterable[int]) -> list[tuple[str, str]]:
        """Return `name` of several chunks."""
        known = self._names.get
        return [known(row) or self.name(row) for row in rows]

    def text(self, file: int) -> bytes:
        """Return the text of a file as UTF-8. The last ones are cached, since the same files recur."""
        text = self._texts.get(file)
        if text is None:
            text = decompressed(self.string("file_text", file))
            if self._texts.setdefault(file, text) is text:
                self._texts_size += len(text)
        with suppress(KeyError):  # another thread has just evicted it
            while self._texts_size > _KEPT_TEXT_BYTES and len(self._texts) > 1:
                _, gone = self._texts.popitem(last=False)
                self._texts_size -= len(gone)
            self._texts.move_to_end(file)
        return text

    def find(self, column: str, key: int) -> tuple[int, int]:
        """Return the rows [first, end) of a sorted column that equal `key`."""
        values = self.view(column)
        first = bisect_left(values, key)
        if first == len(values) or values[first] != key:  # most keys are in few of the segments
            return first, first
        return first, bisect_right(values, key, first)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all files, in file order."""
        data = self.columns["file_path_bytes"].tobytes()
        ends = self.columns["file_path_offsets"].tolist()
        return [data[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(ends)]

    @cached_property
    def file_numbers(self) -> dict[str, int]:
        """The number of each file by its path."""
        return {path: number for number, path in enumerate(self.paths)}


def open_segment(path: Path) -> Segment:
    """Map the file of a segment.

    Raises:
        FileNotFoundError, StoreTooNew, StoreCorrupt: as `format.read`, or it is not a segment.
        StoreOutdated: an older version of rag wrote it.
    """
    header, columns = store_format.read(path)
    if header["format"] < store_format.FORMAT:
        raise StoreOutdated(path=str(path), found=header["format"], supported=store_format.FORMAT)
    wanted = _SEGMENT_COLUMNS | (_LIST_OF_PARTS if "parts" in header else frozenset())
    missing = sorted(wanted - columns.keys())
    if missing or not {"id", "name", "location", "languages", "scanned_ns"} <= header.keys():
        raise StoreCorrupt(path=str(path), why=f"it lacks {', '.join(missing) or 'its description'}")
    if not _vectors_fit(header, columns):
        raise StoreCorrupt(path=str(path), why="its vectors do not fit its chunks")
    return Segment(header, columns)


def _vectors_fit(header: Mapping[str, Any], columns: Columns) -> bool:
    """Return whether the vector columns have the types and shapes that a search relies on."""
    codes, scale, count = columns["vector_codes"], columns["vector_scale"], len(columns["chunk_file"])
    fits = codes.dtype == np.int8 and codes.ndim == 2 and len(codes) == count
    fits = fits and scale.dtype == np.float32 and scale.shape == (count,)
    if not fits or "short_codes" not in header:
        return fits
    about = header["short_codes"]
    examined = about.get("examined") if isinstance(about, dict) else None
    if not isinstance(examined, int) or examined < 1 or not all(name in columns for name in _SHORT_COLUMNS):
        return False
    book, packed = (columns[name] for name in _SHORT_COLUMNS)
    fits = book.dtype == np.float32 and book.ndim == 3 and book.shape[1] == _CODEBOOK_ENTRIES
    fits = fits and len(book) > 0 and len(book) * book.shape[2] == codes.shape[1]
    shape = (-(-count // SHORT_BLOCK), SHORT_BLOCK, -(-len(book) // 2))
    return bool(fits and packed.dtype == np.uint8 and packed.shape == shape)


def short_codes_of(segment: Segment) -> ShortCodes | None:
    """Return the short codes of a segment, None if it has none."""
    if "short_codes" not in segment.header:
        return None
    book, packed = (segment.columns[name] for name in _SHORT_COLUMNS)
    return ShortCodes(book, packed, segment.header["short_codes"]["examined"])
