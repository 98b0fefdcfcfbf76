"""Find names where a grammar has no name field in the defining node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rag.code.syntax import Named, Rule, child_of_type, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from rag.types import Unit

_GENERIC = re.compile(r"<[^<>]*>")
_MIN_CONSTANT_ROWS = 3
"""A value on fewer lines belongs to the surrounding chunk."""


def is_long(node: Node) -> bool:
    """Return whether a value spans enough lines to be indexed under its own name."""
    return node.end_point.row - node.start_point.row >= _MIN_CONSTANT_ROWS


def without_generics(name: str) -> str:
    """`Map<K, List<V>>` as `Map`."""
    while True:
        shorter = _GENERIC.sub("", name)
        if shorter == name:
            return name.strip()
        name = shorter


def wrapped(rules: Mapping[str, Rule]) -> Rule:
    """Return a rule for a node that wraps a definition: decorators, `export`, `template <…>`."""

    def rule(node: Node) -> Named | None:
        for child in node.named_children:
            inner = rules.get(child.type)
            named = inner(child) if inner is not None else None
            if named is not None:
                return named
        return None

    return rule


def long_value(name: str = "name") -> Rule:
    """Return a rule for a constant: named when it spans several lines."""

    def rule(node: Node) -> Named | None:
        symbol = text_of(node.child_by_field_name(name))
        return Named(symbol, "block") if symbol and is_long(node) else None

    return rule


# ---------------------------------------------------------------- Python, Ruby


def python_statement(node: Node) -> Named | None:
    """`NAME = {…}` over several lines."""
    if not is_long(node):
        return None
    inner = node.named_children[0] if node.named_children else None
    if inner is None or inner.type not in ("assignment", "augmented_assignment"):
        return None
    left = inner.child_by_field_name("left")
    return Named(text_of(left), "block") if left is not None and left.type == "identifier" else None


def ruby_scope(unit: Unit) -> Rule:
    """`class A::B`."""

    def rule(node: Node) -> Named | None:
        *outer, symbol = text_of(node.child_by_field_name("name")).split("::")
        body = node.child_by_field_name("body")
        return Named(symbol, unit, body, ".".join(part for part in outer if part)) if symbol else None

    return rule


def ruby_assignment(node: Node) -> Named | None:
    """`Foo = Struct.new do … end`, and constants over several lines."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or left.type != "constant" or right is None or not is_long(node):
        return None
    block = right.child_by_field_name("block") if right.type == "call" else None
    body = block.child_by_field_name("body") if block is not None else None
    return Named(text_of(left), "class" if body is not None else "block", body)


# ---------------------------------------------------------------- Go, Rust


_MAX_RECEIVER_CHARS = 1_000


def go_method(node: Node) -> Named | None:
    """Return a method, in the scope of its receiver's type."""
    receiver = node.child_by_field_name("receiver")
    written = text_of(receiver)[:_MAX_RECEIVER_CHARS]
    words = re.findall(r"\w+", re.sub(r"\[.*?\]", "", written, flags=re.DOTALL))
    symbol = text_of(node.child_by_field_name("name"))
    body = node.child_by_field_name("body")
    return Named(symbol, "function", body, words[-1] if words else "") if symbol else None


def go_types(node: Node) -> Named | None:
    """`type X …`; a group of types is traversed instead."""
    specs = [child for child in node.named_children if child.type in ("type_spec", "type_alias")]
    return Named(text_of(specs[0].child_by_field_name("name")), "class") if len(specs) == 1 else None


def go_values(node: Node) -> Named | None:
    """`var X = …` and groups of constants over several lines, under the first name."""
    if not is_long(node):
        return None
    inner = child_of_type(node, "var_spec_list") or node
    spec = child_of_type(inner, "const_spec", "var_spec")
    return Named(text_of(spec.child_by_field_name("name")), "block") if spec is not None else None


