"""What `rag serve` and `rag mcp` say about the repositories that they offer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag.cli.terminal import say

if TYPE_CHECKING:
    from rag.types import Source


def report_renamed(repositories: Sequence[tuple[str, Source]]) -> None:
    """Report the folders that are served under another name than their own, which is not valid."""
    from rag.service.named_sources import safe_name

    for name, source in repositories:
        if name != source.name and safe_name(source.name, (name,)) != source.name:
            say(f"rag: {source.location} is served as {name}; choose another name with --repo NAME=PATH")
