"""Turn files into a digest: everything a store keeps of them, as flat arrays.

This is the slow part of indexing. It needs one file at a time, so it is done in batches, also by several
processes at once (`rag.database.workers`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags, count_terms
from rag.code.packed_graph import PackedGraph, packed
from rag.code.parsing import parsed_texts
from rag.corpus.chunk import parsed_text, placed_chunks
from rag.corpus.read import read
from rag.database.column_codes import KINDS, UNITS, name_hashes
from rag.types import ENCODING_GUESSED, OWN_LINES, PARSER_GAVE_UP, FileEntry, Skipped, SourceFile, Span

_COMPRESSION = 6


@dataclass(slots=True)
class Digest:
    """A batch of files. Rows of `chunks` are chunks, in file order; `texts` are compressed UTF-8.

    `graphs` are what the files define and refer to (`rag.code.packed_graph`), `defined` and `referred` the
    hashes of their names, of each file.

    `skipped` are unusable files, and those that are indexed with a reason to report (`rag.types.INDEXED`).
    `chunks` has the columns file, first line, last line, first byte, end byte, unit, kind (int32, shape
    (n, 7)); bytes count in the file's text as UTF-8. `names` are (symbol, scope) of each chunk.
    """

    files: list[SourceFile] = field(default_factory=list)
    stats: list[tuple[int, int]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    graphs: list[PackedGraph] = field(default_factory=list)
    defined: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    referred: list[npt.NDArray[np.uint64]] = field(default_factory=list)
    chunks: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 7), np.int32))
    names: list[tuple[str, str]] = field(default_factory=list)
    bags: TermBags = field(default_factory=lambda: count_terms([], []))
    skipped: list[Skipped] = field(default_factory=list)


GivenUp = Mapping[tuple[str, str], str]
"""Why the parser failed before on the text of a blob id in a language."""


def digest(
    root: Path, entries: Iterable[FileEntry], *, max_chars: int, given_up: GivenUp | None = None
) -> Digest:
    """Read and chunk files and count their terms. An unusable file is in `skipped`."""
    usable, skipped, stats = [], [], []
    for entry in entries:
        file = read(root, entry)
        if isinstance(file, Skipped):
            skipped.append(file)
        else:
            usable.append(file)
            stats.append((entry.mtime_ns, entry.size_bytes))
    result = digest_texts(usable, stats, max_chars=max_chars, given_up=given_up)
    result.skipped += skipped
    return result


def digest_texts(
    files: Sequence[SourceFile],
    stats: Sequence[tuple[int, int]],
    *,
    max_chars: int,
    given_up: GivenUp | None = None,
) -> Digest:
    """Chunk files that were read already and count their terms; `stats` are their (mtime_ns, size)."""
    before = given_up or {}
    texts = [replace(parsed_text(file), gave_up=before.get((file.blob, file.language), "")) for file in files]
    found = parsed_texts(texts, max_chars=max_chars)
    result = Digest(stats=list(stats))
    rows: list[tuple[int, ...]] = []
    heads: list[str] = []
    bodies: list[str] = []
    for number, (file, parsed) in enumerate(zip(files, found, strict=True)):
        outline = parsed.outline
        if outline.gave_up:
            result.skipped.append(Skipped(file.path, PARSER_GAVE_UP, outline.gave_up))
        if file.guessed:
            result.skipped.append(Skipped(file.path, ENCODING_GUESSED, file.guessed))
        if file.notebook and file.notebook.is_compact:
            result.skipped.append(Skipped(file.path, OWN_LINES))
        position = at = 0
        for offset, piece in placed_chunks(file, max_chars=max_chars, definitions=outline.definitions):
            position += _size(file.text[at:offset])
            at = offset + len(piece.text)
            size = _size(piece.text)
            place = (number, piece.start, piece.end, position, position + size)
            rows.append((*place, UNITS.index(piece.unit), KINDS.index(piece.kind)))
            position += size
            result.names.append((piece.symbol, piece.scope))
            heads.append(head_text(piece.span))
            bodies.append(piece.text)
        result.texts.append(zlib.compress(file.text.encode("utf-8", "surrogatepass"), _COMPRESSION))
        result.graphs.append(packed(parsed.graph))
        result.defined.append(name_hashes(parsed.graph.defined_names))
        result.referred.append(name_hashes(parsed.graph.referred_names))
        result.files.append(SourceFile(file.path, "", file.blob, file.language, file.kind))
    result.chunks = np.asarray(rows, np.int32).reshape(-1, 7)
    result.bags = count_terms(heads, bodies)
    return result


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def head_text(piece: Span) -> str:
    """Return the names of a chunk that are indexed but not shown: its path and its definition."""
    stem, _, _ = piece.path.rpartition(".")
    return f"{stem or piece.path} {piece.scope} {piece.symbol}"
