"""The limit on what a wiki run may spend on a model."""

from __future__ import annotations

import threading

from rag.errors import ConfigError
from rag.types import Usage


class ModelBudget:
    """The remaining tokens, shared by all threads."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens, self._spent = tokens, 0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise ConfigError when the budget is spent."""
        with self._lock:
            if self._tokens is not None and self._spent >= self._tokens:
                raise ConfigError(
                    f"the budget of {self._tokens:,} tokens is spent ({self._spent:,}); run again to continue"
                )

    def spend(self, usage: Usage) -> None:
        """Subtract the cost of a page."""
        with self._lock:
            self._spent += usage.total_tokens
