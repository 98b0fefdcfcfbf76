"""The queries of `rag.code.references`, one for each language.

The captures are: `function`, `class` and `closure` open a scope, whose `name`, `owner`, `self`, `returns`,
`modifier` and `decorator` they give; `bind`, `parameter`, `typed`, `assign`, `field` and `global` say what
names mean there; `import`, `call`, `method`, `mention` and `base` are references. The grammars' own tags.scm
were tried first: they capture names alone, without receivers, scopes, imports and (in Python and C) bases.
"""

_PYTHON = """
(function_definition name: (identifier) @name) @function
(function_definition return_type: (type) @returns)
(class_definition name: (identifier) @name) @class
(class_definition superclasses: (argument_list [(identifier) (attribute) (subscript value: (_) @base)] @base))
(lambda) @closure
(decorated_definition (decorator) @decorator)
(import_statement) @import
(import_from_statement) @import
(parameters (identifier) @parameter)
(lambda_parameters (identifier) @bind)
(default_parameter name: (identifier) @bind)
(default_parameter value: [(identifier) (attribute)] @default_value)
(typed_default_parameter value: [(identifier) (attribute)] @default_value)
(list_splat_pattern (identifier) @bind)
(dictionary_splat_pattern (identifier) @bind)
(typed_parameter) @typed
(typed_default_parameter) @typed
(assignment) @assign
(augmented_assignment left: (identifier) @bind)
(for_statement left: (identifier) @bind)
(for_in_clause left: (identifier) @bind)
(pattern_list (identifier) @bind)
(tuple_pattern (identifier) @bind)
(as_pattern_target (identifier) @bind)
(named_expression name: (identifier) @bind)
(global_statement (identifier) @global)
(nonlocal_statement (identifier) @global)
(call function: (identifier) @call)
(call function: (attribute) @method)
(decorator [(identifier) (attribute)] @mention)
(argument_list [(identifier) (attribute)] @mention)
(keyword_argument value: [(identifier) (attribute)] @mention)
(assignment right: [(identifier) (attribute)] @mention)
(return_statement) @gives
(return_statement [(identifier) (attribute)] @mention)
(list [(identifier) (attribute)] @mention)
(tuple [(identifier) (attribute)] @mention)
(set [(identifier) (attribute)] @mention)
(pair value: [(identifier) (attribute)] @mention)
(type [(identifier) (attribute)] @mention)
(except_clause [(identifier) (attribute)] @mention)
(raise_statement [(identifier) (attribute)] @mention)
"""

