"""Our memory and our retrieval as AutoGen's `Memory` (autogen-core 0.7; `pip install '.[autogen]'`).

    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.memory import MemoryContent
    from rag.adapters.autogen import RagMemory, RepositoryMemory

    notes = RagMemory("notes", memory="sqlite:///notes.db")
    await notes.add(MemoryContent(content="Answer in one sentence.", mime_type="text/plain"))
    code = RepositoryMemory("data/sample_repo")
    agent = AssistantAgent("helper", model_client=model_client, memory=[notes, code])
    print((await agent.run(task="Where is a token checked?")).messages[-1].content)

`AssistantAgent` is in a package of its own (`pip install 'autogen-agentchat>=0.7.5,<0.8'`), which the
memories themselves do not need.

What a memory has to say stands in the model's context once: said again when it is different, in the place
of what was said before, and in front of the conversation, where every model takes a system message.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rag.adapters.conversation import StoredConversation, as_text
from rag.adapters.notices import tell_chunks, tell_memories
from rag.adapters.repository import RepositorySearch, chunk_metadata
from rag.adapters.store import IN_PROCESS
from rag.errors import BackendMissing
from rag.ports import MemoryStore
from rag.service.async_writes import written
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
from rag.adapters.autogen_context import questions, say

T = TypeVar("T")

_unnamed = itertools.count(1)


class RagMemoryConfig(BaseModel):
    """What `RagMemory.dump_component` writes. `memory_contents` also takes those of a `ListMemory`, as
    objects or as the dicts that its configuration holds.
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


class RagMemory(Memory, Component[RagMemoryConfig]):
    """Remembers contents in the order they were added, in this process or in any of our stores.

    What `ListMemory` does it does too; beyond that `query` ranks, contents of every kind survive a store
    and JSON, and the memory can outlive the program. `clear` deletes what is kept under this name only.

    Args:
        name: what it is called, and in a store that outlives the program found by.
        memory_contents: what it begins with, if nothing is kept under its name.
        memory: where it is kept, see `rag.adapters`.
        namespace: whose it is.
        k: how many memories a model is told, those that match the last question best; None is all.
    """

    component_type = "memory"
    component_provider_override = "rag.adapters.autogen.RagMemory"
    component_config_schema = RagMemoryConfig

    def __init__(
        self,
        name: str | None = None,
        memory_contents: Iterable[MemoryContent] | None = None,
        *,
        memory: str | MemoryStore = IN_PROCESS,
        namespace: str = "",
        k: int | None = None,
    ) -> None:
        if not name and memory != IN_PROCESS:
            raise ValueError("a memory that outlives the program is found by its name; give it one")
        self._name = name or f"memory {next(_unnamed)}"
        self._k = k
        self._stored = StoredConversation(memory, self._name, namespace)
        begins_with = [message_of(content) for content in memory_contents or ()]
        if begins_with and not self._stored.messages():
            self._stored.begun().add(begins_with)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def content(self) -> Contents:
        """All contents, oldest first: a list, whose changes are changes of the memory."""
        return Contents(self._stored)

    @content.setter
    def content(self, value: Iterable[MemoryContent]) -> None:
        Contents(self._stored)[:] = list(value)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Tell the model what is remembered; return those contents, oldest first."""
        question = "".join(questions(await model_context.get_messages())[-1:])
        told = await asyncio.to_thread(self._relevant, question)
        header = tell_memories(self.name, [])
        said = tell_memories(self.name, [as_text(one) for one in told]) if told else ""
        await say(model_context, said, header)
        return UpdateContextResult(memories=MemoryQueryResult(results=[content_of(one) for one in told]))

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """All contents: first those that hold words of the query, best first, then the others.

        Those that match have a `score` in their metadata; the others come oldest first, as they were added.

        Args:
            query: text; of another content its text.
            cancellation_token: cancels the waiting.
            kwargs: `k`, how many at most; others are not looked at.
        """
        words = query if isinstance(query, str) else as_text(message_of(query))
        results = await _in_thread(cancellation_token, lambda: self._query(words, kwargs.get("k")))
        return MemoryQueryResult(results=results)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Remember a content. Raises TypeError where dicts or metadata hold what is not JSON.

        After a cancellation it is remembered.
        """
        message = message_of(content)
        adding = asyncio.ensure_future(written(lambda: self._stored.begun().add(message)))
        if cancellation_token is not None:
            cancellation_token.link_future(adding)
        await adding

    async def clear(self) -> None:
        """Forget everything under this name."""
        await written(lambda: self._stored.at_present().clear())

    async def close(self) -> None:
        """Close the store, if it was opened here; using the memory again opens it again."""
        await asyncio.to_thread(self._stored.close)

    def _relevant(self, question: str) -> list[Message]:
        messages = self._stored.messages()
        if self._k is None or not messages:
            return messages
        scores = self._stored.scores(question, self._k)
        return [message for message in messages if message.id in scores]

    def _query(self, words: str, k: int | None) -> list[MemoryContent]:
        by_id = {message.id: message for message in self._stored.messages()}
        scores = self._stored.scores(words, max(1, len(by_id))) if words.strip() else {}
        matching = {found: score for found, score in scores.items() if found in by_id}
        ranked = [*matching, *(one for one in by_id if one not in matching)]
        return [content_of(by_id[one], matching.get(one)) for one in ranked[: k or len(ranked)]]

    def _to_config(self) -> RagMemoryConfig:
        """A store that outlives the program is named, without its password; else the contents are written."""
        stored = self._stored
        kept = [] if stored.is_kept_elsewhere else [record_of(one) for one in stored.messages()]
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
    """What `RepositoryMemory.dump_component` writes."""

    sources: list[str]
    ref: str | None = None
    k: int = 5
    name: str | None = None


