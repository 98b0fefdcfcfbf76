"""Scores how well a turn and its neighbours match the words of a query.

Each word counts once per window, where it scores highest: in the turn itself, or with a lower weight in a
neighbour. Answers seldom repeat the words of the question, so a question counts more for the turn after it.
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
from rag.top_k import distinct

K1 = 0.9
B = 0.4
NEIGHBOUR_WEIGHTS = {1: 0.3, -1: 0.3, 2: 0.3, -2: 0.1}
"""The weight of a turn for the turn at this distance after it; negative distances are before it."""
ASKED = 0.7
"""The weight of a turn that ends with a question, for the next turn."""
COVERAGE = 0.4
"""The share of the score that depends on the number of words in the window."""
CONVERSATION_WEIGHT = 0.4
"""The weight of the mean of a conversation's three best scores, which is added to each of its turns."""

Numbers = npt.NDArray[np.float64]
Keys = npt.NDArray[np.int64]
Place = tuple[str, int]
"""A conversation and an order in it."""

_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:s|ll|ve|re|d|m))\b")
_ORDERS = 1 << 40
"""More orders than a conversation has."""
_MARGIN = 8
"""Keeps the keys of negative orders within their conversation."""


class Words:
    """The words of a query. `terms` are all terms to search for; forms of one word count as that word."""

    def __init__(self, query: str) -> None:
        forms = _forms()
        asked = terms(_CONTRACTED.sub("", query))
        self._words = list(dict.fromkeys(forms.get(term, (term,)) for term in asked))
        self.terms = list(dict.fromkeys(term for word in self._words for term in word))

    def scores(self, matches: Matches) -> tuple[Numbers, Numbers]:
        """Return the rarity of each word, shape (words,), and its BM25 in each item, shape (words, found)."""
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
    """The items found, and their scores within windows.

    Args:
        found: the places of the items, without duplicates.
        rarity: of each word, shape (words,).
        given: the score of each word in each item, shape (words, found).
    """

    def __init__(self, found: Sequence[Place], rarity: Numbers, given: Numbers) -> None:
        self._names = {name: n for n, name in enumerate(dict.fromkeys(name for name, _ in found))}
        keys = self._keys(found)
        order = np.argsort(keys)
        self._found, self._given, self._rarity = keys[order], given[:, order], rarity
        self._base: Numbers = np.zeros(len(self._names))

    def best(self, k: int, before: int | None) -> list[Place]:
        """Return the k places with the best scores, best first; at equal scores the later order first.

        Args:
            k: at least 1.
            before: only orders below this one.
        """
        if not len(self._found):
            return []
        distances = (0, *NEIGHBOUR_WEIGHTS)
        places = distinct(np.concatenate([self._found + distance for distance in distances]))
        score, _ = self._scores(places, np.zeros(len(places), bool))
        of, order = np.divmod(places, _ORDERS)
        order -= _MARGIN
        if len(self._names) > 1:
            self._base = CONVERSATION_WEIGHT * _best_three(of, score)
        sought = np.flatnonzero((order >= 0) & (order < (_ORDERS if before is None else before)))
        score += self._base[of]
        chosen = sought[np.lexsort((of[sought], -order[sought], -score[sought]))[:k]]
        names = list(self._names)
        return [(names[n], at) for n, at in zip(of[chosen].tolist(), order[chosen].tolist(), strict=True)]

    def scores(self, places: Sequence[Place], asking: Collection[Place]) -> dict[Place, tuple[float, float]]:
        """Return score and covered share of the words, weighted by rarity, of the windows at these places.

        Args:
            places: where to score; 0 in conversations without matches.
            asking: the places of turns that end with a question.
        """
        known = [place for place in places if place[0] in self._names]
        if not known:
            return {}
        asked = np.asarray([(name, order - 1) in asking for name, order in known], bool)
        keys = self._keys(known)
        score, covered = self._scores(keys, asked)
        score += self._base[keys // _ORDERS]
        return dict(zip(known, zip(score.tolist(), covered.tolist(), strict=True), strict=True))

    def _keys(self, places: Sequence[Place]) -> Keys:
        return np.asarray([self._names[name] * _ORDERS + order + _MARGIN for name, order in places], np.int64)

    def _scores(self, keys: Keys, asked: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        total = self._at(keys)
        held = (total > 0).astype(np.float64)
        for distance, share in NEIGHBOUR_WEIGHTS.items():
            shares = np.where(asked, ASKED, share) if distance == 1 else np.full(len(keys), share)
            near = self._at(keys - distance)
            total = np.maximum(total, shares * near)
            held = np.maximum(held, np.minimum(2 * shares, 1) * (near > 0))
        covered = self._rarity @ held / self._rarity.sum()
        return total.sum(axis=0) * (1 - COVERAGE + COVERAGE * covered), covered

    def _at(self, keys: Keys) -> Numbers:
        """Return the score of each word at these places, shape (words, places); 0 without a match."""
        place = np.minimum(np.searchsorted(self._found, keys), len(self._found) - 1)
        given: Numbers = self._given[:, place] * (self._found[place] == keys)
        return given


def _best_three(of: Keys, score: Numbers) -> Numbers:
    """Return the mean of the three best scores in each conversation."""
    ranked = np.lexsort((-score, of))
    sizes = np.bincount(of)
    place = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.bincount(of[ranked], weights=np.where(place < 3, score[ranked], 0.0)) / 3


@cache
def _forms() -> Mapping[str, tuple[str, ...]]:
    """Return the terms of all forms of a word, by each of them."""
    found = {}
    for line in shipped("data/irregular.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            word = tuple(dict.fromkeys(terms(line)))
            found.update(dict.fromkeys(word, word))
    return found
