"""Our memory behind the five methods by which agent harnesses keep notes; no framework is needed.

    from rag.adapters.backend import MemoryBackend, RagMemoryBackend

    memory = RagMemoryBackend("sqlite:///notes.db")
    assert isinstance(memory, MemoryBackend)
    await memory.append_section("project", "rules", "Be concise")
    await memory.add_history("project", "Tests were run: 212 passed")
    await memory.consolidate("project", [{"role": "user", "content": "We ship on Friday."}])
    print(await memory.get_context("project"))

A harness takes one where it is made: `Harness(provider=…, model=…, memory=RagMemoryBackend(url))`; another
URL is another store, and nothing else changes.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from rag.adapters.notices import ask_for_summary
from rag.adapters.store import IN_PROCESS, OpenedStore
from rag.memory.agent_notes import CONTEXT_TOKENS, Sections, Writer
from rag.messages import split_messages
from rag.ports import MemoryStore
from rag.service.async_writes import written

T = TypeVar("T")


@runtime_checkable
class MemoryBackend(Protocol):
    """What a harness asks of a memory; anything with these five methods is one."""

    async def get_context(self, namespace: str) -> str:
        """What is to be said to a model of what is remembered."""
        ...

    async def read_section(self, namespace: str, section: str) -> str:
        """What a section holds, "" when there is none."""
        ...

    async def append_section(self, namespace: str, section: str, entry: str) -> None:
        """Write a line at the end of a section."""
        ...

    async def add_history(self, namespace: str, entry: str) -> None:
        """Write an entry at the end of the history."""
        ...

    async def consolidate(
        self, namespace: str, messages: list[dict[str, Any]], provider: Any = None, model: str = ""
    ) -> bool:
        """Take messages into what is remembered; False when there was nothing new."""
        ...


class RagMemoryBackend:
    """Notes by section, a history and a summary of each namespace, in this process or in any of our stores.

    Args:
        memory: where they are kept, see `rag.adapters`.
        context_tokens: what `get_context` may cost.
    """

    def __init__(
        self, memory: str | MemoryStore = IN_PROCESS, *, context_tokens: int = CONTEXT_TOKENS
    ) -> None:
        self._opened = OpenedStore(memory)
        self._context_tokens = context_tokens

    async def get_context(self, namespace: str) -> str:
        """Summary, sections and the newest history, as text for a prompt; "" when all are empty.

        The oldest of it is left out where all would cost more than `context_tokens`.
        """
        return await self._in_thread(
            namespace, lambda notes: notes.get_context(budget_tokens=self._context_tokens)
        )

    async def read_section(self, namespace: str, section: str) -> str:
        """What a section holds, each entry on a line; "" when there is none."""
        return await self._in_thread(namespace, lambda notes: notes.read_section(section))

    async def append_section(self, namespace: str, section: str, entry: str) -> None:
        """Write a line at the end of a section, which begins empty."""
        await self._written(namespace, lambda notes: notes.append_section(section, entry))

    async def add_history(self, namespace: str, entry: str) -> None:
        """Write an entry at the end of the history."""
        await self._written(namespace, lambda notes: notes.add_history(entry))

    async def consolidate(
        self,
        namespace: str,
        messages: Sequence[Mapping[str, Any]],
        provider: Any = None,
        model: str = "",
    ) -> bool:
        """Take messages into the summary; False when all of them are in it already.

        Args:
            namespace: whose.
            messages: `role` and `content`, oldest first; they may be given again, with others.
            provider: what writes the summary: a function of a prompt, something with `complete(prompt)`, or
                an OpenAI client; all may be asynchronous. None makes a digest.
            model: which model an OpenAI client is to ask.

        Raises:
            TypeError: the provider is none of these, or answers with something else than text.
        """
        writer = None if provider is None else _writer(provider, model, asyncio.get_running_loop())
        return await self._in_thread(namespace, lambda notes: notes.consolidate(messages, writer=writer))

    async def history(self, namespace: str, last: int | None = None) -> list[str]:
        """The entries of the history, oldest first; only the newest `last`."""
        return await self._in_thread(namespace, lambda notes: notes.history(last))

    async def clear(self, namespace: str) -> int:
        """Forget everything of a namespace; return how many sections there were."""
        return await self._written(namespace, lambda notes: notes.clear())

    async def aclose(self) -> None:
        """Close the store, if it was opened here; using the memory again opens it again."""
        await to_thread(self._opened.close)

    async def close(self) -> None:
        """The same as `aclose`."""
        await self.aclose()

    async def _in_thread(self, namespace: str, call: Callable[[Sections], T]) -> T:
        return await to_thread(lambda: call(self._notes(namespace)))

    async def _written(self, namespace: str, call: Callable[[Sections], T]) -> T:
        return await written(lambda: call(self._notes(namespace)))

    def _notes(self, namespace: str) -> Sections:
        return Sections(self._opened.store, self._opened.counter, namespace=namespace)


def _writer(provider: Any, model: str, loop: asyncio.AbstractEventLoop) -> Writer:
    """Asks the provider from a thread; what it has to be awaited for runs in the caller's loop."""
    ask = _asking(provider, model)

    def write(summary: str, lines: Sequence[str]) -> str:
        reply = ask(ask_for_summary(summary, lines))
        if inspect.isawaitable(reply):
            reply = asyncio.run_coroutine_threadsafe(_awaited(reply), loop).result()
        if hasattr(reply, "choices"):
            reply = reply.choices[0].message.content or ""
        if not isinstance(reply, str):
            raise TypeError(f"the provider answered with {type(reply).__name__}, not with text")
        return reply

    return write


def _asking(provider: Any, model: str) -> Callable[[str], Any]:
    if hasattr(provider, "chat"):
        return lambda prompt: provider.chat.completions.create(model=model, messages=split_messages(prompt))
    if hasattr(provider, "complete"):
        return lambda prompt: provider.complete(prompt)
    if callable(provider):
        return lambda prompt: provider(prompt)
    raise TypeError(
        f"{type(provider).__name__} cannot be asked for a summary: give a function of a prompt, something "
        "with complete(prompt), or an OpenAI client"
    )


async def _awaited(reply: Any) -> Any:
    return await reply
