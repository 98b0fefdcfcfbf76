"""Prompts: requests that a user chooses by name, with the tools that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rag.settings import ToolSet

_CITE = "Cite each statement as path:start-end. Say what you did not find."
_REPO = "The repository. May be omitted if only one is served."


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt: `arguments` are descriptions by name, those of `needed` are required.

    `tools` are the tools that its text names.
    """

    name: str
    about: str
    arguments: Mapping[str, str]
    text: Callable[..., str]
    needed: tuple[str, ...] = ()
    tools: ToolSet = "basic"

    def is_offered(self, tools: ToolSet) -> bool:
        """Whether a client can use it with these tools."""
        return tools == "all" or self.tools == "basic"

    def listed(self) -> dict[str, Any]:
        """Return the prompt as the protocol lists it."""
        arguments = [
            {"name": name, "description": about, "required": name in self.needed}
            for name, about in self.arguments.items()
        ]
        return {"name": self.name, "description": self.about, "arguments": arguments}


def _explain(name: str, repo: str = "") -> str:
    return (
        f"Explain `{name}`{_in(repo)}. Use find_symbol (or explore, if it is no definition), read_span "
        f"and who_calls. {_CITE}"
    )


def _overview(repo: str = "") -> str:
    return (
        f"Explain what the project does and how it is built{_in(repo)}: its purpose, its main parts and "
        "how they work together, where a request or command enters, and where to begin reading. Use "
        f"ask_question for the whole, then explore and read_span. {_CITE}"
    )


def _review_change(range: str = "", repo: str = "") -> str:
    change = f"the change {range}" if range else "the change in the work tree"
    return (
        f"Review {change}{_in(repo)}. Use review first. Read each line that uses what is gone, and the "
        f"callers of what has another signature. Name the tests to run, and the answers that are not "
        f"true any more. {_CITE}"
    )


def _still_true(conversation: str = "") -> str:
    which = f"the conversation {conversation}" if conversation else "the last conversation"
    return (
        f"Use check_turns on {which}. For each answer whose lines have changed or are gone, read the "
        f"lines as they are now with read_span, and say what is different. {_CITE}"
    )


def _in(repo: str) -> str:
    return f" in the repository {repo}" if repo else ""


PROMPTS: Mapping[str, McpPrompt] = {
    one.name: one
    for one in (
        McpPrompt(
            "explain",
            "Explain a definition, file or setting: what it does, and who uses it.",
            {"name": "A function, class, file or setting.", "repo": _REPO},
            _explain,
            ("name",),
        ),
        McpPrompt(
            "overview",
            "Explain what a project does and how it is built, for someone who is new to it.",
            {"repo": _REPO},
            _overview,
        ),
        McpPrompt(
            "review_change",
            "Review a change: what it breaks, which tests to run, which earlier answers become false.",
            {"range": "BASE..HEAD. Default: HEAD to the work tree.", "repo": _REPO},
            _review_change,
            tools="all",
        ),
        McpPrompt(
            "still_true",
            "Check which answers of a conversation are still true, and correct the others.",
            {"conversation": "Id or name. Default: the last."},
            _still_true,
            tools="all",
        ),
    )
}
"""The prompts by name, in the order of the list."""
