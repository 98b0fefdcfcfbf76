"""What a file defines, imports and refers to: the values, and their form in a store.

`rag.code.references` reads them from a syntax tree, `rag.code.graph` resolves the names across files.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from rag.code.definitions import Definition
from rag.code.imports import Import
from rag.code.languages import TERRAFORM

GRAPH_VERSION = 8
"""Changes with what is read; a store made with another one is rebuilt."""
CALL, MENTION, BASE, TOKEN = "c", "m", "b", "t"
"""The roles of a reference: a call, a function or class passed on or named as a type, a base class; a token
is a call once it has been read.
"""
COMPANION = "Companion"
"""The name of the object that has the static members of a class of Kotlin."""
OWN_MODULE = "__MODULE__"
"""What a module of Elixir calls itself."""
UNKNOWN = "?"
"""What the receiver of a call on a value of unknown type begins with; the name of that value follows."""


class Defined(NamedTuple):
    """A definition: its lines, and the number of the definition that encloses it, -1 at the top.

    `unit` is "f" for a function, "c" for a class, "s" for a block of Terraform. `owner` is the expression it
    was assigned to (`Foo.prototype` of `Foo.prototype.bar = function`), the type it is a method of (Go) or
    the type of the block (Terraform); `returns` is an expression of its result; `flags` are modifiers:
    decorators, `static`.
    """

    name: str
    parent: int
    unit: str
    start: int
    end: int
    owner: str = ""
    returns: str = ""
    flags: str = ""


class Reference(NamedTuple):
    """A reference to `name` on a line within definition `within`.

    `receiver` is the expression before it, seen from the top of the file: "" for a plain name, `self`,
    `super()`, `module.Class()`, or UNKNOWN.
    """

    name: str
    receiver: str
    line: int
    within: int
    role: str


class Variable(NamedTuple):
    """What a name at the top (`within` -1) or an attribute of a class is assigned; "" if that is unknown."""

    within: int
    name: str
    value: str


class DeclaredValue(NamedTuple):
    """A name that a declaration gives to a value at the top of the file or in a class, and its lines.

    `scope` names what encloses it, with dots.
    """

    name: str
    scope: str
    start: int
    end: int


class References:
    """The references of a file in columns: a tenth of the memory of an object for each, and read far faster.

    `rows` are their values in the order of the fields of `Reference`. Raises ValueError, TypeError if they
    are none.
    """

    def __init__(self, rows: Sequence[Sequence[Any]] = ()) -> None:
        names, receivers, lines, within, roles = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        self._names, self._receivers = list(map(sys.intern, names)), list(map(sys.intern, receivers))
        try:
            self._lines, self._within = array("i", lines), array("i", within)
        except OverflowError as error:
            raise ValueError(str(error)) from error
        self._roles = "".join(roles)
        if len(self._roles) != len(rows):
            raise ValueError("a role of a reference is not one character")

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Reference]:
        columns = self._names, self._receivers, self._lines, self._within, self._roles
        return map(Reference, *columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, References | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def named(self, names: Set[str]) -> Iterator[Reference]:
        """Yield the references to some names, in order."""
        for at, name in enumerate(self._names):
            if name in names:
                yield self._at(at)

    def of_role(self, role: str) -> Iterator[Reference]:
        """Yield the references of a role, in order."""
        at = self._roles.find(role)
        while at >= 0:
            yield self._at(at)
            at = self._roles.find(role, at + 1)

    def _at(self, at: int) -> Reference:
        return Reference(
            self._names[at], self._receivers[at], self._lines[at], self._within[at], self._roles[at]
        )


@dataclass(frozen=True, slots=True)
class FileGraph:
    """The definitions, imports, references, variables and declared values of one file, each in order."""

    definitions: tuple[Defined, ...] = ()
    imports: tuple[Import, ...] = ()
    references: References | tuple[Reference, ...] = ()
    variables: tuple[Variable, ...] = ()
    values: tuple[DeclaredValue, ...] = ()


def defined_in(definitions: Sequence[Definition], language: str) -> tuple[Defined, ...]:
    """Return the functions and classes of an outline, where references are not read."""
    units = {"function": "f", "class": "c"} | ({"section": "s"} if language == TERRAFORM else {})
    rows: list[Defined] = []
    pending = [(definition, -1) for definition in reversed(definitions)]
    while pending:
        one, parent = pending.pop()
        if one.unit in units:
            owner = one.scope if parent < 0 else ""
            rows.append(Defined(one.symbol, parent, units[one.unit], one.start + 1, one.end, owner))
            parent = len(rows) - 1
        pending += [(member, parent) for member in reversed(one.members)]
    return tuple(rows)


def graph_values(graph: FileGraph) -> list[Any]:
    """Return a file's graph as JSON values; `graph_of` reverses it."""
    return [
        graph.definitions,
        [[i.module, i.names, i.start, i.end, i.within, int(i.types_only)] for i in graph.imports],
        list(graph.references),
        graph.variables,
        graph.values,
    ]


def graph_of(values: Any) -> FileGraph:
    """Return the graph of a file from its JSON values. Raises ValueError, TypeError if they are no graph."""
    definitions, imports, references, variables, declared = values
    return FileGraph(
        tuple(map(Defined._make, definitions)),
        tuple(
            Import(module, tuple((there, here) for there, here in names), start, end, within, bool(types))
            for module, names, start, end, within, types in imports
        ),
        References(references),
        tuple(map(Variable._make, variables)),
        tuple(map(DeclaredValue._make, declared)),
    )
