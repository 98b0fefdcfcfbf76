"""Converts a chat client's messages into a question and the exchanges before it.

The last message is not always the question: frameworks append reminders and system messages, and chat
interfaces send their own tasks (a title, tags) to the same model.
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
_OUTPUT_KEY = re.compile(r"""["'](title|tags|follow_ups|queries|text|emoji)["']\s*:""")
_FIRST_QUESTION = re.compile(r"^[ \t]*USER:\s*(.+)", re.IGNORECASE | re.MULTILINE)
_TITLE_WORDS = 8
_ROLES = ("user", "assistant")
_SYSTEM_ROLES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """The question and the exchanges before it.

    `is_task` marks a task of the client, not a question. `instructions` is the text of the system messages.
    """

    question: str
    history: tuple[tuple[str, str], ...]
    is_task: bool = False
    instructions: str = ""


def read_messages(messages: Sequence[tuple[str, Any]]) -> ChatQuestion:
    """Find the question in (role, content) messages.

    Consecutive user messages form one question, consecutive answers one answer. Answers before the first
    question are left out. System messages, wherever they are, form the instructions.

    Raises:
        BadRequest: there is no question, or the last message is an answer.
    """
    exchanged: list[tuple[str, str]] = []
    instructions: list[str] = []
    for role, content in messages:
        if role in _SYSTEM_ROLES and (text := _REMINDER.sub("", text_of(content)).strip()):
            instructions.append(text)
        if role not in _ROLES or not (text := text_of(content).strip()):
            continue
        if role == "user" and not (text := _REMINDER.sub("", text).strip()):
            continue
        if exchanged and exchanged[-1][0] == role:
            exchanged[-1] = (role, f"{exchanged[-1][1]}\n\n{text}")
        else:
            exchanged.append((role, text))
    if exchanged and exchanged[0][0] == "assistant":
        del exchanged[0]
    if not exchanged:
        raise BadRequest("there is no question; send it as the last user message", param="messages")
    if exchanged[-1][0] != "user":
        raise BadRequest("the last message is an answer; send a question after it", param="messages")
    texts = [text for _, text in exchanged]
    question = texts[-1]
    return ChatQuestion(
        question,
        tuple(zip(texts[0:-1:2], texts[1::2], strict=True)),
        question.startswith(_TASK),
        "\n\n".join(instructions),
    )


def text_of(content: Any) -> str:
    """Return the text of a message: a string, the text parts of a list, or "" for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part if isinstance(part, dict) else {"text": part} for part in content)
        return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))
    return ""


def done_without_model(task: str) -> str:
    """Complete a chat interface's task without a language model: a title of the first words, no tags."""
    asked = _OUTPUT_KEY.search(task)
    if asked is None:
        return ""
    key = asked[1]
    if key in ("title", "text", "emoji"):
        first = _FIRST_QUESTION.search(task)
        words = first[1].split() if first and key == "title" else []
        title = " ".join(words[:_TITLE_WORDS]) + ("…" if len(words) > _TITLE_WORDS else "")
        return json.dumps({key: title}, ensure_ascii=False)
    return json.dumps({key: []})
