"""Memory for AgentScope 2, as a middleware (`pip install '.[agentscope2]'`).

    from agentscope.agent import Agent
    from agentscope.message import UserMsg
    from rag.adapters.agentscope2 import KeptContext

    kept = KeptContext("helper", memory="sqlite:///agents.db")
    agent = Agent("helper", "Help.", model=model, middlewares=[kept])
    await agent.reply(UserMsg("user", "Where is a token checked?"))
    print([message.get_text_content() for message in await kept.search("token")])

An AgentScope 2 agent has no memory but a context, which is compressed when it grows. This middleware stores
all messages, including those that were compressed, and restores the context for a new agent.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from rag.adapters.attributes import OwnAttributes
from rag.adapters.conversation import StoredConversation, as_text
from rag.adapters.store import IN_PROCESS, StoreAddress
from rag.errors import BackendMissing
from rag.service.loop.async_writes import written
from rag.types import Conversation, Message

try:
    from agentscope.message import Msg
    from agentscope.middleware import MiddlewareBase
    from agentscope.state import AgentState
except ImportError as error:
    raise BackendMissing(backend=__name__, missing=f"agentscope 2 ({error})", extra="agentscope2") from error

COMPRESSED = "compressed"
"""The mark of messages that are only in the summary."""
_SHELF = "agentscope-contexts"
"""The shelf of the summary and the blocks it includes, by message id; keys are conversation ids."""


class KeptContext(OwnAttributes, MiddlewareBase):
    """Stores the context of an agent, in memory or in a store; use one per agent.

    The context is stored at the end of each reply, even if that fails or is interrupted. An agent with an
    empty context starts with the stored one. A reply that waits for a person is stored as far as it got, but
    another agent does not wait for it.

    Args:
        name: the conversation's name in the store; "" for one that cannot be reopened.
        memory: the store, see `rag.adapters`.
        namespace: the owner, for example the user's id.
        ttl_s: how many seconds after its last message the conversation expires; None never. An existing
            conversation keeps its own.
    """

    def __init__(
        self,
        name: str = "",
        *,
        memory: StoreAddress = IN_PROCESS,
        namespace: str = "",
        ttl_s: float | None = None,
    ) -> None:
        self._stored = StoredConversation(memory, name, namespace, ttl_s)

    async def on_reply(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any]]
    ) -> AsyncGenerator[Any]:
        """Restore the context if it is empty; store it after the reply."""
        state = agent.state
        if not state.context and not state.summary:
            state.summary, state.context = await to_thread(self._restored)
        try:
            async for item in next_handler(**input_kwargs):
                yield item
        finally:
            await written(lambda: self._keep(list(state.context)))

    async def on_compress_context(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]
    ) -> None:
        """Store the context before it is compressed, then what was compressed."""
        before = [message.model_copy(deep=True) for message in agent.state.context]
        await written(lambda: self._keep(before))
        await next_handler(**input_kwargs)
        after, summary = list(agent.state.context), agent.state.summary
        await written(lambda: self._compressed(before, after, summary))

    async def messages(self) -> list[Msg]:
        """Return all messages, oldest first, including compressed ones."""
        return [_msg(message) for message in await to_thread(self._latest)]

    async def search(self, query: str, limit: int = 10) -> list[Msg]:
        """Return the messages that match words of a query, best first, including compressed ones."""
        return [_msg(message) for message in await to_thread(self._stored.search, query, limit)]

    async def clear(self) -> None:
        """Delete everything under this name; the agent's own context does not change."""
        await written(self._clear)

    async def close(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        await to_thread(self._stored.close)

    def _keep(self, context: Sequence[Msg]) -> None:
        """Add new messages, and replace those that have grown.

        The last message can grow; a message that has become shorter was compressed, and is kept in full.
        """
        if not context:
            return
        memory = self._stored.get_or_create()
        known = {_id(message): message for message in self._latest(exclude_mark=COMPRESSED)}
        added, replaced = [], []
        for msg in context:
            before = known.get(msg.id)
            now = _message(msg, before)
            if before is None or now.content != before.content:
                added.append(now)
                replaced += [before.id] if before else []
        memory.add(added)
        memory.delete(replaced)
        here = memory.begin()
        if added and here.ttl_s is not None and (record := self._found_record(here.id)) is not None:
            self._put_record(here, record)  # so that it expires with the messages

    def _compressed(self, before: Sequence[Msg], after: Sequence[Msg], summary: Any) -> None:
        left = {message.id: {_key(block) for block in _blocks(message)} for message in after}
        gone = {
            message.id: [_key(block) for block in _blocks(message) if _key(block) not in left[message.id]]
            for message in before
            if message.id in left
        }
        memory = self._stored.get_or_create()
        known = self._latest(exclude_mark=COMPRESSED)
        earlier = self._record()["gone"]
        record = {
            "summary": AgentState(summary=summary).model_dump(mode="json")["summary"],
            "gone": {id: [*earlier.get(id, ()), *keys] for id, keys in gone.items()},
        }
        here = memory.begin()
        self._put_record(here, json.dumps(record).encode())
        dropped = {message.id for message in before} - set(left)
        memory.update_messages_mark(COMPRESSED, None, [one.id for one in known if _id(one) in dropped])
        memory.update_compressed_summary(_summary_text(summary))

    def _restored(self) -> tuple[Any, list[Msg]]:
        record = self._record()
        context = [_msg(message) for message in self._latest(exclude_mark=COMPRESSED)]
        for message in context:
            gone = set(record["gone"].get(message.id, ()))
            message.content = [block for block in message.content if _key(block.model_dump()) not in gone]
        return AgentState(summary=record["summary"]).summary, context

    def _record(self) -> dict[str, Any]:
        here = self._stored.current().conversation
        found = self._found_record(here.id) if here else None
        record: dict[str, Any] = json.loads(found) if found is not None else {"summary": "", "gone": {}}
        return record

    def _found_record(self, conversation: str) -> bytes | None:
        store, namespace = self._stored.store, self._stored.namespace
        return store.records([conversation], shelf=_SHELF, namespace=namespace).get(conversation)

    def _put_record(self, here: Conversation, record: bytes) -> None:
        self._stored.store.put_records(
            {here.id: record}, shelf=_SHELF, namespace=self._stored.namespace, ttl_s=here.ttl_s
        )

    def _latest(self, exclude_mark: str | None = None) -> list[Message]:
        """Return the messages, oldest first; of an interrupted replacement, the newer one."""
        messages = self._stored.messages(exclude_mark=exclude_mark)
        return list({_id(message): message for message in messages}.values())

    def _clear(self) -> None:
        memory = self._stored.current()
        if memory.conversation is not None:
            memory.clear()
            self._stored.store.delete_records(
                [memory.conversation.id], shelf=_SHELF, namespace=self._stored.namespace
            )


def _message(msg: Msg, before: Message | None) -> Message:
    """Return the message with its old and its current blocks."""
    about = msg.model_dump(mode="json", exclude={"content", "role", "name"})
    blocks = {_key(block): block for block in (before.content if before else ())}
    blocks |= {_key(block): block for block in _blocks(msg)}
    message = Message(list(blocks.values()), role=msg.role, name=msg.name, metadata={"agentscope2": about})
    return replace(message, id=f"{msg.id}/{uuid4()}")


def _msg(message: Message) -> Msg:
    about = (message.metadata or {}).get("agentscope2", {"id": message.id})
    content = message.content if isinstance(message.content, list) else [_text_block(message)]
    role = message.role if message.role in ("user", "assistant", "system") else "user"
    return Msg.model_validate({"name": message.name, "role": role, "content": content, **about})


def _text_block(message: Message) -> dict[str, str]:
    return {"type": "text", "text": as_text(message)}


def _id(message: Message) -> str:
    return str((message.metadata or {}).get("agentscope2", {"id": message.id})["id"])


def _blocks(msg: Msg) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = msg.model_dump(mode="json", include={"content"})["content"]
    return blocks


def _key(block: Any) -> str:
    """Return a block's key within its message, as a tool call and its result have the same id."""
    return f"{block['type']}:{block['id']}"


def _summary_text(summary: Any) -> str:
    if isinstance(summary, str):
        return summary
    return "\n".join(block.text for block in summary if block.type == "text")