_JAVASCRIPT = """
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(function_expression) @closure
(arrow_function) @closure
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(method_definition name: (_) @key) @function
(method_definition "get" @modifier)
(pair key: (property_identifier) @key value: [(arrow_function) (function_expression)]) @function
(assignment_expression left: (member_expression object: (_) @owner property: (property_identifier) @name)
  right: [(arrow_function) (function_expression)]) @function
(assignment_expression left: (member_expression object: (_) @owner property: (property_identifier) @name)
  right: (class)) @class
(assignment_expression left: (member_expression) !operator) @assign
(import_statement) @import
(export_statement source: (string)) @import
(call_expression function: (identifier) arguments: (arguments . (string))) @import
(call_expression function: (import) arguments: (arguments . (string))) @import
(call_expression function: [(identifier) (super)] @call)
(call_expression function: (member_expression) @method)
(call_expression function: (parenthesized_expression) @call)
(new_expression constructor: [(identifier) (member_expression)] @call)
(arrow_function parameter: (identifier) @bind)
(variable_declarator name: (identifier)) @assign
(object_pattern) @unpack
(array_pattern (identifier) @bind)
(rest_pattern (identifier) @bind)
(assignment_pattern left: (identifier) @bind)
(catch_clause parameter: (identifier) @bind)
(for_in_statement left: (identifier) @bind)
(arguments [(identifier) (member_expression)] @mention)
(pair value: [(identifier) (member_expression)] @mention)
(shorthand_property_identifier) @mention
(array (identifier) @mention)
(return_statement [(identifier) (member_expression)] @mention)
(export_specifier) @export
(export_statement "default" declaration: (_ name: (_) @default))
(export_statement "default" value: (_) @default)
(assignment_expression right: [(identifier) (member_expression)] @mention)
"""
_JAVASCRIPT_ONLY = """
(formal_parameters (identifier) @bind)
(class_declaration name: (identifier) @name) @class
(class name: (identifier) @name) @class
(class) @class
(variable_declarator name: (identifier) @name value: (class)) @class
(class_heritage [(identifier) (member_expression)] @base)
(field_definition property: (property_identifier) @name value: (arrow_function)) @function
"""
_JSX = """
(jsx_self_closing_element name: (identifier) @call)
(jsx_opening_element name: (identifier) @call)
"""
_TYPESCRIPT = """
(call_expression function: (non_null_expression) @call)
(class_declaration name: (type_identifier) @name) @class
(abstract_class_declaration name: (type_identifier) @name) @class
(interface_declaration name: (type_identifier) @name) @class
(extends_clause value: [(identifier) (member_expression)] @base)
(extends_type_clause [(type_identifier) (nested_type_identifier) (generic_type)] @base)
(implements_clause [(type_identifier) (nested_type_identifier) (generic_type)] @base)
(public_field_definition name: (property_identifier) @name value: (arrow_function)) @function
(public_field_definition !value) @field
(property_signature) @field
(type_alias_declaration) @alias
(type_parameter name: (type_identifier) @generic)
(required_parameter) @typed
(optional_parameter) @typed
(function_declaration return_type: (type_annotation) @returns)
(method_definition return_type: (type_annotation) @returns)
(type_annotation (type_identifier) @mention)
(type_arguments (type_identifier) @mention)
"""

_C = """
(function_definition) @function
(function_definition (storage_class_specifier) @modifier)
(function_declarator declarator: (identifier) @name)
(preproc_function_def name: (identifier) @name) @function
(preproc_include) @import
(parameter_declaration declarator: (identifier) @bind)
(pointer_declarator declarator: (identifier) @bind)
(array_declarator declarator: (identifier) @bind)
(init_declarator declarator: (identifier) @bind)
(declaration declarator: (identifier) @bind)
(parenthesized_declarator (pointer_declarator declarator: (identifier) @bind))
(call_expression function: (identifier) @call)
(argument_list (identifier) @mention)
(initializer_list (identifier) @mention)
(initializer_pair value: (identifier) @mention)
(pointer_expression argument: (identifier) @mention)
(init_declarator value: (identifier) @mention)
(assignment_expression right: (identifier) @mention)
(return_statement (identifier) @mention)
"""

