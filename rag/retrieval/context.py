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
from rag.retrieval.question import ParsedQuestion, last_part

_RELATION_TERMS = frozenset(
    terms("call calls called caller invoke invoked trigger triggered reference depend")
)


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where an earlier answer came from."""

    path: str
    symbol: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and the places its answer came from, best first."""

    question: str
    places: tuple[AnswerPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class Carry:
    """How much of the past weighs in a follow-up, against 1 for the question's own terms.

    `question` weighs the terms of the last question, `symbol` those of the names last shown, `near` the
    files last shown, `user` what calls or tests the names last shown when that is asked (`user_alone`
    times more when nothing else is); each exchange further back counts `fade` times less. A question that
    could stand alone carries `alone` times as much.
    """

    question: float = 0.55
    symbol: float = 0.35
    fade: float = 0.5
    places: int = 2
    exchanges: int = 3
    near: float = 0.1
    user: float = 0.7
    user_alone: float = 3.0
    alone: float = 0.25


CARRY = Carry()


@dataclass(frozen=True, slots=True)
class Sought:
    """What is searched: the question, and what of the past goes with it.

    `terms` are all terms with their weights; `carried` those that come from the past; `focus` the names
    the conversation is at and their weights, `near` the paths; `share` how much of the past goes with the
    question, from 0 to 1; `standalone` says it in words.
    """

    question: ParsedQuestion
    terms: dict[str, float]
    carried: dict[str, float] = field(default_factory=dict)
    focus: dict[str, float] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    share: float = 0.0
    standalone: str = ""


def in_context(question: ParsedQuestion, past: Sequence[Exchange], carry: Carry) -> Sought:
    """What a question seeks, given the earlier exchanges, oldest first."""
    share = 0.0 if question.fresh or not past else 1.0 if question.dependent else carry.alone
    if not share:
        return Sought(question, dict(question.terms), standalone=question.text.strip())
    carried: dict[str, float] = {}
    weight = share
    for exchange in list(reversed(past))[: carry.exchanges]:
        for term in terms(exchange.question):
            carried[term] = max(carried.get(term, 0.0), carry.question * weight)
        for place in exchange.places[: carry.places]:
            for term in terms(place.symbol):
                carried[term] = max(carried.get(term, 0.0), carry.symbol * weight)
        weight *= carry.fade
    last = past[-1].places[: carry.places]
    focus = _focus(last)
    own = dict(question.terms)
    if "callers" in question.asks and focus:
        # "Who calls it?" is answered along the relation; the word itself would find `__call__`.
        own = {term: weight for term, weight in own.items() if term not in _RELATION_TERMS}
    return Sought(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        focus=focus,
        near=tuple(dict.fromkeys(place.path for place in last)),
        share=share,
        standalone=_in_words(question, past[-1], last) if question.dependent else question.text.strip(),
    )


def _focus(places: Sequence[AnswerPlace]) -> dict[str, float]:
    """The names that "it" may be: what was shown first weighs most, what encloses it half."""
    focus: dict[str, float] = {}
    weight = 1.0
    for place in places:
        if place.symbol:
            focus.setdefault(place.symbol, weight)
        if around := last_part(place.scope):
            focus.setdefault(around, weight / 2)
        weight /= 2
    return focus


def _in_words(question: ParsedQuestion, last: Exchange, places: Sequence[AnswerPlace]) -> str:
    named = dict.fromkeys(f"`{place.symbol}`" if place.symbol else place.path for place in places)
    about = f", about {', '.join(named)}" if named else ""
    return f'{question.text.strip()} (after "{last.question.strip()}"{about})'
