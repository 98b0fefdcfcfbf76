"""Hints of error messages that name a command, as callers of a server can follow them."""

from __future__ import annotations

import re
from typing import Literal

Interface = Literal["cli", "api", "mcp", "openai"]

_HINTS = {
    "; `rag turns list` shows the existing ones": (
        "; GET /api/conversations lists the existing ones",
        "; recall_turns finds earlier turns",
    ),
    "; `rag turns show` lists those of a conversation": (
        "; GET /api/conversations/ID lists those of a conversation",
        "; recall_turns finds earlier turns",
    ),
    "; `rag turns show` shows its turns": ("; GET /api/conversations/ID shows its turns", ""),
    "See `rag turns show`, and try again": ("Read the conversation, and try again",) * 2,
    "; see `rag facts list`": ("; GET /api/facts lists them", "; the tool facts lists them"),
    "; `rag facts forget` deletes it": ("; DELETE /api/facts/ID deletes it", "; the tool forget deletes it"),
    "which turn states it (--turn)": ("which turn states it (`turn`)",) * 2,
    "with --conversation NAME": ("for the conversation",) * 2,
    "raise --context-tokens, lower --answer-tokens, or ask": ("ask",) * 2,
    "; index them with `rag index`": ("; ask about one of them by its name",) * 2,
}
"""Hints for the command line, each with that of the HTTP interfaces and that of MCP."""
_REF_OPTION = re.compile(r"(?<![\w'\"-])--ref(?![\w'\"-])")
"""Our option: not a longer one of git, such as `--refs`, nor a quoted name."""


def for_callers(message: str, interface: Interface) -> str:
    """Return an error's message with hints that callers of an interface can follow."""
    for command, hints in _HINTS.items():
        message = message.replace(command, hints[interface == "mcp"])
    return _REF_OPTION.sub("ref", message)
