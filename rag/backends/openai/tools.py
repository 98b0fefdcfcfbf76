"""Tool calls of a chat completion, and how a server refuses tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rag.backends.openai.reasoning import without_thoughts
from rag.backends.openai.replies import text_of
from rag.errors import ProviderBroke, ProviderError, ProviderRejected
from rag.types import ModelReply, ToolCall

_NAMES_TOOLS = re.compile(r"\b(?:tools?|functions?|tool_choice|function[- ]calling)\b", re.IGNORECASE)


def reply_of(completion: Any) -> ModelReply:
    """Return the text and the tool calls of a completion; a call without a name is left out."""
    message = completion.choices[0].message
    content = message.content
    calls = []
    for number, call in enumerate(getattr(message, "tool_calls", None) or ()):
        function = getattr(call, "function", None)
        name = getattr(function, "name", None)
        if isinstance(name, str) and name:
            arguments = getattr(function, "arguments", None)
            given = arguments if isinstance(arguments, str) else json.dumps(arguments)
            calls.append(ToolCall(str(getattr(call, "id", None) or f"call_{number}"), name, given))
    return ModelReply(without_thoughts(text_of(content)), tuple(calls))


@contextmanager
def tools_refused(client: Any) -> Iterator[None]:
    """Note in the client's dialect if the server refuses tools: a 400, 404, 422 or 500 that names them.

    llama.cpp's server refuses with 500 if it was started without `--jinja`.
    """
    try:
        yield
    except (ProviderRejected, ProviderBroke) as error:
        if _is_refusal(error):
            client.dialect["tools"] = False
        raise


def _is_refusal(error: ProviderError) -> bool:
    return error.status in (400, 404, 422, 500, 501) and bool(_NAMES_TOOLS.search(str(error)))
