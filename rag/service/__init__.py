"""The assembly: what the settings name is opened, the rooms are joined. The only importer of backends.

    Engine      settings → embedder, turn store, generator; opens repositories
    Repository  a source, its store, and what is needed to search it
    Dialog      a conversation about repositories: prepare → (a model writes) → remember
    converse    the whole loop over a generator; aconverse for event loops

Nothing here imports AdalFlow, unless a language model is asked.
"""

from rag.service.converse import aconverse, converse
from rag.service.dialog import Dialog
from rag.service.engine import Engine, Repository, forget, index_texts, locate, read_sources

__all__ = [
    "Dialog",
    "Engine",
    "Repository",
    "aconverse",
    "converse",
    "forget",
    "index_texts",
    "locate",
    "read_sources",
]
