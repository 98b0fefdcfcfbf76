"""Chunks as AdalFlow documents, for code written against AdalFlow's and DeepWiki's data base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from rag.adal import adalflow
from rag.database.store import Store
from rag.types import Hit

Document = adalflow.core.types.Document
RetrieverOutput = adalflow.core.types.RetrieverOutput


class Documents(Sequence[Any]):
    """The live chunks of a store as `Document`s, made when they are looked at: a store may hold a million."""

    def __init__(self, store: Store) -> None:
        self._store = store
        dead = store.dead
        self._rows = range(len(store)) if dead is None else (~dead).nonzero()[0]

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

    def _document(self, row: int) -> Any:
        document = as_document(self._store.hit(row, 0.0, {}), number=row)
        document.vector = self._store.vector(row).tolist()
        return document


class StoreDatabase:
    """What `DatabaseManager.db` is: the part of AdalFlow's `LocalDB` that its callers use."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def get_transformed_data(self, key: str = "split_and_embed") -> Documents:
        """The chunks with their vectors. There is one transformation, whatever the key."""
        return Documents(self.store)

    def __len__(self) -> int:
        return self.store.live_count


def as_document(hit: Hit, *, number: int = 0) -> Any:
    """A chunk as an AdalFlow document; tokens are not counted, which would cost more than the search."""
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


def retriever_output(question: str, hits: Sequence[Hit]) -> Any:
    """Hits as AdalFlow's retrievers give them: one output for one query."""
    return RetrieverOutput(
        doc_indices=list(range(len(hits))),
        doc_scores=[hit.score for hit in hits],
        query=question,
        documents=[as_document(hit, number=number) for number, hit in enumerate(hits)],
    )
