"""Finds older turns that are relevant to a question, by words and by meaning, including their neighbours.

Two signals propose and score turns:

- words: BM25 over the terms of `rag.analysis`, with the irregular forms of English words counted as one word
  (go, went, gone), in the turn and its window (`context_scoring`). The store finds the matches; a neighbour
  without any of the words can be found too.
- meaning: the cosine of an embedder's vectors, for the turns in `TurnVectors`.

A turn that ends with a question counts less than its answer, a short turn less than a long one. The weights
were tuned on LoCoMo's conversations 1 to 5.

The results are read from the store: edited turns are scored in their current version, deleted ones are not
found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice

from rag.errors import NotFound
from rag.memory.context_scoring import NEIGHBOUR_WEIGHTS, Place, Windows, Words
from rag.memory.recent_turns import turn_tokens, window
from rag.memory.turn_vectors import TurnVectors
from rag.ports import Embedder, Holder, TokenCounter, TurnStore, Vectors
from rag.searchable import searchable, term_counts
from rag.types import DialogTurn

QUESTION_WEIGHT = 0.8
"""The weight of a turn that ends with a question mark."""
SHORT_TERMS = 5
"""A turn with this number of terms has half the weight of a long one."""
MEANING = 0.1
"""The weight of the nearest vector relative to the best match of words."""
LIMIT = 150
"""The maximum number of matches per word, the newest first."""
CANDIDATES = 40
"""The maximum number of turns that are read and scored in full."""
_COMPARED = 12
"""The maximum number of them whose meaning is compared, as embedding dominates the time."""


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A turn that was found. The best of a search has a score of about 1.

    `covered` is the share of the query's words in the turn's window, weighted by rarity.
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
    at_hand: Sequence[DialogTurn] = (),
    k: int = 10,
) -> list[RecalledTurn]:
    """Return the k turns most relevant to a query, best first; at equal scores the newer first, then by id.

    Args:
        store: contains the turns.
        query: any text; without a word nothing is found.
        embedder: compares the query with turns found by words; None skips that.
        vectors: finds turns of `conversation` by meaning; None skips that.
        namespace: the namespace to search.
        conversation: search only this one (by id), with inherited turns; None searches the namespace.
        before: only turns with orders below this one.
        at_hand: turns of `conversation` that were just read from the store.
        k: at least 1.
    """
    words = Words(query)
    if not words.terms:
        return []
    matches = store.matching(words.terms, namespace=namespace, conversation=conversation, limit=LIMIT)
    held = {(conversation or one.conversation, one.order): one for one in matches.found}
    windows = Windows(list(held), *words.scores(matches))
    wanted = dict.fromkeys(windows.best(CANDIDATES, before))
    asked = embedder.embed([query], role="query")[0] if embedder else None
    near: dict[Place, float] = {}
    if vectors is not None and conversation is not None and asked is not None:
        found = vectors.nearest(asked, CANDIDATES)
        near = {(conversation, order): cosine for order, cosine in found if before is None or order < before}
        wanted |= dict.fromkeys(list(near)[:_COMPARED])
    known = {(conversation or "", turn.order or 0): turn for turn in at_hand}
    turns = _read(store, wanted, held, known, namespace)
    if embedder is not None and asked is not None:
        near |= _cosines(embedder, asked, turns, near)
    recalled = _scored(turns, held, windows, near)
    recalled.sort(key=lambda one: (-one.score, -(one.turn.order or 0), one.turn.id))
    return recalled[:k]


def that_fit(found: Sequence[RecalledTurn], *, budget_tokens: int, counter: TokenCounter) -> list[DialogTurn]:
    """Return the best turns that fit into a budget, as a whole, oldest first.

    A turn that does not fit is skipped for a smaller one. Interrupted answers end with `BROKEN_OFF`.
    """
    chosen: list[DialogTurn] = []
    left = budget_tokens
    for one in found:
        for turn in window([one.turn], budget_tokens=left, counter=counter):
            left -= turn_tokens(turn, counter)
            chosen.append(turn)
    return sorted(chosen, key=lambda turn: turn.order or 0)


def _scored(
    turns: Mapping[Place, DialogTurn],
    held: Mapping[Place, Holder],
    windows: Windows,
    near: Mapping[Place, float],
) -> list[RecalledTurn]:
    """Combine both signals, each relative to its best, with the weight of the turns."""
    asking = {place for place, turn in turns.items() if _asks(turn)}
    by_words = windows.scores(list(turns), asking)
    by_meaning = _spread(near)
    best = max((score for score, _ in by_words.values()), default=0.0) or 1.0
    nearest = max(by_meaning.values(), default=0.0) or 1.0
    recalled = []
    for place, turn in turns.items():
        score, covered = by_words.get(place, (0.0, 0.0))
        mixed = score / best + MEANING * by_meaning.get(place, 0.0) / nearest
        length = held[place].length if place in held else sum(term_counts(turn).values())
        weight = (QUESTION_WEIGHT if place in asking else 1.0) * length / (length + SHORT_TERMS)
        recalled.append(RecalledTurn(turn, round(mixed * weight, 6), round(covered, 6)))
    return recalled


def _spread(near: Mapping[Place, float]) -> dict[Place, float]:
    """Add a share of each cosine to the neighbours of its turn."""
    spread = dict(near)
    for (conversation, order), cosine in near.items():
        for distance, share in NEIGHBOUR_WEIGHTS.items():
            place = (conversation, order + distance)
            spread[place] = spread.get(place, 0.0) + share * cosine
    return spread


def _read(
    store: TurnStore,
    wanted: Collection[Place],
    held: Mapping[Place, Holder],
    known: Mapping[Place, DialogTurn],
    namespace: str,
) -> dict[Place, DialogTurn]:
    """Return the current turns at these places; places without a turn with an answer are left out."""
    turns = {place: known[place] for place in wanted if place in known}
    missing = [place for place in wanted if place not in turns]
    ids = {place: held[place].id for place in missing if place in held and held[place].kind == "turn"}
    found = store.turns_by_id(list(ids.values()), namespace=namespace)
    turns |= {place: found[id] for place, id in ids.items() if id in found}
    for conversation, first, last in _runs([place for place in missing if place not in held]):
        with suppress(NotFound):
            there = store.turns(conversation, namespace=namespace, after=first - 1, before=last + 1)
            turns |= {(conversation, turn.order or 0): turn for turn in there}
    return {place: turns[place] for place in wanted if place in turns and turns[place].has_answer}


def _runs(places: Collection[Place]) -> Iterator[tuple[str, int, int]]:
    """Yield consecutive places: the conversation, the first and the last order."""
    ordered = enumerate(sorted(places))
    for _, run in groupby(ordered, key=lambda one: (one[1][0], one[1][1] - one[0])):
        (conversation, first), *more = (place for _, place in run)
        yield conversation, first, more[-1][1] if more else first


def _cosines(
    embedder: Embedder, asked: Vectors, turns: Mapping[Place, DialogTurn], known: Mapping[Place, float]
) -> dict[Place, float]:
    """Return the cosines of the first turns that are not known, or of another version."""
    compared = islice(turns.items(), _COMPARED)
    first = [place for place, turn in compared if place not in known or turn.version > 1]
    if not first:
        return {}
    vectors = embedder.embed([searchable(turns[place]) for place in first], role="passage")
    return {place: max(float(cosine), 0.0) for place, cosine in zip(first, vectors @ asked, strict=True)}


def _asks(turn: DialogTurn) -> bool:
    return (turn.answer or turn.question).rstrip().endswith(("?", "？"))
