"""Find subtypes by the lines that have the name of a type, where the graph of the code has none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.analysis import terms
from rag.identifiers import composed
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked
from rag.retrieval.shown_definition import label_at
from rag.types import CodeUse

_TYPE = (
    r"\b(?:class|interface|struct|enum|object|protocol|extension|record|trait|actor)\s+[\w.]+(?:<[^{]*?>)?"
)
_EXTENDS = r"(?:\s*[:(<]|\s+(?:extends|implements|with)\b)[^{]*?"
_OTHERS = (
    r"^\s*(?:extends|implements)\b[^{{]*{0}|\bimpl\b[^{{]*{0}[^{{]* for "
    r"|^\s*use (?:parent|base|[\w:]+::Base)\b.*{0}"
)


def subtypes_by_text(asked: Asked, index: ChunkIndex, name: str) -> Iterator[CodeUse]:
    """Yield the lines of code that declare a type with another one of a name as its base."""
    base = rf"(?<![\w$]){re.escape(name)}(?![\w$])"
    declares = re.compile(rf"{_TYPE}{_EXTENDS}{base}|{_OTHERS.format(base)}")
    for hit in asked.hits_with(index, terms(name)[-1:]):
        if hit.kind in ("code", "test"):
            for number, line in enumerate(lines_of(composed(hit.text)), hit.start):
                if declares.search(line):
                    yield CodeUse(hit.path, number, label_at(index, hit.path, number), "base", certain=False)
