"""Search a follow-up question in the context of its conversation.

Joining the texts of the turns would let the old words outweigh the new ones. So only a part of the past is
carried over, with less weight, and only when the new question depends on it:

    the subject                         the definition that "it" means: its name, its file, its lines
    the terms of earlier questions      those with which the subject began, and those of the last question
    the names of the places last shown  what "it" means if it is not the subject

A question that asks only for a facet of the subject ("is it tested?", "what if it fails?") carries twice as
much; one that may be self-contained carries a quarter. Words that only name the facet ("tested", "called",
"documented") are not searched: the tests, callers and documents of the subject seldom contain them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rag.analysis import terms
from rag.retrieval.follow_ups import (
    asked_again,
    is_whole_question,
    meant,
    other_as_it,
    whole_asked,
)
from rag.retrieval.pronouns import bare_pronoun
from rag.retrieval.question import ParsedQuestion, last_part, parse_question
from rag.types import Subject

_FACET_TERMS = {
    "callers": frozenset(terms("call calls called caller invoke invoked trigger triggered reference depend")),
    "tests": frozenset(terms("test tests tested testing unit spec specs covered coverage covers case cases")),
    "docs": frozenset(
        terms("documented documentation document docs described explained explain manual guide")
    ),
}
"""The words that name a facet, by what the question asks for."""
_FACETS = frozenset({"behaviour", "docs", "tests"})
"""Facets that are found by the words of the subject's question; callers are found by its name."""
_SELF_CONTAINED_TERMS = 4
"""A question with fewer terms of its own is incomplete."""
_MANY_TERMS = 5
"""The more terms of its own above this a question has, the less it needs from the past, even one like
"and the numbers it sends to the collector, what if that machine cannot be reached?".
"""
_WHOLE = re.compile(
    r"\W*(?:how|where|why|when|what|which|who)\b(?: \w+){0,2}?"
    r" (?:is|are|was|were|does|do|did|can|will|has|have)\b",
    re.I,
)
"""The beginning of a whole sentence: "How is …", "Which class does …"."""
_SHOWS = re.compile(
    r"\W*(?:(?:and|now|ok|please|can you|could you) ){0,2}(?:what(?:'s| is| does| about)|show|see|print"
    r"|display|give|read|quote|explain|lines?)\b",
    re.I,
)
"""The beginning of a question for lines: "show me line 40 of that", "and lines 50 to 60?"."""
_WHOLE_TERMS = 2
"""A whole sentence with fewer terms of its own names no topic: "What is the default?"."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question and the places its answer came from, best first.

    `subject` is what "it" meant in that question; None if that is not known. `is_set` means that no question
    was asked, but the user named the subject of the next one.
    """

    question: str
    places: tuple[Subject, ...] = ()
    subject: Subject | None = None
    is_set: bool = False

    @classmethod
    def about(cls, subject: Subject) -> Exchange:
        """Return the exchange with which a user sets the subject."""
        return cls(subject.name, subject=subject, is_set=True)


@dataclass(frozen=True, slots=True)
class Carry:
    """The weights of the past in a follow-up; the question's own terms weigh 1.

    `question` weighs the terms of the question with which the subject began, `last` those of the last
    question, `near` the file of the subject, and `user` its callers or tests when the question asks for them
    (multiplied by `user_alone` when it asks for nothing else). The places last shown weigh `second` as much
    as the subject. A question that asks only for a facet carries `facet` times the first, one that may be
    self-contained `alone` times everything. `shown` is the factor of the places that earlier answers came
    from, `other_kind` that of code where tests or documents are asked for.
    """

    question: float = 0.55
    last: float = 0.3
    near: float = 0.1
    second: float = 0.5
    places: int = 2
    user: float = 0.7
    user_alone: float = 3.0
    facet: float = 2.0
    alone: float = 0.25
    shown: float = 0.7
    other_kind: float = 0.45


CARRY = Carry()


