"""Read an expression from a syntax tree as a chain of names and calls without arguments: `a.b().c`.

The kinds of nodes are those of all grammars together: where two use one name, it means the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rag.identifiers import NAME, composed

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_EXPRESSION = 200
_MAX_DEPTH = 12
SAME_OBJECT = ("apply", "also")
"""Functions of Kotlin that return the object before the dot."""
PATH = re.compile(rf"{NAME}(?:\s*(?:\.|::|->|\?\.)\s*{NAME})*")
_SEPARATOR = re.compile(r"(?<!\s)\s*(?:\?\.|\.|::|->)\s*")
_ANNOTATION = re.compile(r"""^[\s:&*'"]*(?:mut\s+|dyn\s+)?(?:Optional\[\s*)?['"]?([^\W\d][\w.:]*)""")
_UNIONS = re.compile(r"\|\s*None\b|\bNone\s*\||\|\s*(?:undefined|null)\b")
_LIFETIMES = re.compile(r"&\s*'\w+\s+")
_NO_TYPE = re.compile(r"[|,]")
_TRANSPARENT = frozenset(
    """await await_expression parenthesized_expression non_null_expression as_expression unary_expression
    reference_expression satisfies_expression""".split()
)
_CALLS = frozenset(
    """call call_expression method_invocation invocation_expression function_call_expression
    scoped_call_expression member_call_expression""".split()
)
_MEMBERS = frozenset(
    """attribute member_expression selector_expression field_expression scoped_identifier field_access
    member_access_expression scope_resolution navigation_expression infix_expression dot""".split()
)
_ELEMENTS = frozenset({"subscript_expression", "subscript", "index_expression"})
_MADE = frozenset("new_expression object_creation_expression composite_literal struct_expression".split())


