"""Turn a syntax tree into definitions.

A table for each language (`rag.code.tables`) lists the kinds of node that define something, and those that
are traversed on the way to definitions (`rag.code.collector`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from rag.types import Unit


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
    """The definitions of a language: rules by kind of node, and the kinds to traverse.

    `values` are the kinds that declare values, whose names are definitions too. Those in traversed kinds that
    are `local` are local to a function, or may be; so are names of such a kind.
    """

    rules: Mapping[str, Rule]
    through: frozenset[str] = field(default_factory=frozenset)
    values: frozenset[str] = field(default_factory=frozenset)
    local: frozenset[str] = field(default_factory=frozenset)


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
