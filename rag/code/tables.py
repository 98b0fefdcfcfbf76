"""The tables of definition nodes for each grammar."""

from __future__ import annotations

from functools import cache

from rag.code import naming, naming_web
from rag.code.naming import first_name, long_value, wrapped
from rag.code.syntax import Rule, Table, by_field, fixed

_FUNCTION = by_field("function")
_CLASS = by_field("class")


def _same(rule: Rule, kinds: str) -> dict[str, Rule]:
    return dict.fromkeys(kinds.split(), rule)


def _table(rules: dict[str, Rule], through: str, values: str = "", local: str = "") -> Table:
    return Table(
        rules,
        frozenset(through.split()) | {"ERROR"},
        frozenset(values.split()),
        frozenset(local.split()) | {"ERROR"},
    )


def _python() -> Table:
    rules = {
        "function_definition": _FUNCTION,
        "class_definition": _CLASS,
        "type_alias_statement": long_value("left"),
        "expression_statement": naming.python_statement,
    }
    rules["decorated_definition"] = wrapped(dict(rules))
    return _table(
        rules,
        "block if_statement else_clause elif_clause try_statement except_clause finally_clause "
        "with_statement for_statement while_statement match_statement case_clause",
        values="expression_statement type_alias_statement",
    )


def _javascript() -> Table:
    rules = {
        **_same(_FUNCTION, "function_declaration generator_function_declaration method_definition"),
        **_same(_FUNCTION, "function_signature method_signature abstract_method_signature"),
        **_same(
            _CLASS, "class_declaration abstract_class_declaration interface_declaration enum_declaration"
        ),
        "type_alias_declaration": by_field("class", body="value"),
        **_same(naming_web.js_variables, "lexical_declaration variable_declaration"),
        "expression_statement": naming_web.js_statement,
        "assignment_expression": naming_web.js_assignment,
        **_same(naming_web.js_field, "public_field_definition field_definition"),
        "pair": naming_web.js_pair,
        **_same(naming_web.ts_namespace, "internal_module module"),
    }
    rules["ambient_declaration"] = wrapped(dict(rules))
    rules["export_statement"] = naming_web.js_export(dict(rules))
    return _table(
        rules,
        "export_statement ambient_declaration expression_statement call_expression arguments "
        "parenthesized_expression unary_expression sequence_expression function_expression arrow_function "
        "statement_block if_statement else_clause try_statement return_statement object class_body "
        "lexical_declaration variable_declaration variable_declarator new_expression await_expression pair "
        "array",
        values="ambient_declaration enum_body export_statement expression_statement field_definition"
        " lexical_declaration public_field_definition type_alias_declaration variable_declaration",
        local="arrow_function function_expression",
    )


def _java() -> Table:
    return _table(
        {
            **_same(_CLASS, "class_declaration interface_declaration enum_declaration record_declaration"),
            "annotation_type_declaration": _CLASS,
            **_same(_FUNCTION, "method_declaration constructor_declaration compact_constructor_declaration"),
            "static_initializer": lambda node: None,
        },
        "enum_body_declarations",
        values="constant_declaration enum_constant field_declaration",
    )


def _go() -> Table:
    return _table(
        {
            "function_declaration": _FUNCTION,
            "method_declaration": naming.go_method,
            "type_declaration": naming.go_types,
            **_same(_CLASS, "type_spec type_alias"),
            **_same(naming.go_values, "const_declaration var_declaration"),
        },
        "type_declaration",
        values="const_declaration type_declaration var_declaration",
    )


def _rust() -> Table:
    return _table(
        {
            **_same(_FUNCTION, "function_item function_signature_item"),
            **_same(_CLASS, "struct_item enum_item union_item trait_item"),
            "impl_item": naming.rust_impl,
            "mod_item": by_field(None),
            "macro_definition": _FUNCTION,
            **_same(long_value(), "const_item static_item type_item"),
        },
        "foreign_mod_item declaration_list block expression_statement macro_invocation",
        values="const_item enum_variant static_item type_item",
        local="block",
    )


def _c() -> Table:
    rules: dict[str, Rule] = {
        "function_definition": naming.c_function,
        **_same(naming.c_type, "struct_specifier union_specifier enum_specifier class_specifier"),
        "type_definition": naming.c_typedef,
        **_same(naming.c_declaration, "declaration field_declaration"),
        "preproc_function_def": naming.long_value(),
        "namespace_definition": naming.cpp_namespace,
        "concept_definition": _CLASS,
    }
    rules["template_declaration"] = wrapped(dict(rules))
    return _table(
        rules,
        "preproc_ifdef preproc_if preproc_else preproc_elif preproc_elifdef linkage_specification "
        "declaration_list field_declaration_list template_declaration export_declaration compound_statement",
        values="alias_declaration declaration enum_specifier enumerator field_declaration preproc_def"
        " type_definition",
        local="compound_statement",
    )


