"""Find the folders that a question names in words: "the node exporter role" is about `roles/node_exporter`.

A folder of several words is named by these words in a row. A conversation stays in the folder that it named
last, with less weight from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, terms, words
from rag.ports import ChunkIndex
from rag.retrieval.rank import Chunks, Signal
from rag.top_k import distinct

ELSEWHERE = 0.4
"""The factor of what is in no folder that the question names."""
FADE = 0.95
"""The share of its weight that a folder keeps from one question to the next."""
_MAX_WORDS, _MAX_CHUNKS = 3, 20_000
"""How many words a name has, and how many chunks may have one of them."""
_MAX_SHARE = 0.25
"""A folder with more of the files is the project, not a part of it."""
_MAX_KNOWN, _MAX_CHARS = 500, 400
"""How many questions are remembered, and how much of each is read."""

Files = npt.NDArray[np.integer]


def named_files(index: ChunkIndex, text: str) -> Files:
    """Return the files below the folders that a question names, ascending."""
    known, text = _KNOWN.setdefault(index, {}), text[:_MAX_CHARS]
    files = known.get(text)
    if files is None:
        if len(known) >= _MAX_KNOWN:
            known.clear()
        files = distinct(np.asarray([*_below(index, text)], np.int32))
        files = known[text] = files[: len(files) if len(files) <= _MAX_SHARE * index.file_count else 0]
    return files


_KNOWN: WeakKeyDictionary[ChunkIndex, dict[str, Files]] = WeakKeyDictionary()


def folder_factor(index: ChunkIndex, chunks: Chunks, question: str, earlier: Sequence[str]) -> Signal:
    """Return a factor below 1 for what is outside of the folder that a question names, or the last one of the
    earlier questions that names one.
    """
    factors, weight = np.ones(len(chunks), np.float32), 1.0
    for text in (question, *reversed(earlier)):
        if len(files := named_files(index, text)):
            factors[~np.isin(index.file[chunks], files)] = 1 - weight * (1 - ELSEWHERE)
            break
        weight *= FADE
    return factors


def _below(index: ChunkIndex, text: str) -> Iterator[int]:
    """Yield the files below the folders that a text names."""
    for name in dict.fromkeys(_names(text)):
        held = (_in_head(index, term) for term in name)
        found = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), held).tolist()
        yield from (file for file in found if name in _folders(index.file_path(file)))


def _names(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what may be the name of a folder, as terms."""
    said = words(text.lower())
    for first in range(len(said)):
        for end in range(first + 2, min(first + _MAX_WORDS, len(said)) + 1):
            name = tuple(terms(" ".join(said[first:end])))
            if name and not any(map(is_stop_word, said[first:end])):
                yield name


def _in_head(index: ChunkIndex, term: str) -> Files:
    """Return the files of the chunks with a term in their path or names; none if they are too many."""
    found = index.postings(term)
    return distinct(
        index.file[found.chunks[found.head > 0]] if len(found.chunks) <= _MAX_CHUNKS else found.chunks[:0]
    )


@lru_cache(maxsize=65_536)
def _folders(path: str) -> frozenset[tuple[str, ...]]:
    """Return the names of the folders of a path, as terms."""
    folders = (words(folder.replace("_", " ")) for folder in path.split("/")[:-1])
    return frozenset(tuple(term for word in folder for term in terms(word)) for folder in folders)
