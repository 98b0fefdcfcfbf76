"""A turn put right by hand."""

from __future__ import annotations

from dataclasses import replace

from rag.ports import MemoryStore
from rag.service.kept import edit_turn
from rag.types import AssistantResponse, DialogTurn, UserQuery


def correct_turn(
    store: MemoryStore, turn: DialogTurn, *, question: str | None = None, answer: str | None = None
) -> DialogTurn:
    """Store a version of a turn with another question, another answer, or both; None leaves it as it is.

    Another question has no standalone form yet.

    Raises:
        NotFound: there is no such turn.
    """
    if question is not None:
        asked = replace(turn.user_query or UserQuery(""), query_str=question)
        turn = replace(turn, user_query=asked, standalone_question="")
    if answer is not None:
        said = replace(turn.assistant_response or AssistantResponse(""), response_str=answer)
        turn = replace(turn, assistant_response=said)
    return edit_turn(store, turn)
