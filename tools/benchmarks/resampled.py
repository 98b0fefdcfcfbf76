"""Stores of any size, resampled from a real one: its files again and again, each copy a little different.

Files are drawn with repetition, whole, so that chunks of a file stay together. In each copy every tenth term
of a chunk is another one, drawn as often as terms occur, and its vector leans towards a random direction, so
that no two chunks are equal and the lists of terms grow as those of a larger repository would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.database import format as store_format
from rag.database.columns import Columns, pack_strings, unpack_strings
from rag.database.quantise import quantised, restored

_REPLACED = 0.1
"""Share of a chunk's terms that are others in its copy."""
_LEAN = 0.5
"""Length of the random part of a copied vector, beside 1 of the real one."""

Array = npt.NDArray[Any]


def resampled(base: Path, count: int, seed: int) -> tuple[dict[str, Any], Columns]:
    """The header and columns of a store of about `count` chunks, resampled from the one at `base`."""
    random = np.random.default_rng(seed)
    header, old = store_format.read(base)
    files, chunks = _drawn(old, count, random)
    copies = {name: old[name][chunks] for name in old if name.startswith("chunk_")}
    copies["chunk_file"] = np.repeat(np.arange(len(files), dtype=np.int32), _chunks_of(old)[files])
    columns: Columns = {**old, **copies, **_files(old, files), **_names(old, copies)}
    columns |= _postings(old, chunks, random)
    columns |= _vectors(old, chunks, random)
    kept = {k: v for k, v in header.items() if k not in ("magic", "format", "columns", "data_bytes")}
    return kept | {"id": f"resampled-{count}-{seed}"}, columns


def _chunks_of(old: Columns) -> Array:
    return np.bincount(old["chunk_file"], minlength=len(old["file_size"]))


def _drawn(old: Columns, count: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Files drawn until their chunks are `count` or a few more, and those chunks, in order."""
    sizes = _chunks_of(old)
    files = random.integers(0, len(sizes), 2 * count // max(int(sizes.mean()), 1) + 100)
    files = files[: int(np.searchsorted(np.cumsum(sizes[files]), count)) + 1]
    first = np.cumsum(sizes) - sizes
    counts = sizes[files]
    start = np.repeat(first[files] - (np.cumsum(counts) - counts), counts)
    return files, start + np.arange(counts.sum())


def _files(old: Columns, files: Array) -> Columns:
    paths = unpack_strings(old, "file_path")
    renamed = [b"copy%d/%s" % (number, paths[file]) for number, file in enumerate(files.tolist())]
    same = {name: unpack_strings(old, name) for name in ("file_text", "file_graph")}
    columns = {
        name: old[name][files] for name in old if name.startswith("file_") and len(old[name]) == len(paths)
    }
    for name, values in same.items():
        columns |= pack_strings(name, [values[file] for file in files.tolist()])
    return columns | pack_strings("file_path", renamed)


def _names(old: Columns, copies: Columns) -> Columns:
    """Who defines what, among the copies."""
    hash_of = np.zeros(len(old["string_offsets"]), np.uint64)
    hash_of[old["chunk_symbol"][old["symbol_chunk"]]] = old["symbol_hash"]
    named = np.flatnonzero(copies["chunk_symbol"]).astype(np.int32)
    hashes = hash_of[copies["chunk_symbol"][named]]
    order = np.argsort(hashes, kind="stable")
    return {"symbol_hash": hashes[order], "symbol_chunk": named[order]}


def _postings(old: Columns, chunks: Array, random: np.random.Generator) -> Columns:
    """The terms of the copies: transpose the postings, take the rows, replace some terms, transpose again."""
    term_of = np.repeat(np.arange(len(old["term_hash"]), dtype=np.int32), np.diff(old["term_indptr"]))
    by_chunk = np.argsort(old["posting_chunk"], kind="stable")
    sizes = np.bincount(old["posting_chunk"], minlength=len(old["chunk_file"]))
    first, counts = (np.cumsum(sizes) - sizes)[chunks], sizes[chunks]
    start = np.repeat(first - (np.cumsum(counts) - counts), counts)
    taken = by_chunk[start + np.arange(counts.sum())]
    terms, holders = term_of[taken], np.repeat(np.arange(len(chunks), dtype=np.int32), counts)
    replaced = np.flatnonzero(random.random(len(terms), np.float32) < _REPLACED)
    terms[replaced] = term_of[random.integers(0, len(term_of), len(replaced))]
    body, head = old["posting_body"][taken], old["posting_head"][taken]
    key = terms.astype(np.int64) * len(chunks) + holders
    order = np.argsort(key, kind="stable")
    order = order[np.diff(key[order], prepend=-1) != 0]  # a term that was drawn twice stands once
    counts = np.bincount(terms[order], minlength=len(old["term_hash"]))
    return {
        "term_indptr": np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        "posting_chunk": holders[order],
        "posting_body": body[order],
        "posting_head": head[order],
    }


def _vectors(old: Columns, chunks: Array, random: np.random.Generator) -> Columns:
    dim = old["vector_codes"].shape[1]
    codes = np.empty((len(chunks), dim), np.int8)
    scale = np.empty(len(chunks), np.float32)
    for first in range(0, len(chunks), 1 << 16):
        part = chunks[first : first + (1 << 16)]
        rows = restored(old["vector_codes"][part], old["vector_scale"][part])
        rows += random.standard_normal(rows.shape, np.float32) * np.float32(_LEAN / np.sqrt(dim))
        place = slice(first, first + len(part))
        codes[place], scale[place] = quantised(rows)
    return {"vector_codes": codes, "vector_scale": scale}
