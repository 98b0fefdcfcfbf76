"""The kinds of questions, and how a question is assigned to one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rag.retrieval.context import ContextualQuestion
from rag.retrieval.kinds import callers, failures, lists, messages, settings, trace
from rag.retrieval.kinds.asked import Asked
from rag.types import CodeFacts

_ALL = re.compile(r"\b(?:list|enumerate|all|every)\b", re.I)


class KindRules(NamedTuple):
    """The rules of a kind: whether a question is of it, what answers it, and how many hits that needs."""

    is_asked: Callable[[ContextualQuestion], bool]
    find: Callable[[Asked], CodeFacts | None]
    hits: int


KINDS: Mapping[str, KindRules] = {
    messages.NAME: KindRules(messages.is_asked, messages.find, 12),
    callers.NAME: KindRules(callers.is_asked, callers.find, 0),
    lists.NAME: KindRules(lists.is_asked, lists.find, 60),
    settings.NAME: KindRules(settings.is_asked, settings.find, 60),
    failures.NAME: KindRules(failures.is_asked, failures.find, 12),
    trace.NAME: KindRules(trace.is_asked, trace.find, 50),
}
"""The kinds by name; of several that a question is of, the first one with facts answers it."""


def classify(question: ContextualQuestion) -> list[str]:
    """Return the kinds that a question is of, in the order they are tried."""
    asked = [name for name, rules in KINDS.items() if rules.is_asked(question)]
    # "Which option decides whether it raises?" does not ask what is raised, "list all settings" not for one.
    others = {failures.NAME} if settings.NAME in asked else set()
    if lists.NAME in asked and _ALL.search(question.question.text):
        others.add(settings.NAME)
    return [name for name in asked if name not in others]


def hits_for(kinds: list[str]) -> int:
    """Return the number of hits that the rules of these kinds need."""
    return max((KINDS[name].hits for name in kinds), default=0)


def find(asked: Asked, kinds: list[str]) -> CodeFacts | None:
    """Return the facts of the first of these kinds that has some."""
    return next((found for name in kinds if (found := KINDS[name].find(asked)) is not None), None)
