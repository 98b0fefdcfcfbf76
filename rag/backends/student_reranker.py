"""Our second stage of the search: late interaction over the static embedding table. Needs numpy only.

Each term of the question is compared with every term of a hit, line by line; its match is the best cosine
found (1 for the term itself). A score is the weighted sum of these signals, each from 0 to 1, in which a term
counts by its weight in the search:

    soft     the match of each term anywhere in the hit, names and path included
    covered  the share of the terms with a match above one half
    code     the match of each term in the lines of code, without comments
    least    the worst match among the terms of more than average weight
    pairs    the match of two terms in a row in the same line

The dense vectors of the first stage cannot see this: there, one frequent word makes up for all that are
missing. `docs/benchmarks.md` has the figures, and what else was tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rag.analysis import terms as terms_of
from rag.backends.static_embedder import StaticEmbedder
from rag.ports import Vectors
from rag.types import Hit

SIGNALS = {"soft": 0.1, "covered": 0.1, "code": 0.1, "least": 0.1, "pairs": 0.1}
"""The weight of each signal, where 1 is the best score of the first stage."""

_MAX_TERMS = 40
_MAX_LINES = 60
_MAX_LINE_CHARS = 400
_MATCH = 0.5
_NOT_EQUAL = 0.97
"""The limit for two different terms, which may share a row of the table."""
_COMMENT = re.compile(r'\s*(?:#|//|/\*|\*|--|;|%|"""|\'\'\'|<!--|\(\*)')
_HEAD, _PROSE, _CODE = 0, 1, 2


class StudentReranker:
    """Scores of soft matches between the terms of the question and those of a hit; about 8 CPU-ms for 50."""

    def __init__(self, table: StaticEmbedder | None = None) -> None:
        """Open the table, by default the one of this package.

        Raises:
            ConfigError: the file is missing, truncated, or not such a table.
        """
        self._table = table or StaticEmbedder()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the table, and the weights."""
        weights = ",".join(f"{weight:g}" for weight in SIGNALS.values())
        return f"student:{self._table.fingerprint.partition(':')[2]}:{weights}"

    def scores(
        self, question: str, hits: Sequence[Hit], *, terms: Mapping[str, float]
    ) -> npt.NDArray[np.float32]:
        """Return the scores, from the terms alone."""
        wanted = dict.fromkeys(sorted(terms, key=lambda term: -terms[term])[:_MAX_TERMS])
        wanted = {term: terms[term] for term in terms if term in wanted and terms[term] > 0}
        if not wanted or not hits:
            return np.zeros(len(hits), np.float32)
        weight = np.asarray(list(wanted.values()), np.float32)
        weight /= weight.sum()
        lines = [line for hit in hits for line in _lines(hit)]
        part = np.asarray([part for part, _ in lines])
        first = np.flatnonzero(part == _HEAD)
        match = self._matches(list(wanted), [words for _, words in lines])
        best = np.maximum.reduceat(match, first, axis=1)
        code = np.maximum.reduceat(match * (part == _CODE), first, axis=1)
        signals = {
            "soft": weight @ best,
            "covered": weight @ (best > _MATCH),
            "code": weight @ code,
            "least": best[weight >= weight.mean() - 1e-6].min(axis=0),
            "pairs": _pairs(match * (part != _HEAD), first, weight),
        }
        score = np.sum([share * signals[name] for name, share in SIGNALS.items()], axis=0)
        return np.asarray(score, np.float32)

    def _matches(self, wanted: list[str], lines: Sequence[Sequence[str]]) -> Vectors:
        """Return the best match of each wanted term in each line, shape (len(wanted), len(lines))."""
        number: dict[str, int] = {}
        places = [number.setdefault(term, len(number)) for line in lines for term in line]
        lengths = np.asarray([len(line) for line in lines])
        cosines = self._table.term_vectors(wanted) @ self._table.term_vectors(list(number)).T
        cosines = np.clip(cosines, 0, _NOT_EQUAL)
        for row, term in enumerate(wanted):
            if term in number:
                cosines[row, number[term]] = 1
        match = np.zeros((len(wanted), len(lines)), np.float32)
        filled = np.flatnonzero(lengths)
        if len(filled):
            begins = (np.cumsum(lengths) - lengths)[filled]
            match[:, filled] = np.maximum.reduceat(cosines.take(places, axis=1), begins, axis=1)
        return match


def _pairs(match: Vectors, first: npt.NDArray[np.int64], weight: npt.NDArray[np.float32]) -> Vectors:
    """Return how well each two terms in a row match in one line, the best line of each hit."""
    if len(weight) < 2:
        return np.zeros(len(first), np.float32)
    both = np.maximum.reduceat(np.minimum(match[:-1], match[1:]), first, axis=1)
    of_pair = np.minimum(weight[:-1], weight[1:])
    found: Vectors = of_pair @ both / of_pair.sum()
    return found


def _lines(hit: Hit) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the part and the terms of the hit's names and path, then of each of its first lines."""
    yield _HEAD, _terms(f"{hit.symbol} {hit.scope} {hit.path}")
    quoted = False
    for line in hit.text.split("\n", _MAX_LINES)[:_MAX_LINES]:
        prose = quoted or _COMMENT.match(line[:_MAX_LINE_CHARS]) is not None
        if (line.count('"""') + line.count("'''")) % 2:
            quoted = not quoted
        if words := _terms(line[:_MAX_LINE_CHARS]):
            yield (_PROSE if prose else _CODE), words


@lru_cache(maxsize=16_384)
def _terms(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms_of(text)))
