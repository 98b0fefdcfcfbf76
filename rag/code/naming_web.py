"""Names in JavaScript and TypeScript, and in SQL, styles, pages and data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rag.code.naming import is_long, wrapped
from rag.code.syntax import Named, Rule, child_of_type, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from rag.types import Unit

_JS_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function", "generator_function"})
_JS_CLASSES = frozenset({"class", "class_expression"})


def _js_value(symbol: str, value: Node | None, within: str = "") -> Named | None:
    """Return the definition of a name with this value; None when the value is not worth indexing by name."""
    if value is None or not symbol:
        return None
    if value.type in ("parenthesized_expression", "as_expression", "satisfies_expression"):
        value = value.named_children[0] if value.named_children else value
    kind = value.type
    if kind in _JS_FUNCTIONS:
        return Named(symbol, "function", value.child_by_field_name("body"), within)
    if kind in _JS_CLASSES:
        return Named(symbol, "class", value.child_by_field_name("body"), within)
    arguments = value.child_by_field_name("arguments") if kind == "call_expression" else None
    inner = child_of_type(arguments, *_JS_FUNCTIONS) if arguments is not None else None
    if inner is not None:  # memo(() => …), create((set) => …)
        return Named(symbol, "function", inner.child_by_field_name("body"), within)
    if not is_long(value):
        return None
    return Named(symbol, "block", value if kind == "object" else arguments, within)


def js_variables(node: Node) -> Named | None:
    """`const f = () => …`; of several in one statement the first that is worth indexing."""
    for child in node.named_children:
        if child.type == "variable_declarator":
            name = child.child_by_field_name("name")
            if name is not None and name.type == "identifier":
                named = _js_value(text_of(name), child.child_by_field_name("value"))
                if named is not None:
                    return named
    return None


def js_assignment(node: Node) -> Named | None:
    """`exports.x = function …`, `Foo.prototype.bar = …`."""
    left = node.child_by_field_name("left")
    if left is None or left.type not in ("member_expression", "identifier"):
        return None
    parts = text_of(left).split(".")
    symbol = parts.pop()
    right = node.child_by_field_name("right")
    if symbol in ("exports", "prototype"):  # an object of which only the members count
        outer = "" if symbol == "exports" or not parts else parts[-1]
        if right is not None and right.type == "object":
            return Named(outer, None, right)
        if right is None or right.type in _JS_FUNCTIONS | _JS_CLASSES:
            return _js_value("exports", right)
        return None
    outer_parts = [part for part in parts if part not in ("exports", "module", "prototype", "this", "window")]
    return _js_value(symbol, right, ".".join(outer_parts) if len(outer_parts) < 4 else "")


def js_statement(node: Node) -> Named | None:
    """Return an assignment, or a TypeScript namespace, used as a statement."""
    inner = node.named_children[0] if node.named_children else None
    if inner is None:
        return None
    if inner.type == "assignment_expression":
        return js_assignment(inner)
    return ts_namespace(inner) if inner.type in ("internal_module", "module") else None


def js_pair(node: Node) -> Named | None:
    """`name: function …` in an object, and long objects in it."""
    key = text_of(node.child_by_field_name("key")).strip("'\"`")
    value = node.child_by_field_name("value")
    if value is None or (value.type not in _JS_FUNCTIONS and value.type != "object"):
        return None
    return _js_value(key, value)


def js_field(node: Node) -> Named | None:
    """Return a class field that holds a function or a long value."""
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    return _js_value(text_of(name), node.child_by_field_name("value"))


def js_export(rules: Mapping[str, Rule]) -> Rule:
    """`export …`, also `export default` of something without a name."""
    inner = wrapped(rules)

    def rule(node: Node) -> Named | None:
        value = node.child_by_field_name("value")
        if value is not None and value.type in _JS_FUNCTIONS | _JS_CLASSES:
            name = text_of(value.child_by_field_name("name")) or "default"
            return _js_value(name, value)
        return inner(node)

    return rule


def ts_namespace(node: Node) -> Named | None:
    """`namespace A.B { … }`, `declare module "x" { … }`."""
    name = text_of(node.child_by_field_name("name")).strip("'\"")
    return Named(name, None, node.child_by_field_name("body")) if name else None


# ---------------------------------------------------------------- SQL, styles, pages, data


def sql_statement(node: Node) -> Named | None:
    """`CREATE TABLE schema.name`: scope schema, symbol name."""
    inner = node.named_children[0] if node.named_children else None
    if inner is None or not inner.type.startswith("create_"):
        return None
    if inner.type == "create_index":
        name = text_of(inner.child_by_field_name("column"))
    else:
        name = text_of(child_of_type(inner, "object_reference", "identifier"))
    *outer, symbol = name.replace('"', "").replace("`", "").split(".")
    unit: Unit = (
        "function" if inner.type in ("create_function", "create_procedure", "create_trigger") else "class"
    )
    return Named(symbol, unit, None, ".".join(outer)) if symbol else None


def css_rule(node: Node) -> Named | None:
    """Return a rule, named by its selectors; at-rules by the text before the brace."""
    return Named(text_of(node).partition("{")[0].strip(), "block", child_of_type(node, "block"))


def html_element(node: Node) -> Named | None:
    """Return an element with an id that spans several lines."""
    tag = child_of_type(node, "start_tag")
    if tag is None or not is_long(node):
        return None
    match = re.search(r"""\sid=["']?([\w:.-]+)""", text_of(tag))
    return Named(match[1], "section", node) if match else None


def data_pair(node: Node) -> Named | None:
    """Return a key of JSON or YAML."""
    key = text_of(node.child_by_field_name("key")).strip("\"'")
    return Named(key, "section", node.child_by_field_name("value")) if key else None


def toml_table(node: Node) -> Named | None:
    """`[a.b]`: scope a, symbol b."""
    *outer, symbol = text_of(child_of_type(node, "dotted_key", "bare_key", "quoted_key")).split(".")
    return Named(symbol.strip(" \"'"), "section", None, ".".join(part.strip(" \"'") for part in outer))
