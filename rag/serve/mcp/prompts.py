"""Prompts of the MCP server: requests that a user chooses by name, with the tools that answer them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

Repo = Annotated[
    str, Field(max_length=300, description="The repository. May be omitted if only one is served.")
]
Name = Annotated[str, Field(min_length=1, max_length=500, description="A function, class, file or setting.")]
Range = Annotated[str, Field(max_length=500, description="BASE..HEAD. Default: HEAD to the work tree.")]
Conversation = Annotated[str, Field(max_length=200, description="Id or name. Default: the last.")]

_CITE = "Cite each statement as path:start-end. Say what you did not find."


def add_prompts(server: Any) -> None:
    """Add the prompts to the SDK's server."""

    @server.prompt()  # type: ignore[untyped-decorator]
    def explain(name: Name, repo: Repo = "") -> str:
        """Explain a definition, file or setting: what it does, who uses it, what was answered before."""
        return (
            f"Explain `{name}`{_in(repo)}. Use find_symbol (or explore, if it is no definition), read_span, "
            f"who_calls, and turns_about for earlier answers. {_CITE}"
        )

    @server.prompt()  # type: ignore[untyped-decorator]
    def overview(repo: Repo = "") -> str:
        """Explain what a project does and how it is built, for someone who is new to it."""
        return (
            f"Explain what the project does and how it is built{_in(repo)}: its purpose, its main parts and "
            "how they work together, where a request or command enters, and where to begin reading. Use "
            f"read_wiki_structure, read_wiki_contents and explore. {_CITE}"
        )

    @server.prompt()  # type: ignore[untyped-decorator]
    def review_change(range: Range = "", repo: Repo = "") -> str:
        """Review a change: what it breaks, which tests to run, which earlier answers become false."""
        change = f"the change {range}" if range else "the change in the work tree"
        return (
            f"Review {change}{_in(repo)}. Use review first. Read each line that uses what is gone, and the "
            f"callers of what has another signature. Name the tests to run, and the answers that are not "
            f"true any more. {_CITE}"
        )

    @server.prompt()  # type: ignore[untyped-decorator]
    def still_true(conversation: Conversation = "") -> str:
        """Check which answers of a conversation are still true, and correct the others."""
        which = f"the conversation {conversation}" if conversation else "the last conversation"
        return (
            f"Use check_turns on {which}. For each answer whose lines have changed or are gone, read the "
            f"lines as they are now with read_span, and say what is different. {_CITE}"
        )


def _in(repo: str) -> str:
    return f" in the repository {repo}" if repo else ""
