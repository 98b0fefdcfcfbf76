"""Turns, messages and records in memory."""

from __future__ import annotations

from rag.backends.memory.storage import MemoryStorage
from rag.ports import Clock
from rag.turns.store import StoredTurns
from rag.types import now_utc


class MemoryTurnStore(StoredTurns):
    """A `MemoryStore` in memory. It can be pickled with its contents."""

    def __init__(self, *, clock: Clock = now_utc) -> None:
        super().__init__(MemoryStorage(), clock)

    def __repr__(self) -> str:
        return "MemoryTurnStore()"
