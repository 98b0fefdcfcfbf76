"""Tool calls in the events of a reply, and how a server refuses tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rag.errors import ProviderBroke, ProviderError, ProviderRejected
from rag.types import ToolCall

_NAMES_TOOLS = re.compile(r"\b(?:tools?|functions?|tool_choice|function[- ]calling)\b", re.IGNORECASE)
_EXTRA = "extra_content"
"""The field of a call in which Gemini sends a signature, without which it refuses the next request."""


class CallParts:
    """Joins the parts of tool calls, which a stream sends one after another."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []
        self._current: dict[Any, dict[str, Any]] = {}

    def add(self, parts: Any) -> None:
        """Add the `tool_calls` of one event.

        A part belongs to the latest call of its index. Some servers number all calls 0: a part with another
        id begins a call.
        """
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, Mapping):
                continue
            index, identity = part.get("index"), part.get("id")
            call = self._current.get(index)
            if call is None or index is None or (identity and call["id"] and identity != call["id"]):
                call = self._current[index] = {"id": "", "name": "", "arguments": "", "extra": {}}
                self._calls.append(call)
            call["id"] = call["id"] or str(identity or "")
            if isinstance(extra := part.get(_EXTRA), Mapping):
                call["extra"] = {_EXTRA: dict(extra)}
            function = part.get("function")
            if isinstance(function, Mapping):
                given = function.get("arguments")
                call["name"] += str(function.get("name") or "")
                call["arguments"] += given if isinstance(given, str) else json.dumps(given) if given else ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far; one without a name is left out."""
        return tuple(
            ToolCall(call["id"] or f"call_{number}", call["name"], call["arguments"], call["extra"])
            for number, call in enumerate(self._calls)
            if call["name"]
        )


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
