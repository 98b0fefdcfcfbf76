"""Values that are passed between the packages. They contain no behaviour beyond their own data.

Lines are numbered from 1; ranges include both ends. Paths are relative to the repository's root, with
forward slashes. A higher score is better.

The modules follow the path of a question: source, code, index, retrieval, citations, generation, support,
turns, prompt, answer. Import the names from this package.
"""

from __future__ import annotations

from rag.types.answer import Answer, RAGAnswer, with_turn
from rag.types.citations import Citation, CitedSymbol, Freshness, FreshnessState, worst
from rag.types.code import (
    AttributedUses,
    Chunk,
    CodeDefinition,
    CodeUse,
    Located,
    Span,
    Subject,
    UseRole,
)
from rag.types.generation import FinishReason, GenerationOptions, ModelReply, ToolCall, Usage
from rag.types.index import MAX_NAMED, SUBMODULE, Coverage, IndexReport, not_indexed
from rag.types.prompt import NumberedSource, Prepared, Prompt, source_of
from rag.types.retrieval import (
    MAX_HISTORY,
    MAX_HITS,
    MAX_QUESTION_CHARS,
    MIN_CONFIDENCE,
    CodeFact,
    CodeFacts,
    Confidence,
    Hit,
    Hits,
    MissingPart,
    PatternMatches,
    SearchFilter,
    SearchMode,
)
from rag.types.source import (
    INDEXED,
    PARSER_GAVE_UP,
    Checkout,
    FileEntry,
    Filters,
    Kind,
    Skipped,
    Source,
    SourceFile,
    Unit,
    blob_id,
)
from rag.types.support import FlaggedStatement, SupportCheck, SupportKind
from rag.types.turns import (
    AssistantResponse,
    Backup,
    CheckedTurns,
    Conversation,
    DialogTurn,
    Message,
    TraceStep,
    TurnScope,
    TurnState,
    UserQuery,
    now_utc,
)

__all__ = [
    "INDEXED",
    "MAX_HISTORY",
    "MAX_HITS",
    "MAX_NAMED",
    "MAX_QUESTION_CHARS",
    "MIN_CONFIDENCE",
    "PARSER_GAVE_UP",
    "SUBMODULE",
    "Answer",
    "AssistantResponse",
    "AttributedUses",
    "Backup",
    "CheckedTurns",
    "Checkout",
    "Chunk",
    "Citation",
    "CitedSymbol",
    "CodeDefinition",
    "CodeFact",
    "CodeFacts",
    "CodeUse",
    "Confidence",
    "Conversation",
    "Coverage",
    "DialogTurn",
    "FileEntry",
    "Filters",
    "FinishReason",
    "FlaggedStatement",
    "Freshness",
    "FreshnessState",
    "GenerationOptions",
    "Hit",
    "Hits",
    "IndexReport",
    "Kind",
    "Located",
    "Message",
    "MissingPart",
    "ModelReply",
    "NumberedSource",
    "PatternMatches",
    "Prepared",
    "Prompt",
    "RAGAnswer",
    "SearchFilter",
    "SearchMode",
    "Skipped",
    "Source",
    "SourceFile",
    "Span",
    "Subject",
    "SupportCheck",
    "SupportKind",
    "ToolCall",
    "TraceStep",
    "TurnScope",
    "TurnState",
    "Unit",
    "Usage",
    "UseRole",
    "UserQuery",
    "blob_id",
    "not_indexed",
    "now_utc",
    "source_of",
    "with_turn",
    "worst",
]
