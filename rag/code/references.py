"""Read what a file defines, imports and refers to from its syntax tree: names only, nothing is resolved.

One query for each language captures the few relevant kinds of node; a single pass over the captures, by
position, keeps a stack of scopes. What is local to a function is resolved here: a name that is bound there is
no reference to anything else, and a variable that is assigned once is replaced by what it is assigned
(`queue = Queue(); queue.put()` refers to `Queue().put`). `rag.code.graph` resolves the rest across files.

Native code reads the text here, so callers run this in an expendable process: `rag.code.parsing`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from rag.code.expressions import (
    MAX_EXPRESSION,
    PATH,
    SAME_OBJECT,
    ExpressionReader,
    annotated,
    first_field,
    type_of,
)
from rag.code.file_graph import (
    BASE,
    CALL,
    COMPANION,
    MENTION,
    TOKEN,
    UNKNOWN,
    Defined,
    FileGraph,
    Reference,
    Variable,
)
from rag.code.imports import READERS, Import
from rag.code.reference_queries import QUERIES
from rag.code.scopes import LexicalScope, LocalNames

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

_SECONDS = 0.5
_MAX_REFERENCES = 50_000


def read_graph(tree: Tree, language: str, content: bytes) -> FileGraph:
    """Return the graph of a parsed file. `language` names its grammar, `content` is its text as UTF-8."""
    if language not in QUERIES or tree.language is None:
        return FileGraph()
    from tree_sitter import QueryCursor

    found = QueryCursor(_query(language, tree.language)).captures(tree.root_node)
    return _Reader(language, content).read(found)


@cache
def _query(name: str, language: Language) -> Query:
    from tree_sitter import Query

    return Query(language, QUERIES[name])


_NAMING = ("name", "bind", "member")
_ANY_IDENTIFIER = ("ruby", "elixir")
"""The languages in which any identifier may be a call, and the head of a function is one."""
_ORDER = {"decorator": 0, "modifier": 1, "function": 0, "class": 0, "closure": 0}
_OF_FUNCTIONS = {"apply": CALL, "call": CALL, "bind": MENTION}
"""Methods of JavaScript's functions, and what they do with them."""
_CHAIN = re.compile(r"[\w$.()]+")
_ON_ITEM, _ON_RECEIVER = ("let", "also"), ("apply", "run")
"""Functions of Kotlin: their lambda has the object before the dot as `it`, or as `this`; they return it."""


