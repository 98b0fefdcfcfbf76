"""Memory and retrieval for AutoGen, as a `Memory` (autogen-core 0.7; `pip install '.[autogen]'`).

    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.memory import MemoryContent
    from rag.adapters.autogen import RagMemory, RepositoryMemory

    notes = RagMemory("notes", memory="sqlite:///notes.db")
    await notes.add(MemoryContent(content="Answer in one sentence.", mime_type="text/plain"))
    code = RepositoryMemory("data/sample_repo")
    agent = AssistantAgent("helper", model_client=model_client, memory=[notes, code])
    print((await agent.run(task="Where is a token checked?")).messages[-1].content)

`AssistantAgent` is in a separate package (`pip install 'autogen-agentchat>=0.7.5,<0.8'`), which the memories
do not need.

A memory adds one system message to the model's context. When its text changes, it replaces the old one. It is
at the start of the conversation, where every model accepts system messages.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from rag.adapters.attributes import OwnAttributes
from rag.adapters.conversation import StoredConversation, as_text
from rag.adapters.notices import render_chunks, render_memories
from rag.adapters.repository import RepositorySearch, Sources, chunk_metadata
from rag.adapters.store import IN_PROCESS, StoreAddress
from rag.errors import BackendMissing
from rag.service.loop.async_writes import written
from rag.settings import Settings
from rag.types import Hit, Message

try:
    from autogen_core import CancellationToken, Component
    from autogen_core.memory import (
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import ChatCompletionContext
except ImportError as error:
    raise BackendMissing(backend=__name__, missing="autogen-core 0.7", extra="autogen") from error
from pydantic import BaseModel, Field, field_validator

from rag.adapters.autogen_contents import Contents, content_of, from_record, message_of, record_of
from rag.adapters.autogen_context import questions, set_system_message

T = TypeVar("T")

_unnamed = itertools.count(1)


class RagMemoryConfig(BaseModel):
    """The result of `RagMemory.dump_component`. `memory_contents` also accepts those of a `ListMemory`, as
    objects or as dicts from its configuration.
    """

    name: str | None = None
    memory: str = IN_PROCESS
    namespace: str = ""
    k: int | None = None
    memory_contents: list[dict[str, Any]] = Field(default_factory=list)

    @field_validator("memory_contents", mode="before")
    @classmethod
    def _written(cls, given: Any) -> Any:
        if not isinstance(given, (list, tuple)):
            return given
        return [record_of(message_of(one)) if isinstance(one, MemoryContent) else one for one in given]


class RagMemory(OwnAttributes, Memory, Component[RagMemoryConfig]):
    """Stores contents in the order they were added, in memory or in a store.

    A superset of `ListMemory`: `query` ranks, contents of every kind can be stored and converted to JSON, and
    the memory can be persistent. `clear` only deletes what is stored under this name.

    Args:
        name: its name, by which a persistent memory is reopened.
        memory_contents: the initial contents, if nothing is stored under its name.
        memory: the store, see `rag.adapters`.
        namespace: the owner.
        k: how many memories are added to the context, those that match the last question best; None is all.
    """

    component_type = "memory"
    component_provider_override = "rag.adapters.autogen.RagMemory"
    component_config_schema = RagMemoryConfig

    def __init__(
        self,
        name: str | None = None,
        memory_contents: Iterable[MemoryContent] | None = None,
        *,
        memory: StoreAddress = IN_PROCESS,
        namespace: str = "",
        k: int | None = None,
    ) -> None:
        if not name and memory != IN_PROCESS:
            raise ValueError("a persistent memory is reopened by its name; pass a name")
        self._name = name or f"memory {next(_unnamed)}"
        self._k = k
        self._stored = StoredConversation(memory, self._name, namespace)
        initial = [message_of(content) for content in memory_contents or ()]
        if initial and not self._stored.messages():
            self._stored.get_or_create().add(initial)

    @property
    def name(self) -> str:
        """The name of the memory."""
        return self._name

    @property
    def content(self) -> Contents:
        """All contents, oldest first, as a list; changing it changes the memory."""
        return Contents(self._stored)

    @content.setter
    def content(self, value: Iterable[MemoryContent]) -> None:
        Contents(self._stored)[:] = list(value)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add the memories to the model's context; return them, oldest first."""
        question = "".join(questions(await model_context.get_messages())[-1:])
        relevant = await asyncio.to_thread(self._relevant, question)
        header = render_memories(self.name, [])
        text = render_memories(self.name, [as_text(one) for one in relevant]) if relevant else ""
        await set_system_message(model_context, text, header)
        return UpdateContextResult(memories=MemoryQueryResult(results=[content_of(one) for one in relevant]))

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: CancellationToken | None = None,
        *,
        k: int | None = None,
        top_k: int | None = None,
        sequential: bool = False,
        distance_threshold: float | None = None,
    ) -> MemoryQueryResult:
        """Return all contents: first those that match words of the query, best first, then the others.

        Matches have a `score` in their metadata; the others are in the order they were added.

        Args:
            query: a text, or a content whose text is used.
            cancellation_token: cancels waiting for the result.
            k: the maximum number of results; None is all.
            top_k: the same, as in AutoGen's other memories.
            sequential: return the newest contents in the order they were added, whatever the query.
            distance_threshold: refused, as contents are ranked by words and have no distance.

        Raises:
            ValueError: the number is below 1, or given twice; or there is a distance.
        """
        count = _count(k, top_k, distance_threshold)
        words = query if isinstance(query, str) else as_text(message_of(query))
        call = partial(self._newest, count) if sequential else partial(self._query, words, count)
        results = await _in_thread(cancellation_token, call)
        return MemoryQueryResult(results=results)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Store a content. Raises TypeError if dicts or metadata are not JSON.

        A cancelled call still stores the content.
        """
        message = message_of(content)
        adding = asyncio.ensure_future(written(lambda: self._stored.get_or_create().add(message)))
        if cancellation_token is not None:
            cancellation_token.link_future(adding)
        await adding

    async def clear(self) -> None:
        """Delete everything under this name."""
        await written(lambda: self._stored.current().clear())

    async def close(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        await asyncio.to_thread(self._stored.close)

    def _relevant(self, question: str) -> list[Message]:
        messages = self._stored.messages()
        if self._k is None or not messages:
            return messages
        scores = self._stored.scores(question, self._k)
        return [message for message in messages if message.id in scores]

    def _newest(self, k: int | None) -> list[MemoryContent]:
        return [content_of(message) for message in self._stored.messages(last=k)]

    def _query(self, words: str, k: int | None) -> list[MemoryContent]:
        by_id = {message.id: message for message in self._stored.messages()}
        scores = self._stored.scores(words, max(1, len(by_id))) if words.strip() else {}
        matching = {found: score for found, score in scores.items() if found in by_id}
        ranked = [*matching, *(one for one in by_id if one not in matching)]
        return [content_of(by_id[one], matching.get(one)) for one in ranked[:k]]

    def _to_config(self) -> RagMemoryConfig:
        """Refer to a persistent store by its address without the password; else include the contents."""
        stored = self._stored
        kept = [] if stored.is_persistent else [record_of(one) for one in stored.messages()]
        return RagMemoryConfig(
            name=self._name,
            memory=stored.address,
            namespace=stored.namespace,
            k=self._k,
            memory_contents=kept,
        )

    @classmethod
    def _from_config(cls, config: RagMemoryConfig) -> RagMemory:
        contents = [from_record(record) for record in config.memory_contents]
        return cls(config.name, contents, memory=config.memory, namespace=config.namespace, k=config.k)


class RepositoryMemoryConfig(BaseModel):
    """The result of `RepositoryMemory.dump_component`."""

    sources: list[str]
    ref: str | None = None
    k: int = 5
    name: str | None = None


class RepositoryMemory(OwnAttributes, Memory, Component[RepositoryMemoryConfig]):
    """Answers with chunks of repositories; it stores nothing, so `clear` and `close` have no effect.

    Args:
        sources: a path or git URL, or several, indexed on first use.
        ref: a branch, tag or commit of all of them.
        k: the number of chunks.
        name: the origin of the chunks as shown to the model; by default the repositories' addresses.
        settings: the embedder and home folder; None is the user's settings.
    """

    component_type = "memory"
    component_provider_override = "rag.adapters.autogen.RepositoryMemory"
    component_config_schema = RepositoryMemoryConfig

    def __init__(
        self,
        sources: Sources,
        *,
        ref: str | None = None,
        k: int = 5,
        name: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._search = RepositorySearch(sources, ref=ref, k=k, settings=settings)
        self._name = name

    @property
    def name(self) -> str:
        """The origin of the chunks as shown to the model."""
        return self._name or ", ".join(self._search.sources)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add the chunks for the user's last question to the model's context; return them."""
        asked = questions(await model_context.get_messages())
        question, earlier = (asked[-1], asked[:-1]) if asked else ("", [])
        hits = await asyncio.to_thread(lambda: self._search.search(question, earlier=earlier))
        several = len(self._search.sources) > 1
        text = render_chunks(self.name, hits, name_repository=several) if hits else ""
        await set_system_message(model_context, text, render_chunks(self.name, []))
        return UpdateContextResult(memories=MemoryQueryResult(results=[_chunk(hit) for hit in hits]))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        *,
        k: int | None = None,
        top_k: int | None = None,
        sequential: bool = False,
        distance_threshold: float | None = None,
    ) -> MemoryQueryResult:
        """Return the best chunks for a question, best first; `k`, or `top_k`, is their number.

        Their metadata is that of `rag.adapters.repository.chunk_metadata`: score, path, start, end, …

        Raises:
            ValueError: the number is below 1, or given twice; or `sequential` or a `distance_threshold` is
                asked for: chunks have no order of adding, and a score that is no distance.
        """
        if sequential:
            raise ValueError("sequential=True: the chunks of a repository have no order; leave it out")
        count = _count(k, top_k, distance_threshold)
        question = query if isinstance(query, str) else as_text(message_of(query))
        hits = await _in_thread(cancellation_token, lambda: self._search.search(question, k=count))
        return MemoryQueryResult(results=[_chunk(hit) for hit in hits])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Raise NotImplementedError, as a repository is read-only."""
        raise NotImplementedError("a repository is read-only; add memories to a RagMemory")

    async def clear(self) -> None:
        """Do nothing, as the repositories are read-only."""

    async def close(self) -> None:
        """Do nothing."""

    def _to_config(self) -> RepositoryMemoryConfig:
        search = self._search
        return RepositoryMemoryConfig(
            sources=list(search.sources), ref=search.ref, k=search.k, name=self._name
        )

    @classmethod
    def _from_config(cls, config: RepositoryMemoryConfig) -> RepositoryMemory:
        return cls(config.sources, ref=config.ref, k=config.k, name=config.name)


def _chunk(hit: Hit) -> MemoryContent:
    return MemoryContent(content=hit.text, mime_type=MemoryMimeType.TEXT, metadata=chunk_metadata(hit))


def _count(k: int | None, top_k: int | None, distance_threshold: float | None) -> int | None:
    """Return the number of results that a query asks for; None is the default. Raises ValueError."""
    if distance_threshold is not None:
        raise ValueError(
            "distance_threshold: results have a score, not a distance of vectors; leave it out, and limit "
            "their number with top_k"
        )
    if None not in (k, top_k) and k != top_k:
        raise ValueError(f"k={k} and top_k={top_k} mean the same; pass one of them")
    count = top_k if k is None else k
    if count is not None and count < 1:
        raise ValueError(f"top_k must be at least 1, not {count}")
    return count


async def _in_thread(token: CancellationToken | None, call: Callable[[], T]) -> T:
    future = asyncio.ensure_future(asyncio.to_thread(call))
    if token is not None:
        token.link_future(future)
    return await future
