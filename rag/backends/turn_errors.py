"""What every turn store says in the same words when it cannot do as asked."""

from __future__ import annotations

from collections.abc import Sequence

from rag.errors import ConversationMismatch, NotFound
from rag.types import Conversation, Source


def no_conversation(id_or_name: str) -> NotFound:
    """There is no such conversation in the namespace."""
    return NotFound(f"there is no conversation {id_or_name!r}; `rag turns list` shows those that are kept")


def no_turn(turn_id: str) -> NotFound:
    """There is no such turn in the namespace."""
    return NotFound(f"there is no turn {turn_id!r}; `rag turns show` lists those of a conversation")


def name_taken(taken: Conversation, asked: Sequence[Source]) -> ConversationMismatch:
    """A conversation of this name is there already."""
    return ConversationMismatch(conversation=taken.name, about=_listed(taken.sources), asked=_listed(asked))


def check_last(last: int | None) -> None:
    """Refuse a negative number of turns, which slices and LIMIT would each take in their own way."""
    if last is not None and last < 0:
        raise ValueError(f"last is how many turns to return, so at least 0, not {last}")


def _listed(sources: Sequence[Source]) -> str:
    return ", ".join(map(str, sources)) or "no repository"
