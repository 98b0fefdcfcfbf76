"""Manual correction of a turn."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace

from rag.ports import Grouping, MemoryStore
from rag.service.upkeep.retention import edit_turn
from rag.types import AssistantResponse, DialogTurn, UserQuery

_LOCK = threading.Lock()
"""Prevents lost updates between two corrections."""


def correct_turn(
    store: MemoryStore,
    turn_id: str,
    *,
    namespace: str,
    question: str | None = None,
    answer: str | None = None,
) -> DialogTurn:
    """Store a new version of a turn with another question, answer, or both; None keeps the old one.

    A new question has no standalone form. Concurrent corrections are serialized: within a process, and
    across processes if the store has transactions.

    Raises:
        NotFound: there is no such turn.
    """
    with _LOCK, store.together() if isinstance(store, Grouping) else nullcontext():
        turn = store.turn(turn_id, namespace=namespace)
        if question is not None:
            query = replace(turn.user_query or UserQuery(""), query_str=question)
            turn = replace(turn, user_query=query, standalone_question="")
        if answer is not None:
            response = replace(turn.assistant_response or AssistantResponse(""), response_str=answer)
            turn = replace(turn, assistant_response=response)
        return edit_turn(store, turn)
