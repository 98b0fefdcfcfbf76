"""One conversation of a store as adapters hold it: opened when first needed, begun with a first message."""

from __future__ import annotations

import json
import threading

from rag.adapters.store import IN_PROCESS, OpenedStore
from rag.errors import ConversationMismatch, NotFound
from rag.memory.messages import MessageMemory
from rag.memory.search import search_text
from rag.ports import Marks, MemoryStore
from rag.types import Conversation, Message


class StoredConversation:
    """A conversation that is looked up anew for each call: others may write to it, or delete it.

    One that has been deleted, or has expired, is empty, and begun again with the next message. Safe to use
    from several threads.

    Args:
        memory: where it is kept, see `OpenedStore`.
        name: the conversation's name; "" begins one without a name. An id of a conversation is no name: it
            opens none, so that nobody reads another one's by guessing or being told its id.
        namespace: whose conversation it is.
        ttl_s: a conversation that is begun here expires so many seconds after its last message; None never.
            One that is there already has its own.
    """

    def __init__(
        self,
        memory: str | MemoryStore = IN_PROCESS,
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
        """The URL of its store, see `OpenedStore.address`."""
        return self._opened.address

    @property
    def is_kept_elsewhere(self) -> bool:
        """Whether the conversation is still there, under its name and address, for another object."""
        return bool(self.name) and self.address != IN_PROCESS

    @property
    def store(self) -> MemoryStore:
        """Where the messages are."""
        return self._opened.store

    def at_present(self) -> MessageMemory:
        """The messages as they are now; its conversation is None before the first."""
        return MessageMemory(self.store, self._found(), namespace=self.namespace)

    def begun(self) -> MessageMemory:
        """The messages, with the conversation made in the store if it is not there yet."""
        with self._lock:
            memory = self.at_present()
            if memory.conversation is None:
                memory.conversation = self._begin()
                self._id = memory.conversation.id
            return memory

    def messages(self, *, last: int | None = None, exclude_mark: Marks | None = None) -> list[Message]:
        """The messages without these marks, oldest first, without a summary; the newest `last` of them."""
        here = self._found()
        if here is None or last == 0:
            return []
        return self.store.messages(here.id, namespace=self.namespace, last=last, exclude_mark=exclude_mark)

    def scores(self, words: str, k: int) -> dict[str, float]:
        """The ids of the k messages that hold these words best, best first, with their scores."""
        here = self._found()
        if here is None:
            return {}
        found = search_text(
            self.store, words, namespace=self.namespace, conversation=here.id, kind="message", k=k
        )
        return {one.id: one.score for one in found}

    def search(self, words: str, k: int) -> list[Message]:
        """The k messages that hold these words best, best first."""
        by_id = {message.id: message for message in self.messages()}
        return [by_id[found] for found in self.scores(words, k) if found in by_id]

    def refer_to(self, conversation: Conversation | None) -> None:
        """Go on with another conversation of the store; None begins one without a name."""
        self._id, self.name = (conversation.id, conversation.name) if conversation else ("", "")

    def close(self) -> None:
        """Close the store, if it was opened here, see `OpenedStore.close`."""
        self._opened.close()

    def _found(self) -> Conversation | None:
        found = self._looked_up(self._id)
        if found is None or found.id != self._id:
            found = self._called(self.name)
        if found is not None:
            self._id = found.id
        return found

    def _called(self, name: str) -> Conversation | None:
        """The conversation of this name, also where the name is another one's id."""
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
        except ConversationMismatch:  # another process has begun it meanwhile
            if (begun := self._called(self.name)) is None:
                raise
            return begun


def as_text(message: Message) -> str:
    """What can be told of it in words: text as it is, JSON written out, of bytes how many and of what."""
    said = message.content
    if isinstance(said, bytes):
        if message.mime.startswith("text/"):
            return said.decode("utf-8", "replace")
        return f"({message.mime}, {len(said)} bytes)"
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
