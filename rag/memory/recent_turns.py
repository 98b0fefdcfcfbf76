"""Chooses the past turns for the prompt: the newest that fit, as a whole, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.ports import TokenCounter
from rag.types import AssistantResponse, DialogTurn

OVERHEAD_TOKENS = 12
"""The tokens that a template adds to a turn: its number, the roles, line breaks."""

BROKEN_OFF = " […]"
"""Appended to an interrupted answer, so that no template shows it as complete."""


def window(turns: Sequence[DialogTurn], *, budget_tokens: int, counter: TokenCounter) -> list[DialogTurn]:
    """Return the newest turns that fit into a budget.

    A turn is taken as a whole, and selection stops at the first that does not fit, so that the end of the
    conversation has no gaps. Interrupted answers are copied with `BROKEN_OFF` appended.

    Args:
        turns: oldest first.
        budget_tokens: the budget for all of them; zero or less fits none.
        counter: counts the tokens of a turn, see `turn_tokens`.

    Returns:
        The turns that fit, oldest first; empty if the newest does not fit.
    """
    chosen: list[DialogTurn] = []
    left = budget_tokens
    for turn in reversed(turns):
        shown = _marked(turn)
        left -= turn_tokens(shown, counter)
        if left < 0:
            break
        chosen.append(shown)
    return chosen[::-1]


def turn_tokens(turn: DialogTurn, counter: TokenCounter) -> int:
    """Return the tokens of a turn in a prompt: question, answer, and `OVERHEAD_TOKENS` for the template."""
    return counter.count(turn.question) + counter.count(turn.answer) + OVERHEAD_TOKENS


def _marked(turn: DialogTurn) -> DialogTurn:
    if turn.complete or turn.answer.endswith(BROKEN_OFF):
        return turn
    metadata = turn.assistant_response.metadata if turn.assistant_response else None
    return replace(turn, assistant_response=AssistantResponse(turn.answer + BROKEN_OFF, metadata))
