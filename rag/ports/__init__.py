"""Ports: the interfaces that backends implement. The backends are in `rag/backends/`.

Import the names from this package.
"""

from __future__ import annotations

from rag.ports.durability import Grouping, Persistence, PersistenceKind, PersistentStore, has_transactions
from rag.ports.embedding import BagEmbedder, Embedder, Reranker, Role, Vectors, takes_bags
from rag.ports.generation import (
    AsyncGenerator,
    CompletingGenerator,
    LearningCounter,
    TextGenerator,
    TokenCounter,
    ToolCallingGenerator,
    is_async,
    is_completing,
    is_learning,
    is_tool_calling,
)
from rag.ports.index import (
    SHORT_BLOCK,
    ChunkIndex,
    CodeGraph,
    Postings,
    Rows,
    ShortCodes,
    Shorten,
    VectorIndex,
)
from rag.ports.sessions import RecordedSession, SessionEvent, SessionReader, Skip
from rag.ports.shared_state import Clock, SharedState
from rag.ports.turns import Holder, Marks, Matches, MemoryStore, Recalled, RecordStore, TurnStore

__all__ = [
    "SHORT_BLOCK",
    "AsyncGenerator",
    "BagEmbedder",
    "ChunkIndex",
    "Clock",
    "CodeGraph",
    "CompletingGenerator",
    "Embedder",
    "Grouping",
    "Holder",
    "LearningCounter",
    "Marks",
    "Matches",
    "MemoryStore",
    "Persistence",
    "PersistenceKind",
    "PersistentStore",
    "Postings",
    "Recalled",
    "RecordStore",
    "RecordedSession",
    "Reranker",
    "Role",
    "Rows",
    "SessionEvent",
    "SessionReader",
    "SharedState",
    "ShortCodes",
    "Shorten",
    "Skip",
    "TextGenerator",
    "TokenCounter",
    "ToolCallingGenerator",
    "TurnStore",
    "VectorIndex",
    "Vectors",
    "has_transactions",
    "is_async",
    "is_completing",
    "is_learning",
    "is_tool_calling",
    "takes_bags",
]
