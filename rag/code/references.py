"""Read a file's imports and calls with its grammar: names only, nothing is resolved here.

A query for each language finds the few relevant kinds of node, so that strings and comments which only look
like imports are ignored. Languages without a query have no imports or calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rag.code.grammars import has_grammar, parse
from rag.isolation import Lost, shared

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

_MAX_CHARS = 2_000_000
_MAX_NESTED = 100
_MEMBER = re.compile(r"([\w$]+)\s*\??(?:\.|::)\s*([\w$]+)")


@dataclass(frozen=True, slots=True)
class Import:
    """An import as it is written, on lines `start` to `end`.

    `module` is the imported name: `pkg.mod`, `..sibling`, `./file`, `crate::a::b`, `<sys.h>`. `names` are the
    names taken from it, as (name there, name here); a name of "" means the module itself, "*" all names.
    """

    module: str
    names: tuple[tuple[str, str], ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call of `name`, on `receiver` ("" for none) if it is a plain name."""

    receiver: str
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class References:
    """The imports and calls of one file, in order."""

    imports: tuple[Import, ...] = ()
    calls: tuple[RawCall, ...] = ()


_JS = """
(import_statement) @import
(export_statement source: (string)) @import
(call_expression function: (identifier) @require arguments: (arguments . (string)) (#eq? @require "require"))
(call_expression function: (import) @require arguments: (arguments . (string)))
(call_expression function: (identifier) @call)
(call_expression function: (member_expression object: [(identifier) (this)] property: (property_identifier))
  @method)
(new_expression constructor: (identifier) @call)
"""
_C = "(preproc_include) @import (call_expression function: (identifier) @call)"
_QUERIES = {
    "python": """
(import_statement) @import
(import_from_statement) @import
(call function: (identifier) @call)
(call function: (attribute object: (identifier) attribute: (identifier)) @method)
""",
    "javascript": _JS,
    "typescript": _JS,
    "tsx": _JS,
    "go": """
(import_spec) @import
(call_expression function: (identifier) @call)
(call_expression function: (selector_expression operand: (identifier) field: (field_identifier)) @method)
""",
    "rust": """
(use_declaration) @import
(mod_item !body) @import
(call_expression function: (identifier) @call)
(call_expression function: (scoped_identifier path: (identifier) name: (identifier)) @method)
""",
    "java": """
(import_declaration) @import
(method_invocation !object name: (identifier) @call)
(method_invocation object: (identifier) name: (identifier)) @method
(object_creation_expression type: (type_identifier) @call)
""",
    "c": _C,
    "cpp": _C,
    "ruby": """
(call !receiver method: (identifier) @require arguments: (argument_list . (string))
  (#any-of? @require "require" "require_relative"))
(call !receiver method: (identifier) @call)
""",
    "php": """
(namespace_use_declaration) @import
(function_call_expression function: (name) @call)
(scoped_call_expression scope: (name) name: (name)) @method
""",
}


@cache
def _query(name: str, language: Language) -> Query:
    from tree_sitter import Query

    return Query(language, _QUERIES[name])


def references(text: str, language: str) -> References:
    """Return the imports and calls in a text, read in an expendable process.

    Empty for an unknown language, and when the parser exceeds its limits.
    """
    if language not in _QUERIES or not has_grammar(language) or len(text) > _MAX_CHARS:
        return References()
    value = shared().call("rag.code.references:reference_values", text, language)
    if isinstance(value, Lost):
        return References()
    imports, calls = value
    return References(
        tuple(
            Import(module, tuple((there, here) for there, here in names), start, end)
            for module, names, start, end in imports
        ),
        tuple(RawCall(receiver, name, line) for receiver, name, line in calls),
    )


def reference_values(text: str, language: str) -> list[Any]:
    """Return the imports and calls as JSON values: the fields of each. Raises GaveUp."""
    found = _read_references(text, language)
    imports = [[one.module, one.names, one.start, one.end] for one in found.imports]
    return [imports, [[call.receiver, call.name, call.line] for call in found.calls]]


def _read_references(text: str, language: str) -> References:
    tree = parse(text, language)
    if tree is None or tree.language is None:
        return References()
    from tree_sitter import QueryCursor

    found = QueryCursor(_query(language, tree.language)).captures(tree.root_node)
    read = _IMPORTS[language]
    nodes = [*found.get("import", ()), *(n for r in found.get("require", ()) if (n := r.parent))]
    imports = [made for node in nodes for made in read(node)]
    calls = _calls(found, text.encode("utf-8", "replace"))
    return References(
        tuple(sorted(imports, key=lambda i: (i.start, i.module))),
        tuple(sorted(calls, key=lambda call: (call.line, call.name, call.receiver))),
    )


def _calls(found: Mapping[str, list[Node]], content: bytes) -> list[RawCall]:
    """Return the calls among the captures. A node's own text takes five times as long as this slice."""

    def words(node: Node) -> str:
        return content[node.start_byte : node.end_byte].decode("utf-8", "replace")

    calls = [RawCall("", words(node), _line(node)) for node in found.get("call", ())]
    for node in found.get("method", ()):
        if named := _MEMBER.match(words(node)):
            calls.append(RawCall(named[1], named[2], _line(node)))
    return calls


def _text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""


def _line(node: Node) -> int:
    return int(node.start_point.row) + 1


