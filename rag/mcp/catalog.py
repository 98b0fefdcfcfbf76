"""What agents read: the tools with their arguments, the prompts, the instructions (`templates/mcp.toml`).

What the tools do is in `toolbox.py`, for the memory in `memory_tools.py`: a method of the tool's name, with
its arguments. Nothing else is imported here, so that a client gets the list at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from rag.resources import shipped
from rag.settings import ToolSet

Schema = dict[str, Any]

MAX_RESULTS = 50
"""How many places or turns a tool returns at most: less than elsewhere, since their texts enter the context
of the agent's model."""
MAX_REPOSITORIES = 200
_DOES: Mapping[str, tuple[bool, bool]] = {"writes": (False, False), "deletes": (True, True)}
"""Whether a tool that changes something destroys it, and whether a second call changes nothing."""
_NOT_LISTED = frozenset({"minLength", "maxLength", "maxItems"})
_NOT_LISTED_MINIMA = (0, 1)
"""Limits that no honest call reaches. Calls are checked against them."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool: `arguments` are JSON schemas by name, those of `needed` are required.

    An agent sends the list to its model with each request, so that only `basic` tools are listed by default.
    A tool that `opens` works on the repository of `repoName`, in the state of `ref`.
    """

    name: str
    about: str
    arguments: Mapping[str, Schema]
    needed: tuple[str, ...] = ()
    does: Literal["reads", "writes", "deletes"] = "reads"
    basic: bool = False
    opens: bool = False

    def listed(self) -> Schema:
        """Return the tool as the protocol lists it, in few tokens."""
        properties = {
            name: {key: value for key, value in schema.items() if _is_listed(key, value)}
            for name, schema in self.arguments.items()
        }
        schema: Schema = {"type": "object", "properties": properties}
        if self.needed:
            schema["required"] = list(self.needed)
        hints: Schema = {"readOnlyHint": self.does == "reads", "openWorldHint": False}
        if self.does in _DOES:
            hints["destructiveHint"], hints["idempotentHint"] = _DOES[self.does]
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": schema,
            "annotations": hints,
        }


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A request that a user chooses by name, with the tools that answer it.

    `arguments` say what is put into the text: `given` with the value, or `omitted`; those of `needed` are
    required. The text of a `basic` prompt names no other tools.
    """

    name: str
    about: str
    arguments: Mapping[str, Mapping[str, str]]
    text: str
    needed: tuple[str, ...] = ()
    basic: bool = False

    def listed(self) -> Schema:
        """Return the prompt as the protocol lists it."""
        arguments = [
            {"name": name, "description": one["description"], "required": name in self.needed}
            for name, one in self.arguments.items()
        ]
        return {"name": self.name, "description": self.about, "arguments": arguments}

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with these values of its arguments."""
        parts = {
            name: one["given"].format(values[name]) if values.get(name) else one.get("omitted", "")
            for name, one in self.arguments.items()
        }
        return self.text.format(**parts)


def _is_listed(key: str, value: object) -> bool:
    return key not in _NOT_LISTED and not (key == "minimum" and value in _NOT_LISTED_MINIMA)


@cache
def _catalog() -> Schema:
    return tomllib.loads(shipped("templates/mcp.toml").read_text(encoding="utf-8"))


@cache
def tools() -> Mapping[str, McpTool]:
    """Return the tools by name, in the order of the list."""
    return {
        name: McpTool(name, **one | {"needed": tuple(one.get("needed", ()))})
        for name, one in _catalog()["tools"].items()
    }


@cache
def prompts() -> Mapping[str, McpPrompt]:
    """Return the prompts by name, in the order of the list."""
    return {
        name: McpPrompt(name, **one | {"needed": tuple(one.get("needed", ()))})
        for name, one in _catalog()["prompts"].items()
    }


def spellings() -> Mapping[str, list[str]]:
    """Return other names of arguments, by the names that they stand for."""
    found: Mapping[str, list[str]] = _catalog()["spellings"]
    return found


def instructions(offered: ToolSet) -> str:
    """Return what the tools are for."""
    texts = _catalog()["instructions"]
    return f"{texts['basic']}{texts['all'] if offered == 'all' else ''}{texts['end']}"


@cache
def listed_tools(offered: ToolSet) -> list[Schema]:
    """Return tools as the protocol lists them. A tool that is not listed can be called nevertheless."""
    return [one.listed() for one in tools().values() if offered == "all" or one.basic]
