"""Where a symbol is defined: functions, classes, sections and values."""

from __future__ import annotations

from dataclasses import replace

from rag.ports import ChunkIndex
from rag.retrieval import lookup
from rag.retrieval.shown_definition import hit_of_lines
from rag.types import CodeDefinition, Hit, Span

_MAX_LINES = 24
"""Lines of a value that are shown."""


def definitions(index: ChunkIndex, name: str) -> list[Hit]:
    """Return where a symbol is defined: what `lookup.definitions` finds, then the values of that name.

    A value that is named by a chunk of its own is not repeated.
    """
    hits = lookup.definitions(index, name)
    named = [hit for hit in hits if hit.symbol]
    for one in index.graph.values(name):
        if not any(_shows(hit, one) for hit in named):
            last = min(one.end, one.start + _MAX_LINES - 1)
            span = Span("", one.path, one.start, last, symbol=one.name, scope=one.scope)
            if (hit := hit_of_lines(index, span, one.unit)) is not None:
                hits.append(replace(hit, score=1.0))
    return hits


def _shows(hit: Hit, one: CodeDefinition) -> bool:
    return (hit.path, hit.symbol) == (one.path, one.name) and hit.start <= one.start <= hit.end
