"""Compute the outline of a text: by its grammar where there is one, else by lines.

Native code reads the text here, so callers run this in an expendable process: `rag.code.parsing`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from rag.code.collector import Collector
from rag.code.definitions import Definition, Heading, sections
from rag.code.file_graph import DeclaredValue, Defined, FileGraph, defined_in, graph_values
from rag.code.grammars import parse
from rag.code.patterns import outline_by_lines
from rag.code.reference_queries import has_references
from rag.code.references import read_graph
from rag.code.syntax import child_of_type, text_of, whole_text_of
from rag.code.tables import table_of
from rag.isolated import GaveUp
from rag.lines import whole_lines_of

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_MAX_GRAPH_NODES = 800_000
"""A file whose tree has more is generated; its definitions are found, its references are not read. The nodes
are counted and not the characters: a large file that people wrote is a third comments.
"""
_TYPESCRIPT = re.compile(r"""\blang\s*=\s*["']tsx?["']""")


def outline_values(text: str, language: str, max_chars: int | None) -> list[Any]:
    """Return the outline as JSON values: start, end, symbol, scope, unit and members of each definition.

    Functions of more than `max_chars` are searched for inner definitions. Raises GaveUp.
    """
    lines, is_large = whole_lines_of(text), _large(text, max_chars)
    return _values(_outline(lines, language, is_large, _parsed(text, language), []))


def file_values(text: str, language: str, max_chars: int | None) -> list[Any]:
    """Return `outline_values`, and the graph of the file as JSON values; [] without one. Raises GaveUp."""
    parsed = _parsed(text, language)
    declared: list[DeclaredValue] = []
    found = _outline(whole_lines_of(text), language, _large(text, max_chars), parsed, declared)
    graph = FileGraph()
    if parsed is not None and has_references(parsed.language) and _is_read(parsed.tree):
        graph = read_graph(parsed.tree, parsed.language, text.encode("utf-8", "replace"))
    if graph == FileGraph():
        graph = FileGraph(defined_in(found, language))
    graph = replace(graph, values=tuple(_others(graph.definitions, found, declared)))
    return [_values(found), [] if graph == FileGraph() else graph_values(graph)]


def _others(
    known: Sequence[Defined], found: Sequence[Definition], declared: Sequence[DeclaredValue]
) -> Iterator[DeclaredValue]:
    """Yield what a file declares that is not among its functions and classes: values, and types that only the
    outline has.
    """
    lines: dict[str, list[int]] = defaultdict(list)
    for one in known:
        lines[one.name].append(one.start)
    for value in sorted(dict.fromkeys([*declared, *_types(found)]), key=lambda value: value.start):
        if not any(value.start <= start <= value.end for start in lines[value.name]):
            yield value


def _types(found: Sequence[Definition]) -> Iterator[DeclaredValue]:
    for one in found:
        if one.unit == "class" and one.symbol:
            yield DeclaredValue(one.symbol, one.scope, one.start + 1, one.end)
        yield from _types(one.members)


def _is_read(tree: Tree) -> bool:
    return tree.root_node.descendant_count <= _MAX_GRAPH_NODES


def _large(text: str, max_chars: int | None) -> Callable[[int, int], bool]:
    """Return whether rows of a text are more than `max_chars` characters."""
    offsets = [0, *accumulate(map(len, whole_lines_of(text)))]

    def is_large(start: int, end: int) -> bool:
        last = len(offsets) - 1
        return max_chars is not None and offsets[min(end, last)] - offsets[min(start, last)] > max_chars

    return is_large


def _values(definitions: Sequence[Definition]) -> list[Any]:
    return [[d.start, d.end, d.symbol, d.scope, d.unit, _values(d.members)] for d in definitions]


def outline(
    text: str, lines: list[str], language: str, is_large: Callable[[int, int], bool]
) -> list[Definition]:
    """Return the definitions of the text, in order.

    Args:
        text: the whole text.
        lines: the same, split after each newline.
        language: as `rag.code.languages` names it.
        is_large: whether rows `start` to `end` (not included) are too large for one chunk.

    Raises:
        GaveUp: the parser does not finish in time.
    """
    return _outline(lines, language, is_large, _parsed(text, language), [])


def _outline(
    lines: list[str],
    language: str,
    is_large: Callable[[int, int], bool],
    parsed: _Parsed | None,
    declared: list[DeclaredValue],
) -> list[Definition]:
    """Return the definitions of a text, in order; what else it declares is added to `declared`."""
    if parsed is not None and language == "markdown":
        return sections(_markdown_headings(parsed.tree.root_node), len(lines))
    if parsed is None or table_of(language) is None:
        return outline_by_lines(lines, language)
    root = parsed.tree.root_node
    found = _collected(root, language, 0, is_large, declared)
    if root.has_error and (not found or language == "sql"):
        # The parser failed: line patterns are more reliable.
        return outline_by_lines(lines, language) or found
    return found


class _Parsed(NamedTuple):
    """A tree, and the language of the grammar that made it."""

    tree: Tree
    language: str


def _parsed(text: str, language: str) -> _Parsed | None:
    """Return the tree; JavaScript that does not parse is tried as TypeScript, whose types resemble Flow's."""
    tree = parse(text, language)
    if tree is None:
        return None
    if language == "javascript" and tree.root_node.has_error:
        with suppress(GaveUp):
            other = parse(text, "tsx")
            if other is not None and not other.root_node.has_error:
                return _Parsed(other, "tsx")
    return _Parsed(tree, language)


def _collected(
    root: Node,
    language: str,
    first_row: int,
    is_large: Callable[[int, int], bool],
    declared: list[DeclaredValue],
) -> list[Definition]:
    table = table_of(language)
    if table is None:
        return []
    collector = Collector(table, first_row=first_row, is_large=is_large)
    found = collector.collect(root.children)
    declared += collector.declared.values()
    if language in ("html", "vue", "svelte"):
        found += _scripts(root, is_large, declared)
        found.sort(key=lambda definition: definition.start)
    return found


def _scripts(
    root: Node, is_large: Callable[[int, int], bool], declared: list[DeclaredValue]
) -> list[Definition]:
    """Return definitions in `<script>`s at the top, in head or in body."""
    found: list[Definition] = []
    pending = list(root.children)
    while pending:
        node = pending.pop()
        if node.type == "script_element":
            found += _in_script(node, is_large, declared)
        elif node.type == "element" and child_of_type(node, "start_tag") is not None:
            tag = text_of(child_of_type(child_of_type(node, "start_tag") or node, "tag_name"))
            if tag in ("html", "head", "body"):
                pending += node.children
    return found


def _in_script(
    node: Node, is_large: Callable[[int, int], bool], declared: list[DeclaredValue]
) -> list[Definition]:
    code = child_of_type(node, "raw_text")
    if code is None:
        return []
    language = "tsx" if _TYPESCRIPT.search(text_of(child_of_type(node, "start_tag"))) else "javascript"
    try:
        inner = _parsed(whole_text_of(code), language)
    except GaveUp:
        inner = None
    if inner is None:
        return []
    return _collected(inner.tree.root_node, language, code.start_point.row, is_large, declared)


def _markdown_headings(root: Node) -> list[Heading]:
    """Return headings of both kinds; those in quotes and lists are not sections."""
    found: list[Heading] = []
    pending = list(reversed(root.children))
    while pending:
        node = pending.pop()
        if node.type == "section":
            pending += reversed(node.children)
        elif node.type == "atx_heading":
            marker = node.children[0].type
            title = text_of(node.child_by_field_name("heading_content")).strip().rstrip("#").rstrip()
            found.append(Heading(node.start_point.row, int(marker[5]), title))
        elif node.type == "setext_heading":
            level = 1 if child_of_type(node, "setext_h1_underline") is not None else 2
            found.append(
                Heading(
                    node.start_point.row, level, text_of(node.child_by_field_name("heading_content")).strip()
                )
            )
    return found
