"""Maintains a single system message in an AutoGen model context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage, UserMessage


def questions(messages: Sequence[LLMMessage]) -> list[str]:
    """Return the users' messages, oldest first; of multi-part messages only the texts."""
    contents = [message.content for message in messages if isinstance(message, UserMessage)]
    return [
        content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))
        for content in contents
    ]


async def set_system_message(context: ChatCompletionContext, text: str, header: str) -> None:
    """Make `text` the only system message that starts with `header`; "" removes it.

    It is inserted after the leading system messages, which models with a single system message merge. If
    the context does not show its start, it is inserted before the user's last message.
    """
    shown = [one.content for one in await context.get_messages() if _has_header(one.model_dump(), header)]
    if shown == ([text] if text else []):
        return
    state = await context.save_state()
    if "messages" not in state:  # a context that stores its messages elsewhere
        if text:
            await context.add_message(SystemMessage(content=text))
        return
    rest = [message for message in state["messages"] if not _has_header(message, header)]
    for place in (_behind_system(rest), _before_last_user(rest)):
        added = [SystemMessage(content=text).model_dump()] if text else []
        await context.load_state({**state, "messages": [*rest[:place], *added, *rest[place:]]})
        if not text or text in [one.content for one in await context.get_messages()]:
            return


def _has_header(message: Mapping[str, Any], header: str) -> bool:
    return message["type"] == "SystemMessage" and str(message["content"]).startswith(header)


def _behind_system(messages: Sequence[Mapping[str, Any]]) -> int:
    others = (n for n, message in enumerate(messages) if message["type"] != "SystemMessage")
    return next(others, len(messages))


def _before_last_user(messages: Sequence[Mapping[str, Any]]) -> int:
    users = (n for n in reversed(range(len(messages))) if messages[n]["type"] == "UserMessage")
    return next(users, len(messages))