def _ruby() -> Table:
    return _table(
        {
            "class": naming.ruby_scope("class"),
            "module": naming.ruby_scope("class"),
            **_same(_FUNCTION, "method singleton_method"),
            "assignment": naming.ruby_assignment,
        },
        "body_statement singleton_class call do_block block argument_list if unless begin",
        values="assignment operator_assignment",
        local="identifier",
    )


def _php() -> Table:
    return _table(
        {
            **_same(_CLASS, "class_declaration interface_declaration trait_declaration enum_declaration"),
            **_same(_FUNCTION, "function_definition method_declaration"),
            "namespace_definition": naming.php_namespace,
            "expression_statement": naming.php_statement,
        },
        "if_statement compound_statement colon_block else_clause",
        values="const_declaration enum_case expression_statement property_declaration",
    )


def _csharp() -> Table:
    return _table(
        {
            **_same(_CLASS, "class_declaration struct_declaration interface_declaration record_declaration"),
            **_same(_CLASS, "enum_declaration record_struct_declaration"),
            **_same(_FUNCTION, "method_declaration constructor_declaration local_function_statement"),
            **_same(by_field("function", body="accessors"), "property_declaration event_declaration"),
            "destructor_declaration": naming.csharp_destructor,
            "delegate_declaration": _FUNCTION,
            "indexer_declaration": fixed("this", "function"),
            **_same(naming.csharp_operator, "operator_declaration conversion_operator_declaration"),
            "namespace_declaration": naming.csharp_namespace,
        },
        "declaration_list preproc_if preproc_else preproc_elif global_statement",
        values="enum_member_declaration event_field_declaration field_declaration",
    )


def _kotlin() -> Table:
    return _table(
        {
            **_same(
                first_name("class", "class_body enum_class_body"), "class_declaration object_declaration"
            ),
            "companion_object": first_name("class", "class_body", default="Companion"),
            "function_declaration": naming.kotlin_function,
            "secondary_constructor": first_name("function", "block", default="constructor"),
            "property_declaration": naming.kotlin_property,
            "type_alias": long_value(),
        },
        "",
        values="enum_entry property_declaration type_alias",
    )


def _scala() -> Table:
    return _table(
        {
            **_same(
                _CLASS, "class_definition object_definition trait_definition enum_definition given_definition"
            ),
            "package_object": _CLASS,
            **_same(_FUNCTION, "function_definition function_declaration"),
            **_same(long_value("pattern"), "val_definition var_definition"),
            "type_definition": long_value(),
            "extension_definition": naming.scala_extension,
            "package_clause": lambda node: None,
        },
        "package_clause template_body",
        values="enum_case_definitions type_definition val_definition var_definition",
    )


def _swift() -> Table:
    return _table(
        {
            "class_declaration": naming.swift_type,
            "protocol_declaration": _CLASS,
            **_same(_FUNCTION, "function_declaration protocol_function_declaration macro_declaration"),
            "init_declaration": fixed("init", "function"),
            "deinit_declaration": fixed("deinit", "function"),
            "subscript_declaration": fixed("subscript", "function"),
            "property_declaration": long_value(),
        },
        "class_body if_config_declaration",
        values="enum_entry property_declaration typealias_declaration",
    )


def _lua() -> Table:
    return _table(
        {
            "function_declaration": naming.lua_function,
            **_same(naming.lua_assignment, "assignment_statement variable_declaration"),
            "field": naming.lua_field,
        },
        "return_statement expression_list table_constructor do_statement if_statement block",
        values="assignment_statement variable_declaration",
    )


def _bash() -> Table:
    return _table(
        {"function_definition": _FUNCTION},
        "if_statement else_clause compound_statement list",
        values="declaration_command variable_assignment variable_assignments",
    )


def _sql() -> Table:
    return _table({"statement": naming_web.sql_statement}, "transaction block")


def _html() -> Table:
    return _table({"element": naming_web.html_element}, "element")


def _css() -> Table:
    kinds = "rule_set media_statement keyframes_statement supports_statement at_rule layer_statement"
    return _table(_same(naming_web.css_rule, kinds), "")


def _json() -> Table:
    return _table({"pair": naming_web.data_pair}, "object array")


def _yaml() -> Table:
    through = "document block_node block_mapping block_sequence block_sequence_item flow_node flow_mapping"
    return _table(_same(naming_web.data_pair, "block_mapping_pair flow_pair"), through)


def _toml() -> Table:
    return _table(
        {**_same(naming_web.toml_table, "table table_array_element"), "pair": naming_web.toml_table}, ""
    )


_TABLES = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "java": _java,
    "go": _go,
    "rust": _rust,
    "c": _c,
    "cpp": _c,
    "ruby": _ruby,
    "php": _php,
    "csharp": _csharp,
    "kotlin": _kotlin,
    "scala": _scala,
    "swift": _swift,
    "lua": _lua,
    "bash": _bash,
    "sql": _sql,
    "html": _html,
    "vue": _html,
    "svelte": _html,
    "css": _css,
    "json": _json,
    "yaml": _yaml,
    "toml": _toml,
}


@cache
def table_of(language: str) -> Table | None:
    """Return the table of a language, None when there is none."""
    make = _TABLES.get(language)
    return make() if make is not None else None
