"""The names that declarations give to values: constants, variables, types, members of enumerations.

One declaration may give several: a group of Go, `int a = 1, b = 2;`, `A, B = 1, 2`, `A = B = 3`, a pattern.
They are read by syntax alone, with one table for all grammars. Which declarations are read, those at the top
of a file and in a class, is decided by `rag.code.collector`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rag.code.syntax import child_of_type, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 12
"""Patterns, chains and types nested deeper are not read."""

_NAMES = frozenset(
    "class_variable constant dot_index_expression field_identifier global_variable identifier"
    " member_expression name private_property_identifier property_identifier simple_identifier string_content"
    " shorthand_property_identifier_pattern type_identifier variable_name".split()
)
"""The kinds of nodes that are a name."""

_FIELDS: dict[str, tuple[str, ...]] = {
    kind: tuple(fields.split())
    for fields, kinds in {
        "name": "alias_declaration const_item const_spec enum_assignment enum_case enum_constant enum_entry"
        " enum_member_declaration enum_variant enumerator full_enum_case preproc_def property_declaration"
        " property_element public_field_definition simple_enum_case static_item type_alias_declaration"
        " type_item typealias_declaration var_spec variable_assignment variable_declarator variable_list",
        "declarator": "array_declarator constant_declaration field_declaration init_declarator"
        " pointer_declarator",
        "type name declarator": "declaration type_definition",
        "left": "assignment_pattern object_assignment_pattern operator_assignment type_alias_statement",
        "left right": "assignment assignment_expression",
        "body": "enum_specifier",
        "declaration": "export_statement",
        "pattern": "val_definition var_definition",
        "property": "field_definition",
        "value": "pair_pattern",
    }.items()
    for kind in kinds.split()
}
"""In which fields of a node its names are; if it has none of them, in any of its children."""

_FIRST = frozenset({"const_element", "type_alias"})
"""The kinds whose first child is the name."""

_ALL = frozenset(
    "ambient_declaration array_pattern assignment_statement const_declaration declaration_command"
    " destructured_left_assignment enum_body enum_case_definitions enumerator_list event_field_declaration"
    " expression_statement function_call_expression function_declarator identifiers left_assignment_list"
    " lexical_declaration list_literal list_pattern list_splat_pattern multi_variable_declaration"
    " object_pattern parenthesized_declarator pattern pattern_list reference_declarator rest_assignment"
    " rest_pattern structured_binding_declarator tuple_pattern type type_declaration var_declaration"
    " var_spec_list variable_assignments variable_declaration".split()
)
"""The kinds whose names are in any of their children but their type."""

_KNOWN = _NAMES | _FIELDS.keys() | _FIRST | _ALL
_ONLY: dict[str, frozenset[str]] = {
    kind: frozenset(kinds.split())
    for kind, kinds in {
        "declaration_command": "variable_assignment",  # `export PATH` defines nothing
        "export_statement": "lexical_declaration variable_declaration type_alias_declaration",
        "expression_statement": "assignment assignment_expression function_call_expression",
        "field_declaration": "array_declarator field_identifier pointer_declarator reference_declarator"
        " function_declarator variable_declaration variable_declarator",
        "function_call_expression": "string_content",
        "function_declarator": "parenthesized_declarator",  # `int f(void);` is no value, `int (*f)(void);` is
        "property_declaration": "multi_variable_declaration pattern property_element variable_declaration",
        "type_declaration": "type_alias",  # other types of Go are classes
    }.items()
}
"""Of these kinds, the kinds of children that have names."""

_LOADS = ("require(", "require ", "require'", 'require"')
"""How a value begins that is a module: the name of an import defines nothing."""
_EXPORTS = ("exports.", "module.exports.")


def declared_names(node: Node, depth: int = 0) -> Iterator[tuple[Node, Node]]:
    """Yield the names that a declaration gives, each with the part of the declaration that is about it."""
    kind = node.type
    if kind in _NAMES:
        if kind != "member_expression" or text_of(node).startswith(_EXPORTS):
            yield node, node
    elif depth <= _MAX_DEPTH and not _is_left_out(node):
        for child in _parts(node):
            for name, part in declared_names(child, depth + 1):
                yield name, (node if part == name and kind in _FIELDS else part)


def _parts(node: Node) -> Iterator[Node]:
    """Yield the children of a node in which names are."""
    kind = node.type
    if kind == "function_call_expression":  # `define('NAME', 1)` of PHP
        arguments = node.child_by_field_name("arguments")
        found = [each.named_children[0] for each in arguments.named_children[:1]] if arguments else []
        found = [each.named_children[0] for each in found if each.type == "string" and each.named_children]
    elif kind in _FIRST:
        found = node.named_children[:1]
    else:
        found = [child for key in _FIELDS.get(kind, ()) for child in node.children_by_field_name(key)]
        found = found or [child for child in node.named_children if child != node.child_by_field_name("type")]
    only = _ONLY.get(kind, _KNOWN)
    chained = node.child_by_field_name("right") if kind.startswith("assignment") else None
    typed = node.child_by_field_name("type") if kind in ("declaration", "type_definition") else None
    for child in found:
        if child == chained and child.type != kind:
            continue  # a value
        if child.type in only and (child != typed or child.type == "enum_specifier"):
            yield child


def _is_left_out(node: Node) -> bool:
    """Return whether a declaration defines nothing: an import, a name that is defined elsewhere, a field of a
    structure of C without a value, a call.
    """
    match node.type:
        case "variable_declarator":  # of JavaScript
            return text_of(node.child_by_field_name("value")).startswith(_LOADS)
        case "assignment_statement":  # of Lua
            return text_of(child_of_type(node, "expression_list")).startswith(_LOADS)
        case "function_call_expression":
            return text_of(node.child_by_field_name("function")) != "define"
        case "declaration":
            is_extern = text_of(child_of_type(node, "storage_class_specifier")) == "extern"
            return is_extern and child_of_type(node, "init_declarator") is None
        case "field_declaration":
            declarator = node.child_by_field_name("declarator")
            if declarator is None or declarator.type == "variable_declarator":
                return False
            has_value = node.child_by_field_name("default_value") is not None
            return not has_value and text_of(child_of_type(node, "storage_class_specifier")) != "static"
    return False


def written_name(name: Node) -> tuple[str, str]:
    """Return the name that a node is, without marks, and what is written before it: `M` of `M.version`."""
    *outer, symbol = text_of(name).lstrip("$@").split(".")
    return symbol, ".".join(part for part in outer if part not in ("exports", "module"))