class _Reader:
    """Reads the captures of one file."""

    def __init__(self, language: str, content: bytes) -> None:
        self.language, self.content = language, content
        self.expressions, self.names = ExpressionReader(content), LocalNames(language)
        self.words = self.expressions.words
        self.top = LexicalScope("top", None, len(content) + 1, -1)
        self.scope = self.top
        self.definitions: list[list[Any]] = []
        self.imports: list[Import] = []
        self.raw: list[tuple[str, Node, LexicalScope]] = []
        self.attributes: list[tuple[int, str, Node | None, LexicalScope, str]] = []
        self.decorators: list[str] = []
        self.naming: set[int] = set()
        self.given: dict[int, set[str]] = {}

    def read(self, captures: dict[str, list[Node]]) -> FileGraph:
        handlers = {name: getattr(self, f"on_{name}") for name in _handled() & captures.keys()}
        # The parser returns captures that begin and end together in any order, so the names decide. No two
        # have the same first five values: handlers and nodes are not compared.
        events = sorted(
            (node.start_byte, -node.end_byte, _ORDER.get(name, 2), name, n, handlers[name], node)
            for name in handlers
            for n, node in enumerate(captures[name])
        )
        end_s = time.thread_time() + _SECONDS
        for n, (start, _, _, _, _, handler, node) in enumerate(events):
            if not n % 256 and time.thread_time() > end_s:
                return FileGraph()  # far from any text that people write
            while start >= self.scope.end and self.scope.outer is not None:
                self.scope = self.scope.outer
            handler(node)
        for number, given in self.given.items():
            if len(given) == 1 and not self.definitions[number][6]:
                self.definitions[number][6] = given.pop()
        if self.language in _ANY_IDENTIFIER:
            self.naming = {node.start_byte for name in _NAMING for node in captures.get(name, ())}
        references = tuple(dict.fromkeys(self._references()))[:_MAX_REFERENCES]
        return FileGraph(
            tuple(Defined(*each) for each in self.definitions),
            tuple(sorted(self.imports, key=lambda each: (each.start, each.module))),
            references,
            tuple(dict.fromkeys(self._variables())),
        )

    # ------------------------------------------------------------ scopes

    def _open(self, node: Node, kind: str) -> None:
        self.scope = LexicalScope(kind, self.scope, node.end_byte, self.scope.number)
        if kind == "closure":
            self.scope.self_name = self._self_of(self.scope.outer)
            return
        point, end = node.start_point, node.end_point
        # A macro is known from its line on, wherever that is: also after the function that it is in.
        parent = -1 if node.type == "preproc_function_def" else self.scope.number
        self.scope.number = len(self.definitions)
        last = end.row + (1 if end.column > 0 or end.row == point.row else 0)
        unit = "c" if kind == "class" else "f"
        self.definitions.append(["", parent, unit, point.row + 1, last, "", "", " ".join(self.decorators)])
        self.decorators = []

    @staticmethod
    def _self_of(scope: LexicalScope | None) -> str:
        return scope.self_name if scope is not None else ""

    def on_function(self, node: Node) -> None:
        self._open(node, "function")

    def on_class(self, node: Node) -> None:
        if self.scope.kind == "class" and self.scope.is_named and self.scope.end == node.end_byte:
            return  # the value of `var Name = class {`
        self._open(node, "class")

    def on_closure(self, node: Node) -> None:
        self._open(node, "closure")
        if node.type == "lambda_literal":
            self._bind_object(node)

    def on_typing(self, node: Node) -> None:
        """A type of Elixir, `@spec run(integer()) :: atom()`: nothing in it is called."""
        self._open(node, "closure")
        self.scope.kind = "typing"

    def _bind_object(self, node: Node) -> None:
        """Bind what a lambda of Kotlin has without naming it: `it`, and `this` if it has a receiver."""
        call = node.parent.parent if node.parent is not None else None
        called = call.named_children[0] if call is not None and call.type == "call_expression" else None
        before, name = None, ""
        if called is not None and called.type == "navigation_expression":
            before, name = called.named_children[0], self.words(called.named_children[-1])
        elif called is not None and called.type == "call_expression":
            given = called.named_children[-1].named_children
            if self.words(called.named_children[0]) == "with" and given and given[-1].named_children:
                before, name = given[-1].named_children[-1], "run"
        value = (self.expressions.expression(before) or "") if before is not None else ""
        self._bind("it", value if name in _ON_ITEM else "")
        if name in _ON_RECEIVER and before is not None:
            self.scope.receiver = value

    def on_decorator(self, node: Node) -> None:
        self.decorators.append(self.words(node).lstrip("@").partition("(")[0].strip()[:MAX_EXPRESSION])

    def on_modifier(self, node: Node) -> None:
        self._flag(self.words(node))

    def _flag(self, text: str) -> None:
        if self.scope.number >= 0:
            self.definitions[self.scope.number][7] += f" {text}"

    def on_name(self, node: Node) -> None:
        scope = self.scope
        if scope.kind not in ("function", "class") or scope.is_named:
            return
        scope.is_named = True
        name = self.words(node) if node.type != "companion" else COMPANION
        if name == "exports" and node.parent is not None and node.parent.parent is not None:
            made = node.parent.parent.child_by_field_name("right")  # `module.exports = function name() {`
            own = made.child_by_field_name("name") if made is not None else None
            name = name if own is None else self.words(own)
        self.definitions[scope.number][0] = name[:MAX_EXPRESSION]
        if self.language == "elixir" and scope.kind == "function":
            self._join_clauses(scope)

    def _join_clauses(self, scope: LexicalScope) -> None:
        """Make the clauses of a function of Elixir, which follow each other, one definition."""
        *_, last = self.definitions
        before = self.definitions[-2] if len(self.definitions) > 1 else None
        if before is not None and before[:3] == last[:3] and scope.number == len(self.definitions) - 1:
            before[4] = last[4]
            self.definitions.pop()
            scope.number -= 1

    def on_key(self, node: Node) -> None:
        """The name of a property that is a function; such a name means nothing on its own."""
        if self.scope.kind == "function" and not self.scope.is_named:
            self._flag("property")
        self.on_name(node)

    def on_owner(self, node: Node) -> None:
        if self.scope.number >= 0 and (not self.scope.is_named or self.language == "go"):
            text = self.words(node).lstrip("*&").partition("[")[0].partition("<")[0].rstrip("?")
            if PATH.fullmatch(text):
                self.definitions[self.scope.number][5] = text

    def on_self(self, node: Node) -> None:
        self.scope.self_name = self.words(node)

    def on_returns(self, node: Node) -> None:
        if self.scope.kind == "function":
            self.definitions[self.scope.number][6] = annotated(self.words(node))

    def on_gives(self, node: Node) -> None:
        """What a function of Python without a declared type returns, if it is a new object or its own."""
        value = node.named_children[0] if node.named_children else None
        if self.scope.kind != "function" or value is None or value.type == "none":
            return
        given = self.names.substituted(self.expressions.expression(value) or "", self.scope)
        is_new = given.endswith("()") and given.rpartition(".")[2][:1].isupper()
        self.given.setdefault(self.scope.number, set()).add(
            given if is_new or given in ("self", "self()") else ""
        )

    def on_made(self, node: Node) -> None:
        """The call that a function of Kotlin without a declared type consists of."""
        scope = self.scope
        if scope.kind != "function" or self.definitions[scope.number][6]:
            return
        made = self.expressions.expression(node) or ""
        if made.removesuffix("()") in SAME_OBJECT and scope.outer is not None and scope.outer.kind == "class":
            made = "self"
        self.definitions[scope.number][6] = made if made == "self" or made[:1].isupper() else ""

    # ------------------------------------------------------------ names

    def on_package(self, node: Node) -> None:
        """The package of a file of Kotlin, which is not always that of its folder."""
        self.attributes.append((-1, "package", None, self.top, self.words(node)))

    def on_constant(self, node: Node) -> None:
        """A constant of an enumeration, an object of it."""
        if self.scope.kind == "class":
            made = f"{self.definitions[self.scope.number][0]}()"
            self.attributes.append(
                (self.scope.number, self.words(node.named_children[0]), None, self.scope, made)
            )

    def on_import(self, node: Node) -> None:
        types = self._is_for_types(node)
        for made in READERS[self.language](node):
            self.imports.append(
                Import(made.module, made.names, made.start, made.end, self.scope.function, types)
            )
            if self.scope is not self.top:
                for _, here in made.names:
                    self.scope.open_names.add(here)

    def on_export(self, node: Node) -> None:
        """`export {a as b}`: another name for a name of this file."""
        alias, name = node.child_by_field_name("alias"), node.child_by_field_name("name")
        clause = node.parent.parent if node.parent is not None else None
        if (
            alias is None
            or name is None
            or clause is None
            or clause.child_by_field_name("source") is not None
        ):
            return
        self.attributes.append((-1, self.words(alias), name, self.top, ""))

    def on_default(self, node: Node) -> None:
        if node.type == "object":
            self._exported(node)
        else:
            self.attributes.append((-1, "default", node, self.top, ""))

    def _is_for_types(self, node: Node) -> bool:
        if self.language == "python":
            while node.parent is not None:
                below, node = node, node.parent
                if node.type == "if_statement" and below == node.child_by_field_name("consequence"):
                    condition = node.child_by_field_name("condition")
                    if condition is not None and self.words(condition).endswith("TYPE_CHECKING"):
                        return True
            return False
        if self.language in ("typescript", "tsx"):
            return any(child.type == "type" for child in node.children)
        return False

    def on_bind(self, node: Node) -> None:
        self._bind(self.words(node), "")

    def on_unpack(self, node: Node) -> None:
        """`{a, b: c} = value`: names for attributes of a value, or of a parameter with a type."""
        holder = node.parent
        whole = None
        if holder is not None and holder.type == "variable_declarator":
            value = holder.child_by_field_name("value")
            whole = self.expressions.expression(value) if value is not None else None
        elif holder is not None and (kind := holder.child_by_field_name("type")) is not None:
            whole = annotated(self.words(kind))
        for child in node.named_children:
            key = child.child_by_field_name("key") or child
            name = child.child_by_field_name("value") or child
            if name.type in ("object_assignment_pattern", "assignment_pattern"):
                key, name = (name if key is child else key), name.named_children[0]
            key = key.named_children[0] if key.type == "object_assignment_pattern" else key
            if name.type in ("identifier", "shorthand_property_identifier_pattern"):
                self._unpacked(self.words(name), whole or "", self.words(key))

    def _unpacked(self, name: str, whole: str, key: str) -> None:
        value = f"{whole}.{key}" if whole and _CHAIN.fullmatch(f"{whole}.{key}") else ""
        if self.scope is not self.top:
            self._bind(name, value)
            self.scope.members[name] = key
        elif value and not value.startswith(("require()", "import()")):  # those are imports
            self.attributes.append((-1, name, None, self.scope, value))

    def on_alias(self, node: Node) -> None:
        """`type Name = Other`"""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if node.type == "type_alias":
            name, value = node.child_by_field_name("type"), node.named_children[-1]
        if self.scope is self.top and name is not None and value is not None:
            self.attributes.append((-1, self.words(name), None, self.top, annotated(self.words(value))))

    def on_generic(self, node: Node) -> None:
        """A parameter for a type."""
        if self.scope is not self.top:
            self.scope.bound[self.words(node)] = ""

    def on_global(self, node: Node) -> None:
        self.scope.open_names.add(self.words(node))

    def on_parameter(self, node: Node) -> None:
        """A parameter without a type: the first one of a Python method is the object."""
        name, scope = self.words(node), self.scope
        if self.language == "python" and scope.kind == "function" and not scope.bound:
            outer = scope.outer
            is_static = "staticmethod" in self.definitions[scope.number][7]
            if outer is not None and outer.kind == "class" and not is_static:
                scope.self_name = name
        self._bind(name, "")

    def on_typed(self, node: Node) -> None:
        kind = type_of(node)
        value = annotated(self.words(kind)) if kind is not None else ""
        if value == "var()" and (declared := node.child_by_field_name("declarator")) is not None:
            made = declared.child_by_field_name("value")
            value = (self.expressions.expression(made) or "") if made is not None else ""
        for name in self._names_of(node):
            self._bind(name, value)
            is_field = node.children[0].type == "accessibility_modifier" and self.scope.number >= 0
            if value and is_field:
                self.attributes.append(
                    (self.definitions[self.scope.number][1], name, None, self.scope, value)
                )

    def _names_of(self, node: Node) -> Iterator[str]:
        named: list[Node] = []
        for key in ("name", "pattern", "declarator"):
            named = named or node.children_by_field_name(key)
        for each in named or [child for child in node.named_children if child.type != "modifiers"][:1]:
            if each.type == "variable_declarator":
                each = each.child_by_field_name("name") or each
            text = self.words(each).lstrip("*&").removeprefix("mut ")
            if PATH.fullmatch(text):
                yield text

    def on_assign(self, node: Node) -> None:
        """`name = value`, with or without a type; attributes of the object belong to its class."""
        left = first_field(node, "left", "name", "pattern")
        right = first_field(node, "right", "value")
        kind = type_of(node)
        if node.type == "property_declaration":
            declared = next(child for child in node.named_children if child.type == "variable_declaration")
            left, kind = declared.named_children[0], type_of(declared)
            right = next((c.next_named_sibling for c in node.children if c.type == "="), None)
        if left is None:
            return
        while right is not None and right.type == "assignment_expression":
            right = right.child_by_field_name("right")
        if right is not None and right.type == "object" and self.words(left) == "module.exports":
            self._exported(right)
            return
        lefts, rights = [left], [right]
        if left.type == "expression_list":
            lefts = left.named_children
            rights = list(right.named_children) if right is not None else []
            if self.language == "go" and len(rights) == 1:
                rights += [None] * (len(lefts) - 1)  # the first of several results has the type
            rights = rights if len(rights) == len(lefts) else [None] * len(lefts)
        for one, value in zip(lefts, rights, strict=True):
            text = self.words(one)
            if not PATH.fullmatch(text):
                continue
            typed = annotated(self.words(kind)) if kind is not None else ""
            if one.type in ("identifier", "simple_identifier", "variable_name"):
                self._assigned(text, value, typed)
            else:
                first, _, name = text.rpartition(".")
                owner = self.scope.owner
                if owner is not None and first and first in (self.scope.self_name, "this", "self"):
                    self.attributes.append((owner, name, value, self.scope, typed))
                elif self.scope is self.top and first:
                    self.attributes.append((-1, text, value, self.scope, typed))

    def _exported(self, node: Node) -> None:
        """`module.exports = {a, b: c}`, `export default {a, b: c}`: the object is that of the file."""
        for child in node.named_children:
            if child.type == "shorthand_property_identifier":
                self.attributes.append((-1, f"exports.{self.words(child)}", child, self.top, ""))
            elif child.type == "pair" and (key := child.child_by_field_name("key")) is not None:
                value = child.child_by_field_name("value")
                self.attributes.append((-1, f"exports.{self.words(key)}", value, self.top, ""))

    def on_field(self, node: Node) -> None:
        """A field that a class declares with its type."""
        kind = type_of(node)
        if self.scope.kind == "class" and kind is not None:
            value = annotated(self.words(kind))
            for name in self._names_of(node):
                self.attributes.append(
                    (self.scope.number, name.partition("=")[0].strip(), None, self.scope, value)
                )

    def _assigned(self, name: str, value: Node | None, typed: str) -> None:
        scope = self.scope
        if scope is self.top or scope.kind == "class":
            self.attributes.append((scope.number if scope.kind == "class" else -1, name, value, scope, typed))
        elif typed or value is None:
            self._bind(name, typed)
        else:
            self._bind(name, self.expressions.expression(value) or "")

    def _bind(self, name: str, value: str) -> None:
        scope = self.scope
        if scope.kind in ("top", "class"):
            return
        known = scope.bound.get(name)
        scope.bound[name] = value if known is None or known == value else ""

    # ------------------------------------------------------------ references

    def on_call(self, node: Node) -> None:
        if self.scope.kind != "typing":
            self.raw.append((CALL, node, self.scope))

    def on_method(self, node: Node) -> None:
        self.on_call(node)
        name, function = node.child_by_field_name("property"), node.child_by_field_name("object")
        if name is not None and function is not None and (role := _OF_FUNCTIONS.get(self.words(name))):
            self.raw.append((role, function, self.scope))

    def on_token(self, node: Node) -> None:
        """A name with arguments in those of a macro of Rust, which the grammar leaves as they are."""
        following = node.next_sibling
        if following is not None and self.content[following.start_byte : following.start_byte + 1] == b"(":
            self.raw.append((TOKEN, node, self.scope))

    def _from_tokens(self, node: Node) -> str | None:
        """Return the chain of names that ends with a token; None if it begins with anything else."""
        parts, place = [self.words(node)], node.prev_sibling
        while place is not None and self.words(place) in (".", "::"):
            before = place.prev_sibling
            if before is None or before.type not in ("identifier", "self", "crate", "super"):
                return None
            parts.append(self.words(before))
            place = before.prev_sibling
        return ".".join(reversed(parts))

    def on_mention(self, node: Node) -> None:
        self.raw.append((MENTION, node, self.scope))

    def on_default_value(self, node: Node) -> None:
        """The default of a parameter means what it means outside of the function."""
        self.raw.append((MENTION, node, self.scope.outer or self.scope))

    def on_base(self, node: Node) -> None:
        self.raw.append((BASE, node, self.scope))

    def _references(self) -> Iterator[Reference]:
        bases: dict[int | None, str] = {}
        for role, node, scope in self.raw[: 2 * _MAX_REFERENCES]:
            written = self.expressions.expression(node) if role != TOKEN else self._from_tokens(node)
            role = CALL if role == TOKEN else role
            if written == "super" and role == CALL:  # the base class, but in Python
                written = bases.get(scope.owner) if self.language != "python" else None
                if written is None:
                    continue
            if written is None:
                name = self.expressions.last_name(node)
                if name and role == CALL:
                    receiver = UNKNOWN + self.expressions.container(node)
                    yield Reference(name, receiver, self._line(node), scope.number, role)
                continue
            if self.naming and node.start_byte in self.naming:
                continue
            if role == BASE:
                bases.setdefault(scope.number, written)
                receiver, name = self._rpartition(written)
                yield Reference(name, receiver, node.start_point.row + 1, scope.number, role)
                continue
            receiver, name = self._meaning(role, written, scope)
            if name:
                yield Reference(name, receiver, self._line(node), scope.number, role)

    def _meaning(self, role: str, written: str, scope: LexicalScope) -> tuple[str, str]:
        """Return receiver and name of a reference, as seen from the top of the file; no name for none."""
        written = written.removesuffix("()")
        first, _, rest = written.partition(".")
        value = self.names.value(first, scope)
        if value is not None and not rest:  # a local variable is called
            member = self.names.member(first, scope) if not value else ""
            if role != CALL or value.endswith("()") or not (value or member):
                return "", ""
            return self._rpartition(value or f"{UNKNOWN}.{member}")
        if not rest and role == CALL and (owner := scope.implicit_object) is not None:
            written = f"{UNKNOWN}{owner.rpartition('.')[2]}.{written}"  # its member, or a function
        if value is not None:
            written = f"{value}.{rest}" if value else f"{UNKNOWN}{written}"
        return self._rpartition(written) if len(written) <= MAX_EXPRESSION else ("", "")

    @staticmethod
    def _rpartition(written: str) -> tuple[str, str]:
        receiver, _, name = written.rpartition(".")
        if receiver.startswith(UNKNOWN):
            receiver = UNKNOWN + receiver.lstrip(UNKNOWN).rpartition(".")[2]
        return receiver, name

    def _line(self, node: Node) -> int:
        """Return the line of the name in a chain that may begin lines above."""
        if self.language == "kotlin" and node.type == "infix_expression":
            node = node.named_children[1]
        return int(node.end_point.row) + 1

    def _variables(self) -> Iterator[Variable]:
        for number, name, node, scope, typed in self.attributes:
            value = typed
            if not value and node is not None:
                value = self.names.substituted(self.expressions.expression(node) or "", scope)
            yield Variable(number, name, value if len(value) <= MAX_EXPRESSION else "")


@cache
def _handled() -> frozenset[str]:
    """Return the names of the captures that are read as events."""
    return frozenset(name.removeprefix("on_") for name in dir(_Reader) if name.startswith("on_"))
