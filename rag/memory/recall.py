"""Older turns that bear on a question: words and meaning, of a turn by itself and of what stands around it.

Two legs propose turns and score them:

- words: BM25 over the terms of `rag.analysis`, with the irregular forms of English words counted as one word
  (go, went, gone), in the turn and its window (`context_scoring`). The store finds who holds them; a
  neighbour that holds none of the words can be found.
- meaning: the cosine of an embedder's vectors, for the turns that `TurnVectors` has read.

A turn that ends by asking says less than the one that answers it, a turn of few words less than a longer one.
The numbers were chosen on LoCoMo's conversations 1 to 5 (`python -m tools.benchmarks --only locomo`).

What is returned has been read from the store anew: a turn that was edited is scored as it is now, one that
was deleted is not found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rag.errors import NotFound
from rag.memory.context_scoring import AROUND, Place, Windows, Words
from rag.memory.recent_turns import turn_tokens, window
from rag.memory.turn_vectors import TurnVectors
from rag.ports import Embedder, Holder, TokenCounter, TurnStore, Vectors
from rag.searchable import searchable, term_counts
from rag.types import DialogTurn

ASKING = 0.8
"""What a turn is worth that ends with a question mark."""
FEW_WORDS = 5
"""A turn of so many words is worth half of what a long one is."""
MEANING = 0.1
"""What the nearest vector is worth beside the best match of words."""
LIMIT = 150
"""So many of the newest holders of a word are looked at."""
CANDIDATES = 40
"""So many turns are read to be scored in full."""
_COMPARED = 12
"""So many of them are compared with the query by meaning: more would take as long as all the rest."""


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
    turns = _read(store, wanted, held, namespace)
    if embedder is not None and asked is not None:
        near |= _cosines(embedder, asked, turns)
    recalled = _scored(turns, held, windows, near)
    recalled.sort(key=lambda one: (-one.score, -(one.turn.order or 0), one.turn.id))
    return recalled[:k]


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


def _scored(
    turns: Mapping[Place, DialogTurn],
    held: Mapping[Place, Holder],
    windows: Windows,
    near: Mapping[Place, float],
) -> list[RecalledTurn]:
    """Both legs in one score, each beside its best, for what the turns are worth."""
    asking = {place for place, turn in turns.items() if _asks(turn)}
    by_words = windows.scores(list(turns), asking)
    by_meaning = _spread(near)
    most = max((score for score, _ in by_words.values()), default=0.0) or 1.0
    nearest = max(by_meaning.values(), default=0.0) or 1.0
    recalled = []
    for place, turn in turns.items():
        score, covered = by_words.get(place, (0.0, 0.0))
        mixed = score / most + MEANING * by_meaning.get(place, 0.0) / nearest
        length = held[place].length if place in held else sum(term_counts(turn).values())
        worth = (ASKING if place in asking else 1.0) * length / (length + FEW_WORDS)
        recalled.append(RecalledTurn(turn, round(mixed * worth, 6), round(covered, 6)))
    return recalled


def _spread(near: Mapping[Place, float]) -> dict[Place, float]:
    """Cosines in their windows: what stands around a turn counts a share for it."""
    spread = dict(near)
    for (conversation, order), cosine in near.items():
        for distance, share in AROUND.items():
            place = (conversation, order + distance)
            spread[place] = spread.get(place, 0.0) + share * cosine
    return spread


def _read(
    store: TurnStore, wanted: Collection[Place], held: Mapping[Place, Holder], namespace: str
) -> dict[Place, DialogTurn]:
    """The turns of these places, as they are now; where there is none, none."""
    known = {place: held[place].id for place in wanted if place in held and held[place].kind == "turn"}
    found = store.turns_by_id(list(known.values()), namespace=namespace)
    turns = {}
    for place in wanted:
        if place in known:
            if (turn := found.get(known[place])) is not None:
                turns[place] = turn
        elif place not in held:
            conversation, order = place
            with suppress(NotFound):
                for turn in store.turns(conversation, namespace=namespace, after=order - 1, before=order + 1):
                    turns[place] = turn
    return turns


def _cosines(embedder: Embedder, asked: Vectors, turns: Mapping[Place, DialogTurn]) -> dict[Place, float]:
    if not turns:
        return {}
    first = list(turns)[:_COMPARED]
    vectors = embedder.embed([searchable(turns[place]) for place in first], role="passage")
    return {place: max(float(cosine), 0.0) for place, cosine in zip(first, vectors @ asked, strict=True)}


def _asks(turn: DialogTurn) -> bool:
    return (turn.answer or turn.question).rstrip().endswith(("?", "？"))