def rust_impl(node: Node) -> Named | None:
    """`impl Trait for Type`: named by the type."""
    name = without_generics(text_of(node.child_by_field_name("type")))
    name = re.sub(r"'\w+|\b(?:mut|dyn)\b|[&()\s]", "", name).rpartition("::")[2]
    return Named(name, "class", node.child_by_field_name("body")) if name else None


# ---------------------------------------------------------------- C, C++

_C_NAMES = frozenset(
    "identifier field_identifier type_identifier qualified_identifier destructor_name operator_name "
    "operator_cast template_function template_method literal_operator_name".split()
)


_C_KEYWORDS = frozenset("namespace class struct union enum extern if for while switch do return".split())


def _declared(node: Node | None) -> str:
    """Return the name inside pointers, references, arrays and parameter lists."""
    for _ in range(20):
        if node is None:
            return ""
        if node.type in _C_NAMES:
            return text_of(node)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (c for c in node.named_children if c.type in _C_NAMES or "declarator" in c.type), None
            )
        node = inner
    return ""


def _c_named(name: str, unit: Unit, body: Node | None) -> Named | None:
    *outer, symbol = without_generics(name.partition("(")[0] if "operator" not in name else name).split("::")
    return (
        Named(symbol.strip(), unit, body, ".".join(part.strip() for part in outer if part))
        if symbol
        else None
    )


def c_function(node: Node) -> Named | None:
    """`int *ns::C::k() { … }`: scope ns.C, symbol k."""
    name, body = _declared(node.child_by_field_name("declarator")), node.child_by_field_name("body")
    if name in _C_KEYWORDS:  # a macro in front misled the parser: this is a namespace or a type
        return Named("", None, body)
    return _c_named(name, "function", body)


def c_type(node: Node) -> Named | None:
    """Return a struct, class, union or enum with a body."""
    body = node.child_by_field_name("body")
    return None if body is None else _c_named(text_of(node.child_by_field_name("name")), "class", body)


def c_typedef(node: Node) -> Named | None:
    """`typedef struct { … } Name;`."""
    inner = node.child_by_field_name("type")
    body = inner.child_by_field_name("body") if inner is not None else None
    if body is None and not is_long(node):
        return None
    return _c_named(_declared(node.child_by_field_name("declarator")), "class", body)


def c_declaration(node: Node) -> Named | None:
    """Return a type declared with a variable, or a long initial value."""
    inner = node.child_by_field_name("type")
    named = c_type(inner) if inner is not None and inner.type.endswith("_specifier") else None
    if named is not None:
        return named
    declarator = node.child_by_field_name("declarator")
    if declarator is None or declarator.type != "init_declarator" or not is_long(node):
        return None
    return _c_named(_declared(declarator), "block", None)


def cpp_namespace(node: Node) -> Named | None:
    """Return a namespace is scope, not a definition; one without a name is ignored."""
    name = text_of(node.child_by_field_name("name")).replace("::", ".").replace("inline ", "")
    return Named(name, None, node.child_by_field_name("body"))


# ---------------------------------------------------------------- Kotlin, Swift, Scala, C#, PHP


def first_name(unit: Unit, body: str, *kinds: str, default: str = "") -> Rule:
    """Return a rule for nodes whose name and body are children of these kinds, not fields."""

    def rule(node: Node) -> Named | None:
        symbol = text_of(node.child_by_field_name("name") or child_of_type(node, *kinds)) or default
        return Named(symbol, unit, child_of_type(node, *body.split())) if symbol else None

    return rule


def kotlin_property(node: Node) -> Named | None:
    """Return a property with an accessor or value over several lines."""
    variable = child_of_type(node, "variable_declaration")
    symbol = text_of(variable).partition(":")[0].strip()
    return Named(symbol, "block") if symbol and is_long(node) else None


