"""The repositories that `rag serve` and `rag mcp` offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.terminal import say

if TYPE_CHECKING:
    from rag.types import Source

Served = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[[NAME=]SOURCE]...",
        help="Repositories to serve: paths or git URLs, with optional names. Default: the current directory.",
    ),
]
ServedRepositories = Annotated[
    list[str] | None,
    typer.Option("--repo", "-r", metavar="[NAME=]SOURCE", help="A repository to serve. Repeatable."),
]


def report_renamed(repositories: Sequence[tuple[str, Source]]) -> None:
    """Report the folders that are served under another name than their own, which is not valid."""
    from rag.service.repositories.named_sources import safe_name

    for name, source in repositories:
        if name != source.name and safe_name(source.name, (name,)) != source.name:
            say(f"rag: {source.location} is served as {name}; choose another name with --repo NAME=PATH")
