"""A turn put right by hand."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace

from rag.ports import Grouping, MemoryStore
from rag.service.retention import edit_turn
from rag.types import AssistantResponse, DialogTurn, UserQuery

_ONE_AT_A_TIME = threading.Lock()
"""What one corrects another must not write over with what was there before."""


def correct_turn(
    store: MemoryStore,
    turn_id: str,
    *,
    namespace: str,
    question: str | None = None,
    answer: str | None = None,
) -> DialogTurn:
    """Store a version of a turn with another question, another answer, or both; None leaves it as it is.

    Another question has no standalone form yet. Two that correct a turn at once both do, in one process;
    where the store can do several calls at once, in several.

    Raises:
        NotFound: there is no such turn.
    """
    with _ONE_AT_A_TIME, store.together() if isinstance(store, Grouping) else nullcontext():
        turn = store.turn(turn_id, namespace=namespace)
        if question is not None:
            asked = replace(turn.user_query or UserQuery(""), query_str=question)
            turn = replace(turn, user_query=asked, standalone_question="")
        if answer is not None:
            said = replace(turn.assistant_response or AssistantResponse(""), response_str=answer)
            turn = replace(turn, assistant_response=said)
        return edit_turn(store, turn)
