"""Find the folders that a question names in words: "the node exporter role" is about `roles/node_exporter`.

A folder of several words is named by these words in a row; one of a single word by that word next to one that
says what it is. A conversation stays in the folder that it named last, with less weight from turn to turn.
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
_CALLED = frozenset(
    """app apps chart command component crate directory extension folder integration library module package
    plugin provider role subcommand""".split()
)
"""What is said next to the name of a folder."""
_MAX_WORDS, _MAX_CHUNKS, _MAX_FILES = 3, 20_000, 400
"""How many words a name has; how many chunks may have one of them, and files all of them."""
_MAX_KNOWN = 500

Files = npt.NDArray[np.int32]


def named_files(index: ChunkIndex, text: str) -> Files:
    """Return the files below the folders that a question names, ascending."""
    known = _KNOWN.setdefault(index, {})
    if text not in known:
        if len(known) >= _MAX_KNOWN:
            known.clear()
        known[text] = distinct(np.asarray([*_below(index, text)], np.int32))
    return known[text]


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
    for name in _names(text):
        held = [_in_head(index, term) for term in name]
        if not all(map(len, held)):
            continue
        chunks = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), held)
        for file in distinct(index.file[chunks])[:_MAX_FILES].tolist():
            if name in _folders(index.file_path(file)):
                yield file


def _names(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what may be the name of a folder, as terms."""
    said = words(text.lower())
    for at, word in enumerate(said):
        if is_stop_word(word):
            continue
        around = (*said[max(at - 1, 0) : at], *said[at + 1 : at + 2])
        if not _CALLED.isdisjoint(around) and word not in _CALLED:
            yield tuple(terms(word))
        for end in range(at + 2, min(at + _MAX_WORDS, len(said)) + 1):
            if not is_stop_word(said[end - 1]):
                yield tuple(terms(" ".join(said[at:end])))


def _in_head(index: ChunkIndex, term: str) -> Chunks:
    """Return the chunks with a term in their path or names; none if they are too many."""
    found = index.postings(term)
    return found.chunks[found.head > 0] if len(found.chunks) <= _MAX_CHUNKS else found.chunks[:0]


@lru_cache(maxsize=65_536)
def _folders(path: str) -> frozenset[tuple[str, ...]]:
    """Return the names of the folders of a path, as terms."""
    folders = (words(folder.replace("_", " ")) for folder in path.split("/")[:-1])
    return frozenset(tuple(term for word in folder for term in terms(word)) for folder in folders)
