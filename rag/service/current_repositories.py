"""Repositories that stay open for many questions, each brought up to date with its folder before the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rag.corpus.acquire import is_in_place
from rag.service.background_budget import Allowance
from rag.service.engine import Engine, Repository
from rag.service.tree_watch import TreeWatch

_RECHECK_S = 30.0
"""A watched folder is compared at least so often all the same: the kernel does not report everything."""
_SHARE = 0.1
"""Of the time, for comparing folders that cannot be watched."""
_BURST_S = 2.0
"""Seconds of comparing that are saved up at most."""


@dataclass(slots=True)
class _Followed:
    repository: Repository
    state: int | None = None
    """Which state of the folder the last comparison saw, as `TreeWatch` numbers them; None: not watched."""
    compared: float | None = None


class CurrentRepositories:
    """Repositories as their folders are when they are asked for.

    Where the kernel reports changes, an unchanged folder costs microseconds. Other folders are compared with
    their indexes for at most a tenth of the time. URLs are not fetched again.

    Args:
        engine: opened the repositories, and opens them again.
        repositories: as they were just opened.
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
        """Watch nothing any more."""
        if self._watch is not None:
            self._watch.close()

    def now(self) -> list[Repository]:
        """Return the repositories with all changes of their folders taken in.

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
        one.compared = None  # where the next line fails, the folder is compared again
        one.repository = self._engine.current(one.repository)
        one.compared = began
        if one.state is None:
            self._allowance.spend(time.monotonic() - began)
