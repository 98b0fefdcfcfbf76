"""A follow-up is searched in the light of the conversation.

Joining the texts of the turns drowns the new words in the old ones, so only some of the past is carried,
with less weight, and only when the new question leans on it:

    the terms of the last questions       what the conversation is about
    the names of the places last shown    what "it" most likely is
    those places themselves               where the next answer most likely lies near

A question that stands on its own is searched on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag.analysis import terms
from rag.retrieval.question import Question


@dataclass(frozen=True, slots=True)
class Place:
    """Where an earlier answer came from."""

    path: str
    symbol: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and the places its answer came from, best first."""

    question: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Carry:
    """How much of the past weighs in a follow-up, against 1 for the question's own terms."""

    question: float = 0.45
    symbol: float = 0.5
    fade: float = 0.5
    places: int = 2
    exchanges: int = 3
    place: float = 0.3


CARRY = Carry()


@dataclass(frozen=True, slots=True)
class Sought:
    """What is searched: the question, and what of the past goes with it.

    `terms` are all terms with their weights; `carried` those that come from the past; `focus` the symbols
    the conversation is at, `near` the paths; `standalone` says it in words.
    """

    question: Question
    terms: dict[str, float]
    carried: dict[str, float] = field(default_factory=dict)
    focus: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    standalone: str = ""


def in_context(question: Question, past: Sequence[Exchange], carry: Carry) -> Sought:
    """What a question seeks, given the earlier exchanges, oldest first."""
    if not past or not question.dependent:
        return Sought(question, dict(question.terms), standalone=question.text.strip())
    carried: dict[str, float] = {}
    weight = 1.0
    for exchange in list(reversed(past))[: carry.exchanges]:
        for term in terms(exchange.question):
            carried[term] = max(carried.get(term, 0.0), carry.question * weight)
        for place in exchange.places[: carry.places]:
            for term in terms(place.symbol):
                carried[term] = max(carried.get(term, 0.0), carry.symbol * weight)
        weight *= carry.fade
    last = past[-1].places[: carry.places]
    focus = tuple(dict.fromkeys(place.symbol for place in last if place.symbol))
    near = tuple(dict.fromkeys(place.path for place in last))
    own = question.terms
    combined = {term: w for term, w in carried.items() if term not in own} | dict(own)
    return Sought(question, combined, carried, focus, near, _in_words(question, past[-1], focus, near))


def _in_words(question: Question, last: Exchange, focus: Sequence[str], near: Sequence[str]) -> str:
    about = ", ".join(f"`{name}`" for name in focus) or ", ".join(near)
    after = f'after "{last.question.strip()}"'
    return f"{question.text.strip()} ({after}{', about ' + about if about else ''})"
