"""The working set of a conversation: the places that it asked about and showed, with weights that fade.

It is computed from the exchanges alone. Each exchange adds to what it was about and to the places of its
answer, best first; with every further exchange the weights fade. An exchange divides its weight by its
question: one with enough words of its own is about the places that it found, one that asks only for the
callers or the tests of "it" is still about "it", and a fragment may be about either.

"It" is the place with the most weight. Another one with nearly as much is as plausible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from rag.analysis import terms, words
from rag.identifiers import LIKE_CODE
from rag.retrieval.follow_ups import meant
from rag.retrieval.kinds.recognition import kinds_of
from rag.retrieval.question import ParsedQuestion, parse_question
from rag.retrieval.specificity import specificity
from rag.types import Subject
from rag.types.question_kinds import LIST

FADE = 0.5
"""The share of a weight that is left after one more exchange."""
SHOWN = (1.0, 0.5, 0.35, 0.25, 0.2)
"""The weights of the places of an answer, best first, where their scores are not known."""
SHARPNESS = 8
"""The power of a score, relative to the best: a place with nearly the score of the first is as likely it."""
RELATED = 0.2
"""The share of them where the places are only related to the subject: its callers, its tests."""
PARTIAL = 0.45
"""How much a fragment with words of its own is about the places that it found."""
AS_PLAUSIBLE = 0.85
"""A place with at least this share of the best weight may as well be "it"."""
_MOST, _MOST_PLAUSIBLE = 20, 3
"""How many places a set has, and how many of them may be "it"."""
SELF_CONTAINED_TERMS = 4
"""A question with fewer terms of its own is incomplete."""
_WHOLE_TERMS = 2
"""A whole sentence with fewer terms of its own names no topic: "What is the default?"."""
_LIKE_CODE = re.compile(LIKE_CODE)
_WHOLE = re.compile(
    r"\W*(?:how|where|why|when|what|which|who)\b(?: \w+){0,2}?"
    r" (?:is|are|was|were|does|do|did|can|will|has|have)\b",
    re.I,
)
"""The beginning of a whole sentence: "How is …", "Which class does …"."""
_FACET_TERMS = {
    "callers": frozenset(terms("call calls called caller invoke invoked trigger triggered reference depend")),
    "tests": frozenset(terms("test tests tested testing unit spec specs covered coverage covers case cases")),
    "docs": frozenset(
        terms("documented documentation document docs described explained explain manual guide")
    ),
}
"""The words that name a facet, by what the question asks for."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and the places its answer came from, best first, with their scores.

    `subject` is what "it" meant in that question; None if that is not known. `is_set` means that no question
    was asked, but the user named the subject of the next one, `is_outdated` that the places have changed
    since. `listed` are the members of the list that the answer is, if it is one; `setting` is the setting
    that it is about.
    """

    question: str
    places: tuple[Subject, ...] = ()
    subject: Subject | None = None
    scores: tuple[float, ...] = ()
    is_set: bool = False
    is_outdated: bool = False
    listed: tuple[Subject, ...] = ()
    setting: str = ""

    @classmethod
    def about(cls, subject: Subject) -> Exchange:
        """Return the exchange with which a user sets the subject."""
        return cls(subject.name, (subject,), subject=subject, is_set=True)


@dataclass(frozen=True, slots=True)
class WeighedPlace:
    """A place of the set with its weight, and the question with which it came in."""

    place: Subject
    weight: float
    question: str


def working_set(past: Sequence[Exchange]) -> list[WeighedPlace]:
    """Return the places of the earlier exchanges, oldest first, by weight; at most `_MOST`."""
    found: dict[tuple[str, str, str | int], WeighedPlace] = {}
    for exchange in past:
        found = {key: replace(one, weight=one.weight * FADE) for key, one in found.items()}
        question = parse_question(exchange.question)
        own = 0.0 if exchange.is_set else independence(question)
        if exchange.subject is None and not question.refers and any(names_said(question)):
            own = 1.0
        best = next(iter(found.values()), None)
        about = exchange.subject or (best.place if best else None)
        added = [(about, 1 - own)] if about and own < 1 else []
        share = RELATED + (1 - RELATED) * own if about else 1.0
        weights = _weights(exchange)
        added += [(place, share * weight) for place, weight in zip(exchange.places, weights, strict=False)]
        for place, weight in added:
            before = found.get(identity(place)) or WeighedPlace(place, 0.0, asked_in(exchange).text)
            found[identity(place)] = WeighedPlace(place, before.weight + weight, before.question)
        found = dict(sorted(found.items(), key=lambda one: -one[1].weight)[:_MOST])
    return list(found.values())


def _weights(exchange: Exchange) -> Sequence[float]:
    """Return the weights of the first places of an answer."""
    best = exchange.scores[0] if exchange.scores else 0.0
    if best <= 0:
        return SHOWN
    return [min(max(score / best, 0.0), 1.0) ** SHARPNESS for score in exchange.scores[: len(SHOWN)]]


def plausible(places: Sequence[WeighedPlace]) -> list[Subject]:
    """Return what "it" may mean, the most plausible first."""
    enough = AS_PLAUSIBLE * places[0].weight if places else 0.0
    return [one.place for one in islice(places, _MOST_PLAUSIBLE) if one.weight >= enough]


def identity(place: Subject) -> tuple[str, str, str | int]:
    """Return what identifies a place, even if its lines have moved."""
    return place.path, place.scope, place.symbol or place.start


def asked_in(exchange: Exchange) -> ParsedQuestion:
    """Return the question of an exchange; of a correction what was meant."""
    question = parse_question(exchange.question)
    return parse_question(meant(question.text) or question.text)


def independence(question: ParsedQuestion) -> float:
    """Return how much a question is about what it names itself, and not about "it": from 0 to 1."""
    is_traceback = bool(question.places) and not question.lines
    if question.fresh or is_traceback or meant(question.text):
        return 1.0
    own = own_terms(question)
    if not own or not question.asks.isdisjoint(("callers", "tests")):
        return 0.0
    if any(not name.isupper() or "_" in name for name in question.names):  # SQL and API are words
        return 1.0
    if not question.dependent and LIST in kinds_of(question.text):
        return 1.0
    enough = _WHOLE_TERMS if _WHOLE.match(question.text) else SELF_CONTAINED_TERMS
    return 1.0 if len(own) >= enough and not (question.dependent or question.asks) else PARTIAL


def names_said(question: ParsedQuestion) -> Iterator[str]:
    """Yield what a question says that is written as a name, or that is no word of English."""
    for word in (*question.names, *words(question.text)):
        if _LIKE_CODE.search(word) or any(specificity(term) == 1 for term in terms(word)[-1:]):
            yield word


def own_terms(question: ParsedQuestion) -> dict[str, float]:
    """Return the terms of a follow-up without those that only name the facet it asks for."""
    facet = frozenset().union(*(_FACET_TERMS.get(ask, ()) for ask in question.asks))
    return {term: weight for term, weight in question.terms.items() if term not in facet}
