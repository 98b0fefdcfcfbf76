"""Language models: counting their tokens, and asking them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol, TypeGuard, runtime_checkable

from rag.types import Prepared, Usage


class TokenCounter(Protocol):
    """Counts tokens; a counter that has to estimate errs on the high side."""

    @property
    def name(self) -> str:
        """The name of the encoding, for example "cl100k_base" or "estimate"."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens: 0 for "", at least 1 for any other text."""
        ...


class LearningCounter(TokenCounter, Protocol):
    """A counter that learns from what a service reports."""

    def learn(self, text: str, tokens: int) -> None:
        """Learn from the tokens that the service reported for a prompt; implausible ones are ignored."""
        ...


def is_learning(counter: TokenCounter) -> TypeGuard[LearningCounter]:
    """Whether a counter learns (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(counter, "learn")


class TextGenerator(Protocol):
    """Generates an answer to a prepared question."""

    @property
    def model(self) -> str:
        """The model's name, as shown to the user."""
        ...

    def stream(self, prepared: Prepared) -> Iterator[str]:
        """Yield pieces of the answer; a `Replacement` replaces the pieces before it.

        Raises:
            ProviderError: the service failed, possibly in mid-stream; `.retryable` says whether to retry.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """Tokens of the last answer as reported by the service; None if it reported none."""
        ...


@runtime_checkable
class CompletingGenerator(TextGenerator, Protocol):
    """A generator that also completes other short prompts, such as rewriting a follow-up question."""

    def complete(self, text: str, answer_tokens: int = 500, within_s: float | None = None) -> str:
        """Return the whole reply to a prompt, cut at a number of tokens.

        A reply that takes longer than `within_s` is an error; None is the time of an answer.

        Raises:
            ProviderError: the service failed or returned an empty reply.
        """
        ...


def is_completing(generator: TextGenerator) -> TypeGuard[CompletingGenerator]:
    """Whether a generator completes other prompts (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(generator, "complete")


class ToolCallingGenerator(TextGenerator, Protocol):
    """A generator whose model may call tools: `stream` sends the `chat` of a prepared question.

    A stream has the tools that the model calls as `calls` at its end; the caller runs them. Once the service
    has refused tools, which raises ProviderError, `calls_tools` is False.
    """

    @property
    def calls_tools(self) -> bool:
        """Whether the service accepts tools, as far as is known."""
        ...


def is_tool_calling(generator: TextGenerator) -> TypeGuard[ToolCallingGenerator]:
    """Whether a generator calls tools, and its service has not refused them."""
    return bool(getattr(generator, "calls_tools", False))


class AsyncGenerator(TextGenerator, Protocol):
    """A generator with an asynchronous interface, for event loops."""

    def astream(self, prepared: Prepared) -> AsyncIterator[str]:
        """Like `stream`."""
        ...

    async def acomplete(self, text: str, answer_tokens: int = 500, within_s: float | None = None) -> str:
        """Like `complete`."""
        ...


def is_async(generator: TextGenerator) -> TypeGuard[AsyncGenerator]:
    """Whether a generator has an asynchronous interface (for why not `isinstance`, see `takes_bags`)."""
    return hasattr(generator, "astream") and hasattr(generator, "acomplete")
