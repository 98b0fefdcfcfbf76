"""Name a hit by the definition that it is shown for, and show a definition that has no chunk of its own.

Small definitions share a chunk, which is named after the longest of them or after what encloses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from rag.analysis import terms
from rag.code.languages import kind_of_path
from rag.code.symbols import tests_begin
from rag.lines import whole_lines_of, without_blank_end
from rag.ports import ChunkIndex
from rag.types import CodeDefinition, Hit, Unit


def definition_at(index: ChunkIndex, path: str, line: int) -> CodeDefinition | None:
    """Return the innermost definition, or else value, that has a line of a file; None outside of all."""
    graph = index.graph
    return _innermost(graph.defined_in(path), line) or _innermost(graph.values_in(path), line)


def label_at(index: ChunkIndex, path: str, line: int) -> str:
    """Return the qualified name of `definition_at`, "" outside of all."""
    found = definition_at(index, path, line)
    return found.qualified_name if found else ""


def is_in_test(index: ChunkIndex, path: str, line: int) -> bool:
    """Return whether a line is in a file of tests, or in the tests at the end of a file of Rust."""
    if kind_of_path(path) == "test" or not path.endswith(".rs"):
        return kind_of_path(path) == "test"
    found = index.file_text(path)
    return found is not None and tests_begin(found[0]) < line


def lines_of_hit(index: ChunkIndex, hit: Hit, first: int, last: int) -> Hit:
    """Return a hit with the place of some of its lines, named by the definition that has the first of them.

    Sections of documents and keys of data are no definitions: their lines keep the hit's name.
    """
    if hit.kind == "code" and is_in_test(index, hit.path, first):
        hit = replace(hit, kind="test")
    span = replace(hit.span, start=first, end=last)
    if hit.unit == "section":
        return replace(hit, span=span)
    found = definition_at(index, hit.path, first)
    if found is None:
        return replace(hit, span=replace(span, symbol="", scope=""), unit="block")
    return _named(replace(hit, span=span), found)


def _innermost(found: Iterable[CodeDefinition], line: int) -> CodeDefinition | None:
    around = (one for one in found if one.start <= line <= one.end)
    return max(around, key=lambda one: (one.start, -one.end), default=None)


def named_by(index: ChunkIndex, hit: Hit, names: Iterable[str], weights: Mapping[str, float]) -> Hit:
    """Return a hit named by the first of some names, without their scopes, that its lines define.

    Without one, constants in a group are named by the one whose name and line have the most weight of some
    terms.
    """
    wanted = [name for name in names if name in hit.text]
    is_group = hit.unit == "block" and hit.symbol != ""
    if hit.kind not in ("code", "test") or not (wanted or is_group) or hit.symbol in wanted:
        return hit
    defined = {
        one.name: one
        for one in (*index.graph.values_in(hit.path), *index.graph.defined_in(hit.path))
        if _begins_in(hit, one)
    }
    if found := next((defined[name] for name in wanted if name in defined), None):
        return _named(hit, found)
    if not is_group or hit.symbol not in defined:
        return hit
    lines = hit.text.split("\n")

    def weight(one: CodeDefinition) -> float:
        said = {*terms(one.name), *terms(lines[one.start - hit.start])}
        return sum(value for term, value in weights.items() if term in said)

    best = max(defined.values(), key=weight)
    return _named(hit, best) if weight(best) > weight(defined[hit.symbol]) else hit


def named_by_key(hit: Hit, key: str) -> Hit:
    """Return a hit of JSON named by one of its keys, if its lines have it below what it is named by."""
    if not hit.path.endswith(".json") or hit.symbol == key:
        return hit
    if not re.search(rf'^\s*"{re.escape(key)}"\s*:', hit.text, re.MULTILINE):
        return hit
    return replace(hit, span=replace(hit.span, symbol=key, scope=hit.scope or hit.symbol))


def named_at(index: ChunkIndex, hit: Hit, line: int) -> Hit:
    """Return a hit named by the definition that has one of its lines, if what it is named by does not."""
    if hit.kind not in ("code", "test"):
        return hit
    around = [one for one in index.graph.defined_in(hit.path) if one.start <= line <= one.end]
    if not around or not _begins_in(hit, around[-1]) or hit.symbol in {one.name for one in around}:
        return hit
    return _named(hit, around[-1])


def hit_of_lines(
    index: ChunkIndex, path: str, start: int, end: int, *, of: CodeDefinition | None = None, reason: str = ""
) -> Hit | None:
    """Return lines of an indexed file as a hit with a score of 0; None if they are blank or not in the file.

    The hit is named `of` a definition. Without one it has the names of the chunk that holds most of the
    lines; a single line those of its definition, and lines of several definitions the name of none of them.
    """
    content, chunks = index.file_text(path), index.chunks_of(path)
    if content is None or not len(chunks):
        return None
    text, blank_end = without_blank_end("".join(whole_lines_of(content[0])[start - 1 : end]))
    if not text.strip():
        return None
    last = start + len(whole_lines_of(text)) - 1
    spans = {chunk: index.lines(chunk) for chunk in chunks}
    chunk = max(spans, key=lambda chunk: min(last, spans[chunk][1]) - max(start, spans[chunk][0]))
    hit = index.hit(chunk, 0.0, {})
    if of is not None:
        hit = _named(hit, of)
    elif start == last:
        hit = lines_of_hit(index, hit, start, last)
    elif hit.kind in ("code", "test") and _has_several(index, hit, start, last):
        hit = replace(hit, span=replace(hit.span, symbol="", scope=""), unit="block")
    span = replace(hit.span, start=start, end=last)
    return replace(hit, span=span, text=text, blank_end=blank_end, reason=reason)


def line_of(hit: Hit, best: Callable[[str], float] = lambda line: 0.0) -> Hit:
    """Return the first of the `best` lines of a hit; if none is better than 0, the line that has its name, or
    the first with text.
    """
    lines = whole_lines_of(hit.text)
    scores = [best(line) for line in lines]
    named = (n for n, line in enumerate(lines) if hit.symbol and hit.symbol in line)
    text = (n for n, line in enumerate(lines) if line.strip())
    at = scores.index(max(scores)) if any(scores) else next(named, next(text, 0))
    span = replace(hit.span, start=hit.start + at, end=hit.start + at)
    return replace(hit, span=span, text=lines[at], blank_end="") if lines else hit


def _has_several(index: ChunkIndex, hit: Hit, start: int, last: int) -> bool:
    """Return whether lines go on beyond the definition of a hit, and have others."""
    inside = [one for one in index.graph.defined_in(hit.path) if one.start <= last and start <= one.end]
    own = [one for one in inside if (one.scope, one.name) == (hit.scope, hit.symbol)]
    return any(one.end < other.start or other.end < one.start for one in own for other in inside)


def _begins_in(hit: Hit, one: CodeDefinition) -> bool:
    return hit.start <= one.start <= hit.end


def _named(hit: Hit, one: CodeDefinition) -> Hit:
    return replace(hit, span=replace(hit.span, symbol=one.name, scope=one.scope), unit=_unit(one.unit))


def _unit(unit: Unit | Literal["constant"]) -> Unit:
    return "block" if unit == "constant" else unit
