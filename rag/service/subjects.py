"""Finds the subject of a conversation by its name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice

import numpy as np

from rag.analysis import terms
from rag.errors import NotFound
from rag.ports import ChunkIndex
from rag.retrieval.lookup import definitions
from rag.service.repository import Repository
from rag.types import Hit, Subject

_MAX_NAMES = 2_000
"""How many names that share a word with an unknown one are compared with it."""
_SHOWN_NAMES = 5
_MAX_SHOWN_CHARS = 100


def find_subject(repositories: Sequence[Repository], name: str) -> Subject:
    """Return the definition or the indexed file with a name: `put`, `Shelf.put` or `src/store.py`.

    Of several definitions, the first in code is returned, those with the given spelling first.

    Raises:
        NotFound: there is none; the message lists similar names.
    """
    name = name.strip().strip("`")
    for repository in repositories:
        if found := definitions(repository.store, name):
            return subject_of_hit(min(found, key=lambda hit: hit.kind != "code"))
        if name in repository.store.known_files():
            return Subject(name)
    near = list(islice(dict.fromkeys(n for r in repositories for n in _similar(r.store, name)), _SHOWN_NAMES))
    raise NotFound(
        f"nothing is called {name[:_MAX_SHOWN_CHARS]!r} in {', '.join(r.source.name for r in repositories)}"
        + (f"; similar names: {', '.join(near)}" if near else "; name a definition or a file")
    )


def subject_of_hit(hit: Hit) -> Subject:
    """Return what a hit defines, or its lines."""
    return Subject(hit.path, hit.symbol, hit.scope if hit.symbol else "", hit.start, hit.end)


def _similar(index: ChunkIndex, name: str) -> list[str]:
    """Return the names most similar to one that is not defined: they share a word or its first letters."""
    symbol = name.rpartition(".")[2][:_MAX_SHOWN_CHARS]
    chunks = [index.postings(term).chunks for term in terms(symbol)]
    every = np.arange(len(index), dtype=np.int64) if index.dead is None else np.flatnonzero(~index.dead)
    alike = {found: None for found, _ in index.names(np.concatenate([*chunks, every[:0]])) if found}
    start = symbol[:2].lower()
    alike |= {found: None for found, _ in index.names(every) if found.lower().startswith(start)}
    return get_close_matches(symbol, list(islice(alike, _MAX_NAMES)), n=_SHOWN_NAMES, cutoff=0.5)
