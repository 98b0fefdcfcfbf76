"""What a chat client sends becomes a question, with the exchanges before it.

The last message is not always the question: frameworks put reminders and system messages behind it, and
chat pages send tasks of their own (a title, tags) to the same model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rag.serve.errors import BadRequest

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL | re.IGNORECASE)
_TASK = "### Task:"
_ASKED_KEY = re.compile(r"""["'](title|tags|follow_ups|queries|text|emoji)["']\s*:""")
_FIRST_SAID = re.compile(r"^[ \t]*USER:\s*(.+)", re.IGNORECASE | re.MULTILINE)
_TITLE_WORDS = 8
_SPEAKING = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """The question, and the exchanges before it. `is_task` is a task of the client's own, not a question."""

    question: str
    history: tuple[tuple[str, str], ...]
    is_task: bool = False


def read_messages(messages: Sequence[tuple[str, Any]]) -> ChatQuestion:
    """Find the question in (role, content) messages.

    Several user messages in a row are one question; several answers in a row are one answer. An answer
    that no question stands before is left out.

    Raises:
        BadRequest: no message is a question, or the last of them has its answer already.
    """
    said: list[tuple[str, str]] = []
    for role, content in messages:
        if role not in _SPEAKING or not (text := text_of(content).strip()):
            continue
        if role == "user" and not (text := _REMINDER.sub("", text).strip()):
            continue
        if said and said[-1][0] == role:
            said[-1] = (role, f"{said[-1][1]}\n\n{text}")
        else:
            said.append((role, text))
    if said and said[0][0] == "assistant":
        del said[0]
    if not said:
        raise BadRequest("no message asks anything; the last user message is the question", param="messages")
    if said[-1][0] != "user":
        raise BadRequest("the last message is an answer already; put a question behind it", param="messages")
    texts = [text for _, text in said]
    question = texts[-1]
    return ChatQuestion(
        question, tuple(zip(texts[0:-1:2], texts[1::2], strict=True)), question.startswith(_TASK)
    )


def text_of(content: Any) -> str:
    """The text of a message: a string, a list of parts, or nothing. Parts that are no text are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part if isinstance(part, dict) else {"text": part} for part in content)
        return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))
    return ""


def done_without_model(task: str) -> str:
    """What a chat page's own task comes to without a language model: a title of the first words, no tags."""
    asked = _ASKED_KEY.search(task)
    if asked is None:
        return ""
    key = asked[1]
    if key in ("title", "text", "emoji"):
        said = _FIRST_SAID.search(task)
        words = said[1].split() if said and key == "title" else []
        title = " ".join(words[:_TITLE_WORDS]) + ("…" if len(words) > _TITLE_WORDS else "")
        return json.dumps({key: title}, ensure_ascii=False)
    return json.dumps({key: []})
