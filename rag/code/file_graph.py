"""What a file defines, imports and refers to: the values, and their form in a store.

`rag.code.references` reads them from a syntax tree, `rag.code.graph` resolves the names across files.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from rag.code.definitions import Definition
from rag.code.imports import Import
from rag.code.languages import TERRAFORM

GRAPH_VERSION = 11
"""Changes with what is read; a store made with another one is rebuilt."""
CALL, MENTION, BASE, TOKEN = "c", "m", "b", "t"
"""The roles of a reference: a call, a function or class passed on or named as a type, a base class; a token
is a call once it has been read.
"""
COMPANION = "Companion"
"""The name of the object that has the static members of a class of Kotlin."""
OWN_MODULE = "__MODULE__"
"""What a module of Elixir calls itself."""
NUMBERS = "i"
"""The type of the numbers in columns, of `array`: 32 bits."""
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


class ReferenceColumns(NamedTuple):
    """References in columns. Names and receivers are numbers of `texts`; each role is one character."""

    texts: list[str]
    names: array[int]
    receivers: array[int]
    lines: array[int]
    within: array[int]
    roles: str


class References:
    """The references of a file in columns: a tenth of the memory of an object for each."""

    def __init__(self, rows: Sequence[Sequence[Any]] = ()) -> None:
        self._count = len(rows)
        self._load: Callable[[], ReferenceColumns] = partial(reference_columns, rows)

    @classmethod
    def stored(
        cls, load: Callable[[], ReferenceColumns], bases: Sequence[Reference], count: int
    ) -> References:
        """Return references that are loaded when they are first needed: names are resolved without them."""
        made = cls()
        made._load, made.bases, made._count = load, tuple(bases), count
        return made

    @cached_property
    def columns(self) -> ReferenceColumns:
        """The columns, loaded now if they were not before."""
        return self._load()

    @cached_property
    def bases(self) -> tuple[Reference, ...]:
        """The references to base classes, in order."""
        return tuple(self.of_role(BASE))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Reference]:
        texts, names, receivers, *rest = self.columns
        text = texts.__getitem__
        return map(Reference, map(text, names), map(text, receivers), *rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, References | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def named(self, names: Set[str]) -> Iterator[Reference]:
        """Yield the references to some names, in order."""
        wanted = {number for number, text in enumerate(self.columns.texts) if text in names}
        for at, number in enumerate(self.columns.names) if wanted else ():
            if number in wanted:
                yield self._at(at)

    def on_lines(self, start: int, end: int) -> Iterator[Reference]:
        """Yield the references on some lines, in order."""
        for at, line in enumerate(self.columns.lines):
            if start <= line <= end:
                yield self._at(at)

    def of_role(self, role: str) -> Iterator[Reference]:
        """Yield the references of a role, in order."""
        at = self.columns.roles.find(role)
        while at >= 0:
            yield self._at(at)
            at = self.columns.roles.find(role, at + 1)

    def _at(self, at: int) -> Reference:
        texts, names, receivers, lines, within, roles = self.columns
        return Reference(texts[names[at]], texts[receivers[at]], lines[at], within[at], roles[at])


def reference_columns(rows: Sequence[Sequence[Any]]) -> ReferenceColumns:
    """Return references as columns. Raises ValueError, TypeError if they are none."""
    names, receivers, lines, within, roles = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    numbers: dict[str, int] = {}
    for text in (*names, *receivers):
        numbers.setdefault(text, len(numbers))
    number = numbers.__getitem__
    try:
        found = ReferenceColumns(
            list(map(sys.intern, numbers)),
            array(NUMBERS, map(number, names)),
            array(NUMBERS, map(number, receivers)),
            array(NUMBERS, lines),
            array(NUMBERS, within),
            "".join(roles),
        )
    except OverflowError as error:
        raise ValueError(str(error)) from error
    if len(found.roles) != len(rows):
        raise ValueError("a role of a reference is not one character")
    return found


@dataclass(frozen=True, slots=True)
class FileGraph:
    """The definitions, imports, references, variables and declared values of one file, each in order."""

    definitions: tuple[Defined, ...] = ()
    imports: tuple[Import, ...] = ()
    references: References | tuple[Reference, ...] = ()
    variables: tuple[Variable, ...] = ()
    values: tuple[DeclaredValue, ...] = ()

    @property
    def defined_names(self) -> set[str]:
        """The names under which its definitions and values are found; "" is none."""
        names = {one.name for one in self.definitions} | {one.name for one in self.values}
        return (names | {name.rpartition(".")[2] for name in names}) - {""}

    @property
    def referred_names(self) -> set[str]:
        """The names of its references, and those that its imports take and give; "" is none."""
        imported = {name for one in self.imports for pair in one.renamed for name in pair}
        found = self.references
        columns = (found if isinstance(found, References) else References(found)).columns
        return (imported | {columns.texts[number] for number in set(columns.names)}) - {""}


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
        References(references) if references else (),
        tuple(map(Variable._make, variables)),
        tuple(map(DeclaredValue._make, declared)),
    )
