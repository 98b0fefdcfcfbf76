"""Older turns that bear on a question: words and meaning, of a turn by itself and of what stands around it.

Two legs propose turns and score them:

- words: BM25 over the terms of `rag.analysis`, with the irregular forms of English words counted as one word
  (go, went, gone). The store finds who holds them;
- meaning: the cosine of an embedder's vectors, for the turns that `TurnVectors` has read.

A turn is scored by itself and in its window: what its neighbours in the conversation say counts a share for
it (`AROUND`), since an answer seldom repeats the words of its question; so a neighbour that holds none of the
words can be found. A turn that ends by asking says less than the one that answers it. The numbers were
chosen on LoCoMo's conversations 1 to 5 (`python -m tests.benchmarks --only locomo` measures on the others).

What is returned has been read from the store anew: a turn that was edited is scored as it is now, one that
was deleted is not found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from rag.analysis import terms
from rag.errors import NotFound
from rag.memory.vectors import TurnVectors
from rag.memory.window import turn_tokens, window
from rag.ports import Embedder, Holder, Matches, TokenCounter, TurnStore, Vectors
from rag.records import searchable
from rag.resources import shipped
from rag.types import DialogTurn

K1 = 0.9
B = 0.4
AROUND = {1: 0.5, -1: 0.3, 2: 0.3, -2: 0.1}
"""What a turn counts for one that comes so many places after it; below 0, before it."""
ASKING = 0.8
"""What a turn is worth that ends with a question mark."""
MEANING = 0.1
"""What the nearest vector is worth beside the best match of words."""
COVERAGE = 0.4
"""How much of the score of words depends on how many of them the window holds."""
COMPANY = 0.4
"""What the three best scores of a conversation, on average, are worth to each of its turns."""
LIMIT = 300
"""So many of the newest holders of a word are looked at."""
CANDIDATES = 60
"""So many turns are read to be scored in full."""

_CONTRACTED = re.compile(r"(?:n['’]t|['’](?:s|ll|ve|re|d|m))\b")
_ORDERS = 1 << 40
"""More than a conversation has."""
_COMPARED = 20
"""So many of them are compared with the query by meaning: more would take as long as all the rest."""
_KEPT = 4 * CANDIDATES
"""So many places are told apart once they are scored."""

Numbers = npt.NDArray[np.float64]
_Place = tuple[str, int]
"""A conversation and an order in it."""
_Scores = dict[_Place, float]


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that was recalled. The best of a recall has a score of about 1.

    `covered` is the share of the query's words, each as rare as it is, that stands in the turn's window.
    """

    turn: DialogTurn
    score: float
    covered: float = 0.0


def recall_turns(
    store: TurnStore,
    query: str,
    *,
    embedder: Embedder | None = None,
    vectors: TurnVectors | None = None,
    namespace: str = "",
    conversation: str | None = None,
    before: int | None = None,
    k: int = 10,
) -> list[RecalledTurn]:
    """The k turns that bear most on a query, best first; equal ones: the newer first, then by id.

    Args:
        store: where they are.
        query: any text; without a word in it nothing is found.
        embedder: gives the meaning of the query, and of what was found by its words; None leaves it out.
        vectors: finds turns of `conversation` by meaning; None leaves that out.
        namespace: whose conversations.
        conversation: only this one, by id, with what it inherited; None is all of the namespace.
        before: only turns of orders below this one.
        k: at least 1.

    Raises:
        NotFound: there is no such conversation.
    """
    words = _Words(query)
    if not words.terms:
        return []
    matches = store.matching(words.terms, namespace=namespace, conversation=conversation, limit=LIMIT)
    places = {(conversation or one.conversation, one.order): one for one in matches.found}
    by_words, covered = _in_windows(list(places), *words.scores(matches), before) if places else ({}, {})
    asked = embedder.embed([query], role="query")[0] if embedder else None
    near: _Scores = {}
    if vectors is not None and conversation is not None and asked is not None:
        near = {(conversation, order): cosine for order, cosine in vectors.nearest(asked, CANDIDATES)}
    mixed = _mixer(by_words, _spread(near))
    wanted = [
        place
        for place in by_words.keys() | near.keys()
        if place[1] >= 0 and (before is None or place[1] < before)
    ]
    wanted.sort(key=lambda place: (-mixed(place), -place[1], place[0]))
    turns = _read(store, wanted[:CANDIDATES], places, namespace)
    if embedder is not None and asked is not None:
        near |= _cosines(embedder, asked, turns)
        mixed = _mixer(by_words, _spread(near))
    found = [
        RecalledTurn(turn, round(mixed(place) * _worth(turn), 6), round(covered.get(place, 0.0), 6))
        for place, turn in turns.items()
    ]
    found.sort(key=lambda one: (-one.score, -(one.turn.order or 0), one.turn.id))
    return found[:k]


def that_fit(found: Sequence[RecalledTurn], *, budget_tokens: int, counter: TokenCounter) -> list[DialogTurn]:
    """The best turns that fit into a budget together, whole, oldest first.

    One that does not fit is passed over for a smaller one. An answer that broke off ends in `BROKEN_OFF`.
    """
    chosen: list[DialogTurn] = []
    left = budget_tokens
    for one in found:
        for turn in window([one.turn], budget_tokens=left, counter=counter):
            left -= turn_tokens(turn, counter)
            chosen.append(turn)
    return sorted(chosen, key=lambda turn: turn.order or 0)


