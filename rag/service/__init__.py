"""Assembles the parts that the settings name. The only package that imports backends.

    Engine      settings → embedder, turn store, generator; opens repositories
    Repository  a source with its store and its searcher
    Dialog      a conversation about repositories: prepare → (a model writes) → remember
    converse    the whole loop with a generator; aconverse for event loops

AdalFlow is only imported when a language model is used. Names are imported lazily, as a search needs no
prompt.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag.service.loop.ask import aconverse, converse
    from rag.service.loop.dialog import Dialog
    from rag.service.repositories.discovery import repositories_in
    from rag.service.repositories.engine import Engine
    from rag.service.repositories.named_sources import locate
    from rag.service.repositories.repository import Repository
    from rag.service.repositories.sources import index_texts, read_sources

__all__ = [
    "Dialog",
    "Engine",
    "Repository",
    "aconverse",
    "converse",
    "index_texts",
    "locate",
    "read_sources",
    "repositories_in",
]

_HOMES = {
    "Dialog": "loop.dialog",
    "Engine": "repositories.engine",
    "Repository": "repositories.repository",
    "aconverse": "loop.ask",
    "converse": "loop.ask",
    "index_texts": "repositories.sources",
    "locate": "repositories.named_sources",
    "read_sources": "repositories.sources",
    "repositories_in": "repositories.discovery",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rag.service' has no attribute {name!r}")
    value = getattr(import_module(f"rag.service.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
