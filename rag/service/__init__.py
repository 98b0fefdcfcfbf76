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
    from rag.service.ask import aconverse, converse
    from rag.service.dialog import Dialog
    from rag.service.discovery import repositories_in
    from rag.service.engine import Engine
    from rag.service.named_sources import locate
    from rag.service.repository import Repository
    from rag.service.sources import index_texts, read_sources

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
    "Dialog": "dialog",
    "Engine": "engine",
    "Repository": "repository",
    "aconverse": "ask",
    "converse": "ask",
    "index_texts": "sources",
    "locate": "named_sources",
    "read_sources": "sources",
    "repositories_in": "discovery",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rag.service' has no attribute {name!r}")
    value = getattr(import_module(f"rag.service.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
