"""Memory with the five methods by which agent harnesses store notes; no framework is needed.

    from rag.adapters.backend import MemoryBackend, RagMemoryBackend

    memory = RagMemoryBackend("sqlite:///notes.db")
    assert isinstance(memory, MemoryBackend)
    await memory.append_section("project", "rules", "Be concise")
    await memory.add_history("project", "Tests were run: 212 passed")
    await memory.consolidate("project", [{"role": "user", "content": "We ship on Friday."}])
    print(await memory.get_context("project"))

A harness takes it as an argument: `Harness(provider=…, model=…, memory=RagMemoryBackend(url))`. Another URL
selects another store.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from rag.adapters.attributes import OwnAttributes
from rag.adapters.notices import render_summary_prompt
from rag.adapters.store import IN_PROCESS, OpenedStore, StoreAddress
from rag.memory.agent_notes import CONTEXT_TOKENS, Sections, Writer
from rag.messages import split_messages
from rag.service.loop.async_writes import written

T = TypeVar("T")


@runtime_checkable
class MemoryBackend(Protocol):
    """The interface of a harness's memory."""

    async def get_context(self, namespace: str) -> str:
        """Return the memory as text for a prompt."""
        ...

    async def read_section(self, namespace: str, section: str) -> str:
        """Return the text of a section, "" if there is none."""
        ...

    async def append_section(self, namespace: str, section: str, entry: str) -> None:
        """Append a line to a section."""
        ...

    async def add_history(self, namespace: str, entry: str) -> None:
        """Append an entry to the history."""
        ...

    async def consolidate(
        self, namespace: str, messages: list[dict[str, Any]], provider: Any = None, model: str = ""
    ) -> bool:
        """Add messages to the memory; return False if nothing was new."""
        ...


class RagMemoryBackend(OwnAttributes):
    """Notes by section, a history and a summary for each namespace, in memory or in a store.

    Args:
        memory: the store, see `rag.adapters`.
        context_tokens: the maximum size of `get_context`.
    """

    def __init__(self, memory: StoreAddress = IN_PROCESS, *, context_tokens: int = CONTEXT_TOKENS) -> None:
        self._opened = OpenedStore(memory)
        self._context_tokens = context_tokens

    async def get_context(self, namespace: str) -> str:
        """Return summary, sections and the newest history as text for a prompt; "" if all are empty.

        The oldest parts are left out to keep it within `context_tokens`.
        """
        return await self._in_thread(
            namespace, lambda notes: notes.get_context(budget_tokens=self._context_tokens)
        )

    async def read_section(self, namespace: str, section: str) -> str:
        """Return the entries of a section, one per line; "" if there is none."""
        return await self._in_thread(namespace, lambda notes: notes.read_section(section))

    async def append_section(self, namespace: str, section: str, entry: str) -> None:
        """Append a line to a section, creating it if necessary."""
        await self._written(namespace, lambda notes: notes.append_section(section, entry))

    async def add_history(self, namespace: str, entry: str) -> None:
        """Append an entry to the history."""
        await self._written(namespace, lambda notes: notes.add_history(entry))

    async def consolidate(
        self,
        namespace: str,
        messages: Sequence[Mapping[str, Any]],
        provider: Any = None,
        model: str = "",
    ) -> bool:
        """Add messages to the summary; return False if it includes all of them already.

        Args:
            namespace: the namespace of the notes.
            messages: `role` and `content`, oldest first; earlier messages may be passed again.
            provider: writes the summary: a function of a prompt, an object with `complete(prompt)`, or an
                OpenAI client, also asynchronous ones. None writes an extractive summary.
            model: the model of an OpenAI client.

        Raises:
            TypeError: the provider is none of these, or its reply is not text.
        """
        writer = None if provider is None else _writer(provider, model, asyncio.get_running_loop())
        return await self._in_thread(namespace, lambda notes: notes.consolidate(messages, writer=writer))

    async def history(self, namespace: str, last: int | None = None) -> list[str]:
        """Return the entries of the history, or the newest `last`, oldest first."""
        return await self._in_thread(namespace, lambda notes: notes.history(last))

    async def clear(self, namespace: str) -> int:
        """Delete everything in a namespace; return the number of sections."""
        return await self._written(namespace, lambda notes: notes.clear())

    async def aclose(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        await to_thread(self._opened.close)

    async def close(self) -> None:
        """Like `aclose`."""
        await self.aclose()

    async def _in_thread(self, namespace: str, call: Callable[[Sections], T]) -> T:
        return await to_thread(lambda: call(self._notes(namespace)))

    async def _written(self, namespace: str, call: Callable[[Sections], T]) -> T:
        return await written(lambda: call(self._notes(namespace)))

    def _notes(self, namespace: str) -> Sections:
        return Sections(self._opened.store, self._opened.counter, namespace=namespace)


def _writer(provider: Any, model: str, loop: asyncio.AbstractEventLoop) -> Writer:
    """Return a function that calls the provider from a thread; awaitables run in the caller's loop."""
    ask = _completion_function(provider, model)

    def write(summary: str, lines: Sequence[str]) -> str:
        reply = ask(render_summary_prompt(summary, lines))
        if inspect.isawaitable(reply):
            reply = asyncio.run_coroutine_threadsafe(_awaited(reply), loop).result()
        if hasattr(reply, "choices"):
            reply = reply.choices[0].message.content or ""
        if not isinstance(reply, str):
            raise TypeError(f"the provider returned {type(reply).__name__} instead of text")
        return reply

    return write


def _completion_function(provider: Any, model: str) -> Callable[[str], Any]:
    if hasattr(provider, "chat"):
        return lambda prompt: provider.chat.completions.create(model=model, messages=split_messages(prompt))
    if hasattr(provider, "complete"):
        return lambda prompt: provider.complete(prompt)
    if callable(provider):
        return lambda prompt: provider(prompt)
    raise TypeError(
        f"{type(provider).__name__} cannot write a summary: pass a function(prompt), an object "
        "with complete(prompt), or an OpenAI client"
    )


async def _awaited(reply: Any) -> Any:
    return await reply