class RepositoryMemory(Memory, Component[RepositoryMemoryConfig]):
    """Answers with chunks of repositories; keeps nothing of its own, so `clear` and `close` do nothing.

    Args:
        sources: paths or git URLs, indexed when first asked.
        ref: a branch, tag or commit of them all.
        k: how many chunks.
        name: what the model is told they are from; by default the repositories' addresses.
        settings: which embedder and home folder; None is what the user has configured.
    """

    component_type = "memory"
    component_provider_override = "rag.adapters.autogen.RepositoryMemory"
    component_config_schema = RepositoryMemoryConfig

    def __init__(
        self,
        sources: str | Sequence[str],
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
        """What the model is told the chunks are from."""
        return self._name or ", ".join(self._search.sources)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Tell the model what the repositories hold on the last question of the user; return the chunks."""
        asked = questions(await model_context.get_messages())
        question, earlier = (asked[-1], asked[:-1]) if asked else ("", [])
        hits = await asyncio.to_thread(lambda: self._search.search(question, earlier=earlier))
        several = len(self._search.sources) > 1
        said = tell_chunks(self.name, hits, name_repository=several) if hits else ""
        await say(model_context, said, tell_chunks(self.name, []))
        return UpdateContextResult(memories=MemoryQueryResult(results=[_chunk(hit) for hit in hits]))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """The chunks that answer a question best, best first; `k` in `kwargs` says how many.

        Their metadata are those of `rag.adapters.repository.chunk_metadata`: score, path, start, end, …
        """
        question = query if isinstance(query, str) else as_text(message_of(query))
        hits = await _in_thread(cancellation_token, lambda: self._search.search(question, k=kwargs.get("k")))
        return MemoryQueryResult(results=[_chunk(hit) for hit in hits])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Raise NotImplementedError: a repository is only read here."""
        raise NotImplementedError("a repository is only read; add what is to be remembered to a RagMemory")

    async def clear(self) -> None:
        """Do nothing: the repositories are not this memory's to delete."""

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


async def _in_thread(token: CancellationToken | None, call: Callable[[], T]) -> T:
    future = asyncio.ensure_future(asyncio.to_thread(call))
    if token is not None:
        token.link_future(future)
    return await future