def _import(node: Node, module: str, names: list[tuple[str, str]]) -> Import:
    end = node.end_point.row + (1 if node.end_point.column > 0 else 0)
    return Import(module, tuple(names), _line(node), max(_line(node), end))


def _python(node: Node) -> list[Import]:
    named = [_aliased(child) for child in node.children_by_field_name("name")]
    if node.type == "import_statement":
        made = []
        for name, here in named:
            # `import a.b` binds `a`, but a call `a.b.f()` is no plain receiver: only an alias is followed.
            made.append(_import(node, name, [("", here)] if here != name or "." not in name else []))
        return made
    if any(child.type == "wildcard_import" for child in node.children):
        named = [("*", "*")]
    return [_import(node, _text(node.child_by_field_name("module_name")), named)]


def _aliased(node: Node) -> tuple[str, str]:
    name = _text(node.child_by_field_name("name")) or _text(node)
    return name, _text(node.child_by_field_name("alias")) or name


def _javascript(node: Node) -> list[Import]:
    source = node.child_by_field_name("source")
    if source is None:
        arguments = node.child_by_field_name("arguments")
        source = next((c for c in arguments.children if c.type == "string"), None) if arguments else None
        if source is None:
            return []
        bound = node.parent.child_by_field_name("name") if node.parent is not None else None
        here = _text(bound) if bound is not None and bound.type == "identifier" else ""
        return [_import(node, _text(source)[1:-1], [("", here)] if here else [])]
    names: list[tuple[str, str]] = []
    pending = [child for child in node.children if child.type in ("import_clause", "export_clause")]
    while pending:
        part = pending.pop()
        if part.type in ("import_specifier", "export_specifier"):
            names.append(_aliased(part))
        elif part.type == "namespace_import":
            names += [("", _text(child)) for child in part.children if child.type == "identifier"]
        elif part.type == "identifier":
            names.append(("default", _text(part)))
        else:
            pending += part.children
    return [_import(node, _text(source)[1:-1], names)]


def _go(node: Node) -> list[Import]:
    module = _text(node.child_by_field_name("path")).strip('"`')
    here = _text(node.child_by_field_name("name")) or module.rpartition("/")[2]
    return [_import(node, module, [("", here)])]


def _rust(node: Node) -> list[Import]:
    if node.type == "mod_item":
        name = _text(node.child_by_field_name("name"))
        return [_import(node, f"mod {name}", [("", name)])]
    argument = node.child_by_field_name("argument")
    made = []
    for path, here in _rust_paths(argument, "", _MAX_NESTED) if argument is not None else []:
        made.append(_import(node, path, [("", here)]))
    return made


def _rust_paths(node: Node, before: str, deeper: int) -> list[tuple[str, str]]:
    """Return each path that a `use` names, with its local name; lists nested deeper than `deeper` are
    ignored.
    """
    if not deeper:
        return []
    if node.type == "scoped_use_list":
        inner = node.child_by_field_name("list")
        before += _text(node.child_by_field_name("path")) + "::"
        return _rust_paths(inner, before, deeper - 1) if inner is not None else []
    if node.type == "use_list":
        return [
            f for child in node.children if child.is_named for f in _rust_paths(child, before, deeper - 1)
        ]
    if node.type == "use_as_clause":
        return [(before + _text(node.child_by_field_name("path")), _text(node.child_by_field_name("alias")))]
    if node.type == "use_wildcard":
        return [(before + _text(node).removesuffix("*").removesuffix("::"), "*")]
    path = before + _text(node)
    return [(path, path.rpartition("::")[2])]


def _java(node: Node) -> list[Import]:
    text = re.sub(r"^import\s+|\s|;$", "", _text(node).removesuffix(";"))
    static = text.startswith("static")
    text = text.removeprefix("static")
    if text.endswith(".*"):
        return [_import(node, text.removesuffix(".*"), [("*", "*")])]
    module, _, name = text.rpartition(".")
    if static:
        return [_import(node, module, [(f"{module.rpartition('.')[2]}.{name}", name)])]
    return [_import(node, text, [(name, name)])]


def _c(node: Node) -> list[Import]:
    path = _text(node.child_by_field_name("path"))
    return [_import(node, path.strip('"') if path.startswith('"') else path, [("*", "*")])]


def _ruby(node: Node) -> list[Import]:
    arguments = node.child_by_field_name("arguments")
    string = arguments.children if arguments is not None else []
    text = next((_text(child)[1:-1] for child in string if child.type == "string"), "")
    relative = _text(node.child_by_field_name("method")) == "require_relative"
    return [_import(node, f"./{text}" if relative else text, [])] if text and "#{" not in text else []


def _php(node: Node) -> list[Import]:
    group = next((child for child in node.children if child.type == "namespace_use_group"), None)
    prefix = ""
    if group is not None:
        prefix = next((_text(c) for c in node.children if c.type == "namespace_name"), "") + "\\"
    made = []
    for clause in (group or node).children:
        if clause.type == "namespace_use_clause":
            alias = _text(clause.child_by_field_name("alias"))
            named = [c for c in clause.children if c.type in ("qualified_name", "name")]
            path = prefix + _text(named[0]).lstrip("\\") if named else ""
            if path:
                made.append(_import(node, path, [("", alias or path.rpartition("\\")[2])]))
    return made


_IMPORTS = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _c,
    "cpp": _c,
    "ruby": _ruby,
    "php": _php,
}
