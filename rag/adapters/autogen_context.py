"""Saying something in an AutoGen model context once, in front of the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage, UserMessage


def questions(messages: Sequence[LLMMessage]) -> list[str]:
    """What users said, oldest first; of several parts the texts."""
    said = [message.content for message in messages if isinstance(message, UserMessage)]
    return [
        content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))
        for content in said
    ]


async def say(context: ChatCompletionContext, text: str, header: str) -> None:
    """Make `text` the one system message that begins with `header`; "" takes it away.

    It stands behind the system messages that the context begins with: models that know but one take them
    together. Where the context does not show its beginning, it stands before the last message of the user.
    """
    shown = [one.content for one in await context.get_messages() if _is_said(one.model_dump(), header)]
    if shown == ([text] if text else []):
        return
    state = await context.save_state()
    if "messages" not in state:  # a context that keeps its messages elsewhere
        if text:
            await context.add_message(SystemMessage(content=text))
        return
    rest = [message for message in state["messages"] if not _is_said(message, header)]
    for place in (_behind_system(rest), _before_last_user(rest)):
        said = [SystemMessage(content=text).model_dump()] if text else []
        await context.load_state({**state, "messages": [*rest[:place], *said, *rest[place:]]})
        if not text or text in [one.content for one in await context.get_messages()]:
            return


def _is_said(message: Mapping[str, Any], header: str) -> bool:
    return message["type"] == "SystemMessage" and str(message["content"]).startswith(header)


def _behind_system(messages: Sequence[Mapping[str, Any]]) -> int:
    others = (n for n, message in enumerate(messages) if message["type"] != "SystemMessage")
    return next(others, len(messages))


def _before_last_user(messages: Sequence[Mapping[str, Any]]) -> int:
    users = (n for n in reversed(range(len(messages))) if messages[n]["type"] == "UserMessage")
    return next(users, len(messages))
