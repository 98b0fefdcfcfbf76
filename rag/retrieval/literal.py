"""Find where a part of a question occurs word for word: a pasted error message, a line of a log, a quote.

Words are compared as the analyzer finds them, without case and punctuation. A run of four words is looked up
by the terms of its words: the postings give the chunks that may hold it, and the text of a few of them is
read. A message with a number or a path in it has runs before and after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain

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
_MAX_PHRASES = 8
_MAX_NAMES = 64
"""Limits: words of the question, runs that are looked up, chunks read for a run and in all, phrases in
quotation marks, names."""

_QUOTED = re.compile(r"[\"“«`]([^\"“”«»`\n]{3,400})[\"”»`]|(?<!\w)['‘]([^'‘’\n]{3,400})['’](?!\w)")
_OTHER_SPELLING = 0.9
SOUGHT, _SOUGHT_WORDS = 3.0, 3
"""The share of what is asked for by itself: it comes first, whatever else fits."""
_MAX_READ_FOR_PHRASE = 256
"""How many chunks with the words of a phrase in quotation marks are read."""
_NAME_SHARE = 0.8
"""What a rare name counts, compared with a phrase."""
_MAX_BEST = 5
"""How many of the best chunks by words are read."""
_ENOUGH_RUNS = 6
"""This many runs in a chunk count as the whole text."""

Run = tuple[str, ...]


def quoted(text: str) -> list[str]:
    """Return what a text has in quotation marks or backticks, each once."""
    return list(dict.fromkeys(part for parts in _QUOTED.findall(text) for part in parts if part))


def without_quotations(text: str) -> str:
    """Return a text without what it has in quotation marks or backticks."""
    return _QUOTED.sub(" ", text)


def is_quoted(indexes: Sequence[ChunkIndex], text: str) -> bool:
    """Return whether four words of a text in a row, two of which carry meaning, occur in an indexed chunk."""
    runs = _runs(text)
    return bool(runs) and any(next(_holding(index, runs, text), None) is not None for index in indexes)


def phrase_chunks(index: ChunkIndex, text: str, best: Sequence[int] = ()) -> dict[int, float]:
    """Return the chunks that hold a part of a text word for word, with the share of it that they hold.

    What is in quotation marks or backticks must occur as a whole, if it has at least two words; in another
    spelling (case, punctuation) it counts a little less. Three words in quotation marks that few chunks hold
    as they are written count `SOUGHT`: they are searched for, whatever else the question says. Of any other
    text the share is that of its runs of four words; a message with values in it is held in part.

    The chunks with the common words of a run are too many to read all. So the `best` chunks by words are read
    too, best first: of a text that a chunk holds as a whole it is the first or second.
    """
    found: dict[int, float] = {}
    phrases = [(part, tuple(_words(part))) for part in quoted(text)]
    phrases = [(part, run) for part, run in phrases if len(run) > 1 and any(map(_is_meaningful, run))]
    for phrase, run in phrases[:_MAX_PHRASES]:
        held = dict(_quoting(index, phrase, run))
        exact = sum(held.values())
        is_sought = len(run) >= _SOUGHT_WORDS and exact <= _MAX_CHUNKS_PER_RUN
        for chunk, is_exact in held.items():
            value = (SOUGHT if is_sought else 1.0) if is_exact else _OTHER_SPELLING
            found[chunk] = max(found.get(chunk, 0.0), value)
    runs = _runs(text)
    for chunk, count in _holding(index, runs, text, best[:_MAX_BEST]):
        found[chunk] = max(found.get(chunk, 0.0), min(count / min(len(runs), _ENOUGH_RUNS), 1.0))
    return found


def name_chunks(index: ChunkIndex, names: Iterable[str]) -> dict[int, float]:
    """Return the chunks that hold a name which few chunks hold, such as a key (`F9`) or a code (`E203`)."""
    whole = sorted({term for name in names for term in terms(name)[-1:]})[:_MAX_NAMES]
    few = [found for term in whole if len(found := index.postings(term).chunks) <= _MAX_CHUNKS_PER_RUN]
    return {chunk: _NAME_SHARE for found in few for chunk in found.tolist()}


def _runs(text: str) -> list[Run]:
    words = _words(text)[:_MAX_WORDS]
    every = (tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))
    return [run for run in dict.fromkeys(every) if sum(map(_is_meaningful, run)) >= _MIN_MEANINGFUL]


def _holding(
    index: ChunkIndex, runs: Sequence[Run], text: str, best: Sequence[int] = ()
) -> Iterator[tuple[int, int]]:
    """Yield chunks that hold some of the runs of a text, with how many: some of the best chunks, then those
    with the rarest words.
    """
    written = _written(text)
    chunks_of = {word: _chunks(index, written[word]) for run in runs for word in run if _is_meaningful(word)}
    possible = []
    for run in runs:
        lists = sorted((chunks_of[word] for word in run if word in chunks_of), key=len)
        if len(lists[0]):
            possible.append((len(lists[0]), run, lists))
    possible.sort(key=lambda one: one[0])
    wanted = [f" {' '.join(run)} " for _, run, _ in possible[:_MAX_RUNS]]
    read: set[int] = set()
    holding = (
        reduce(_intersection, lists)[:_MAX_CHUNKS_PER_RUN].tolist() for *_, lists in possible[:_MAX_RUNS]
    )
    for chunks in chain([best] if possible else [], holding):
        for chunk in chunks:
            if chunk in read:
                continue
            if len(read) >= _MAX_READ:
                return
            read.add(chunk)
            text = index.hit(chunk, 0.0, {}).text
            lowered = text.lower()
            # Most chunks lack a word of every run; finding that is far cheaper than splitting the text.
            if not any(all(word in lowered for word in run) for _, run, _ in possible[:_MAX_RUNS]):
                continue
            held = f" {' '.join(_words(text))} "
            if count := sum(run in held for run in wanted):
                yield chunk, count


def _quoting(index: ChunkIndex, phrase: str, run: Run) -> Iterator[tuple[int, bool]]:
    """Yield the chunks that hold all words of a phrase in a row, with whether they are written like it."""
    written = _written(phrase)
    lists = sorted((_chunks(index, written[word]) for word in run if _is_meaningful(word)), key=len)
    wanted = f" {' '.join(run)} "
    for chunk in reduce(_intersection, lists)[:_MAX_READ_FOR_PHRASE].tolist():
        text = index.hit(chunk, 0.0, {}).text
        if phrase in text:
            yield chunk, True
            continue
        lowered = text.lower()
        if all(word in lowered for word in run) and wanted in f" {' '.join(_words(text))} ":
            yield chunk, False


def _words(text: str) -> list[str]:
    return [word.lower() for word in words(text)]


def _written(text: str) -> dict[str, str]:
    """Return the words of a text as they are written, by the word in lower case: `hashCode` is one term."""
    return {word.lower(): word for word in words(text)}


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
