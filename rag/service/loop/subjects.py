"""Finds the subject of a conversation by its name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rag.errors import NotFound
from rag.retrieval.lookup import definitions, similar_names
from rag.service.repositories.repository import Repository
from rag.types import Subject

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
            return Subject.of(min(found, key=lambda hit: hit.kind != "code").span)
        if name in repository.store.known_files():
            return Subject(name)
    near = list(
        islice(dict.fromkeys(n for r in repositories for n in similar_names(r.store, name)), _SHOWN_NAMES)
    )
    raise NotFound(
        f"nothing is called {name[:_MAX_SHOWN_CHARS]!r} in {', '.join(r.source.name for r in repositories)}"
        + (f"; similar names: {', '.join(near)}" if near else "; name a definition or a file")
    )
