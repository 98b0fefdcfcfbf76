"""The pages of the wikis of repositories, for programs that show them again and again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from rag.service import Repository
from rag.wiki import WikiStructure, wiki_structure

_MAX_CACHED_WIKIS = 8


class Structures:
    """A cache of the pages of the most recently used stores."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], WikiStructure] = OrderedDict()
        self._lock = Lock()

    def of(self, repository: Repository) -> WikiStructure:
        """Return the pages for the state of a store; compute them if it has changed."""
        segments = repository.store.segments  # copies of a repository share them
        state = (repository.source, repository.store.commit, *(one.header["id"] for one in segments))
        with self._lock:  # concurrent requests compute them once
            if state not in self._known:
                self._known[state] = wiki_structure(repository)
            self._known.move_to_end(state)
            while len(self._known) > _MAX_CACHED_WIKIS:
                self._known.popitem(last=False)
            return self._known[state]
