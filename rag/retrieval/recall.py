"""Recognize questions about the conversation itself, which its places answer: "Which files do I change?"."""

from __future__ import annotations

from collections.abc import Sequence

from rag.analysis import terms, words
from rag.retrieval.question import ParsedQuestion, parse_question
from rag.retrieval.working_set import SHOWN, Exchange, WeighedPlace, identity
from rag.types.question_kinds import AGAIN, RECALL

OUTDATED = " — outdated: the code has changed since"
_MOST, _OF_EACH = 7, 2
"""How many places are recalled, and how many of each answer."""
_MAX_WORDS = 20
_SUMMARY = frozenset("summary summarise summarize recap conversation".split())
_FILES = frozenset("files places".split())
_SPEAKERS = frozenset("i my we".split())
_PRONOUNS = frozenset("it its that this they them".split())
_TALK = frozenset(
    terms(
        "summary summarise summarize recap conversation files places ask change cover decide discuss far find"
        " first go last learn look need question touch"
    )
)
"""The words of questions about a conversation."""
_AGAIN = frozenset(terms("again explain repeat rephrase simple simpler shorter summarise summarize word"))
"""The words of a request for the last answer once more."""


def recalls(question: ParsedQuestion, past: Sequence[Exchange]) -> str:
    """Return `RECALL` for a question about the conversation, `AGAIN` for one about its last answer, else "".

    It has no words but those of the tables and, if it asks for files or a summary, of earlier questions.
    """
    said, content = {word.lower() for word in words(question.text)}, question.terms.keys()
    is_named = question.paths or question.lines or (question.names and len(said) > 1)
    if not past or is_named or len(said) > _MAX_WORDS:
        return ""
    speaks, has_pronoun, sums_up = said & _SPEAKERS, said & _PRONOUNS, said & _SUMMARY
    if (
        content <= _AGAIN
        and not speaks
        and bool(has_pronoun) >= bool(sums_up)
        and (content or not has_pronoun)
    ):
        return AGAIN
    nouns = sums_up or said & _FILES
    known = _TALK.union(*(parse_question(one.question).terms for one in past if nouns))
    is_meant = content <= known and not has_pronoun and (sums_up or speaks)
    return RECALL if is_meant and (nouns or content or "we" in said) else ""


def about_code(past: Sequence[Exchange]) -> list[Exchange]:
    """Return the exchanges without those about the conversation, which do not change what it is about."""
    kept: list[Exchange] = []
    for exchange in past:
        if exchange.is_set or recalls(parse_question(exchange.question), kept) != RECALL:
            kept.append(exchange)
    return kept


def recalled(kind: str, past: Sequence[Exchange]) -> tuple[WeighedPlace, ...]:
    """Return the places that answer a question of a kind about the conversation, the earliest first.

    These are the first places of its answers, then the second ones, as far as there is room; for `AGAIN` all
    places of the last one.
    """
    past = [one for one in past if one.places or one.is_set] if kind else []
    past, ranks = (past[-1:], len(SHOWN)) if kind == AGAIN else (past, _OF_EACH)
    found: dict[tuple[str, str, str | int], tuple[int, int, WeighedPlace]] = {}
    for rank in range(ranks):
        for turn, exchange in enumerate(past):
            for place in (exchange.places or (exchange.subject,))[rank : rank + 1]:
                asked = exchange.question + (OUTDATED if exchange.is_outdated else "")
                if place:
                    found.setdefault(identity(place), (turn, rank, WeighedPlace(place, 1.0, asked)))
    return tuple(one for *_, one in sorted(list(found.values())[:_MOST], key=lambda one: one[:2]))
