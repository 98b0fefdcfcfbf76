"""Recognize questions about the conversation itself, which its places answer: "Which files do I change?"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from rag.retrieval.question import ParsedQuestion, parse_question
from rag.retrieval.working_set import SHOWN, Exchange, WeighedPlace, identity, working_set
from rag.types.question_kinds import AFFECTED, AGAIN, RECALL

_OUTDATED = "outdated: the code has changed since — "
_MOST, _OF_EACH = 7, 2
"""How many places are recalled, and how many of each answer."""
_MAX_CHARS = 160
_MARKS = ".,;:!?…"
_FILLERS = frozenset("and can could far for just me now ok okay please so then us you".split())
_QUESTIONS = {
    AFFECTED: ("which|what files|places would|do|should|must|will i|we |have|need |to change|edit|touch",),
    RECALL: (
        "which|what |files|places have|did we look|looked|go|gone at|through",
        "which|what |files|places have|did we discuss|discussed|cover|covered|decide|decided",
        "what have|did we talk|talked about",
        "what have|did i|we |first ask|asked |first|last|before",
        "what was|were my|our first|last|previous question|questions",
        "what are|were we talking about",
        "where are|were we",
        "|give |a summary|summarise|summarize|recap",
        "|give |a summary|summarise|summarize|recap |of this|our|the conversation|discussion",
    ),
    AGAIN: (
        "why|again|simpler|shorter",
        "explain|repeat|rephrase|say|summarise|summarize it|that|this |again |simpler|simply|shorter|briefly",
        "explain|say |it|that|this |again in |a simple|simpler|other|few|fewer words",
        "explain again |simpler|simply|shorter|briefly",
    ),
}
"""The words of whole questions, with `|` between those of which one is said, or none."""
_KINDS = {
    " ".join(filter(None, said)): kind
    for kind, questions in _QUESTIONS.items()
    for question in questions
    for said in product(*(words.split("|") for words in question.split(" ")))
}


def recalls(question: ParsedQuestion, past: Sequence[Exchange]) -> str:
    """Return the kind of a question about the conversation: `AFFECTED`, `RECALL`, `AGAIN`; "" for another."""
    if not past or len(question.text) > _MAX_CHARS:
        return ""
    said = (word.strip(_MARKS) for word in question.text.lower().split())
    return _KINDS.get(" ".join(word for word in said if word and word not in _FILLERS), "")


def about_code(past: Sequence[Exchange]) -> list[Exchange]:
    """Return the exchanges without those about the conversation, which do not change what it is about."""
    kept: list[Exchange] = []
    for exchange in past:
        if exchange.is_set or recalls(parse_question(exchange.question), kept) not in (AFFECTED, RECALL):
            kept.append(exchange)
    return kept


def recalled(kind: str, past: Sequence[Exchange]) -> tuple[tuple[WeighedPlace, ...], bool]:
    """Return the places that answer a question of a kind about the conversation, the earliest first, and
    whether there is no room for more of them.

    These are the first places of its answers, then the second ones, the latest of each, as far as there is
    room; for `AGAIN` all places of the last one, for `AFFECTED` the subject.
    """
    if kind == AFFECTED:
        return tuple(working_set(past)[:1]), False
    past = [one for one in past if one.places or one.is_set] if kind else []
    past, ranks = (past[-1:], len(SHOWN)) if kind == AGAIN else (past, _OF_EACH)
    found: dict[tuple[str, str, str | int], tuple[int, int, WeighedPlace]] = {}
    for rank in range(ranks):
        for turn, exchange in reversed(list(enumerate(past))):
            for place in (exchange.places or (exchange.subject,))[rank : rank + 1]:
                asked = (_OUTDATED if exchange.is_outdated else "") + exchange.question
                if place:
                    found.setdefault(identity(place), (turn, rank, WeighedPlace(place, 1.0, asked)))
    latest = sorted(list(found.values())[:_MOST], key=lambda one: one[:2])
    return tuple(one for *_, one in latest), len(found) > _MOST
