"""Memory and retrieval for LangChain (langchain-core 1; `pip install '.[langchain]'`).

    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
    from langchain_core.runnables.history import RunnableWithMessageHistory
    from rag.adapters.langchain import RagChatMessageHistory, RepositoryRetriever

    retriever = RepositoryRetriever(sources=["data/sample_repo"], k=4)
    for document in retriever.invoke("Where is a token checked?"):
        print(document.metadata["source"], document.metadata["score"])

    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])
    chat = RunnableWithMessageHistory(
        prompt | model,
        lambda session_id: RagChatMessageHistory(session_id, memory="sqlite:///chats.db"),
        input_messages_key="question",
        history_messages_key="history",
    )
    chat.invoke({"question": "Hello"}, config={"configurable": {"session_id": "ann"}})

LangChain now recommends its graphs' checkpointers for memory; histories still work with everything that
accepts a `BaseChatMessageHistory`.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Sequence
from typing import Any

from rag.adapters.attributes import OwnAttributes
from rag.adapters.conversation import StoredConversation, as_text
from rag.adapters.repository import RepositorySearch, Sources, chunk_id, chunk_metadata, sources_of
from rag.adapters.store import IN_PROCESS, StoreAddress
from rag.errors import BackendMissing
from rag.service.loop.async_writes import written
from rag.settings import Settings
from rag.types import Hit, Message

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise BackendMissing(backend=__name__, missing="langchain-core 1", extra="langchain") from error
from pydantic import ConfigDict, Field, PrivateAttr

_ROLES = {"human": "user", "ai": "assistant"}
_TYPES = {"user": "human", "assistant": "ai", "system": "system"}


class RagChatMessageHistory(OwnAttributes, BaseChatMessageHistory):
    """The messages of one session, in memory or in a store.

    Messages are returned in the order they were added, including duplicates.

    Args:
        session_id: the conversation's name in the store; "" for one that cannot be reopened.
        memory: the store, see `rag.adapters`.
        namespace: the owner, for example the user's id.
        last: the maximum number of messages returned, the newest; None is all. All are stored.
    """

    session_id: str = ""
    last: int | None = None

    def __init__(
        self,
        session_id: str = "",
        *,
        memory: StoreAddress = IN_PROCESS,
        namespace: str = "",
        last: int | None = None,
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self.last = last
        self._stored = StoredConversation(memory, session_id, namespace)

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first."""
        kept = self._stored.messages(last=self.last)
        read: list[BaseMessage] = messages_from_dict([_dict(message) for message in kept])
        return read

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none. Raises TypeError if one is not JSON."""
        kept = [_message(message) for message in messages]
        if kept:
            self._stored.get_or_create().add(kept)

    def clear(self) -> None:
        """Remove all messages of this session."""
        self._stored.current().clear()

    async def aget_messages(self) -> list[BaseMessage]:
        """Like `messages`, in a thread."""
        return await to_thread(lambda: self.messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Like `add_messages`, in a thread."""
        await written(lambda: self.add_messages(messages))

    async def aclear(self) -> None:
        """Like `clear`, in a thread."""
        await written(self.clear)

    def close(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        self._stored.close()


class RepositoryRetriever(BaseRetriever):
    """Finds chunks of repositories, best first; their metadata is that of `chunk_metadata`.

    `sources` is a path or git URL, or several, indexed on first use; `ref` a branch, tag or commit of all;
    `k` is the number of chunks, which `invoke(question, k=1)` overrides; `repository_settings` are the
    embedder and home folder (None is the user's settings).
    """

    model_config = ConfigDict(extra="forbid")

    sources: list[str]
    ref: str | None = None
    k: int = 5
    repository_settings: Settings | None = Field(default=None, exclude=True, repr=False)
    _search: RepositorySearch = PrivateAttr()

    def __init__(self, sources: Sources, **more: Any) -> None:
        super().__init__(sources=list(sources_of(sources)), **more)

    def model_post_init(self, context: Any) -> None:
        """Create the search; nothing is opened yet."""
        super().model_post_init(context)
        self._search = RepositorySearch(
            self.sources, ref=self.ref, k=self.k, settings=self.repository_settings
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [_document(hit) for hit in self._search.search(query, k=k)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return [_document(hit) for hit in await to_thread(self._search.search, query, k=k)]


def _document(hit: Hit) -> Document:
    return Document(page_content=hit.text, metadata=chunk_metadata(hit), id=chunk_id(hit))


def _message(message: BaseMessage) -> Message:
    written = message_to_dict(message)
    data = json.loads(json.dumps(written["data"]))
    content = data.pop("content")
    role = data.get("role") or _ROLES.get(written["type"], written["type"])
    return Message(
        content,
        role=role,
        name=data.get("name") or "",
        metadata={"type": written["type"], "data": data},
    )


def _dict(message: Message) -> dict[str, Any]:
    about = message.metadata or {}
    if "data" in about:
        return {"type": about["type"], "data": {**about["data"], "content": message.content}}
    content = message.content if isinstance(message.content, (str, list)) else as_text(message)
    data = {"content": content, "id": message.id, "name": message.name or None}
    kind = _TYPES.get(message.role)
    return {"type": kind or "chat", "data": data if kind else {**data, "role": message.role}}
