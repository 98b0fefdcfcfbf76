"""Merge segments into one: to update only what changed, and to merge updates into the base.

This works on columns alone: nothing is read, chunked, analyzed or embedded again. The cost is linear in the
columns given, and an update gives only those of the files that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.database.columns import Columns, pack_strings, unpack_strings

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def merge(segments: Sequence[tuple[Columns, Mask]]) -> Columns:
    """Return one segment with the files of several, in order.

    Args:
        segments: columns, and for each of their files whether it is kept, shape (n files,).

    Returns:
        A segment as `columns.assemble` makes them: chunks keep their order, terms without postings are
        dropped.
    """
    kept_chunks = [keep[columns["chunk_file"]] for columns, keep in segments]
    return {
        **_merge_files(segments),
        **_merge_chunks(segments, kept_chunks),
        **_merge_names(segments, kept_chunks),
        **_merge_postings(segments, kept_chunks),
        **_merge_vectors(segments, kept_chunks),
    }


def _merge_files(segments: Sequence[tuple[Columns, Mask]]) -> Columns:
    merged: Columns = {}
    for name in ("file_path", "file_text", "file_graph", "file_references"):
        strings = [s for c, keep in segments for s, k in zip(unpack_strings(c, name), keep, strict=True) if k]
        merged |= pack_strings(name, strings)
    for name in ("file_blob", "file_mtime_ns", "file_size", "file_language", "file_kind"):
        merged[name] = np.concatenate([c[name][keep] for c, keep in segments])
    for name in ("defined", "referred"):
        merged |= _merge_file_names(segments, name)
    return merged


def _merge_file_names(segments: Sequence[tuple[Columns, Mask]], name: str) -> Columns:
    hashes, files, first = [], [], 0
    for columns, keep in segments:
        live = keep[columns[f"{name}_file"]]
        renumber = np.cumsum(keep, dtype=np.int32) - 1 + first
        hashes.append(columns[f"{name}_hash"][live])
        files.append(renumber[columns[f"{name}_file"][live]].astype(np.int32))
        first += int(keep.sum())
    all_hashes = np.concatenate(hashes)
    order = np.argsort(all_hashes, kind="stable")
    return {f"{name}_hash": all_hashes[order], f"{name}_file": np.concatenate(files)[order]}


def _merge_chunks(segments: Sequence[tuple[Columns, Mask]], kept: Sequence[Mask]) -> Columns:
    merged: Columns = {}
    files, first = [], 0
    for (columns, keep), chunks in zip(segments, kept, strict=True):
        number = np.cumsum(keep, dtype=np.int32) - 1 + first
        files.append(number[columns["chunk_file"][chunks]].astype(np.int32))
        first += int(keep.sum())
    merged["chunk_file"] = np.concatenate(files)
    for name in ("start", "end", "from", "to", "unit", "kind", "length_body", "length_head"):
        key = f"chunk_{name}"
        merged[key] = np.concatenate([c[key][k] for (c, _), k in zip(segments, kept, strict=True)])
    return merged


def _merge_vectors(segments: Sequence[tuple[Columns, Mask]], kept: Sequence[Mask]) -> Columns:
    return {
        name: np.concatenate([c[name][k] for (c, _), k in zip(segments, kept, strict=True)])
        for name in ("vector_codes", "vector_scale")
    }


def _merge_names(segments: Sequence[tuple[Columns, Mask]], kept: Sequence[Mask]) -> Columns:
    table: dict[bytes, int] = {b"": 0}
    merged: Columns = {}
    symbols, scopes, hashes, holders, first = [], [], [], [], 0
    for (columns, _), keep in zip(segments, kept, strict=True):
        number = np.asarray(
            [table.setdefault(s, len(table)) for s in unpack_strings(columns, "string")], np.int32
        )
        symbols.append(number[columns["chunk_symbol"][keep]])
        scopes.append(number[columns["chunk_scope"][keep]])
        renumber = np.cumsum(keep, dtype=np.int32) - 1 + first
        live = keep[columns["symbol_chunk"]]
        hashes.append(columns["symbol_hash"][live])
        holders.append(renumber[columns["symbol_chunk"][live]].astype(np.int32))
        first += int(keep.sum())
    all_hashes, all_holders = np.concatenate(hashes), np.concatenate(holders)
    order = np.argsort(all_hashes, kind="stable")
    merged |= pack_strings("string", list(table))
    merged |= {"chunk_symbol": np.concatenate(symbols), "chunk_scope": np.concatenate(scopes)}
    return merged | {"symbol_hash": all_hashes[order], "symbol_chunk": all_holders[order]}


def _merge_postings(segments: Sequence[tuple[Columns, Mask]], kept: Sequence[Mask]) -> Columns:
    hashes, chunks, body, head, first = [], [], [], [], 0
    for (columns, _), keep in zip(segments, kept, strict=True):
        live = keep[columns["posting_chunk"]]
        renumber = np.cumsum(keep, dtype=np.int32) - 1 + first
        hashes.append(np.repeat(columns["term_hash"], np.diff(columns["term_indptr"]))[live])
        chunks.append(renumber[columns["posting_chunk"][live]].astype(np.int32))
        body.append(columns["posting_body"][live])
        head.append(columns["posting_head"][live])
        first += int(keep.sum())
    all_hashes = np.concatenate(hashes)
    order = np.argsort(all_hashes, kind="stable")
    distinct, counts = np.unique(all_hashes, return_counts=True)
    return {
        "term_hash": distinct,
        "term_indptr": np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
        "posting_chunk": np.concatenate(chunks)[order],
        "posting_body": np.concatenate(body)[order],
        "posting_head": np.concatenate(head)[order],
    }
