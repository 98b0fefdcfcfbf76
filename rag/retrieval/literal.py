"""Check whether a part of a question occurs word for word: a pasted error message, or a line of a log.

Words are compared as the analyzer finds them, without case and punctuation. A run of four words is looked up
by the terms of its words: the postings give the chunks that may hold it, and the text of a few of them is
read. A message with a number or a path in it has runs before and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word, terms, words
from rag.ports import ChunkIndex

RUN = 4
"""This many words in a row are no coincidence."""
_MIN_MEANINGFUL = 2
"""How many of them must carry meaning: "this is how it" is everywhere."""
_MAX_WORDS = 1_000
_MAX_RUNS = 64
_MAX_CHUNKS_PER_RUN = 8
_MAX_READ = 48
"""Limits: words of the question, runs that are looked up, chunks read for a run, and in all."""

Run = tuple[str, ...]


def is_quoted(indexes: Sequence[ChunkIndex], text: str) -> bool:
    """Return whether four words of a text in a row, two of which carry meaning, occur in an indexed chunk."""
    runs = _runs(text)
    return bool(runs) and any(_holds_run(index, runs) for index in indexes)


def _runs(text: str) -> list[Run]:
    words = _words(text)[:_MAX_WORDS]
    every = (tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))
    return [run for run in dict.fromkeys(every) if sum(map(_is_meaningful, run)) >= _MIN_MEANINGFUL]


def _holds_run(index: ChunkIndex, runs: Sequence[Run]) -> bool:
    """Return whether a chunk holds one of the runs; those with the rarest words are looked up first."""
    chunks_of = {word: _chunks(index, word) for run in runs for word in run if _is_meaningful(word)}
    possible = []
    for run in runs:
        lists = sorted((chunks_of[word] for word in run if word in chunks_of), key=len)
        if len(lists[0]):
            possible.append((len(lists[0]), run, lists))
    possible.sort(key=lambda one: one[0])
    wanted = [f" {' '.join(run)} " for _, run, _ in possible[:_MAX_RUNS]]
    read: set[int] = set()
    for _, _, lists in possible[:_MAX_RUNS]:
        both = reduce(_intersection, lists)[:_MAX_CHUNKS_PER_RUN]
        for chunk in both.tolist():
            if chunk in read:
                continue
            if len(read) >= _MAX_READ:
                return False
            read.add(chunk)
            held = f" {' '.join(_words(index.hit(chunk, 0.0, {}).text))} "
            if any(run in held for run in wanted):
                return True
    return False


def _words(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


def _is_meaningful(word: str) -> bool:
    return not is_stop_word(word) and not word.isdigit() and len(word) > 1


def _chunks(index: ChunkIndex, word: str) -> npt.NDArray[np.int32]:
    """Return the chunks that may hold a word."""
    whole = terms(word)[-1:]
    found: npt.NDArray[np.int32] = index.postings(whole[0]).chunks if whole else np.zeros(0, np.int32)
    return found


def _intersection(one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the intersection of two ascending lists, ascending; the first list is the shorter one."""
    if not len(other):
        return other
    place = np.minimum(np.searchsorted(other, one), len(other) - 1)
    shared: npt.NDArray[np.int32] = one[other[place] == one]
    return shared
