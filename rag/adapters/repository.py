"""Search in repositories, for adapters that return chunks."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from rag.schema import to_json
from rag.service import Engine, Repository, locate
from rag.service.repositories.background_budget import Allowance
from rag.service.tools.search import SearchQuery, search_repositories
from rag.settings import Settings, load_settings
from rag.types import Hit

_MIN_PAUSE_FACTOR = 20.0
"""The pause between fetches of a URL, as a multiple of the time of the last one."""
_SHARE, _BURST_S = 0.05, 2.0
"""The share of the time for comparing folders, and the seconds of it that are saved up."""
_MAX_EARLIER = 5
"""The maximum number of earlier questions that are used as context of a question."""

_NOT_METADATA = frozenset({"text", "blank_end", "legs"})

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One or several repositories: paths or git URLs."""


def sources_of(given: Sources) -> tuple[str, ...]:
    """Return repositories as texts, however they are given.

    Raises:
        ValueError: there is none.
        TypeError: something else than texts and paths is given.
    """
    every = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    found = tuple(os.fspath(one) for one in every)
    if not found or not all(isinstance(one, str) and one for one in found):
        raise ValueError("pass at least one repository to search: a path or a git URL")
    return found


class RepositorySearch:
    """Finds chunks of repositories, which are indexed with the first question and kept up to date.

    With each question the files are compared with the index, and changes are indexed first, unless that takes
    more than a twentieth of the time. Thread-safe.

        >>> search = RepositorySearch("data/sample_repo")
        >>> search.search("Where is a token checked?")[0].path
        'snip/auth.py'

    Args:
        sources: a path or git URL, or several.
        ref: a branch, tag or commit of all of them; None is the work tree, or a URL's default branch.
        k: the number of chunks, at least 1.
        settings: the embedder and home folder; None is the user's settings.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        ref: str | None = None,
        k: int = 5,
        settings: Settings | None = None,
    ) -> None:
        self.sources = sources_of(sources)
        self.ref, self.k = ref, k
        self._settings = settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._open: list[Repository] = []
        self._fetch_again = 0.0
        self._allowance = Allowance(_SHARE, _BURST_S)

    def search(self, question: str, *, earlier: Sequence[str] = (), k: int | None = None) -> list[Hit]:
        """Return the best chunks for a question, best first; an empty question finds nothing.

        Args:
            question: any text.
            earlier: the questions of the conversation before it, oldest first.
            k: the number of chunks, instead of the default.

        Raises:
            SearchInvalid: `k` is below 1.
            SourceError, StoreError: a repository is not available or cannot be indexed.
        """
        if not question.strip():
            return []
        carried = [text for text in earlier if text.strip()][-_MAX_EARLIER:]
        query = SearchQuery(question, k=self.k if k is None else k, earlier=carried)
        return list(search_repositories(self._repositories(), query).hits)

    def _repositories(self) -> list[Repository]:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self._settings or load_settings())
            began = time.monotonic()
            if not self._open or began >= self._fetch_again:
                located = [locate(source, self.ref) for source in self.sources]
                self._open = [self._engine.repository(one, else_old=True) for one in located]
                self._fetch_again = time.monotonic() + _MIN_PAUSE_FACTOR * (time.monotonic() - began)
                if not any(one.is_url for one in located):
                    self._fetch_again = math.inf
            elif self._allowance.is_left():
                self._open = [self._engine.current(one) for one in self._open]
                self._allowance.spend(time.monotonic() - began)
            return self._open


def chunk_metadata(hit: Hit) -> dict[str, Any]:
    """Return the JSON form of a hit without its text, with `source`: `path:start-end`."""
    written = {name: value for name, value in to_json(hit).items() if name not in _NOT_METADATA}
    return {"source": hit.place, **written}


def chunk_id(hit: Hit) -> str:
    """Return an id that is equal for the same lines of the same bytes: `repository@blob:path:start-end`."""
    return f"{hit.location}@{hit.blob}:{hit.place}"
