"""Renders memories, chunks and notes for prompts, from `remembered.j2`, `chunks.j2` and `notes.j2`."""

from __future__ import annotations

from collections.abc import Sequence

from rag.prompt.templates import parse_template
from rag.prompt.views import plain, view_of
from rag.quoting import one_line
from rag.resources import shipped
from rag.types import Hit, NumberedSource


def render_memories(name: str, memories: Sequence[str]) -> str:
    """Render memories as numbered lines, oldest first, after a header, which is the result for none."""
    return _render("remembered", name=one_line(name), memories=[plain(memory) for memory in memories])


def render_chunks(name: str, hits: Sequence[Hit], *, name_repository: bool = False) -> str:
    """Render chunks with their places, best first, after a header, which is the result for none."""
    numbered = [NumberedSource(n, hit) for n, hit in enumerate(hits, 1)]
    chunks = [view_of(source, name_repository=name_repository) for source in numbered]
    return _render("chunks", name=one_line(name), chunks=chunks)


def render_summary_prompt(summary: str, lines: Sequence[str]) -> str:
    """Render the prompt for a new summary, from the old summary and new lines."""
    return _render("notes", summary=plain(summary), lines=[plain(line) for line in lines])


def _render(template: str, **variables: object) -> str:
    path = shipped("templates") / f"{template}.j2"
    text = path.read_text(encoding="utf-8")
    return parse_template(text, origin=str(path), knows=frozenset(variables)).render(**variables)