@dataclass(frozen=True, slots=True)
class ContextualQuestion:
    """A question with the part of the past that is searched with it.

    `terms` are all terms with their weights; `carried` are those from the past; `focus` holds the names the
    conversation is about with their weights, `near` the paths; `share` is the weight of the past, from 0 to
    1; `standalone` is the question written with its context. `subject` is what "it" means; None in a first
    question, and in one that begins another topic. `shown` are the places that earlier answers came from. A
    `bare` question has no terms of its own except those that name a facet.
    """

    question: ParsedQuestion
    terms: dict[str, float]
    carried: dict[str, float] = field(default_factory=dict)
    focus: dict[str, float] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    share: float = 0.0
    standalone: str = ""
    subject: Subject | None = None
    shown: tuple[Subject, ...] = ()
    bare: bool = False

    @property
    def leans(self) -> bool:
        """Whether the question is incomplete without the questions before it."""
        return bool(self.carried or self.focus) and self.share == 1.0


def in_context(question: ParsedQuestion, past: Sequence[Exchange], carry: Carry) -> ContextualQuestion:
    """Return the question with its context from the earlier exchanges, oldest first."""
    if question.fresh or not past:
        return ContextualQuestion(question, dict(question.terms), standalone=question.text.strip())
    if (text := other_as_it(question.text)) and (other := _other(past)):
        question, past = parse_question(_of_last(text, past)), [*past, Exchange.about(other)]
    if correction := meant(question.text):
        return _corrected(correction, past, carry)
    question = _with_lines_of(question, past[-1])
    own = _own_terms(question)
    leans = question.dependent or past[-1].is_set
    share = 1.0 if leans or _leans(question) else carry.alone
    if len(own) > _MANY_TERMS and not past[-1].is_set:
        share = min(share, _MANY_TERMS / len(own))
    topic = _topic(past)
    places = [(topic.subject, 1.0)] if topic.subject else []
    places += [(place, carry.second) for place in past[-1].places[: carry.places]]
    asks_facet = "callers" not in question.asks and (not own or not question.asks.isdisjoint(_FACETS))
    began = carry.question * share * (carry.facet if asks_facet else 1.0)
    carried = dict.fromkeys(_own_terms(_parsed(past[-1])), carry.last * share)
    carried |= dict.fromkeys(_own_terms(parse_question(topic.question)), began)
    return ContextualQuestion(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        focus=_focus(places),
        near=tuple(dict.fromkeys(place.path for place, _ in places)),
        share=share,
        standalone=_in_words(question, past[-1], topic.subject) if leans else question.text.strip(),
        subject=topic.subject,
        shown=_shown(past),
        bare=not own,
    )


def _corrected(correction: str, past: Sequence[Exchange], carry: Carry) -> ContextualQuestion:
    """Return the last question about what was meant. The places of its answer are not what is meant.

    Of several corrections in a row, each says what the question before them meant.
    """
    last = next((_parsed(one) for one in reversed(past) if not _only_corrects(one)), _parsed(past[0]))
    question = parse_question(asked_again(correction, last.text))
    own = _own_terms(question)
    share = carry.alone if is_whole_question(correction) else 1.0
    carried = dict.fromkeys(_own_terms(parse_question(_topic(past).question)), carry.last * share)
    carried |= dict.fromkeys(_own_terms(last), carry.question * share)
    return ContextualQuestion(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        share=share,
        standalone=question.text.strip(),
        shown=_shown(past),
        bare=not own,
    )


def _parsed(exchange: Exchange) -> ParsedQuestion:
    """Return the question of an exchange; of a correction what was meant."""
    question = parse_question(exchange.question)
    return parse_question(meant(question.text) or question.text)


def _only_corrects(exchange: Exchange) -> bool:
    """Return whether a question says only what the one before it meant, and asks nothing itself."""
    correction = meant(parse_question(exchange.question).text)
    return bool(correction) and not is_whole_question(correction)


def _of_last(text: str, past: Sequence[Exchange]) -> str:
    """Return a question; of a correction that says only "it" the last question."""
    return _parsed(past[-1]).text if meant(text).strip(" ?.!").lower() == "it" else text


def _other(past: Sequence[Exchange]) -> Subject | None:
    """Return what "the other one" means: what was asked about before the last subject, or else the second
    place of the answer with which that began.
    """
    about = [(place, exchange) for exchange in past if (place := _asked_place(exchange)) is not None]
    if not about:
        return None
    last, began = about[-1]
    earlier = (place for place, _ in reversed(about) if not _is_same(place, last))
    return next(earlier, next((one for one in began.places if one.symbol and not _is_same(one, last)), None))