class ExpressionReader:
    """Reads the expressions of one file; `content` is its text as UTF-8."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._chains: dict[bytes, str] = {}

    def words(self, node: Node) -> str:
        """Return the text of a node, composed. `Node.text` takes three times as long as this slice."""
        return composed(self._content[node.start_byte : node.end_byte].decode("utf-8", "replace"))

    def expression(self, node: Node, depth: int = 0) -> str | None:
        """Return a chain of names and calls without arguments, `a.b().c`; None for anything else."""
        written = self._content[node.start_byte : node.end_byte]
        if len(written) > MAX_EXPRESSION:
            return self._by_kind(node, depth)
        chain = self._chains.get(written)  # a file repeats itself
        if chain is None:
            chain = self._chains[written] = self._chain(written)
        return chain or self._by_kind(node, depth)

    @staticmethod
    def _chain(written: bytes) -> str:
        """Return a text that is a chain of names; "" for anything else."""
        text = composed(written.decode("utf-8", "replace"))
        if text.isidentifier():
            return text
        return _SEPARATOR.sub(".", text) if PATH.fullmatch(text) else ""

    def _by_kind(self, node: Node, depth: int) -> str | None:
        """Return the chain of an expression that is not written as one."""
        if depth > _MAX_DEPTH:
            return None
        text = self.words(node) if node.end_byte - node.start_byte <= MAX_EXPRESSION else ""
        kind = node.type
        if kind in ("as_expression", "type_assertion_expression") and node.named_children[1:]:
            typed = node.named_children[1]
            if typed.type != "predefined_type" and (value := annotated(self.words(typed))):
                return value
        if kind in _TRANSPARENT:
            return self.expression(node.named_children[0], depth + 1) if node.named_children else None
        if kind in _MADE:
            made = first_field(node, "constructor", "type", "name")
            inner = self.expression(made, depth + 1) if made is not None else None
            return f"{inner}()" if inner else None
        if kind in _CALLS:
            called = node.child_by_field_name("function")
            if called is None and kind == "call_expression":
                return self._called(node.named_children[0], depth)
            if called is None:
                return self._invoked(node, depth)
            inner = self.expression(called, depth + 1)
            return f"{inner}()" if inner else None
        if kind in _MEMBERS:
            before = first_field(node, "object", "operand", "value", "expression", "path", "argument", "left")
            name = first_field(node, "attribute", "property", "field", "name", "right")
            if name is None and (name := _kotlin_name(node)) is not None:
                before = node.named_children[0]
            inner = self.expression(before, depth + 1) if before is not None else None
            return f"{inner}.{self.words(name)}" if inner and name is not None else None
        if kind in ("generic_type", "generic_name", "generic_function", "template_type"):
            return self.expression(node.named_children[0], depth + 1) if node.named_children else None
        if kind == "binary_expression" and any(child.type == "?:" for child in node.children):
            return self.expression(node.named_children[0], depth + 1)
        if kind == "identifier":
            return text or None  # a name of Elixir with ? or !
        if kind == "user_type":
            return ".".join(self.words(child) for child in node.children if child.type == "identifier")
        if kind in ("this_expression", "super_expression"):  # `this@Outer`, `super<Base>`
            return next((f"{self.words(child)}()" for child in node.named_children), None)
        return text if kind in ("this", "super") else None

    def _called(self, called: Node, depth: int) -> str | None:
        """Return the expression of a call of Kotlin; a lambda after the arguments is a call of its own."""
        if called.type == "navigation_expression" and self.last_name(called) in SAME_OBJECT:
            called = called.named_children[0]
            return self.expression(called, depth + 1)
        inner = self.expression(called, depth + 1)
        return inner if called.type == "call_expression" or not inner else f"{inner}()"

    def _invoked(self, node: Node, depth: int) -> str | None:
        """Return the expression of a call whose receiver and name are fields of one node."""
        name = first_field(node, "name", "method")
        before = first_field(node, "object", "receiver", "scope")
        if name is None:
            return None
        inner = self.expression(before, depth + 1) if before is not None else ""
        return None if inner is None else f"{inner}.{self.words(name)}()".lstrip(".")

    def container(self, node: Node) -> str:
        """Return the name of the array or mapping whose element a call is on; "" if it is on none."""
        before = first_field(node, "object", "operand", "value")
        if before is None or before.type not in _ELEMENTS:
            return ""
        held = first_field(before, "object", "operand", "value")
        return self.last_name(held) if held is not None else ""

    def last_name(self, node: Node) -> str:
        """Return the name after the last dot of an expression; "" if it is none or too long."""
        last = first_field(node, "attribute", "property", "field", "name") or _kotlin_name(node) or node
        text = self.words(last)
        return text if PATH.fullmatch(text) and len(text) < MAX_EXPRESSION else ""


def first_field(node: Node, *fields: str) -> Node | None:
    """Return the child in the first of these fields that a node has."""
    for name in fields:
        if (found := node.child_by_field_name(name)) is not None:
            return found
    return None


def type_of(node: Node) -> Node | None:
    """Return the declared type of a parameter or variable; in Kotlin's grammar it is no field."""
    kinds = ("user_type", "nullable_type")
    return node.child_by_field_name("type") or next((c for c in node.named_children if c.type in kinds), None)


def _kotlin_name(node: Node) -> Node | None:
    """Return the name of a member of Kotlin: the last part of `a.b`, the middle one of `a b c`."""
    at = {"navigation_expression": -1, "infix_expression": 1}.get(node.type)
    return None if at is None else node.named_children[at]


def annotated(text: str) -> str:
    """Return the expression of a value with this type: `Foo()` of `Foo`, `"Foo"` and `Foo | None`."""
    text = _LIFETIMES.sub("&", _UNIONS.sub("", text[:MAX_EXPRESSION]))
    found = _ANNOTATION.match(text)
    if found is None or _NO_TYPE.search(text.partition("<")[0]):
        return ""
    rest = text[found.end() :].strip("'\"] \t\n?")
    if rest and not rest.startswith("<"):
        return ""
    return f"{found[1].replace('::', '.')}()"
