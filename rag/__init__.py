"""Ask any code repository questions and follow-ups, with a memory that knows the code.

    from rag import RAG

    rag = RAG()
    rag.prepare_retriever("path or git url")
    answer = rag("How are sessions signed?")
    print(answer.text, answer.citations)

Importing this package is cheap: a name is loaded when it is first used.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rag.resources import shipped

# AdalFlow builds a tokenizer at import, which would download its encoding; we ship it. Set this early, so
# that AdalFlow can be imported after this package, also offline.
os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(shipped("data/encodings")))

if TYPE_CHECKING:
    __version__: str
    from rag.component.database_manager import (
        DatabaseManager,
        read_all_documents,
        transform_documents_and_save_to_db,
    )
    from rag.component.memory import CustomConversation, Memory
    from rag.component.rag import RAG
    from rag.component.template import RAG_TEMPLATE
    from rag.errors import ConfigError, ProviderError, RagError
    from rag.service import Dialog, Engine
    from rag.settings import Settings, load_settings
    from rag.types import (
        Answer,
        AssistantResponse,
        Chunk,
        Citation,
        Conversation,
        DialogTurn,
        Filters,
        Hit,
        RAGAnswer,
        SearchFilter,
        Source,
        UserQuery,
    )

_HOMES = {
    "rag.component.database_manager": (
        "DatabaseManager",
        "read_all_documents",
        "transform_documents_and_save_to_db",
    ),
    "rag.component.memory": ("CustomConversation", "Memory"),
    "rag.component.rag": ("RAG",),
    "rag.component.template": ("RAG_TEMPLATE",),
    "rag.errors": ("ConfigError", "ProviderError", "RagError"),
    "rag.service": ("Dialog", "Engine"),
    "rag.settings": ("Settings", "load_settings"),
    "rag.types": (
        "Answer",
        "AssistantResponse",
        "Chunk",
        "Citation",
        "Conversation",
        "DialogTurn",
        "Filters",
        "Hit",
        "RAGAnswer",
        "SearchFilter",
        "Source",
        "UserQuery",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "RAG",
    "RAG_TEMPLATE",
    "Answer",
    "AssistantResponse",
    "Chunk",
    "Citation",
    "ConfigError",
    "Conversation",
    "CustomConversation",
    "DatabaseManager",
    "Dialog",
    "DialogTurn",
    "Engine",
    "Filters",
    "Hit",
    "Memory",
    "ProviderError",
    "RAGAnswer",
    "RagError",
    "SearchFilter",
    "Settings",
    "Source",
    "UserQuery",
    "load_settings",
    "read_all_documents",
    "transform_documents_and_save_to_db",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("rag-turns")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rag' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """Add `%ask` and `%%ask` to a notebook: `%load_ext rag`."""
    from rag.display import register
    from rag.notebook.magics import load

    load(ipython)
    register(ipython)


def _show_values() -> None:
    """In a running IPython, have values of this package shown as HTML."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        from rag.display import register

        register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_show_values()
