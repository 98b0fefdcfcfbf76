"""Turn digests into columns, and merge the columns of several segments into one.

A segment is a set of files with everything needed to search them. Its columns, with n files, m chunks, t
terms, p postings:

    file_*      path, text, graph and references as (bytes, n + 1 offsets), blob (n, 20), mtime_ns, size,
                language, kind
    defined_*   hash, ascending, and file: which file defines a name; referred_*: which refers to it
    chunk_*     file, first and last line, first and end byte in the file's text, unit, kind,
                symbol and scope (numbers in the string table), length_body and length_head in terms
    string_*    the string table as (bytes, offsets); number 0 is ""
    term_hash   (t,) ascending; term_indptr (t + 1,) into the postings
    posting_*   chunk (ascending within a term), body and head counts, (p,) each
    symbol_hash (m',) ascending hashes of the lower-cased symbols, symbol_chunk (m',) who defines it
    vector_*    codes (m, dim) int8 and scale (m,) float32 of the unit rows; see `rag.database.quantise`
    short_*     of a large segment only: codebook and codes (packed) of `rag.ports.ShortCodes`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.database.column_codes import KINDS, term_hashes
from rag.database.quantise import quantised
from rag.identifiers import folded
from rag.ports import Vectors
from rag.types import Skipped

if TYPE_CHECKING:
    from rag.database.digest import Digest

Array = npt.NDArray[Any]
Columns = dict[str, Array]
Stats = Mapping[str, tuple[int, int]]
"""Modification time and size by path."""


def pack_strings(name: str, strings: Sequence[bytes]) -> Columns:
    """Pack strings into two columns, `name`_bytes and `name`_offsets."""
    offsets = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(s) for s in strings], out=offsets[1:])
    return {f"{name}_bytes": np.frombuffer(b"".join(strings), np.uint8), f"{name}_offsets": offsets}


def unpack_strings(columns: Columns, name: str) -> list[bytes]:
    """Return the strings that `pack_strings` packed."""
    data, offsets = columns[f"{name}_bytes"].tobytes(), columns[f"{name}_offsets"].tolist()
    return [data[a:b] for a, b in pairwise(offsets)]


def merge_bags(bags: Sequence[TermBags]) -> TermBags:
    """Return the concatenated rows of several bags, over one vocabulary."""
    vocabulary: dict[str, int] = {}
    terms = []
    for part in bags:
        mapping = np.asarray([vocabulary.setdefault(t, len(vocabulary)) for t in part.vocabulary], np.int32)
        terms.append(mapping[part.terms] if len(mapping) else part.terms)
    indptr, total = [np.zeros(1, np.int64)], 0
    for part in bags:
        indptr.append(part.indptr[1:] + total)
        total += len(part.terms)
    return TermBags(
        vocabulary=list(vocabulary),
        indptr=np.concatenate(indptr),
        terms=_joined(terms, np.int32),
        body=_joined([part.body for part in bags], np.uint16),
        head=_joined([part.head for part in bags], np.uint16),
    )


def assemble(digests: Sequence[Digest], bags: TermBags, vectors: Vectors, languages: list[str]) -> Columns:
    """Build a segment. `bags` are those of the digests, merged; new languages are appended to `languages`."""
    files = [file for part in digests for file in part.files]
    stats = np.asarray([s for part in digests for s in part.stats], np.int64).reshape(-1, 2)
    language = [_number(languages, file.language) for file in files]
    columns: Columns = {
        **pack_strings("file_path", [file.path.encode("utf-8", "surrogateescape") for file in files]),
        **pack_strings("file_text", [text for part in digests for text in part.texts]),
        **pack_strings("file_graph", [graph.graph for part in digests for graph in part.graphs]),
        **pack_strings("file_references", [graph.references for part in digests for graph in part.graphs]),
        **_file_names("defined", [names for part in digests for names in part.defined]),
        **_file_names("referred", [names for part in digests for names in part.referred]),
        "file_blob": np.frombuffer(b"".join(bytes.fromhex(f.blob) for f in files), np.uint8).reshape(-1, 20),
        "file_mtime_ns": stats[:, 0].copy(),
        "file_size": stats[:, 1].copy(),
        "file_language": np.asarray(language, np.uint16),
        "file_kind": np.asarray([KINDS.index(file.kind) for file in files], np.uint8),
    }
    columns |= _chunk_columns(digests)
    columns |= _name_columns([name for part in digests for name in part.names])
    columns |= _posting_columns(bags)
    columns["vector_codes"], columns["vector_scale"] = quantised(vectors)
    return columns


def _file_names(column: str, names: Sequence[Array]) -> Columns:
    """Return the columns from the hashes of names to the numbers of the files that have them."""
    hashes = _joined(names, np.uint64)
    order = np.argsort(hashes, kind="stable")
    files = np.repeat(np.arange(len(names), dtype=np.int32), [len(own) for own in names])
    return {f"{column}_hash": hashes[order], f"{column}_file": files[order]}


def _number(known: list[str], name: str) -> int:
    if name not in known:
        known.append(name)
    return known.index(name)


def _chunk_columns(digests: Iterable[Digest]) -> Columns:
    parts, first_file = [np.zeros((0, 7), np.int32)], 0
    for part in digests:
        rows = part.chunks.copy()
        rows[:, 0] += first_file
        first_file += len(part.files)
        parts.append(rows)
    rows = np.concatenate(parts)
    columns = {
        f"chunk_{name}": np.ascontiguousarray(rows[:, i])
        for i, name in enumerate(("file", "start", "end", "from", "to"))
    }
    columns["chunk_unit"] = rows[:, 5].astype(np.uint8)
    columns["chunk_kind"] = rows[:, 6].astype(np.uint8)
    return columns


def _name_columns(names: Sequence[tuple[str, str]]) -> Columns:
    table: dict[str, int] = {"": 0}
    symbol = np.asarray([table.setdefault(s, len(table)) for s, _ in names], np.int32)
    scope = np.asarray([table.setdefault(s, len(table)) for _, s in names], np.int32)
    named = np.flatnonzero(symbol).astype(np.int32)
    hashes = term_hashes([folded(names[i][0]) for i in named.tolist()])
    order = np.argsort(hashes, kind="stable")
    return {
        **pack_strings("string", [s.encode("utf-8", "surrogatepass") for s in table]),
        "chunk_symbol": symbol,
        "chunk_scope": scope,
        "symbol_hash": hashes[order],
        "symbol_chunk": named[order],
    }


def _posting_columns(bags: TermBags) -> Columns:
    """Transpose the bags: for each term, the chunks that hold it."""
    hashes = term_hashes(bags.vocabulary)
    order = np.argsort(hashes, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    by_rank = rank[bags.terms] if len(rank) else bags.terms
    chunks = np.repeat(np.arange(len(bags), dtype=np.int32), np.diff(bags.indptr))
    by_term = np.argsort(by_rank, kind="stable")
    counts = np.bincount(by_rank, minlength=len(hashes))
    return {
        "term_hash": hashes[order],
        "term_indptr": np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        "posting_chunk": chunks[by_term],
        "posting_body": np.minimum(bags.body[by_term], 255).astype(np.uint8),
        "posting_head": np.minimum(bags.head[by_term], 255).astype(np.uint8),
        "chunk_length_body": _row_sums(bags, bags.body),
        "chunk_length_head": _row_sums(bags, bags.head),
    }


def _row_sums(bags: TermBags, counts: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    sums: npt.NDArray[np.int32] = (total[bags.indptr[1:]] - total[bags.indptr[:-1]]).astype(np.int32)
    return sums


def _joined(parts: Sequence[Array], dtype: Any) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def skip_columns(skips: Sequence[Skipped], stats: Stats) -> Columns:
    """Return the columns of files that were read and are unusable, so that the next scan skips them.

    Files that are cut by lines are included, so that each report names them. `stats` has all of them.
    """
    rows = np.asarray([stats[skip.path] for skip in skips], np.int64).reshape(-1, 2)
    packed = [
        "\0".join((skip.path, skip.reason, skip.detail)).encode("utf-8", "surrogateescape") for skip in skips
    ]
    return pack_strings("skip", packed) | {"skip_stat": rows}


def paths_of(columns: Columns) -> list[str]:
    """Return the paths of a segment's files."""
    return [path.decode("utf-8", "surrogateescape") for path in unpack_strings(columns, "file_path")]


def apply_touched(columns: Columns, touched: Stats) -> None:
    """Set the new times of a segment's files."""
    if not touched:
        return
    times = columns["file_mtime_ns"].copy()
    for row, path in enumerate(paths_of(columns)):
        if stat := touched.get(path):
            times[row] = stat[0]
    columns["file_mtime_ns"] = times
