"""Parse the definitions of files in an expendable process (`rag.isolation`).

If the parser fails on a text, or needs more time or memory than a file may use, line patterns find its
definitions instead, and the outline names the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rag.code.definitions import Definition
from rag.code.file_graph import FileGraph, defined_in, graph_of
from rag.code.grammars import has_grammar
from rag.code.patterns import outline_by_lines
from rag.isolation import Lost, shared
from rag.lines import whole_lines_of

_MAX_PARSED_CHARS = 4_000_000


@dataclass(frozen=True, slots=True)
class Outline:
    """The definitions of a text, in order. `gave_up` is the reason why the parser failed; "" when it
    succeeded.
    """

    definitions: list[Definition]
    gave_up: str = ""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text to be outlined. `gave_up` is the reason why the parser failed on it before, if it did."""

    text: str
    language: str
    gave_up: str = ""


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The outline of a text, and its graph."""

    outline: Outline
    graph: FileGraph


def outlines(texts: Sequence[SourceText], *, max_chars: int | None) -> list[Outline]:
    """Return the outline of each text.

    Args:
        texts: a text on which the parser failed before is not tried again.
        max_chars: longer functions are searched for inner definitions; None searches none.
    """
    values = _values("rag.code.outline:outline_values", texts, max_chars)
    return [_outline(text, value) for text, value in zip(texts, values, strict=True)]


def parsed_texts(texts: Sequence[SourceText], *, max_chars: int | None) -> list[ParsedText]:
    """Return the outline and the graph of each text. The arguments are those of `outlines`."""
    found = []
    values = _values("rag.code.outline:file_values", texts, max_chars)
    for text, value in zip(texts, values, strict=True):
        read, graph = value if isinstance(value, list) else (value, None)
        outline = _outline(text, read)
        if graph:
            found.append(ParsedText(outline, graph_of(graph)))
        elif graph is None and not outline.gave_up:
            found.append(ParsedText(outline, FileGraph(defined_in(outline.definitions, text.language))))
        else:
            found.append(ParsedText(outline, FileGraph()))
    return found


def _values(function: str, texts: Sequence[SourceText], max_chars: int | None) -> list[Any]:
    """Return the value of each text, None if it is not parsed."""
    wanted = [n for n, text in enumerate(texts) if _is_parsed(text)]
    calls = [[texts[n].text, texts[n].language, max_chars] for n in wanted]
    values = shared().calls(function, calls) if calls else []
    found = dict(zip(wanted, values, strict=True))
    return [found.get(n) for n in range(len(texts))]


def _is_parsed(text: SourceText) -> bool:
    return bool(
        text.text and not text.gave_up and has_grammar(text.language) and len(text.text) <= _MAX_PARSED_CHARS
    )


def _outline(text: SourceText, value: Any) -> Outline:
    if isinstance(value, list):
        return Outline([_definition(each) for each in value])
    gave_up = value.why if isinstance(value, Lost) else text.gave_up
    return Outline(outline_by_lines(whole_lines_of(text.text), text.language), gave_up)


def _definition(value: Sequence[Any]) -> Definition:
    start, end, symbol, scope, unit, members = value
    return Definition(start, end, symbol, scope, unit, [_definition(member) for member in members])
