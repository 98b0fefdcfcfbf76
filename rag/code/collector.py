"""Collect the definitions of a file from the nodes at its top, in its classes and in its large functions.

Other nodes are never accessed: accessing a node from Python takes far longer than parsing it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rag.code.declared_names import declared_names, written_name
from rag.code.definitions import Definition, joined, tidy
from rag.code.file_graph import DeclaredValue
from rag.code.syntax import Named, Table

if TYPE_CHECKING:
    from tree_sitter import Node

    from rag.types import Unit

_MAX_DEPTH = 80
"""Definitions nested deeper are part of what encloses them."""
_MIN_INNER_ROWS = 8
"""A shorter definition inside a function is not extracted."""
_MAX_VALUES = 20_000
"""Values of one file that are collected; a file with more is generated."""
_MAX_SAME = 4
"""Declarations of one name in one scope that are collected: a script assigns a variable many times."""
_NEVER_LOCAL = frozenset({"enum_constant", "enum_entry", "enumerator", "preproc_def"})


def _is_standalone(inner: Definition) -> bool:
    return inner.end - inner.start >= _MIN_INNER_ROWS and (inner.unit != "block" or bool(inner.members))


def _rows(node: Node) -> tuple[int, int]:
    """Return the first row of a node, and the row after its last one."""
    start, end = node.start_point.row, node.end_point.row
    return start, end + (node.end_point.column > 0 or end == start)


class Collector:
    """Collects definitions from nodes, in order, and in `declared` the values declared next to them."""

    def __init__(self, table: Table, *, first_row: int, is_large: Callable[[int, int], bool]) -> None:
        """Create a collector for a tree whose first line is row `first_row` of the file.

        `is_large(start, end)` says whether these rows are too large for one chunk: only then is a function
        searched for inner definitions.
        """
        self.table, self.first_row, self.is_large = table, first_row, is_large
        self.declared: dict[tuple[str, int], DeclaredValue] = {}
        self._same: dict[tuple[str, str], int] = {}

    def collect(
        self, nodes: Iterable[Node], scope: str = "", depth: int = 0, *, local: bool = False
    ) -> list[Definition]:
        """Return the definitions among the nodes and in the nodes that they traverse.

        The values that are declared there are `local` if that is in a function.
        """
        found: list[Definition] = []
        if depth > _MAX_DEPTH:
            return found
        rules, through, values = self.table.rules, self.table.through, self.table.values
        for node in nodes:
            kind = node.type
            rule = rules.get(kind)
            named = rule(node) if rule is not None else None
            if named is None:
                if kind in through:
                    inside = local or kind in self.table.local
                    found += self.collect(node.children, scope, depth + 1, local=inside)
            elif named.unit is None:
                inner = named.body.children if named.body is not None else ()
                found += self.collect(inner, joined(scope, named.symbol), depth + 1, local=local)
            else:
                found.append(self._definition(node, named, named.unit, scope, depth, local=local))
            if kind in values and (not local or kind in _NEVER_LOCAL):
                self._declare(node, scope)
        return found

    def _definition(
        self, node: Node, named: Named, unit: Unit, scope: str, depth: int, *, local: bool
    ) -> Definition:
        start, end = _rows(node)
        result = Definition(
            start + self.first_row,
            end + self.first_row,
            tidy(named.symbol),
            joined(scope, named.within),
            unit,
        )
        if named.body is not None and (unit == "class" or self.is_large(result.start, result.end)):
            local = local or unit == "function"
            members = self.collect(named.body.children, result.inner_scope, depth + 1, local=local)
            # A value or a few lines inside a function are a step of it, not indexed by name.
            result.members = [m for m in members if unit != "function" or _is_standalone(m)]
            if named.body.type in self.table.values and not local:
                self._declare(named.body, result.inner_scope)
        return result

    def _declare(self, node: Node, scope: str) -> None:
        """Add the names that a declaration gives to values."""
        for name, part in declared_names(node):
            symbol, within = written_name(name)
            start, (_, end) = name.start_point.row + self.first_row, _rows(part)
            inner = joined(scope, within)
            same = self._same.get((symbol, inner), 0)
            is_left_out = not symbol.strip("_") or name.type in self.table.local or same >= _MAX_SAME
            if not is_left_out and len(self.declared) < _MAX_VALUES:
                self._same[symbol, inner] = same + 1
                value = DeclaredValue(tidy(symbol), inner, start + 1, max(end + self.first_row, start + 1))
                self.declared.setdefault((value.name, value.start), value)
