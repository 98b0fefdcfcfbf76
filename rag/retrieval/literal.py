"""Whether a part of a question occurs word for word: a pasted error message, or a line of a log.

Words are compared as the analyzer finds them, without case and punctuation. A run of four words is looked up
by the terms of its words: the postings say which chunks may hold it, and the text of a few of them is read.
A message with a number or a path in it has runs before and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, terms, words
from rag.ports import ChunkIndex

RUN = 4
"""So many words in a row are no coincidence."""
_MEANT = 2
"""So many of them have to carry meaning: "this is how it" is everywhere."""
_MOST_WORDS = 1_000
_MOST_RUNS = 64
_MOST_CHUNKS = 8
_MOST_READ = 48
"""Bounds: words of the question, runs that are looked up, chunks read for a run, and in all."""

Run = tuple[str, ...]


def is_quoted(indexes: Sequence[ChunkIndex], text: str) -> bool:
    """Whether four words of a text in a row, two of which carry meaning, occur in an indexed chunk."""
    runs = _runs(text)
    return bool(runs) and any(_holds(index, runs) for index in indexes)


def _runs(text: str) -> list[Run]:
    said = _said(text)[:_MOST_WORDS]
    every = (tuple(said[at : at + RUN]) for at in range(len(said) - RUN + 1))
    return [run for run in dict.fromkeys(every) if sum(map(_is_meant, run)) >= _MEANT]


def _holds(index: ChunkIndex, runs: Sequence[Run]) -> bool:
    """Whether a chunk holds one of the runs; those whose words are rarest are looked up first."""
    chunks_of = {word: _chunks(index, word) for run in runs for word in run if _is_meant(word)}
    possible = []
    for run in runs:
        lists = sorted((chunks_of[word] for word in run if word in chunks_of), key=len)
        if len(lists[0]):
            possible.append((len(lists[0]), run, lists))
    possible.sort(key=lambda one: one[0])
    wanted = [f" {' '.join(run)} " for _, run, _ in possible[:_MOST_RUNS]]
    read: set[int] = set()
    for _, _, lists in possible[:_MOST_RUNS]:
        both = reduce(_intersection, lists)[:_MOST_CHUNKS]
        for chunk in both.tolist():
            if chunk in read:
                continue
            if len(read) >= _MOST_READ:
                return False
            read.add(chunk)
            held = f" {' '.join(_said(index.hit(chunk, 0.0, {}).text))} "
            if any(run in held for run in wanted):
                return True
    return False


def _said(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


def _is_meant(word: str) -> bool:
    return not is_stop_word(word) and not word.isdigit() and len(word) > 1


def _chunks(index: ChunkIndex, word: str) -> npt.NDArray[np.int32]:
    """The chunks that may hold a word."""
    whole = terms(word)[-1:]
    found: npt.NDArray[np.int32] = index.postings(whole[0]).chunks if whole else np.zeros(0, np.int32)
    return found


def _intersection(one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """What two ascending lists share, ascending; the first is the shorter one."""
    if not len(other):
        return other
    place = np.minimum(np.searchsorted(other, one), len(other) - 1)
    shared: npt.NDArray[np.int32] = one[other[place] == one]
    return shared
