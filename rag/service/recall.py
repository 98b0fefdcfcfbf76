"""Earlier turns that speak of something, over everything one has asked."""

from __future__ import annotations

from rag.memory.search import search_text
from rag.service.engine import Engine
from rag.types import DialogTurn


def recall(engine: Engine, query: str, *, conversation: str | None = None, k: int = 10) -> list[DialogTurn]:
    """The k turns that hold the words of a query best, best first; messages are left out.

    Args:
        engine: whose turn store, and whose namespace.
        query: any text.
        conversation: only this one, by id or name; None is all.
        k: at least 1.

    Raises:
        NotFound: there is no such conversation.
    """
    namespace = engine.settings.namespace
    within = engine.find_conversation(conversation).id if conversation else None
    found = search_text(engine.turns, query, namespace=namespace, conversation=within, kind="turn", k=k)
    return [engine.turns.turn(one.id, namespace=namespace) for one in found]
