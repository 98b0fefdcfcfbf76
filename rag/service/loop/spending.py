"""Counts the tokens of all requests to the model for one question."""

from __future__ import annotations

from rag.ports import TextGenerator, TokenCounter
from rag.types import Usage


class Spending:
    """The tokens of a question so far: as the service reported them, else estimated by the counter."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._prompt = self._answer = 0
        self._is_estimated = False
        self._cost: float | None = 0.0

    def completed(self, generator: TextGenerator, prompt: str, reply: str) -> None:
        """Add a short request, such as that for other words of the question."""
        usage = getattr(generator, "completion_usage", None)
        self.add(usage, self._counter.count(prompt) if usage is None else 0, reply)

    def add(self, usage: Usage | None, prompt_tokens: int, reply: str) -> None:
        """Add a request; without usage, its prompt has about `prompt_tokens`."""
        if usage is None:
            usage = Usage(prompt_tokens, self._counter.count(reply))
        self._prompt += usage.prompt_tokens
        self._answer += usage.answer_tokens
        self._is_estimated |= usage.estimated
        costs = (self._cost, usage.cost_usd)
        self._cost = None if None in costs else sum(filter(None, costs))

    @property
    def usage(self) -> Usage:
        """The tokens of all requests, and what they cost if that is known of each."""
        return Usage(self._prompt, self._answer, self._is_estimated, self._cost)
