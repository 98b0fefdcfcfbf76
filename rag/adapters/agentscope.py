"""Memory for AgentScope, a `MemoryBase` (agentscope 1.0.12 to 1.0.21; `pip install '.[agentscope]'`).

    from agentscope.agent import ReActAgent
    from agentscope.message import Msg
    from rag.adapters.agentscope import RagMemory

    memory = RagMemory("helper", memory="sqlite:///agents.db")
    agent = ReActAgent("helper", "Help.", model=model, formatter=formatter, memory=memory)
    await agent(Msg("user", "Where is a token checked?", "user"))
    print([message.get_text_content() for message in await memory.search("token")])

Later versions have no such memory: see `rag.adapters.agentscope2`. Where AgentScope's own memories differ
from each other, this one follows `rag.ports`: the order is that of adding, an id is stored once, counts are
of actual changes, and `clear` deletes the summary too.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rag.adapters.attributes import OwnAttributes
from rag.adapters.conversation import StoredConversation, as_text
from rag.adapters.store import IN_PROCESS, StoreAddress
from rag.errors import BackendMissing
from rag.memory.messages import MessageMemory, Mode, as_ids
from rag.ports import Marks
from rag.service.loop.async_writes import written
from rag.types import Message

try:
    from agentscope.memory import MemoryBase
    from agentscope.message import Msg
except ImportError as error:
    raise BackendMissing(
        backend=__name__, missing=f"agentscope 1.0.12 to 1.0.21 ({error})", extra="agentscope"
    ) from error


class RagMemory(OwnAttributes, MemoryBase):
    """The messages of an agent, in memory or in a store.

    Messages keep their ids and times. A message that is sent to several agents is stored for each of them.

    Args:
        name: the conversation's name in the store; "" for one that cannot be reopened.
        memory: the store, see `rag.adapters`.
        namespace: the owner, for example the user's id.
        mode: whether `state_dict` contains the messages ("full"), or refers to the conversation
            ("reference"), which must then be in the store when the state is loaded.
        ttl_s: how many seconds after its last message the conversation expires; None never. An existing
            conversation keeps its own.
    """

    mode: Mode = "full"

    def __init__(
        self,
        name: str = "",
        *,
        memory: StoreAddress = IN_PROCESS,
        namespace: str = "",
        mode: Mode = "full",
        ttl_s: float | None = None,
    ) -> None:
        self._stored = StoredConversation(memory, name, namespace, ttl_s)
        self.mode = mode
        super().__init__()
        del self._attribute_dict["_compressed_summary"]  # it is in the store, and part of our state

    # ---- the interface of MemoryBase

    async def add(
        self,
        memories: Msg | list[Msg] | None,
        marks: str | list[str] | None = None,
        allow_duplicates: bool = False,
    ) -> None:
        """Add messages at the end; by default, those whose id is already here are skipped.

        Raises:
            TypeError: arguments that are not messages, marks that are not text, or content that is not JSON.
        """
        if memories is not None:
            given = [memories] if isinstance(memories, Msg) else list(memories)
            for one in given:
                if not isinstance(one, Msg):
                    raise TypeError(f"expected messages (Msg), not {type(one).__name__}")
            await written(lambda: self._add(given, marks, allow_duplicates))

    async def delete(self, msg_ids: str | list[str]) -> int:
        """Delete messages by one or several ids; return how many existed."""
        return await written(lambda: self._current().delete(self._stored_ids(msg_ids)))

    async def delete_by_mark(self, mark: str | list[str]) -> int:
        """Delete messages with one of these marks; return how many. Raises TypeError for other marks."""
        return await written(lambda: self._current().delete_by_mark(_checked(mark)))

    async def size(self) -> int:
        """Return the number of messages."""
        return await to_thread(lambda: self._current().size())

    async def clear(self, *, keep_summary: bool = False) -> None:
        """Remove all messages, including the summary by default."""
        await written(lambda: self._current().clear(keep_summary=keep_summary))

    async def get_memory(
        self,
        mark: str | list[str] | None = None,
        exclude_mark: str | list[str] | None = None,
        prepend_summary: bool = True,
    ) -> list[Msg]:
        """Return the messages with one of the marks and none of `exclude_mark`, oldest first, after the
        summary.

        An empty list of marks matches nothing. Raises TypeError for marks that are not text.
        """
        wanted = None if mark is None else _checked(mark)
        unwanted = None if exclude_mark is None else _checked(exclude_mark)
        found = await to_thread(lambda: self._current().get_memory(wanted, unwanted, prepend_summary))
        return [_msg(message) for message in found]

    async def update_messages_mark(
        self,
        new_mark: str | None,
        old_mark: str | None = None,
        msg_ids: str | list[str] | None = None,
    ) -> int:
        """Add, replace or remove a mark; return how many messages changed. Neither mark: ValueError."""

        def update() -> int:
            ids = None if msg_ids is None else self._stored_ids(msg_ids)
            return self._current().update_messages_mark(new_mark, old_mark, ids)

        return await written(update)

    async def update_compressed_summary(self, summary: str) -> None:
        """Replace the summary that comes before the messages."""
        await written(lambda: self._set_summary(summary))

    # ---- additions

    @property
    def key_ttl(self) -> float | None:
        """How many seconds after its last message the conversation expires, as in `RedisMemory`; None never.

        It can be set before the first message. Raises ValueError after that.
        """
        here = self._current().conversation
        return here.ttl_s if here else self._stored.ttl_s

    @key_ttl.setter
    def key_ttl(self, seconds: float | None) -> None:
        if self._current().conversation is not None and seconds != self.key_ttl:
            raise ValueError(
                f"this memory has messages, and keeps its time to live ({self.key_ttl}); set key_ttl before "
                "the first message, or open a memory of another name with ttl_s"
            )
        self._stored.ttl_s = seconds

    @property
    def content(self) -> list[tuple[Msg, list[str]]]:
        """The messages with their marks, as in `InMemoryMemory`; changes to the list have no effect."""
        return [(_msg(message), list(message.marks)) for message in self._stored.messages()]

    async def search(self, query: str, limit: int = 10) -> list[Msg]:
        """Return the messages that match words of a query, best first; identifiers and CJK text are split."""
        return [_msg(message) for message in await to_thread(self._stored.search, query, limit)]

    async def close(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        await to_thread(self._stored.close)

    @property
    def _compressed_summary(self) -> str:
        return self._current().compressed_summary

    @_compressed_summary.setter
    def _compressed_summary(self, summary: str) -> None:
        if summary:  # the base class sets an empty one, which must not delete the stored one
            self._set_summary(summary)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return the state as `InMemoryMemory` does; in mode "reference", the id instead of `content`."""
        state: dict[str, Any] = super().state_dict()
        if self.mode == "reference":
            here = self._current().conversation
            return {**state, "conversation": here and here.id}
        content = [[msg.to_dict(), marks] for msg, marks in self.content]
        return {**state, "_compressed_summary": self._compressed_summary, "content": content}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load a state of either mode, or one of `InMemoryMemory`.

        Raises:
            KeyError: `strict`, and a key is missing.
            NotFound: the state refers to a conversation that is not in this store.
            ValueError: an item of `content` is not a message.
        """
        super().load_state_dict(state_dict, strict)
        if "conversation" in state_dict:
            named = state_dict["conversation"]
            store, namespace = self._stored.store, self._stored.namespace
            self._stored.refer_to(named and store.conversation(named, namespace=namespace))
            return
        for name in ("content", "_compressed_summary"):
            if strict and name not in state_dict:
                raise KeyError(f"the state has no {name!r}; it has {', '.join(state_dict) or 'nothing'}")
        if "content" in state_dict:
            self._restore([_pair(item) for item in state_dict["content"]])
        if "_compressed_summary" in state_dict:
            self._set_summary(state_dict["_compressed_summary"] or "")

    # ---- internal

    def _current(self) -> MessageMemory:
        return self._stored.current()

    def _get_or_create(self) -> MessageMemory:
        return self._stored.get_or_create()

    def _add(self, msgs: Sequence[Msg], marks: Any, allow_duplicates: bool) -> None:
        memory = self._get_or_create() if msgs else self._current()
        here = memory.conversation.id if memory.conversation else ""
        memory.add([_message(msg, here) for msg in msgs], marks, allow_duplicates)

    def _restore(self, pairs: Sequence[tuple[Msg, list[str]]]) -> None:
        memory = self._get_or_create() if pairs else self._current()
        here = memory.conversation.id if memory.conversation else ""
        kept = {}
        for msg, marks in pairs:
            message = replace(_message(msg, here), marks=tuple(marks))
            while message.id in kept:  # a duplicate, added with `allow_duplicates`
                message = replace(message, id=f"{message.id}+")
            kept[message.id] = message
        memory.set_messages(list(kept.values()), keep_summary=True)

    def _set_summary(self, summary: str) -> None:
        (self._get_or_create() if summary else self._current()).update_compressed_summary(summary)

    def _stored_ids(self, msg_ids: str | Sequence[str]) -> list[str]:
        """Return the ids of messages in the store, as AgentScope's are only unique within a memory."""
        wanted = set(as_ids(msg_ids))
        return [message.id for message in self._stored.messages() if _id(message) in wanted]


