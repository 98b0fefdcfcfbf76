"""Chunks as AdalFlow documents, for code written for the databases of AdalFlow and DeepWiki."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from rag.adal import adalflow
from rag.database.store import Store
from rag.lines import whole_lines_of
from rag.types import Hit, Span

Document = adalflow.core.types.Document
RetrieverOutput = adalflow.core.types.RetrieverOutput


class Documents(Sequence[Any]):
    """The live chunks of a store as `Document`s, created on access, as a store may have a million."""

    def __init__(self, store: Store) -> None:
        self._store = store
        dead = store.dead
        self._rows = np.arange(len(store)) if dead is None else np.flatnonzero(~dead)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._document(int(row)) for row in self._rows[index]]
        return self._document(int(self._rows[index]))

    def __iter__(self) -> Iterator[Any]:
        return (self._document(int(row)) for row in self._rows)

    def positions(self, hits: Sequence[Hit]) -> list[int]:
        """Return the positions of the chunks of these hits. Raises ValueError for hits of other stores."""
        files: dict[str, list[int]] = {}
        for file in range(self._store.total_files):
            files.setdefault(self._store.file_path(file), []).append(file)
        return [self._position(hit, files.get(hit.path, [])) for hit in hits]

    def _position(self, hit: Hit, files: list[int]) -> int:
        rows = np.flatnonzero(np.isin(self._store.file, files))
        for row in map(int, rows[np.isin(rows, self._rows)]):
            if self._store.lines(row) == (hit.start, hit.end + len(whole_lines_of(hit.blank_end))):
                return int(np.searchsorted(self._rows, row))
        raise ValueError(f"{hit.place} is not a chunk of this store")

    def _document(self, row: int) -> Any:
        document = as_document(self._store.hit(row, 0.0, {}), number=row)
        document.vector = self._store.vector(row).tolist()
        return document


class StoreDatabase:
    """The value of `DatabaseManager.db`: the subset of AdalFlow's `LocalDB` that its callers use."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get_transformed_data(self, key: str = "split_and_embed") -> Documents:
        """Return the chunks with their vectors. There is only one transformation, so `key` is ignored."""
        return Documents(self.store)

    def __len__(self) -> int:
        return self.store.live_count


def as_document(hit: Hit, *, number: int = 0) -> Any:
    """Return a chunk as an AdalFlow document; counting its tokens would take longer than the search."""
    return Document(
        text=hit.text,
        id=f"{hit.blob}:{hit.start}-{hit.end}:{number}",
        meta_data={
            "file_path": hit.path,
            "type": hit.language,
            "is_code": hit.kind in ("code", "test"),
            "is_implementation": hit.kind == "code",
            "title": hit.path,
            "start_line": hit.start,
            "end_line": hit.end,
            "symbol": hit.symbol,
            "repo": hit.repo,
            "commit": hit.commit,
            "token_count": None,
        },
        estimated_num_tokens=0,
    )


def hit_of(document: Any, number: int = 0) -> Hit:
    """Return a document as a hit: the inverse of `as_document`; documents of others have the lines from 1.

    A document without a path is named after its number.
    """
    meta = document.meta_data or {}
    start = int(meta.get("start_line") or 1)
    span = Span(
        str(meta.get("repo") or ""),
        str(meta.get("file_path") or f"document-{number}"),
        start,
        int(meta.get("end_line") or start + max(len(whole_lines_of(document.text)), 1) - 1),
        commit=meta.get("commit"),
        symbol=str(meta.get("symbol") or ""),
    )
    return Hit(span, document.text, 0.0, language=str(meta.get("type") or "text"))


def retriever_output(question: str, hits: Sequence[Hit], indices: Sequence[int] | None = None) -> Any:
    """Return hits in the format of AdalFlow's retrievers; `indices` are 0, 1, … by default."""
    return RetrieverOutput(
        doc_indices=list(range(len(hits)) if indices is None else indices),
        doc_scores=[hit.score for hit in hits],
        query=question,
        documents=[as_document(hit, number=number) for number, hit in enumerate(hits)],
    )