class _Words:
    """The words of a query; `terms` are all that are sought, where forms of one word stand for each other."""

    def __init__(self, query: str) -> None:
        forms = _forms()
        asked = terms(_CONTRACTED.sub("", query))
        self._words = list(dict.fromkeys(forms.get(term, (term,)) for term in asked))
        self.terms = list(dict.fromkeys(term for word in self._words for term in word))

    def scores(self, matches: Matches) -> tuple[Numbers, Numbers]:
        """The rarity of each word, shape (words,), and what it gives to each item found, (words, found)."""
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


@cache
def _forms() -> Mapping[str, tuple[str, ...]]:
    """The terms of all forms of a word, by each of them."""
    found = {}
    for line in shipped("data/irregular.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            word = tuple(dict.fromkeys(terms(line)))
            found.update(dict.fromkeys(word, word))
    return found


def _in_windows(
    found: list[_Place], rarity: Numbers, given: Numbers, before: int | None
) -> tuple[_Scores, _Scores]:
    """The best scores of what was found, and of what stands around it, in its window; and what that covers.

    A window that holds more of the words is worth more than one that holds few of them often (`COVERAGE`), a
    turn more where others of its conversation match too (`COMPANY`).
    """
    names = {name: n for n, name in enumerate(dict.fromkeys(name for name, _ in found))}
    keys = np.asarray([names[name] * _ORDERS + order + len(AROUND) for name, order in found], np.int64)
    shares = {0: 1.0, **AROUND}
    places = np.unique(np.concatenate([keys + distance for distance in shares]))
    total = np.zeros((len(rarity), len(places)))
    held = np.zeros_like(total)
    for distance, share in shares.items():
        at = np.searchsorted(places, keys + distance)
        total[:, at] += share * given
        held[:, at] = np.maximum(held[:, at], np.minimum(2 * share, 1) * (given > 0))
    covered = rarity @ held / rarity.sum()
    score = total.sum(axis=0) * (1 - COVERAGE + COVERAGE * covered)
    of, order = np.divmod(places, _ORDERS)
    order -= len(AROUND)
    if len(names) > 1:
        score += COMPANY * _best_three(of, score)[of]
    sought = np.flatnonzero((order >= 0) & (order < (_ORDERS if before is None else before)))
    best = sought[np.lexsort((-order[sought], -score[sought]))[:_KEPT]]
    listed = list(names)
    kept = [(listed[n], place) for n, place in zip(of[best].tolist(), order[best].tolist(), strict=True)]
    return (
        dict(zip(kept, score[best].tolist(), strict=True)),
        dict(zip(kept, covered[best].tolist(), strict=True)),
    )


def _best_three(of: npt.NDArray[np.int64], score: Numbers) -> Numbers:
    """The mean of the three best scores in each conversation."""
    ranked = np.lexsort((-score, of))
    sizes = np.bincount(of)
    place = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.bincount(of[ranked], weights=np.where(place < 3, score[ranked], 0.0)) / 3


def _spread(scores: Mapping[_Place, float]) -> _Scores:
    """Scores in their windows: what stands around a turn counts a share for it."""
    spread = dict(scores)
    for (conversation, order), score in scores.items():
        for distance, share in AROUND.items():
            place = (conversation, order + distance)
            spread[place] = spread.get(place, 0.0) + share * score
    return spread


def _mixer(by_words: _Scores, near: _Scores) -> Callable[[_Place], float]:
    """Both legs in one score, each beside its best."""
    most = max(by_words.values(), default=0.0) or 1.0
    nearest = max(near.values(), default=0.0) or 1.0

    def mixed(place: _Place) -> float:
        return by_words.get(place, 0.0) / most + MEANING * near.get(place, 0.0) / nearest

    return mixed


def _read(
    store: TurnStore, wanted: Iterable[_Place], places: Mapping[_Place, Holder], namespace: str
) -> dict[_Place, DialogTurn]:
    """The turns of these places, as they are now; where there is none, none."""
    turns = {}
    for place in wanted:
        held = places.get(place)
        if held is not None and held.kind == "message":
            continue
        conversation, order = place
        try:
            if held is not None:
                turns[place] = store.turn(held.id, namespace=namespace)
                continue
            for turn in store.turns(conversation, namespace=namespace, after=order - 1, before=order + 1):
                turns[place] = turn
        except NotFound:
            continue
    return turns


def _cosines(embedder: Embedder, asked: Vectors, turns: Mapping[_Place, DialogTurn]) -> _Scores:
    if not turns:
        return {}
    first = list(turns)[:_COMPARED]
    vectors = embedder.embed([searchable(turns[place]) for place in first], role="passage")
    return {place: max(float(cosine), 0.0) for place, cosine in zip(first, vectors @ asked, strict=True)}


def _worth(turn: DialogTurn) -> float:
    return ASKING if (turn.answer or turn.question).rstrip().endswith(("?", "？")) else 1.0
