"""Turn a syntax tree into definitions.

A table for each language (`rag.code.tables`) lists the kinds of node that define something, and those that
are traversed on the way to definitions. Other nodes are never accessed: accessing a node from Python takes
far longer than parsing it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag.code.definitions import Definition, joined, tidy

if TYPE_CHECKING:
    from tree_sitter import Node

    from rag.types import Unit

_MAX_DEPTH = 80
"""Definitions nested deeper are part of what encloses them."""

_MIN_INNER_ROWS = 8
"""A shorter definition inside a function is not extracted."""


@dataclass(frozen=True, slots=True)
class Named:
    """The definition that a node makes. Members are searched in `body`; `within` is scope that is part of the
    name.

    With a `unit` of None it is not a definition, only a scope for its body: a namespace.
    """

    symbol: str
    unit: Unit | None
    body: Node | None = None
    within: str = ""


Rule = Callable[["Node"], Named | None]


@dataclass(frozen=True, slots=True)
class Table:
    """The definitions of a language: rules by kind of node, and the kinds to traverse."""

    rules: Mapping[str, Rule]
    through: frozenset[str] = field(default_factory=frozenset)


_MAX_NAME_BYTES = 1_000
"""No name is longer, however long the node is; some rules for names take quadratic time."""


def text_of(node: Node | None) -> str:
    """Return the beginning of the node's text, as far as it may be a name; "" for None."""
    return node.text[:_MAX_NAME_BYTES].decode("utf-8", "replace") if node is not None and node.text else ""


def whole_text_of(node: Node) -> str:
    """Return the node's text."""
    return node.text.decode("utf-8", "replace") if node.text else ""


def by_field(unit: Unit | None, name: str = "name", body: str = "body") -> Rule:
    """Return a rule for nodes that have name and body fields."""

    def rule(node: Node) -> Named | None:
        symbol = text_of(node.child_by_field_name(name))
        return Named(symbol, unit, node.child_by_field_name(body)) if symbol else None

    return rule


def fixed(symbol: str, unit: Unit) -> Rule:
    """Return a rule for nodes without a name of their own, like a destructor."""
    return lambda node: Named(symbol, unit, node.child_by_field_name("body"))


def child_of_type(node: Node, *kinds: str) -> Node | None:
    """Return the first child of one of these kinds."""
    for child in node.children:
        if child.type in kinds:
            return child
    return None


def _is_standalone(inner: Definition) -> bool:
    return inner.end - inner.start >= _MIN_INNER_ROWS and (inner.unit != "block" or bool(inner.members))


class Collector:
    """Collects definitions from nodes, in order."""

    def __init__(self, table: Table, *, first_row: int, is_large: Callable[[int, int], bool]) -> None:
        """Create a collector for a tree whose first line is row `first_row` of the file.

        `is_large(start, end)` says whether these rows are too large for one chunk: only then is a function
        searched for inner definitions.
        """
        self.table, self.first_row, self.is_large = table, first_row, is_large

    def collect(self, nodes: Iterable[Node], scope: str = "", depth: int = 0) -> list[Definition]:
        """Return the definitions among the nodes and in the nodes that they traverse."""
        found: list[Definition] = []
        if depth > _MAX_DEPTH:
            return found
        rules, through = self.table.rules, self.table.through
        for node in nodes:
            kind = node.type
            rule = rules.get(kind)
            named = rule(node) if rule is not None else None
            if named is None:
                if kind in through:
                    found += self.collect(node.children, scope, depth + 1)
            elif named.unit is None:
                inner = named.body.children if named.body is not None else ()
                found += self.collect(inner, joined(scope, named.symbol), depth + 1)
            else:
                found.append(self._definition(node, named, named.unit, scope, depth))
        return found

    def _definition(self, node: Node, named: Named, unit: Unit, scope: str, depth: int) -> Definition:
        start, end = node.start_point.row, node.end_point.row
        if node.end_point.column > 0 or end == start:
            end += 1
        result = Definition(
            start + self.first_row,
            end + self.first_row,
            tidy(named.symbol),
            joined(scope, named.within),
            unit,
        )
        if named.body is not None and (unit == "class" or self.is_large(result.start, result.end)):
            members = self.collect(named.body.children, result.inner_scope, depth + 1)
            # A value or a few lines inside a function are a step of it, not indexed by name.
            result.members = [m for m in members if unit != "function" or _is_standalone(m)]
        return result
