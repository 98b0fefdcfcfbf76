"""How much of a query's words stands in a turn and around it.

Each word counts once in a window, where it says most: in the turn itself, or a share of it in a neighbour. An
answer seldom repeats the words of its question, so what a turn asks counts more for the turn after it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.ports import Matches
from rag.resources import shipped

K1 = 0.9
B = 0.4
AROUND = {1: 0.3, -1: 0.3, 2: 0.3, -2: 0.1}
"""What a turn counts for one that comes so many places after it; below 0, before it."""
ASKED = 0.7
"""What a turn that ends by asking counts for the next."""
COVERAGE = 0.4
"""How much of the score depends on how many of the words the window holds."""
COMPANY = 0.4
"""What the three best scores of a conversation, on average, are worth to each of its turns."""

Numbers = npt.NDArray[np.float64]
Keys = npt.NDArray[np.int64]
Place = tuple[str, int]
"""A conversation and an order in it."""

_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:s|ll|ve|re|d|m))\b")
_ORDERS = 1 << 40
"""More than a conversation has."""
_MARGIN = 8
"""Keys of orders below 0 stay in their conversation."""


class Words:
    """The words of a query; `terms` are all that are sought, where forms of one word stand for each other."""

    def __init__(self, query: str) -> None:
        forms = _forms()
        asked = terms(_CONTRACTED.sub("", query))
        self._words = list(dict.fromkeys(forms.get(term, (term,)) for term in asked))
        self.terms = list(dict.fromkeys(term for word in self._words for term in word))

    def scores(self, matches: Matches) -> tuple[Numbers, Numbers]:
        """The rarity of each word, shape (words,), and its BM25 in each item found, (words, found)."""
        mean = (matches.length / matches.items if matches.items else 0) or 1.0
        counts = np.asarray([one.counts for one in matches.found], np.float64).reshape(-1, len(self.terms)).T
        damping = K1 * (1 - B + B * np.asarray([one.length for one in matches.found], np.float64) / mean)
        number = {term: n for n, term in enumerate(self.terms)}
        rarity = np.zeros(len(self._words))
        given = np.zeros((len(self._words), len(matches.found)))
        for n, word in enumerate(self._words):
            forms = [number[term] for term in word]
            holding = min(sum(matches.holders[form] for form in forms), matches.items)
            rarity[n] = math.log(1 + (matches.items - holding + 0.5) / (holding + 0.5))
            count = counts[forms].sum(axis=0)
            given[n] = rarity[n] * count * (K1 + 1) / (count + damping)
        return rarity, given


class Windows:
    """What was found, and how it scores in its windows.

    Args:
        found: the places of what was found, each once.
        rarity: of each word, shape (words,).
        given: what each word gives there, shape (words, found).
    """

    def __init__(self, found: Sequence[Place], rarity: Numbers, given: Numbers) -> None:
        self._names = {name: n for n, name in enumerate(dict.fromkeys(name for name, _ in found))}
        keys = self._keys(found)
        order = np.argsort(keys)
        self._found, self._given, self._rarity = keys[order], given[:, order], rarity
        self._company: Numbers = np.zeros(len(self._names))

    def best(self, k: int, before: int | None) -> list[Place]:
        """The k places with the best scores, best first; equal ones: the later order first.

        Args:
            k: at least 1.
            before: only orders below this one.
        """
        if not len(self._found):
            return []
        places = np.unique(np.concatenate([self._found + distance for distance in (0, *AROUND)]))
        score, _ = self._scores(places, np.zeros(len(places), bool))
        of, order = np.divmod(places, _ORDERS)
        order -= _MARGIN
        if len(self._names) > 1:
            self._company = COMPANY * _best_three(of, score)
        sought = np.flatnonzero((order >= 0) & (order < (_ORDERS if before is None else before)))
        score += self._company[of]
        chosen = sought[np.lexsort((of[sought], -order[sought], -score[sought]))[:k]]
        names = list(self._names)
        return [(names[n], at) for n, at in zip(of[chosen].tolist(), order[chosen].tolist(), strict=True)]

    def scores(self, places: Sequence[Place], asking: Collection[Place]) -> dict[Place, tuple[float, float]]:
        """Score and share of the words, each as rare as it is, of the windows at these places.

        Args:
            places: of conversations in which something was found; others score 0.
            asking: where a turn ends by asking.
        """
        known = [place for place in places if place[0] in self._names]
        if not known:
            return {}
        asked = np.asarray([(name, order - 1) in asking for name, order in known], bool)
        keys = self._keys(known)
        score, covered = self._scores(keys, asked)
        score += self._company[keys // _ORDERS]
        return dict(zip(known, zip(score.tolist(), covered.tolist(), strict=True), strict=True))

    def _keys(self, places: Sequence[Place]) -> Keys:
        return np.asarray([self._names[name] * _ORDERS + order + _MARGIN for name, order in places], np.int64)

    def _scores(self, keys: Keys, asked: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        total = self._at(keys)
        held = (total > 0).astype(np.float64)
        for distance, share in AROUND.items():
            shares = np.where(asked, ASKED, share) if distance == 1 else np.full(len(keys), share)
            near = self._at(keys - distance)
            total = np.maximum(total, shares * near)
            held = np.maximum(held, np.minimum(2 * shares, 1) * (near > 0))
        covered = self._rarity @ held / self._rarity.sum()
        return total.sum(axis=0) * (1 - COVERAGE + COVERAGE * covered), covered

    def _at(self, keys: Keys) -> Numbers:
        """What each word gives at these places, shape (words, places); 0 where nothing was found."""
        place = np.minimum(np.searchsorted(self._found, keys), len(self._found) - 1)
        given: Numbers = self._given[:, place] * (self._found[place] == keys)
        return given


def _best_three(of: Keys, score: Numbers) -> Numbers:
    """The mean of the three best scores in each conversation."""
    ranked = np.lexsort((-score, of))
    sizes = np.bincount(of)
    place = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.bincount(of[ranked], weights=np.where(place < 3, score[ranked], 0.0)) / 3


@cache
def _forms() -> Mapping[str, tuple[str, ...]]:
    """The terms of all forms of a word, by each of them."""
    found = {}
    for line in shipped("data/irregular.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            word = tuple(dict.fromkeys(terms(line)))
            found.update(dict.fromkeys(word, word))
    return found
