"""The rules of the kinds of questions, imported when a question is of the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from rag.retrieval.kinds.asked import Asked
from rag.types import CodeFacts
from rag.types.question_kinds import (
    AFFECTED,
    AGAIN,
    CALLERS,
    COMMAND,
    LINES,
    LIST,
    MESSAGE,
    RECALL,
    SETTING,
    TRACE,
    VARIABLES,
)

_RULES: Mapping[str, tuple[str, int]] = {
    LINES: ("lines", 0),
    RECALL: ("recall", 0),
    AGAIN: ("recall", 0),
    AFFECTED: ("recall", 0),
    MESSAGE: ("messages", 12),
    CALLERS: ("callers", 0),
    LIST: ("lists", 60),
    SETTING: ("setting", 0),
    TRACE: ("path", 0),
    COMMAND: ("commands", 0),
    VARIABLES: ("variables", 0),
}
"""The module with the rules of each kind, and the number of hits that they need."""


def hits_for(kinds: Sequence[str]) -> int:
    """Return the number of hits that the rules of these kinds need."""
    return max((_RULES[name][1] for name in kinds), default=0)


def find(asked: Asked, kinds: Sequence[str]) -> CodeFacts | None:
    """Return the facts of the first of these kinds that has some."""
    for name in kinds:
        asked.limits.clear()  # what was read for another kind
        if (found := _rules(name)(asked)) is not None:
            return found
    return None


def _rules(kind: str) -> Callable[[Asked], CodeFacts | None]:
    """Return the function that finds what answers a question of a kind."""
    rules: Callable[[Asked], CodeFacts | None] = import_module(f"rag.retrieval.kinds.{_RULES[kind][0]}").find
    return rules
