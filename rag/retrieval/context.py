"""Search a follow-up question in the context of its conversation.

Joining the texts of the turns would let the old words outweigh the new ones. So only a part of the past is
carried over, with less weight, and only when the new question depends on it:

    the working set                 the places that "it" may mean: their names, files, callers and callees
    the terms of earlier questions  those with which "it" came in, and those of the last question

A question that may be self-contained carries a quarter. Words that only name the facet ("tested", "called",
"documented") are not searched: the tests, callers and documents of the subject seldom contain them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rag.code.languages import kind_of_path
from rag.retrieval.asked_history import asked_history
from rag.retrieval.follow_ups import (
    OTHER,
    asked_again,
    is_whole_question,
    listed_as_it,
    meant,
    whole_asked,
)
from rag.retrieval.kinds.recognition import relation_of, setting_asked
from rag.retrieval.pronouns import bare_pronoun, with_its_meaning
from rag.retrieval.question import ParsedQuestion, last_part, parse_question
from rag.retrieval.recall import about_code, recalled, recalls
from rag.retrieval.working_set import (
    SELF_CONTAINED_TERMS,
    Exchange,
    WeighedPlace,
    asked_in,
    own_terms,
    plausible,
    working_set,
)
from rag.types import Kind, Subject
from rag.types.question_kinds import AFFECTED

_MANY_TERMS = 5
"""The more terms of its own above this a question has, the less it needs from the past, even one like
"and the numbers it sends to the collector, what if that machine cannot be reached?".
"""
_SHOWS = re.compile(
    r"\W*(?:(?:and|now|ok|please|can you|could you) ){0,2}(?:what(?:'s| is| does| about)|show|see|print"
    r"|display|give|read|quote|explain|lines?)\b",
    re.I,
)
"""The beginning of a question for lines: "show me line 40 of that", "and lines 50 to 60?"."""


@dataclass(frozen=True, slots=True)
class Carry:
    """The weights of the past in a follow-up; the question's own terms weigh 1.

    `question` weighs the terms of the question with which the subject came in, `last` those of the last
    question. `places` of the working set are searched. A question that may be self-contained carries `alone`
    times everything. `shown` is the factor of the places that earlier answers came from, `other_kind` that of
    code where tests or documents are asked for.
    """

    question: float = 0.55
    last: float = 0.3
    places: int = 2
    alone: float = 0.25
    shown: float = 0.7
    other_kind: float = 0.45


CARRY = Carry()


@dataclass(frozen=True, slots=True)
class ContextualQuestion:
    """A question with the part of the past that is searched with it.

    `terms` are all terms with their weights; `carried` are those from the past; `about` are the places that
    "it" may mean, the most plausible first, whose weights are relative to that; `share` is the weight of the
    past, from 0 to 1; `standalone` is the question written with its context. `shown` are the places that
    earlier answers came from, `recalled` those that answer a question about the conversation, of the kind
    `recalls`; there are more of them if it `recalls_latest`. `earlier` are the questions so far, oldest
    first. A `bare` question has no terms of its own except those that name a facet. `says_it` means that it
    is about "it"; then `setting` is the name of the setting that this is. `document` is what "it" means where
    its callers or tests are asked for and the conversation has shown no definition.
    """

    question: ParsedQuestion
    terms: dict[str, float]
    carried: dict[str, float] = field(default_factory=dict)
    about: tuple[WeighedPlace, ...] = ()
    share: float = 0.0
    standalone: str = ""
    shown: tuple[Subject, ...] = ()
    recalls: str = ""
    recalled: tuple[WeighedPlace, ...] = ()
    recalls_latest: bool = False
    earlier: tuple[str, ...] = ()
    bare: bool = False
    says_it: bool = False
    setting: str = ""
    document: Subject | None = None

    @property
    def leans(self) -> bool:
        """Whether the question is incomplete without the questions before it."""
        return bool(self.carried or self.about) and self.share == 1.0

    @property
    def subject(self) -> Subject | None:
        """What "it" means; None in a first question, and in one that begins another topic."""
        return self.about[0].place if self.about else None

    @property
    def near(self) -> tuple[str, ...]:
        """The files of the places that the conversation is about."""
        return tuple(dict.fromkeys(one.place.path for one in self.about))

    @property
    def focus(self) -> dict[str, float]:
        """The names that "it" may mean, with their weights; an enclosing scope weighs half."""
        focus: dict[str, float] = {}
        for one in self.about:
            scope = last_part(one.place.scope)
            for name, weight in ((one.place.symbol, one.weight), (scope, one.weight / 2)):
                if name:
                    focus[name] = max(focus.get(name, 0.0), weight)
        return focus


def is_document(place: Subject) -> bool:
    """Return whether a place is in a document; code in a folder of documents is not."""
    return _kind(place) == "doc"


def is_code(place: Subject) -> bool:
    """Return whether a place is in code or in a test."""
    return _kind(place) in ("code", "test")


def _kind(place: Subject) -> Kind:
    return kind_of_path(place.path.rpartition("/")[2])


def in_context(
    question: ParsedQuestion,
    past: Sequence[Exchange],
    carry: Carry,
    is_defined: Callable[[Subject], bool] = is_code,
) -> ContextualQuestion:
    """Return the question with its context from the earlier exchanges, oldest first.

    `is_defined` returns whether a place is a definition that can be called.
    """
    past = about_code(past)
    is_repeated = (
        any(one.question.strip() == question.text.strip() for one in past) and not question.dependent
    )
    if question.fresh or not past or (is_repeated and own_terms(question)):
        return ContextualQuestion(question, dict(question.terms), standalone=question.text.strip())
    if (listed := listed_as_it(question.text)) and (place := _listed(listed[1], past)):
        text = "show it" if listed[0].strip(" ?.!").lower() == "it" else _of_last(listed[0], past)
        question, past = parse_question(text), [*past, Exchange.about(place)]
    if correction := meant(question.text):
        return _corrected(correction, past, carry)
    question = _with_lines_of(question, past[-1])
    kind = recalls(question, past)
    setting, its_place = _setting_meant(past) if kind == AFFECTED or bare_pronoun(question.text) else ("", ())
    says_it = question.dependent or past[-1].is_set or not own_terms(question)
    about, document = _about(past, carry, question, is_defined)
    if setting:
        about, document = (*its_place, *about)[: carry.places], None
    if setting and kind != AFFECTED:
        question = parse_question(with_its_meaning(question.text, setting))
    own = own_terms(question)
    share = 1.0 if says_it or len(own) < SELF_CONTAINED_TERMS else carry.alone
    if len(own) > _MANY_TERMS and not past[-1].is_set:
        share = min(share, _MANY_TERMS / len(own))
    places, is_cut = recalled(kind, past)
    carried = dict.fromkeys(own_terms(asked_in(past[-1])), carry.last * share)
    carried |= dict.fromkeys(own_terms(_began(about)), carry.question * share)
    return ContextualQuestion(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        about=about,
        share=share,
        standalone=_in_words(question, past[-1], about) if says_it else question.text.strip(),
        shown=_shown(past),
        recalls=kind,
        recalled=places,
        recalls_latest=is_cut,
        earlier=tuple(one.question for one in past),
        bare=not own,
        says_it=says_it,
        setting=setting,
        document=document,
    )


def _about(
    past: Sequence[Exchange], carry: Carry, question: ParsedQuestion, is_defined: Callable[[Subject], bool]
) -> tuple[tuple[WeighedPlace, ...], Subject | None]:
    """Return the places that "it" may mean, with weights relative to the first.

    Nothing calls or tests a document or a key of a file: then they are the definitions that were shown. If
    there are none, what it means is returned besides.
    """
    found, document = working_set(past), None
    is_history = asked_history(question.text) in ("changed", "introduced")
    is_history = is_history and not (question.names or question.paths)
    is_use = bare_pronoun(question.text) != "" and relation_of(question.text) is not None
    first = found[0].place if found and (is_history or is_use) else None
    if first and (is_document(first) or (is_use and not (is_code(first) or is_defined(first)))):
        defined = [one for one in found if is_defined(one.place)]
        document = None if defined or is_history else first
        found = defined or (found if is_history else [])
    found = found[: carry.places]
    return tuple(replace(one, weight=one.weight / found[0].weight) for one in found), document


def _setting_meant(past: Sequence[Exchange]) -> tuple[str, tuple[WeighedPlace, ...]]:
    """Return the setting that the last question was for which names something, and its place; "" for none."""
    last = next((one for one in reversed(past) if not bare_pronoun(one.question)), past[0])
    setting = last.setting or setting_asked(asked_in(last).text)
    places = [replace(place, symbol=setting, scope="") for place in last.places[:1]]
    return setting, tuple(WeighedPlace(place, 1.0, last.question) for place in places)


def _began(about: Sequence[WeighedPlace]) -> ParsedQuestion:
    """Return the question with which "it" came in."""
    return parse_question(about[0].question if about else "")


def _corrected(correction: str, past: Sequence[Exchange], carry: Carry) -> ContextualQuestion:
    """Return the last question about what was meant. The places of its answer are not what is meant.

    Of several corrections in a row, each says what the question before them meant.
    """
    last = next((asked_in(one) for one in reversed(past) if not _only_corrects(one)), asked_in(past[0]))
    question = parse_question(asked_again(correction, last.text))
    own = own_terms(question)
    share = carry.alone if is_whole_question(correction) else 1.0
    carried = dict.fromkeys(own_terms(_began(working_set(past))), carry.last * share)
    carried |= dict.fromkeys(own_terms(last), carry.question * share)
    return ContextualQuestion(
        question=question,
        terms={term: weight for term, weight in carried.items() if term not in own} | own,
        carried=carried,
        share=share,
        standalone=question.text.strip(),
        shown=_shown(past),
        bare=not own,
    )


def _only_corrects(exchange: Exchange) -> bool:
    """Return whether a question says only what the one before it meant, and asks nothing itself."""
    correction = meant(parse_question(exchange.question).text)
    return bool(correction) and not is_whole_question(correction)


def _of_last(text: str, past: Sequence[Exchange]) -> str:
    """Return a question; of a correction that says only "it" the last question."""
    return asked_in(past[-1]).text if meant(text).strip(" ?.!").lower() == "it" else text


def _listed(number: int, past: Sequence[Exchange]) -> Subject | None:
    """Return the place of that number in the last answer; for `OTHER` that next to "it" in weight."""
    if number == OTHER:
        return next((one.place for one in working_set(past)[1:] if one.place.symbol), None)
    places = next((one.listed or one.places for one in reversed(past) if one.places), ())
    return places[number] if -len(places) <= number < len(places) else None


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
    is_known = question.names or question.paths or sought.about
    return sought.document is not None or (not is_known and bare_pronoun(question.text) != "")


def subject_of(past: Sequence[Exchange]) -> Subject | None:
    """Return what "it" means after the earlier exchanges, oldest first."""
    return next((one.place for one in working_set(about_code(past))), None)


def _in_words(question: ParsedQuestion, last: Exchange, about: Sequence[WeighedPlace]) -> str:
    named = " or ".join(f"`{place.symbol or place.path}`" for place in plausible(about))
    about_it = f"about {named}" if named else ""
    after = "" if last.is_set else f'after "{last.question.strip()}"'
    return f"{question.text.strip()} ({', '.join(filter(None, (after, about_it)))})"
