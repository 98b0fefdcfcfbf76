"""Embed digested chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rag.analysis import TermBags
from rag.database.digest import Digest, head_text
from rag.database.groups import GroupsOnDisk
from rag.database.store import Store
from rag.errors import DimensionMismatch
from rag.parsing import decompressed
from rag.ports import Embedder, Vectors, takes_bags
from rag.types import Progress, Span

_BAG_BATCH = 4096
_TEXT_BATCH = 256

IdfOf = Callable[[TermBags], npt.NDArray[np.float32]]
"""Returns the inverse document frequency of each term of the bags' vocabulary."""


def embed_digests(
    embedder: Embedder,
    digests: Sequence[Digest],
    bags: TermBags,
    idf_of: IdfOf,
    dim: int | None,
    progress: Progress,
    confirm: Callable[[Sequence[str]], None],
) -> Vectors:
    """Return the vectors of all chunks of the digests, in order.

    `bags` are the chunks' terms; `idf_of` returns how rare each of their vocabulary is; `dim` is the width of
    the store they are added to. An embedder of texts gets each chunk with its names; `confirm` is called with
    all texts first.

    Raises:
        DimensionMismatch: the embedder's vectors are not as wide as the store's.
    """
    total = len(bags)
    if takes_bags(embedder):
        rarity = idf_of(bags)
        parts = []
        for first in range(0, total, _BAG_BATCH):
            parts.append(embedder.embed_bags(_rows(bags, first, first + _BAG_BATCH), rarity, role="passage"))
            progress("embed", min(first + _BAG_BATCH, total), total)
    else:
        texts = passages(digests)
        if texts:
            confirm(texts)
        parts = []
        for first in range(0, total, _TEXT_BATCH):
            parts.append(embedder.embed(texts[first : first + _TEXT_BATCH], role="passage"))
            progress("embed", min(first + _TEXT_BATCH, total), total)
    if dim is None:
        dim = int(parts[0].shape[1]) if parts else 0
    for part in parts:
        if part.shape[1] != dim:
            raise DimensionMismatch(expected=dim, got=int(part.shape[1]))
    return np.concatenate(parts) if parts else np.zeros((0, dim), np.float32)


def idf_over(store: Store | None, groups: GroupsOnDisk | None = None) -> IdfOf:
    """Return what computes the inverse document frequencies of a vocabulary.

    They are over the store and the bags together, or over the store and all groups, which contain the bags.
    """

    def of(bags: TermBags) -> npt.NDArray[np.float32]:
        inside = bags.document_frequency() if groups is None else groups.document_frequency(bags.vocabulary)
        total = len(bags) if groups is None else groups.chunks
        if store is not None:
            inside = inside + store.document_frequency(bags.vocabulary)
            total += store.live_count
        return idf(inside, total)

    return of


def idf(frequency: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.float32]:
    """Return log(1 + (N - df + 1/2) / (df + 1/2)), the positive form that Lucene uses."""
    rest = np.maximum(total - frequency, 0)
    return np.log1p((rest + 0.5) / (frequency + 0.5)).astype(np.float32)


def passages(digests: Sequence[Digest]) -> list[str]:
    """Return the input of a text embedder for each chunk: its names on a line, then its text."""
    texts = []
    for part in digests:
        files = [decompressed(text) for text in part.texts]
        for row, (symbol, scope) in zip(part.chunks.tolist(), part.names, strict=True):
            file, _, _, start, end, _, _ = row
            names = head_text(Span("", part.files[file].path, 0, 0, symbol=symbol, scope=scope))
            texts.append(f"{names}\n{files[file][start:end].decode('utf-8', 'replace')}")
    return texts


def _rows(bags: TermBags, first: int, end: int) -> TermBags:
    indptr = bags.indptr[first : end + 1]
    a, b = int(indptr[0]), int(indptr[-1])
    return TermBags(bags.vocabulary, indptr - a, bags.terms[a:b], bags.body[a:b], bags.head[a:b])
