"""Our memory as a `Session` of the OpenAI Agents SDK (0.24; `pip install '.[openai-agents]'`).

    from agents import Agent, Runner
    from rag.adapters.openai_agents import RagSession

    session = RagSession("ann", memory="sqlite:///sessions.db")
    agent = Agent(name="helper", instructions="Help.", model=model)
    await Runner.run(agent, "My name is Ann.", session=session)
    print(len(await session.get_items()))

Items are given back as they were added, whatever they are: messages, calls of tools, what tools returned.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from typing import Any

from rag.adapters.conversation import StoredConversation
from rag.adapters.store import IN_PROCESS
from rag.errors import BackendMissing
from rag.ports import MemoryStore
from rag.service.async_writes import written
from rag.types import Message

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise BackendMissing(backend=__name__, missing="openai-agents 0.24", extra="openai-agents") from error


class RagSession(SessionABC):
    """The items of one session, in this process or in any of our stores.

    Args:
        session_id: the conversation's name in the store, "" for one that is not found again.
        memory: where it is kept, see `rag.adapters`.
        namespace: whose it is, for example the user's id.
        session_settings: its `limit` is how many items are given when nothing else is said. As a dict it
            may hold what `SessionSettings` has, and nothing else.
    """

    def __init__(
        self,
        session_id: str = "",
        *,
        memory: str | MemoryStore = IN_PROCESS,
        namespace: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(
            SessionSettings() if session_settings is None else session_settings
        )
        self._stored = StoredConversation(memory, session_id, namespace)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with a limit the newest that many."""
        last = resolve_session_limit(limit, self.session_settings)
        messages = await to_thread(lambda: self._stored.messages(last=last))
        return [_item(message) for message in messages]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items at the end, all or none. Raises TypeError where one holds what is not JSON."""
        kept = [_message(item) for item in items]
        if kept:
            await written(lambda: self._stored.begun().add(kept))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the newest item and return it, each to one caller only; None when there is none."""
        message = await written(self._pop)
        return None if message is None else _item(message)

    async def clear_session(self) -> None:
        """Take back all items."""
        await written(lambda: self._stored.at_present().clear())

    async def close(self) -> None:
        """Close the store, if it was opened here; using the session again opens it again."""
        await to_thread(self._stored.close)

    def _pop(self) -> Message | None:
        while newest := self._stored.messages(last=1):
            if self._stored.at_present().delete([newest[0].id]):
                return newest[0]
        return None


def _message(item: TResponseInputItem) -> Message:
    written = json.loads(json.dumps(item))
    return Message(written, role=written.get("role") or written.get("type") or "", mime="application/json")


def _item(message: Message) -> Any:
    """The item; of a message that another program has added, one of its role and text."""
    if isinstance(message.content, dict):
        return message.content
    return {"role": message.role, "content": message.content}