def kotlin_function(node: Node) -> Named | None:
    """Return a function; an extension function in the scope of the type it extends."""
    name = node.child_by_field_name("name")
    if name is None:
        return None
    receiver = next(
        (c for c in node.children if c.end_byte <= name.start_byte and c.type.endswith("_type")), None
    )
    within = without_generics(text_of(receiver)).rstrip("?")
    return Named(text_of(name), "function", child_of_type(node, "function_body"), within)


def swift_type(node: Node) -> Named | None:
    """Return a class, struct, enum, actor or extension."""
    *outer, symbol = without_generics(text_of(node.child_by_field_name("name"))).split(".")
    return Named(symbol, "class", node.child_by_field_name("body"), ".".join(outer)) if symbol else None


def scala_extension(node: Node) -> Named | None:
    """`extension (s: String) …`: the type extended is scope."""
    type_name = without_generics(
        text_of(node.child_by_field_name("parameters")).partition(":")[2].strip(") ")
    )
    return Named(type_name, None, node)


def csharp_namespace(node: Node) -> Named | None:
    """Return a namespace is scope."""
    return Named(text_of(node.child_by_field_name("name")), None, node.child_by_field_name("body"))


def csharp_operator(node: Node) -> Named | None:
    """`operator +`."""
    symbol = text_of(node.child_by_field_name("operator")) or text_of(node.child_by_field_name("type"))
    return Named(f"operator {symbol}", "function", node.child_by_field_name("body"))


def csharp_destructor(node: Node) -> Named | None:
    """`~C()`."""
    return Named(
        f"~{text_of(node.child_by_field_name('name'))}", "function", node.child_by_field_name("body")
    )


def php_namespace(node: Node) -> Named | None:
    """`namespace A\\B { … }`; without braces it has no body of its own."""
    name = text_of(node.child_by_field_name("name")).replace("\\", ".")
    body = node.child_by_field_name("body")
    return Named(name, None, body) if body is not None else None


def php_statement(node: Node) -> Named | None:
    """`$x = function …`, and values over several lines."""
    inner = node.named_children[0] if node.named_children else None
    if inner is None or inner.type != "assignment_expression" or not is_long(node):
        return None
    left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
    if left is None or left.type != "variable_name" or right is None:
        return None
    is_function = right.type in (
        "anonymous_function",
        "arrow_function",
        "anonymous_function_creation_expression",
    )
    body = right.child_by_field_name("body") if is_function else None
    return Named(text_of(left).lstrip("$"), "function" if is_function else "block", body)


# ---------------------------------------------------------------- Lua


def lua_function(node: Node) -> Named | None:
    """`function M.sub:name()`: the scope is the part before the last dot or colon."""
    *outer, symbol = re.split(r"[.:]", text_of(node.child_by_field_name("name")))
    return Named(symbol, "function", node.child_by_field_name("body"), ".".join(outer)) if symbol else None


def lua_assignment(node: Node) -> Named | None:
    """`M.f = function … end`, `local f = function … end`, and tables over several lines."""
    inner = child_of_type(node, "assignment_statement") if node.type == "variable_declaration" else node
    names = child_of_type(inner, "variable_list") if inner is not None else None
    values = child_of_type(inner, "expression_list") if inner is not None else None
    if names is None or values is None or not values.named_children:
        return None
    *outer, symbol = re.split(r"[.:]", text_of(names).partition(",")[0])
    value = values.named_children[0]
    if value.type == "function_definition":
        return Named(symbol, "function", value.child_by_field_name("body"), ".".join(outer))
    if not is_long(node):
        return None
    return Named(symbol, "block", value if value.type == "table_constructor" else None, ".".join(outer))


def lua_field(node: Node) -> Named | None:
    """`name = function … end` in a table."""
    value = node.child_by_field_name("value")
    symbol = text_of(node.child_by_field_name("name"))
    if value is None or value.type != "function_definition" or not symbol:
        return None
    return Named(symbol, "function", value.child_by_field_name("body"))
