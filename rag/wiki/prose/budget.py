"""The limit on what a wiki run may spend on a model."""

from __future__ import annotations

import threading

from rag.errors import ConfigError
from rag.types import Usage


class ModelBudget:
    """The remaining budget, shared by all threads."""

    def __init__(self, tokens: int | None, usd: float | None) -> None:
        self._tokens, self._usd = tokens, usd
        self._spent_tokens, self._spent_usd = 0, 0.0
        self._unpriced = False
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise ConfigError when the budget is spent."""
        with self._lock:
            if self._tokens is not None and self._spent_tokens >= self._tokens:
                raise ConfigError(
                    f"the budget of {self._tokens:,} tokens is spent ({self._spent_tokens:,}); "
                    "run again to continue"
                )
            if self._usd is not None and self._unpriced:
                raise ConfigError("the model's price is not known: give the budget in tokens, not dollars")
            if self._usd is not None and self._spent_usd >= self._usd:
                raise ConfigError(
                    f"the budget of ${self._usd:.2f} is spent (${self._spent_usd:.2f}); run again to continue"
                )

    def spend(self, usage: Usage) -> None:
        """Subtract the cost of a page."""
        with self._lock:
            self._spent_tokens += usage.total_tokens
            self._spent_usd += usage.cost_usd or 0.0
            self._unpriced |= usage.cost_usd is None