def _message(msg: Msg, conversation: str) -> Message:
    about = {"id": msg.id, "timestamp": msg.timestamp, "metadata": msg.metadata}
    if getattr(msg, "invocation_id", None) is not None:
        about["invocation_id"] = msg.invocation_id
    return Message(msg.content, role=msg.role, name=msg.name, id=f"{conversation}/{msg.id}", metadata=about)


def _msg(message: Message) -> Msg:
    about = message.metadata or {}
    if "timestamp" not in about:  # the summary, or a message of another program
        about = {"id": message.id, "timestamp": _timestamp(message.created), "metadata": about}
    content = message.content if isinstance(message.content, (str, list)) else as_text(message)
    role = message.role if message.role in ("user", "assistant", "system") else "user"
    return Msg.from_dict({"name": message.name, "content": content, "role": role, **about})


def _id(message: Message) -> str:
    about = message.metadata or {}
    return str(about["id"]) if "timestamp" in about else message.id


def _timestamp(created: datetime) -> str:
    return created.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _checked(mark: Any) -> Marks:
    if isinstance(mark, str) or (isinstance(mark, list) and all(isinstance(one, str) for one in mark)):
        return mark
    raise TypeError(f"a mark must be a text or a list of texts, not {mark!r}")


def _pair(item: Any) -> tuple[Msg, list[str]]:
    if isinstance(item, Mapping):  # the format before 1.0.12
        return Msg.from_dict(dict(item)), []
    if isinstance(item, (list, tuple)) and len(item) == 2:
        return Msg.from_dict(item[0]), list(item[1])
    raise ValueError(f"an item of a memory's content must be a message and its marks, not {item!r}")
