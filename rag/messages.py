"""Split a rendered prompt into chat messages, by the markers of AdalFlow's and DeepWiki's templates."""

from __future__ import annotations

import re

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
