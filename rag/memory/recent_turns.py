"""Which past turns enter the prompt: the newest that fit, whole, in the order they were said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.ports import TokenCounter
from rag.types import AssistantResponse, DialogTurn

OVERHEAD_TOKENS = 12
"""What a template writes around a turn: its number, the two speakers, line breaks."""

BROKEN_OFF = " […]"
"""Stands at the end of an answer that broke off, so that no template shows it as whole."""


def window(turns: Sequence[DialogTurn], *, budget_tokens: int, counter: TokenCounter) -> list[DialogTurn]:
    """Choose the newest turns that fit into a budget together.

    A turn is taken whole or not at all, and none is taken beyond the first that does not fit: the model
    sees the end of the conversation without holes. An answer that broke off comes as a copy that ends in
    `BROKEN_OFF`; other turns come as they are.

    Args:
        turns: oldest first.
        budget_tokens: what all of them may cost together; zero or less fits none.
        counter: counts what a turn costs, see `turn_tokens`.

    Returns:
        The turns that fit, oldest first; empty when not even the newest fits.
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
    """What a turn costs in a prompt: question, answer, and `OVERHEAD_TOKENS` for what stands around them."""
    return counter.count(turn.question) + counter.count(turn.answer) + OVERHEAD_TOKENS


def _marked(turn: DialogTurn) -> DialogTurn:
    if turn.complete or turn.answer.endswith(BROKEN_OFF):
        return turn
    metadata = turn.assistant_response.metadata if turn.assistant_response else None
    return replace(turn, assistant_response=AssistantResponse(turn.answer + BROKEN_OFF, metadata))
