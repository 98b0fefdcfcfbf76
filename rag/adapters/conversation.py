"""A conversation of a store for adapters: opened on first use, created with the first message."""

from __future__ import annotations

import json
import threading

from rag.adapters.store import IN_PROCESS, OpenedStore, StoreAddress
from rag.errors import ConversationMismatch, NotFound
from rag.memory.messages import MessageMemory
from rag.memory.search import search_text
from rag.ports import Marks, MemoryStore
from rag.types import Conversation, Message


class StoredConversation:
    """A conversation that is looked up for each call, as others may write to it or delete it.

    A deleted or expired conversation is empty, and created again with the next message. Thread-safe.

    Args:
        memory: the store, see `OpenedStore`.
        name: the conversation's name; "" creates one without a name. An id is not accepted, so that a
            conversation cannot be opened by guessing its id.
        namespace: the namespace of the conversation.
        ttl_s: how many seconds after its last message a conversation created here expires; None never. An
            existing one keeps its own.
    """

    def __init__(
        self,
        memory: StoreAddress = IN_PROCESS,
        name: str = "",
        namespace: str = "",
        ttl_s: float | None = None,
    ) -> None:
        self._opened = OpenedStore(memory)
        self.name, self.namespace, self.ttl_s = name, namespace, ttl_s
        self._id = ""
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The URL of the store, see `OpenedStore.address`."""
        return self._opened.address

    @property
    def is_persistent(self) -> bool:
        """Whether another object can reopen the conversation by its name and address."""
        return bool(self.name) and self.address != IN_PROCESS

    @property
    def store(self) -> MemoryStore:
        """The store of the messages."""
        return self._opened.store

    def current(self) -> MessageMemory:
        """Return the current messages; the conversation is None before the first."""
        return MessageMemory(self.store, self._found(), namespace=self.namespace)

    def get_or_create(self) -> MessageMemory:
        """Return the messages, creating the conversation in the store if necessary."""
        with self._lock:
            memory = self.current()
            if memory.conversation is None:
                memory.conversation = self._begin()
                self._id = memory.conversation.id
            return memory

    def messages(self, *, last: int | None = None, exclude_mark: Marks | None = None) -> list[Message]:
        """Return the newest `last` messages without these marks, oldest first, without the summary."""
        here = self._found()
        if here is None or last == 0:
            return []
        return self.store.messages(here.id, namespace=self.namespace, last=last, exclude_mark=exclude_mark)

    def scores(self, words: str, k: int) -> dict[str, float]:
        """Return the ids and scores of the k messages that match these words best, best first."""
        here = self._found()
        if here is None:
            return {}
        found = search_text(
            self.store, words, namespace=self.namespace, conversation=here.id, kind="message", k=k
        )
        return {one.id: one.score for one in found}

    def search(self, words: str, k: int) -> list[Message]:
        """Return the k messages that match these words best, best first."""
        by_id = {message.id: message for message in self.messages()}
        return [by_id[found] for found in self.scores(words, k) if found in by_id]

    def refer_to(self, conversation: Conversation | None) -> None:
        """Continue another conversation of the store; None creates one without a name."""
        self._id, self.name = (conversation.id, conversation.name) if conversation else ("", "")

    def close(self) -> None:
        """Close the store if it was opened here, see `OpenedStore.close`."""
        self._opened.close()

    def _found(self) -> Conversation | None:
        found = self._looked_up(self._id)
        if found is None or found.id != self._id:
            found = self._named(self.name)
        if found is not None:
            self._id = found.id
        return found

    def _named(self, name: str) -> Conversation | None:
        """Return the conversation with this name, even if the name is the id of another one."""
        found = self._looked_up(name)
        if found is None or found.name == name:
            return found
        every = self.store.conversations(namespace=self.namespace)
        return next((one for one in every if one.name == name), None)

    def _looked_up(self, id_or_name: str) -> Conversation | None:
        try:
            return self.store.conversation(id_or_name, namespace=self.namespace) if id_or_name else None
        except NotFound:
            return None

    def _begin(self) -> Conversation:
        try:
            return self.store.create_conversation(namespace=self.namespace, name=self.name, ttl_s=self.ttl_s)
        except ConversationMismatch:  # another process has just created it
            if (begun := self._named(self.name)) is None:
                raise
            return begun


def as_text(message: Message) -> str:
    """Return a message as text: text as it is, JSON serialized, of other bytes the type and size."""
    content = message.content
    if isinstance(content, bytes):
        if message.mime.startswith("text/"):
            return content.decode("utf-8", "replace")
        return f"({message.mime}, {len(content)} bytes)"
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
