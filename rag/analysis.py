"""Turn text into terms: the analyzer shared by indexing, searching, embedding and turns.

Identifiers are split at case changes, underscores and digits (`getUserName` → get, user, name), and the whole
identifier is kept too; words are stemmed (Snowball, English); function words are left out; runs of Chinese,
Japanese and Korean characters become overlapping pairs. Words of all scripts are compared in composed form
(NFC) and without case.

The stemmer is PyStemmer's. The terms of every word are cached, since code repeats its words: an analyzer is
one dictionary look-up per word.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.identifiers import CJK, LOWER, MARKS, UNCASED, UPPER, composed, folded

ANALYZER_VERSION = 2
"""Part of every store's fingerprint: a change of the rules below makes old stores unusable."""
ASCII_VERSION = 1
"""The version of the rules for ASCII, in which the words of the embedding's table are."""

WORD = re.compile(rf"[{CJK}]+|(?:[^\W{CJK}]|[${MARKS}])+")
"""A word of a composed text."""
_SPACED = bytes(code if WORD.match(chr(code)) else ord(" ") for code in range(128)).ljust(256)
"""Replaces all ASCII characters outside of words by spaces: most code is ASCII, and its words are found four
times faster.
"""
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_PARTS_OF_ANY = re.compile(
    rf"[{UPPER}]+(?=[{UPPER}][{LOWER}])|[{UPPER}]?(?:[{LOWER}][{MARKS}]*)+|[{UPPER}]+"
    rf"|\d+|(?:{UNCASED}[{MARKS}]*)+"
)
_CJK = re.compile(f"[{CJK}]")

_ENCLITIC = re.compile(r"(?:(?<=[^\W\d_]{2})|(?<=\bI))['’ʼ][^\W\d_]{1,2}(?![\w'’\"`(])")
_PROCLITIC = re.compile(r"(?<![\w'’\"`.])[^\W\d_]{1,2}['’ʼ](?=[^\W\d_]{2})")
"""What an apostrophe joins to a word, in any language: user's, they've, l'utilisateur, qu'elle."""

_STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can
    could did do does doing done down during each either else etc for from further had has have having he
    her here hers him his how i if in into is it its itself just like may me might more most must my no nor
    not now of off on once only or other our out over own per please same shall she should show so some
    such tell than that the their them then there these they this those through thus to too under until up
    us use used uses using very via was we were what when where whether which while who whom whose why will
    with within without would you your""".split()
)

_MAX_WORD = 80
"""Longer runs (keys, hashes, data) are cut here: nobody searches for them by name."""


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english", 0)


def _split_word(word: str) -> tuple[str, ...]:
    """Return all terms of one word, the whole identifier last; empty for function words."""
    if not word.isascii() and _CJK.match(word):
        return (word,) if len(word) == 1 else tuple(word[i : i + 2] for i in range(len(word) - 1))
    word = word[:_MAX_WORD].strip("_$")
    lower = folded(word)
    if not lower or lower in _STOP_WORDS:
        return ()
    parts = [folded(p) for p in (_PARTS if word.isascii() else _PARTS_OF_ANY).findall(word)] or [lower]
    stem = _stemmer().stemWord
    if len(parts) == 1:
        return (stem(parts[0]),) if parts[0] == lower else (stem(parts[0]), stem(lower))
    kept = [stem(p) for p in parts if p not in _STOP_WORDS and (len(p) > 1 or p.isdigit())]
    whole = "".join(parts)
    return (*kept, whole)


_MAX_KNOWN = 200_000
"""About a hundred megabytes, in each process that indexes."""


class _Known(dict[str, tuple[str, ...]]):
    """The terms of the last words; those of a new word are computed when it is looked up."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        terms = _split_word(word)
        if len(word) <= _MAX_WORD:
            if len(self) >= _MAX_KNOWN:
                self.clear()
            self[word] = terms
        return terms


_terms_of = _Known().__getitem__


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, with repetitions. Empty for text without words."""
    return list(chain.from_iterable(map(_terms_of, words(text))))


def term_set(text: str) -> set[str]:
    """Return the terms of `text` without order or repetitions, in less time than `terms`."""
    return set(chain.from_iterable(map(_terms_of, set(words(text)))))


def words(text: str) -> list[str]:
    """Return the words of `text` as they are written, in order: identifiers whole, without punctuation."""
    if text.isascii():
        return text.encode().translate(_SPACED).decode().split()
    return WORD.findall(composed(text))


def without_clitics(text: str) -> str:
    """Return prose without the one or two letters that an apostrophe joins to a word."""
    return _PROCLITIC.sub("", _ENCLITIC.sub("", text))


def is_stop_word(word: str) -> bool:
    """Return whether the word carries no meaning for a search."""
    return word.lower() in _STOP_WORDS


@dataclass(frozen=True, slots=True)
class TermBags:
    """Counted terms of many texts: row i is `terms[indptr[i]:indptr[i + 1]]`, ascending.

    `vocabulary` holds each term once; `terms` (int32) index it. `head` counts a term in the name part of a
    text (path, symbol), `body` in the rest; both uint16, capped.
    """

    vocabulary: list[str]
    indptr: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int32]
    body: npt.NDArray[np.uint16]
    head: npt.NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def document_frequency(self) -> npt.NDArray[np.int64]:
        """Return in how many rows each term of the vocabulary occurs, shape (len(vocabulary),)."""
        return np.bincount(self.terms, minlength=len(self.vocabulary)).astype(np.int64)


def count_terms(heads: Sequence[str], bodies: Iterable[str]) -> TermBags:
    """Analyze texts given as pairs of a head (names) and a body.

    `heads` and `bodies` have the same length; an empty string is an empty text.
    """
    vocabulary = defaultdict[str, int]()
    vocabulary.default_factory = vocabulary.__len__  # a new term has the next number
    numbers: list[int] = []
    ends = [0]
    for head, body in zip(heads, bodies, strict=True):
        for text in (body, head):
            numbers += map(vocabulary.__getitem__, chain.from_iterable(map(_terms_of, words(text))))
            ends.append(len(numbers))
    # A term of a row, in the body or the head, as one number: sorted and counted all at once.
    parts = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    kinds = max(len(vocabulary), 1)
    keys = ((parts // 2) * kinds + np.asarray(numbers, np.int64)) * 2 + parts % 2
    keys, counts = np.unique(keys, return_counts=True)
    counts = np.minimum(counts, 65535)
    found, entry = np.unique(keys // 2, return_inverse=True)
    body_counts, head_counts = (np.zeros(len(found), np.uint16) for _ in range(2))
    is_head = keys % 2 == 1
    body_counts[entry[~is_head]] = counts[~is_head]
    head_counts[entry[is_head]] = counts[is_head]
    return TermBags(
        vocabulary=list(vocabulary),
        indptr=np.searchsorted(found, np.arange(len(heads) + 1) * kinds).astype(np.int64),
        terms=(found % kinds).astype(np.int32),
        body=body_counts,
        head=head_counts,
    )
