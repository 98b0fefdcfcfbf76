"""Memory for the OpenAI Agents SDK, as a `Session` (0.24; `pip install '.[openai-agents]'`).

    from agents import Agent, Runner
    from rag.adapters.openai_agents import RagSession

    session = RagSession("ann", memory="sqlite:///sessions.db")
    agent = Agent(name="helper", instructions="Help.", model=model)
    await Runner.run(agent, "My name is Ann.", session=session)
    print(len(await session.get_items()))

Items of every kind are returned as they were added: messages, tool calls, tool outputs.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from typing import Any

from rag.adapters.attributes import OwnAttributes
from rag.adapters.conversation import StoredConversation
from rag.adapters.store import IN_PROCESS, StoreAddress
from rag.errors import BackendMissing
from rag.service.loop.async_writes import written
from rag.types import Message

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise BackendMissing(backend=__name__, missing="openai-agents 0.24", extra="openai-agents") from error


class RagSession(OwnAttributes, SessionABC):
    """The items of one session, in memory or in a store.

    Args:
        session_id: the conversation's name in the store; "" for one that cannot be reopened.
        memory: the store, see `rag.adapters`.
        namespace: the owner, for example the user's id.
        session_settings: its `limit` is the default number of items returned. A dict must have the keys of
            `SessionSettings`.
    """

    session_id: str = ""
    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str = "",
        *,
        memory: StoreAddress = IN_PROCESS,
        namespace: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(
            SessionSettings() if session_settings is None else session_settings
        )
        self._stored = StoredConversation(memory, session_id, namespace)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, that number of the newest."""
        last = resolve_session_limit(limit, self.session_settings)
        messages = await to_thread(lambda: self._stored.messages(last=last))
        return [_item(message) for message in messages]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none. Raises TypeError if one is not JSON."""
        kept = [_message(item) for item in items]
        if kept:
            await written(lambda: self._stored.get_or_create().add(kept))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item, each for one caller only; None if there is none."""
        message = await written(self._pop)
        return None if message is None else _item(message)

    async def clear_session(self) -> None:
        """Remove all items."""
        await written(lambda: self._stored.current().clear())

    async def close(self) -> None:
        """Close the store if it was opened here; it is reopened on the next use."""
        await to_thread(self._stored.close)

    def _pop(self) -> Message | None:
        while newest := self._stored.messages(last=1):
            if self._stored.current().delete([newest[0].id]):
                return newest[0]
        return None


def _message(item: TResponseInputItem) -> Message:
    written = json.loads(json.dumps(item))
    return Message(written, role=written.get("role") or written.get("type") or "", mime="application/json")


def _item(message: Message) -> Any:
    """Return the item; a message of another program becomes an item with role and text."""
    if isinstance(message.content, dict):
        return message.content
    return {"role": message.role, "content": message.content}
