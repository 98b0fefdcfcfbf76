"""Questions to repositories, for adapters that answer with chunks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

from rag.retrieval.search import Searcher, search_in_turn
from rag.schema import to_json, with_old_names
from rag.service import Engine, Repository, locate
from rag.service.background_budget import Allowance
from rag.settings import Settings, load_settings
from rag.types import Hit

_MIN_PAUSE_FACTOR = 20.0
"""Fetching a URL again takes at most one part in this many of the time."""
_SHARE, _BURST_S = 0.05, 2.0
"""Comparing folders takes at most this share of the time, after the first seconds of it."""
_CARRIED = 5
"""How many of the questions before it a question is understood in the light of."""

_NOT_METADATA = frozenset({"text", "blank_end", "legs"})


class RepositorySearch:
    """Finds chunks of repositories, which are indexed with the first question and kept up to date.

    With each question the files are compared with the index, and what changed is indexed first; under a
    constant stream of questions not so often that it would take more than a twentieth of the time. Safe to
    use from several threads.

        >>> search = RepositorySearch("data/sample_repo")
        >>> search.search("Where is a token checked?")[0].path
        'snip/auth.py'

    Args:
        sources: paths or git URLs.
        ref: a branch, tag or commit of them all; None is the work tree, or a URL's default branch.
        k: how many chunks are found, at least 1.
        settings: which embedder and home folder; None is what the user has configured.
    """

    def __init__(
        self,
        sources: str | Sequence[str],
        *,
        ref: str | None = None,
        k: int = 5,
        settings: Settings | None = None,
    ) -> None:
        self.sources = (sources,) if isinstance(sources, str) else tuple(sources)
        if not self.sources:
            raise ValueError("give at least one repository to search: a path or a git URL")
        self.ref, self.k = ref, k
        self._settings = settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._open: list[Repository] = []
        self._fetch_again = 0.0
        self._allowance = Allowance(_SHARE, _BURST_S)

    def search(self, question: str, *, earlier: Sequence[str] = (), k: int | None = None) -> list[Hit]:
        """Find the best chunks for a question, best first; an empty one finds nothing.

        Args:
            question: any text.
            earlier: the questions of the conversation before it, oldest first.
            k: how many, in place of the usual.

        Raises:
            SourceError, StoreError: a repository cannot be had or indexed.
        """
        if not question.strip():
            return []
        carried = [text for text in earlier if text.strip()][-_CARRIED:]
        found = search_in_turn(self._searchers(), question, carried, k=k or self.k)
        return list(found.hits)

    def _searchers(self) -> list[Searcher]:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self._settings or load_settings())
            began = time.monotonic()
            if not self._open or began >= self._fetch_again:
                located = [locate(source, self.ref) for source in self.sources]
                self._open = [self._engine.repository(one) for one in located]
                self._fetch_again = time.monotonic() + _MIN_PAUSE_FACTOR * (time.monotonic() - began)
                if not any(one.is_url for one in located):
                    self._fetch_again = math.inf
            elif self._allowance.is_left():
                self._open = [self._engine.current(one) for one in self._open]
                self._allowance.spend(time.monotonic() - began)
            return [repository.searcher for repository in self._open]


def chunk_metadata(hit: Hit) -> dict[str, Any]:
    """The JSON form of a hit without its text, and `source`: `path:start-end`."""
    written = {name: value for name, value in to_json(hit).items() if name not in _NOT_METADATA}
    found: dict[str, Any] = with_old_names({"source": hit.place, **written}, "cli")
    return found


def chunk_id(hit: Hit) -> str:
    """The same for the same lines of the same bytes: `repository@blob:path:start-end`."""
    return f"{hit.location}@{hit.blob}:{hit.place}"