QUERIES = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT + _JAVASCRIPT_ONLY + _JSX,
    "typescript": _JAVASCRIPT + _TYPESCRIPT,
    "tsx": _JAVASCRIPT + _TYPESCRIPT + _JSX,
    "c": _C,
    "cpp": _C
    + """
(function_declarator declarator: (field_identifier) @name)
(function_declarator declarator: (qualified_identifier scope: (_) @owner name: (identifier) @name))
(function_declarator declarator: (destructor_name) @name)
(class_specifier name: (type_identifier) @name body: (_)) @class
(struct_specifier name: (type_identifier) @name body: (_)) @class
(base_class_clause [(type_identifier) (qualified_identifier) (template_type)] @base)
(lambda_expression) @closure
(call_expression function: (field_expression) @method)
(call_expression function: (qualified_identifier) @method)
(new_expression type: (type_identifier) @call)
""",
    "go": """
(function_declaration name: (identifier) @name) @function
(method_declaration name: (field_identifier) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration name: (identifier) @self)))
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @owner)))
(function_declaration result: [(type_identifier) (pointer_type) (qualified_type)] @returns)
(method_declaration result: [(type_identifier) (pointer_type) (qualified_type)] @returns)
(function_declaration result: (parameter_list . (parameter_declaration type: (_) @returns)))
(method_declaration result: (parameter_list . (parameter_declaration type: (_) @returns)))
(type_spec name: (type_identifier) @name) @class
(field_declaration name: (field_identifier)) @field
(func_literal) @closure
(import_spec) @import
(parameter_declaration name: (identifier)) @typed
(short_var_declaration) @assign
(var_spec name: (identifier)) @typed
(range_clause left: (expression_list (identifier) @bind))
(call_expression function: (identifier) @call)
(call_expression function: (selector_expression) @method)
(type_conversion_expression type: (generic_type type: [(type_identifier) (qualified_type)] @call))
(argument_list [(identifier) (selector_expression)] @mention)
(keyed_element (literal_element [(identifier) (selector_expression)] @mention))
(return_statement (expression_list [(identifier) (selector_expression)] @mention))
""",
    "rust": """
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(function_item return_type: (_) @returns)
(struct_item name: (type_identifier) @name) @class
(enum_item name: (type_identifier) @name) @class
(trait_item name: (type_identifier) @name) @class
(impl_item type: (type_identifier) @name) @class
(impl_item type: (generic_type type: (type_identifier) @name)) @class
(macro_definition name: (identifier) @name) @function
(field_declaration) @field
(closure_expression) @closure
(use_declaration) @import
(mod_item !body) @import
(parameter pattern: (identifier)) @typed
(closure_parameters (identifier) @bind)
(let_declaration pattern: (identifier)) @assign
(tuple_pattern (identifier) @bind)
(call_expression function: (identifier) @call)
(call_expression function: (scoped_identifier) @method)
(call_expression function: (field_expression) @method)
(call_expression function: (generic_function function: (_) @method))
(macro_invocation macro: (identifier) @call)
(token_tree (identifier) @token . (token_tree))
(match_pattern (identifier) @bind)
(tuple_struct_pattern type: (_) (identifier) @bind)
(ref_pattern (identifier) @bind)
(captured_pattern . (identifier) @bind)
(shorthand_field_identifier) @bind
(for_expression pattern: (identifier) @bind)
(arguments [(identifier) (scoped_identifier)] @mention)
""",
    "java": """
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @class
(enum_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(superclass (_) @base)
(super_interfaces (type_list (_) @base))
(extends_interfaces (type_list (_) @base))
(method_declaration name: (identifier) @name) @function
(method_declaration type: (_) @returns)
(constructor_declaration name: (identifier) @name) @function
(lambda_expression) @closure
(lambda_expression parameters: (identifier) @bind)
(import_declaration) @import
(formal_parameter) @typed
(field_declaration type: (_) @type declarator: (variable_declarator)) @field
(local_variable_declaration) @typed
(resource) @typed
(enhanced_for_statement) @typed
(catch_formal_parameter name: (identifier) @bind)
(method_invocation) @method
(object_creation_expression type: (type_identifier) @call)
(method_reference) @mention
""",
    "kotlin": """
(class_declaration name: (identifier) @name) @class
(object_declaration name: (identifier) @name) @class
(companion_object "companion" @name) @class
(class_declaration (modifiers (visibility_modifier) @modifier))
(object_declaration (modifiers (visibility_modifier) @modifier))
(function_declaration (modifiers (visibility_modifier) @modifier))
(class_declaration (delegation_specifiers (delegation_specifier (user_type) @base)))
(class_declaration (delegation_specifiers (delegation_specifier (_ (user_type) @base))))
(object_declaration (delegation_specifiers (delegation_specifier (user_type) @base)))
(object_declaration (delegation_specifiers (delegation_specifier (_ (user_type) @base))))
(companion_object (delegation_specifiers (delegation_specifier (user_type) @base)))
(companion_object (delegation_specifiers (delegation_specifier (_ (user_type) @base))))
(function_declaration name: (identifier) @name) @function
(function_declaration [(user_type) (nullable_type)] @owner name: (identifier))
(function_declaration name: (identifier) [(user_type) (nullable_type)] @returns)
(function_declaration (function_body . (call_expression) @made))
(secondary_constructor "constructor" @name) @function
(lambda_literal) @closure
(anonymous_function) @closure
(anonymous_initializer) @closure
(getter) @closure
(setter) @closure
(import) @import
(package_header (qualified_identifier) @package)
(type_alias) @alias
(class_parameter) @field
(enum_entry) @constant
(parameter) @typed
(catch_block (identifier)) @typed
(property_declaration (variable_declaration)) @assign
(multi_variable_declaration (variable_declaration (identifier) @bind))
(lambda_parameters (variable_declaration) @typed)
(for_statement (variable_declaration) @typed)
(when_subject (variable_declaration) @typed)
(call_expression . (identifier) @call)
(call_expression . (navigation_expression) @method)
(infix_expression (_) . (identifier) . (_)) @method
(binary_expression left: (binary_expression left: [(identifier) (navigation_expression)] @method "<") ">"
  right: (parenthesized_expression))
(callable_reference (identifier) @mention .)
(value_argument [(identifier) (navigation_expression)] @mention .)
""",
    "elixir": """
(call target: (identifier) @kw (#any-of? @kw "defmodule" "defprotocol" "defimpl")) @class
(call target: (identifier) @kw (arguments . (alias) @name) (#any-of? @kw "defmodule" "defprotocol"))
(call target: (identifier) @kw (arguments . (alias) @base) (#eq? @kw "defimpl"))
(call target: (identifier) @kw (arguments . (alias) @base) (#eq? @kw "behaviour"))
(call target: (identifier) @kw
  (#any-of? @kw "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate")) @function
(call target: (identifier) @kw
  (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: (identifier) @name)
    (binary_operator left: (call target: (identifier) @name))])
  (#any-of? @kw "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate"))
(call target: (identifier) @modifier (#any-of? @modifier "defp" "defmacrop" "defguardp"))
(call target: (identifier) @kw (#any-of? @kw "alias" "import" "use" "require")) @import
(call target: (identifier) @call
  (#not-match? @call "^(def[a-z]*|alias|import|use|require|if|unless|case|cond|with|for|quote|unquote)$"))
(unary_operator operand: (call target: (identifier) @kw)
  (#any-of? @kw "spec" "type" "typep" "opaque" "callback" "macrocallback")) @typing
(call target: (dot left: (alias)) @method)
(call target: (dot left: (identifier) @kw) @method (#eq? @kw "__MODULE__"))
(unary_operator operand: (binary_operator left: (identifier) @mention) @kw (#match? @kw "/ *[0-9]+$"))
(struct (alias) @mention)
""",
    "csharp": """
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @class
(struct_declaration name: (identifier) @name) @class
(base_list [(identifier) (qualified_name) (generic_name)] @base)
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(local_function_statement name: (identifier) @name) @function
(lambda_expression) @closure
(parameter name: (identifier) @bind)
(invocation_expression function: (identifier) @call)
(invocation_expression function: (member_access_expression) @method)
(object_creation_expression type: (identifier) @call)
(argument (identifier) @mention)
""",
    "ruby": """
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(class name: (constant) @name) @class
(module name: (constant) @name) @class
(superclass [(constant) (scope_resolution)] @base)
(call !receiver method: (identifier) arguments: (argument_list . (string))) @import
(call !receiver method: (identifier) @call)
(call receiver: (_) method: (_)) @method
(call receiver: (_) method: (identifier) @member)
(method_parameters (identifier) @bind)
(block_parameters (identifier) @bind)
(lambda_parameters (identifier) @bind)
(optional_parameter name: (identifier) @bind)
(keyword_parameter name: (identifier) @bind)
(splat_parameter name: (identifier) @bind)
(hash_splat_parameter name: (identifier) @bind)
(block_parameter name: (identifier) @bind)
(destructured_parameter (identifier) @bind)
(assignment left: (identifier) @bind)
(operator_assignment left: (identifier) @bind)
(left_assignment_list (identifier) @bind)
(exception_variable (identifier) @bind)
(identifier) @call
""",
    "php": """
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name) @function
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @class
(trait_declaration name: (name) @name) @class
(base_clause (name) @base)
(class_interface_clause (name) @base)
(anonymous_function) @closure
(namespace_use_declaration) @import
(function_call_expression function: (name) @call)
(scoped_call_expression) @method
(member_call_expression) @method
(object_creation_expression (name) @call)
""",
}
"""The query of each language, by its name."""


def has_references(language: str) -> bool:
    """Return whether the references of a language are read."""
    return language in QUERIES
