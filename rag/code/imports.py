"""Read the imports of a file from its syntax tree: names only, nothing is resolved here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag.identifiers import composed

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_NESTED = 100


@dataclass(frozen=True, slots=True)
class Import:
    """An import as it is written, on lines `start` to `end`.

    `module` is the imported name: `pkg.mod`, `..sibling`, `./file`, `crate::a::b`, `<sys.h>`. `names` are the
    names taken from it, as (name there, name here); a name of "" means the module itself, "*" all names.
    `within` is the number of the function that it is in, -1 at the top; `types_only` imports do not exist at
    run time.
    """

    module: str
    names: tuple[tuple[str, str], ...]
    start: int
    end: int
    within: int = -1
    types_only: bool = False

    @property
    def renamed(self) -> list[tuple[str, str]]:
        """The names, those of Rust by the end of their path: (`run`, `go`) of `use crate::a::run as go`."""
        last = self.module.rpartition("::")[2] if "::" in self.module else ""
        return [(there or last, here) for there, here in self.names]


def _text(node: Node | None) -> str:
    return composed(node.text.decode("utf-8", "replace")) if node is not None and node.text else ""


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
        return _required(node)
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
    if node.type == "export_statement" and any(child.type == "*" for child in node.children):
        names.append(("*", "*"))
    return [_import(node, _text(source)[1:-1], names)]


_LOADERS = ("require", "import")


def _required(node: Node) -> list[Import]:
    """Return the import of a call `require("x")` or `import("x")`, with the names it is assigned to."""
    arguments = node.child_by_field_name("arguments")
    source = next((c for c in arguments.children if c.type == "string"), None) if arguments else None
    if source is None or _text(node.child_by_field_name("function")) not in _LOADERS:
        return []
    holder, member = node.parent, ""
    while holder is not None and holder.type in ("await_expression", "parenthesized_expression"):
        holder = holder.parent
    if holder is not None and holder.type == "member_expression":
        member, holder = _text(holder.child_by_field_name("property")), holder.parent
    bound = holder.child_by_field_name("name") if holder is not None else None
    names: list[tuple[str, str]] = []
    if bound is not None and bound.type == "identifier":
        names = [(member, _text(bound))]
    elif bound is not None and bound.type == "object_pattern" and not member:
        for child in bound.children:
            if child.type == "shorthand_property_identifier_pattern":
                names.append((_text(child), _text(child)))
            elif child.type == "pair_pattern":
                names.append(
                    (_text(child.child_by_field_name("key")), _text(child.child_by_field_name("value")))
                )
    whole = holder if names and holder is not None else node  # a pattern may begin lines above the call
    return [_import(whole, _text(source)[1:-1], names)]


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


def _kotlin(node: Node) -> list[Import]:
    named = [child for child in node.named_children if child.type in ("qualified_identifier", "identifier")]
    module = _text(named[0])
    if any(child.type == "*" for child in node.children):
        return [_import(node, module, [("*", "*")])]
    name = module.rpartition(".")[2]
    return [_import(node, module, [(name, _text(named[1]) if named[1:] else name)])]


def _elixir(node: Node) -> list[Import]:
    """`alias A.B`, `alias A.{B, C}`, `alias A.B, as: C`; `import` brings all names, `use` none."""
    arguments = next((child for child in node.children if child.type == "arguments"), None)
    first = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    if arguments is None or first is None or first.type not in ("alias", "dot"):
        return []
    prefix = _text(first.child_by_field_name("left")) + "." if first.type == "dot" else ""
    inner = first.child_by_field_name("right")
    modules = [
        f"{prefix}{_text(child)}" for child in (inner.named_children if inner is not None else [first])
    ]
    renamed = re.search(r"\bas:\s*([\w.]+)", _text(arguments))
    made = []
    for module in modules:
        here = renamed[1] if renamed else module.rpartition(".")[2]
        kind = _text(node.child_by_field_name("target"))
        names = {"alias": [("", here)], "import": [("*", "*")]}.get(kind, [])
        made.append(_import(node, module, names))
    return made


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


READERS: Mapping[str, Callable[[Node], list[Import]]] = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "tsx": _javascript,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "kotlin": _kotlin,
    "elixir": _elixir,
    "c": _c,
    "cpp": _c,
    "ruby": _ruby,
    "php": _php,
}
