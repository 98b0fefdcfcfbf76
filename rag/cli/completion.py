"""Complete names in the shell: conversations, marks and repositories.

A shell asks on every press of Tab, so a completion reads only local files and never fails: whatever goes
wrong is an empty list.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import typer

from rag.settings import Settings, load_settings

_TYPABLE = re.compile(r"[\w@%+=./~][\w@%+=.,:/~-]*")
"""Names that a shell takes as they are; others would need quotes, which shells add in different ways."""


def conversation(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of conversations that begin with what was typed."""
    from rag.service.repositories.known_names import conversation_names

    return _matching(conversation_names, ctx, incomplete)


def mark(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the marks that begin with what was typed."""
    from rag.service.repositories.known_names import mark_names

    return _matching(mark_names, ctx, incomplete)


def repository(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the repositories that begin with what was typed: those asked about, else those indexed."""
    from rag.service.repositories.known_names import asked_locations, indexed_locations

    return _matching(asked_locations, ctx, incomplete) or _matching(indexed_locations, ctx, incomplete)


def source(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the same for the first word of `[SOURCE] QUESTION`; the second one is a question."""
    return [] if ctx.params.get("words") else repository(ctx, incomplete)


def _matching(names: Callable[[Settings], list[str]], ctx: typer.Context, incomplete: str) -> list[str]:
    try:
        memory = ctx.params.get("memory")
        found = names(load_settings({"memory": memory} if memory else {}))
    except Exception:  # noqa: BLE001 - an error would appear in the middle of the line that is being typed
        return []
    return [name for name in found if name.startswith(incomplete) and _TYPABLE.fullmatch(name)]
