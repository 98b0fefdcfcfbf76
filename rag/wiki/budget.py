"""What a run of the writer may spend on a model."""

from __future__ import annotations

import threading

from rag.errors import ConfigError
from rag.types import Usage


class ModelBudget:
    """What may still be spent, over all threads."""

    def __init__(self, tokens: int | None, usd: float | None) -> None:
        self._tokens, self._usd = tokens, usd
        self._spent_tokens, self._spent_usd = 0, 0.0
        self._unpriced = False
        self._lock = threading.Lock()

    def check(self) -> None:
        """See that something is left. Raises ConfigError when the budget is spent."""
        with self._lock:
            if self._tokens is not None and self._spent_tokens >= self._tokens:
                raise ConfigError(
                    f"the budget of {self._tokens:,} tokens is spent ({self._spent_tokens:,}); "
                    "run again to go on"
                )
            if self._usd is not None and self._unpriced:
                raise ConfigError("the model's price is not known, so no budget in dollars can be kept")
            if self._usd is not None and self._spent_usd >= self._usd:
                raise ConfigError(
                    f"the budget of ${self._usd:.2f} is spent (${self._spent_usd:.2f}); run again to go on"
                )

    def spend(self, usage: Usage) -> None:
        """Take note of what a page cost."""
        with self._lock:
            self._spent_tokens += usage.total_tokens
            self._spent_usd += usage.cost_usd or 0.0
            self._unpriced |= usage.cost_usd is None
