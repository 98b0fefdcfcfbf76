"""Search a follow-up question in the context of its conversation.

Joining the texts of the turns would let the old words outweigh the new ones. So only a part of the past is
carried over, with less weight, and only when the new question depends on it:

    the terms of the last questions       the topic of the conversation
    the names of the places last shown    what "it" most likely means
    those places themselves               the next answer is most likely near them

A self-contained question is searched alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag.analysis import terms
from rag.retrieval.question import ParsedQuestion, last_part, parse_question
from rag.types import Subject

_RELATION_TERMS = frozenset(
    terms("call calls called caller invoke invoked trigger triggered reference depend")
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and the places its answer came from, best first.

    `subject` is what "it" meant in that question; None if that is not known.
    """

    question: str
    places: tuple[Subject, ...] = ()
    subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class Carry:
    """The weights of the past in a follow-up; the question's own terms weigh 1.

    `question` weighs the terms of the last question, `symbol` the names last shown, `near` the files last
    shown, and `user` the callers or tests of the names last shown when the question asks for them (multiplied
    by `user_alone` when it asks for nothing else). Each earlier exchange is multiplied by `fade` again. A
    question that may be self-contained carries `alone` times as much.
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
class ContextualQuestion:
    """A question with the part of the past that is searched with it.

    `terms` are all terms with their weights; `carried` are those from the past; `focus` holds the names the
    conversation is about with their weights, `near` the paths; `share` is the weight of the past, from 0 to
    1; `standalone` is the question written with its context. `subject` is what "it" means; None in a
    first question, and in one that begins another topic.
    """

    question: ParsedQuestion
    terms: dict[str, float]
    carried: dict[str, float] = field(default_factory=dict)
    focus: dict[str, float] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    share: float = 0.0
    standalone: str = ""
    subject: Subject | None = None


def in_context(question: ParsedQuestion, past: Sequence[Exchange], carry: Carry) -> ContextualQuestion:
    """Return the question with its context from the earlier exchanges, oldest first."""
    share = 0.0 if question.fresh or not past else 1.0 if question.dependent else carry.alone
    if not share:
        return ContextualQuestion(question, dict(question.terms), standalone=question.text.strip())
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
        # "Who calls it?" is answered by the relation; as a search term the word would find `__call__`.
        own = {term: weight for term, weight in own.items() if term not in _RELATION_TERMS}
    return ContextualQuestion(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        focus=focus,
        near=tuple(dict.fromkeys(place.path for place in last)),
        share=share,
        standalone=_in_words(question, past[-1], last) if question.dependent else question.text.strip(),
        subject=subject_of(past),
    )


def subject_of(past: Sequence[Exchange]) -> Subject | None:
    """Return what "it" means after the earlier exchanges, oldest first.

    It is the best place of the first answer until a question moves on. A question about the callers, the
    tests or the settings of "it" does not.
    """
    subject: Subject | None = None
    for exchange in past:
        question = parse_question(exchange.question)
        if exchange.subject is not None:
            subject = exchange.subject
        if exchange.places and (subject is None or _moves_on(question)):
            subject = exchange.places[0]
    return subject


def _moves_on(question: ParsedQuestion) -> bool:
    return question.fresh or not (question.dependent or question.asks)


def _focus(places: Sequence[Subject]) -> dict[str, float]:
    """Return the names that "it" may mean: the first place shown weighs most, an enclosing scope half."""
    focus: dict[str, float] = {}
    weight = 1.0
    for place in places:
        if place.symbol:
            focus.setdefault(place.symbol, weight)
        if around := last_part(place.scope):
            focus.setdefault(around, weight / 2)
        weight /= 2
    return focus


def _in_words(question: ParsedQuestion, last: Exchange, places: Sequence[Subject]) -> str:
    named = dict.fromkeys(f"`{place.symbol}`" if place.symbol else place.path for place in places)
    about = f", about {', '.join(named)}" if named else ""
    return f'{question.text.strip()} (after "{last.question.strip()}"{about})'
