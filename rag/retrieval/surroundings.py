"""Find what else a prompt can show: the next hits, what the best ones call, the classes they belong to, and
the imports that they use.

Calls and classes come from the graph of the code, so only certain relations are followed. Each piece is exact
lines of a file, with the reason why it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.identifiers import NAME, composed
from rag.ports import ChunkIndex
from rag.quoting import one_line
from rag.retrieval.search import RetrievalResult, Searcher
from rag.retrieval.shown_definition import hit_of_lines
from rag.types import CodeDefinition, Hit, Span

EXPANDED_HITS = 3
"""How many of the best hits are looked up in the graph."""
_MAX_CALLED = 6
"""The largest number of calls of one hit that are followed."""
_MAX_LINES = 60
"""A definition with more lines is left out: it would displace several others."""
_MAX_HEAD_LINES = 40
_MAX_IMPORT_LINES = 12
_NAME = re.compile(NAME)
_CONSTRUCTORS = ("__init__", "constructor", "initialize", "__construct")


def surroundings(searchers: Sequence[Searcher], found: RetrievalResult) -> Iterator[Hit]:
    """Yield what else to show, best first: the next hits, the definitions that the best hits certainly call,
    the heads of the classes whose methods they are, and the imports that they use.

    A piece may be in a hit already. The graph is only read if the pieces before did not fill the prompt.
    """
    yield from found.further
    yield from called(searchers, found.hits)
    yield from class_heads(searchers, found.hits)
    yield from used_imports(searchers, found.hits)


def called(searchers: Sequence[Searcher], hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the definitions that the best hits certainly call, by hit and line."""
    for place in _places(searchers, hits):
        yield from _called(place)


def class_heads(searchers: Sequence[Searcher], hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the first lines, with the fields, and the constructor of the classes of the best hits."""
    for place in _places(searchers, hits):
        yield from _class_heads(place)


def used_imports(searchers: Sequence[Searcher], hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the lines of the imports that bring a name that is used in one of the best hits."""
    for place in _places(searchers, hits):
        yield from _used_imports(place)


@dataclass(frozen=True, slots=True)
class _Place:
    """A hit in code, the store that it is in, and the definitions of its file."""

    hit: Hit
    index: ChunkIndex
    defined: Sequence[CodeDefinition]

    def functions(self) -> list[CodeDefinition]:
        """Return the functions of which the hit has lines, in order."""
        return [
            one
            for one in self.defined
            if one.unit == "function" and one.start <= self.hit.end and self.hit.start <= one.end
        ]


def _places(searchers: Sequence[Searcher], hits: Sequence[Hit]) -> Iterator[_Place]:
    """Yield the best hits that are code, in order."""
    for hit in hits[:EXPANDED_HITS]:
        for index in (searcher.index for searcher in searchers):
            chunks = index.chunks_of(hit.path) if hit.kind in ("code", "test") else range(0)
            if chunks and index.hit(chunks[0], 0.0, {}).location == hit.location:
                yield _Place(hit, index, index.graph.defined_in(hit.path))
                break


def _called(place: _Place) -> Iterator[Hit]:
    """Yield the definitions that one hit certainly calls, each once."""
    followed: set[tuple[str, int]] = set()
    for caller in place.functions():
        for use, target in place.index.graph.callees(caller):
            if len(followed) >= _MAX_CALLED:
                return
            key = target.path, target.start
            if not use.certain or key in followed or not place.hit.start <= use.line <= place.hit.end:
                continue
            followed.add(key)
            yield from _piece(place, target, f"called by `{one_line(caller.name)}` in line {use.line}")


def _class_heads(place: _Place) -> Iterator[Hit]:
    """Yield the heads and the constructors of the classes whose methods one hit shows."""
    done: set[CodeDefinition] = set()
    for method in place.functions():
        around = [
            one
            for one in place.defined
            if one.unit == "class" and one.start <= method.start and method.end <= one.end
        ]
        if not around or around[-1] in done:
            continue
        outer = around[-1]
        done.add(outer)
        inner = [one for one in place.defined if outer.start < one.start <= one.end <= outer.end]
        first = min(one.start for one in [method, *inner])
        last = min(max(first - 1, outer.start), outer.start + _MAX_HEAD_LINES - 1)
        reason = f"class of `{one_line(method.name)}`"
        yield from _piece(place, replace(outer, end=last), reason)
        for one in inner:
            if one.name in _CONSTRUCTORS and one.scope == outer.qualified_name:
                yield from _piece(place, one, reason)


def _used_imports(place: _Place) -> Iterator[Hit]:
    """Yield the imports that one hit uses; those on neighbouring lines are one piece."""
    path, names = place.hit.path, frozenset(_NAME.findall(composed(place.hit.text)))
    blocks: list[tuple[int, int]] = []
    for start, end in place.index.graph.imports_of(path, names):
        if end - start >= _MAX_IMPORT_LINES or place.hit.start <= start <= place.hit.end:
            continue
        if blocks and start <= blocks[-1][1] + 1:
            blocks[-1] = blocks[-1][0], max(end, blocks[-1][1])
        else:
            blocks.append((start, end))
    for start, end in blocks:
        reason = f"imports used in lines {place.hit.start}-{place.hit.end}"
        piece = hit_of_lines(place.index, Span(place.hit.repo, path, start, end), "block", reason)
        if piece is not None:
            yield piece


def _piece(place: _Place, one: CodeDefinition, reason: str) -> Iterator[Hit]:
    """Yield a definition as a hit; nothing if it is too long or not in the store."""
    if one.end - one.start < _MAX_LINES:
        span = Span(place.hit.repo, one.path, one.start, one.end, symbol=one.name, scope=one.scope)
        piece = hit_of_lines(place.index, span, one.unit, reason)
        if piece is not None:
            yield piece
