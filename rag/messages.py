"""Split a rendered prompt into chat messages, by the markers of AdalFlow's and DeepWiki's templates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_SYSTEM = re.compile(r"\s*<START_OF_SYS(?:TEM)?_PROMPT>(.*?)<END_OF_SYS(?:TEM)?_PROMPT>", re.DOTALL)
_USER = re.compile(r"(.*?)<START_OF_USER_PROMPT>(.*)<END_OF_USER_PROMPT>\s*", re.DOTALL)


def split_messages(prompt: str) -> list[dict[str, str]]:
    """Split a prompt into `[{"role": "system" | "user", "content": …}]`.

    Only a system part at the very beginning counts, up to its first end marker; all the rest is the user's,
    without the markers of the user's part if the prompt ends with it. Markers anywhere else (in a
    repository's text) are text. Without a system part, or with an empty one, there is one user message.
    """
    system = _SYSTEM.match(prompt)
    rest = prompt[system.end() :] if system else prompt
    user = _USER.fullmatch(rest)
    messages = [{"role": "user", "content": (user[1] + user[2] if user else rest).strip()}]
    if system is None or not system[1].strip():
        return messages
    return [{"role": "system", "content": system[1].strip()}, *messages]


def without_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages in which the first user message begins with the text of the system messages."""
    system = [str(message["content"]) for message in messages if message["role"] == "system"]
    others = [dict(message) for message in messages if message["role"] != "system"]
    first = next((message for message in others if message["role"] == "user"), None)
    if first is None:
        first = {"role": "user", "content": ""}
        others.insert(0, first)
    first["content"] = "\n\n".join([*system, str(first["content"])]).strip()
    return others