def _asked_place(exchange: Exchange) -> Subject | None:
    """Return the definition that a question was for; None if it was for something of another one."""
    question = _parsed(exchange)
    if exchange.is_set:
        return exchange.subject
    if not question.asks.isdisjoint(("callers", "tests")) or not (_own_terms(question) or question.names):
        return exchange.subject
    return next((place for place in exchange.places if place.symbol), None)


def _shown(past: Sequence[Exchange]) -> tuple[Subject, ...]:
    """Return the places that earlier answers came from, each once."""
    return tuple(dict.fromkeys(exchange.places[0] for exchange in past if exchange.places))


def _with_lines_of(question: ParsedQuestion, last: Exchange) -> ParsedQuestion:
    """Return a question for "line 40", or for the whole of something, with the file that was last shown."""
    is_whole = bool(whole_asked(question.text))
    if not last.places or question.paths or not (is_whole or _SHOWS.match(question.text)):
        return question
    place = last.places[0]
    path = place.path
    if is_whole:
        return replace(question, lines=((path, place.start, place.end),), places=((path, place.start),))
    lines = tuple((path, first, end) for _, first, end in question.lines)
    return replace(question, lines=lines, places=tuple((path, first) for _, first, _ in lines))


def lacks_subject(sought: ContextualQuestion) -> bool:
    """Return whether a question is about "it", and nothing says what that is: a first "Who calls it?"."""
    question = sought.question
    is_known = question.names or question.paths or sought.focus or sought.subject
    return not is_known and bare_pronoun(question.text) != ""


def subject_of(past: Sequence[Exchange]) -> Subject | None:
    """Return what "it" means after the earlier exchanges, oldest first.

    It is the best place of the first answer until a question moves on. A question about the callers, the
    tests or the settings of "it" does not.
    """
    return _topic(past).subject


@dataclass(frozen=True, slots=True)
class _Topic:
    """What a conversation is about, and the question with which that began."""

    subject: Subject | None = None
    question: str = ""


def _topic(past: Sequence[Exchange]) -> _Topic:
    topic = _Topic()
    for exchange in past:
        if exchange.subject is not None and (
            exchange.is_set or not _is_same(exchange.subject, topic.subject)
        ):
            topic = _Topic(exchange.subject, exchange.question)
        if exchange.places and (topic.subject is None or _moves_on(parse_question(exchange.question))):
            topic = _Topic(exchange.places[0], _parsed(exchange).text)
    return topic


def _is_same(one: Subject, other: Subject | None) -> bool:
    """Return whether two subjects are one, even if its lines have moved."""
    return other is not None and (one.path, one.scope, one.symbol) == (other.path, other.scope, other.symbol)


def _moves_on(question: ParsedQuestion) -> bool:
    """Return whether a question begins another topic: it asks for more than a facet, in words of its own."""
    if question.fresh or meant(question.text):
        return True
    if question.dependent:
        return False
    if question.places and not question.lines:  # a pasted traceback
        return True
    own = _own_terms(question)
    return not question.asks and len(own) >= (
        _WHOLE_TERMS if _WHOLE.match(question.text) else _SELF_CONTAINED_TERMS
    )


def _leans(question: ParsedQuestion) -> bool:
    """Return whether a follow-up is incomplete without the questions before it."""
    return question.dependent or len(_own_terms(question)) < _SELF_CONTAINED_TERMS


def _own_terms(question: ParsedQuestion) -> dict[str, float]:
    """Return the terms of a follow-up without those that only name the facet it asks for."""
    facet = frozenset().union(*(_FACET_TERMS.get(ask, ()) for ask in question.asks))
    return {term: weight for term, weight in question.terms.items() if term not in facet}


def _focus(meant: Sequence[tuple[Subject, float]]) -> dict[str, float]:
    """Return the names that "it" may mean; an enclosing scope weighs half."""
    focus: dict[str, float] = {}
    for place, weight in meant:
        for name, value in ((place.symbol, weight), (last_part(place.scope), weight / 2)):
            if name:
                focus[name] = max(focus.get(name, 0.0), value)
    return focus


def _in_words(question: ParsedQuestion, last: Exchange, subject: Subject | None) -> str:
    about = f"about `{subject.symbol or subject.path}`" if subject else ""
    after = "" if last.is_set else f'after "{last.question.strip()}"'
    return f"{question.text.strip()} ({', '.join(filter(None, (after, about)))})"
