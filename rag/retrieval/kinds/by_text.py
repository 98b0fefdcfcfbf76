"""Find uses and subtypes by the lines that have a name, where the graph of the code has none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rag.analysis import terms
from rag.identifiers import composed
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.lookup import limit_of_uses, uses
from rag.types import CodeUse, Hit, UseRole

_TYPE = (
    r"\b(?:class|interface|struct|enum|object|protocol|extension|record|trait|actor)\s+[\w.]+(?:<[^{]*?>)?"
)
_EXTENDS = r"(?:\s*[:(<]|\s+(?:extends|implements|with)\b)[^{]*?"
_OTHERS = (
    r"^\s*(?:extends|implements)\b[^{{]*{0}|\bimpl\b[^{{]*{0}[^{{]* for "
    r"|^\s*use (?:parent|base|[\w:]+::Base)\b.*{0}"
)


_NO_USE = re.compile(
    r"\s*(?:(?:import|from|use|using|alias|require\w*|include|package|namespace)\b|#|//|/?\*|--)"
)


def uses_by_text(
    asked: Asked, index: ChunkIndex, name: str, wanted: Callable[[Hit], bool]
) -> Iterator[CodeUse]:
    """Yield the calls of a name in the chunks that are wanted, or else its mentions other than imports and
    comments. None of them is certain.
    """
    if limit := limit_of_uses(index, name):
        asked.limits[limit] = None
    held = [use for use in uses(index, name) if wanted(use.hit)]
    for use in [use for use in held if use.calls] or held:
        role: UseRole = "call" if use.calls else "mention"
        lines = lines_of(use.hit.text)
        for line in use.lines:
            if not _NO_USE.match(lines[line - use.hit.start]):
                yield CodeUse(use.hit.path, line, use.hit.label, role, certain=False)


def subtypes_by_text(asked: Asked, index: ChunkIndex, name: str) -> Iterator[CodeUse]:
    """Yield the lines of code that declare a type with another one of a name as its base."""
    base = rf"(?<![\w$]){re.escape(name)}(?![\w$])"
    declares = re.compile(rf"{_TYPE}{_EXTENDS}{base}|{_OTHERS.format(base)}")
    for hit in asked.hits_with(index, terms(name)[-1:]):
        if hit.kind in ("code", "test"):
            for number, line in enumerate(lines_of(composed(hit.text)), hit.start):
                if declares.search(line):
                    yield CodeUse(hit.path, number, hit.label, "base", certain=False)
