"""Repositories that stay open for many questions and are updated from their folders before each of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rag.corpus.acquire import is_in_place
from rag.service.repositories.background_budget import Allowance
from rag.service.repositories.engine import Engine
from rag.service.repositories.repository import Repository
from rag.service.repositories.tree_watch import TreeWatch

_RECHECK_S = 30.0
"""The interval at which a watched folder is compared anyway, as the kernel does not report everything."""
_SHARE = 0.1
"""The share of the time for comparing folders that cannot be watched."""
_BURST_S = 2.0
"""The maximum time for comparisons that is saved up."""


@dataclass(slots=True)
class _Followed:
    repository: Repository
    state: int | None = None
    """The state of the folder, as numbered by `TreeWatch`, at the last comparison; None: not watched."""
    compared: float | None = None


class CurrentRepositories:
    """Repositories in the current state of their folders.

    Where the kernel reports changes, an unchanged folder costs microseconds. Other folders are compared with
    their indexes for at most a tenth of the time. URLs are not fetched again.

    Args:
        engine: opened the repositories and reopens them.
        repositories: the repositories, just opened.
    """

    def __init__(self, engine: Engine, repositories: Sequence[Repository]) -> None:
        self._engine = engine
        self._followed = [_Followed(repository) for repository in repositories]
        self._allowance = Allowance(_SHARE, _BURST_S)
        try:
            self._watch: TreeWatch | None = TreeWatch()
        except OSError:
            self._watch = None

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()

    def now(self) -> list[Repository]:
        """Return the repositories, updated with all changes of their folders.

        Raises:
            SourceError, StoreError: one cannot be read or indexed.
        """
        for one in self._followed:
            if not one.repository.source.is_url and self._is_due(one):
                self._refresh(one)
        return [one.repository for one in self._followed]

    def _is_due(self, one: _Followed) -> bool:
        if one.compared is None:
            return True
        if self._watch is None or one.state is None:
            return self._allowance.is_left()
        if time.monotonic() - one.compared > _RECHECK_S:
            return True
        return not self._watch.is_unchanged(one.repository.checkout.root, one.state)

    def _refresh(self, one: _Followed) -> None:
        began = time.monotonic()
        if self._watch is not None and is_in_place(one.repository.source):
            one.state = self._watch.begin(one.repository.checkout.root)
        one.compared = None  # if the next line fails, the folder is compared again
        one.repository = self._engine.current(one.repository)
        one.compared = began
        if one.state is None:
            self._allowance.spend(time.monotonic() - began)
