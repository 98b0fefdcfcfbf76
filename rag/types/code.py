"""Places in code: spans, chunks, definitions and uses."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, TypeVar

from rag.types.source import Kind, Unit

DataClass = TypeVar("DataClass", bound=type)


def pickled_by_arguments(cls: DataClass) -> DataClass:
    """Pickle a dataclass as a call of its class.

    Python's own way for frozen dataclasses with slots takes several times as long, and child processes send
    dozens of hits per question.
    """
    values = attrgetter(*(one.name for one in fields(cls)))

    def reduced(self: Any) -> tuple[Any, tuple[Any, ...]]:
        return cls, values(self)

    cls.__reduce__ = reduced  # type: ignore[method-assign,assignment]
    return cls


@pickled_by_arguments
@dataclass(frozen=True, slots=True)
class Span:
    """A range of lines in one version of a file, and what it defines; lines 0 to 0 are the file as such.

    `repo` is the source's name, "" if unknown. `symbol` is the bare name that the lines define ("" for none),
    `scope` its enclosing scope ("Outer.Inner", or ""). Both may contain dots, as section titles do, so they
    are never joined and split again.
    """

    repo: str
    path: str
    start: int
    end: int
    blob: str = ""
    commit: str | None = None
    symbol: str = ""
    scope: str = ""

    @property
    def place(self) -> str:
        """`path:start-end`, always with both ends; the path alone for a file as such, without lines."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path

    @property
    def label(self) -> str:
        """Scope and symbol joined by a dot, for display; the scope alone if nothing is defined."""
        return f"{self.scope}.{self.symbol}" if self.scope and self.symbol else self.scope or self.symbol

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot, for display; "" if nothing is defined."""
        return self.label if self.symbol else ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a conversation is about: a definition, or lines of a file that define nothing.

    `symbol` is the bare name of the definition ("" for none), `scope` its enclosing scope; `start` and `end`
    are 0 if the lines are not known.
    """

    path: str
    symbol: str = ""
    scope: str = ""
    start: int = 0
    end: int = 0

    @classmethod
    def of(cls, span: Span) -> Subject:
        """Return what a span defines, or its lines."""
        return cls(span.path, span.symbol, span.scope if span.symbol else "", span.start, span.end)

    @property
    def name(self) -> str:
        """Scope and symbol joined by a dot, for display; the path if nothing is defined."""
        return f"{self.scope}.{self.symbol}" if self.scope and self.symbol else self.symbol or self.path

    @property
    def place(self) -> str:
        """`path:start-end`; the path alone if the lines are not known."""
        return f"{self.path}:{self.start}-{self.end}" if self.start else self.path


class Located:
    """A value with a `span`, whose fields are also read-only attributes of the value.

    To copy it with other lines: `replace(hit, span=replace(hit.span, start=1))`.
    """

    __slots__ = ()
    span: Span

    @property
    def repo(self) -> str:
        """The name of the source."""
        return self.span.repo

    @property
    def path(self) -> str:
        """The file, relative to the repository's root."""
        return self.span.path

    @property
    def start(self) -> int:
        """The first line."""
        return self.span.start

    @property
    def end(self) -> int:
        """The last line (inclusive)."""
        return self.span.end

    @property
    def blob(self) -> str:
        """Git's id of the file's bytes."""
        return self.span.blob

    @property
    def commit(self) -> str | None:
        """The commit that the file was read at; None if there is no history."""
        return self.span.commit

    @property
    def symbol(self) -> str:
        """The bare name that the lines define, "" for none."""
        return self.span.symbol

    @property
    def scope(self) -> str:
        """The enclosing scope, "" for none."""
        return self.span.scope

    @property
    def place(self) -> str:
        """`path:start-end`, always with both ends; the path alone for a file as such."""
        return self.span.place

    @property
    def label(self) -> str:
        """Scope and symbol joined by a dot; the scope alone if nothing is defined."""
        return self.span.label

    @property
    def qualified_name(self) -> str:
        """Scope and symbol joined by a dot; "" if nothing is defined."""
        return self.span.qualified_name


@dataclass(frozen=True, slots=True)
class Chunk(Located):
    """A self-contained part of a file. The chunks of a file, joined in order, are the file.

    A long definition is split into several chunks with the same symbol. The span has no repository and no
    commit: equal files have equal chunks everywhere.
    """

    span: Span
    text: str
    unit: Unit = "block"
    kind: Kind = "code"
    language: str = "text"


UseRole = Literal["call", "mention", "base", "override", "import", "types"]


@dataclass(frozen=True, slots=True)
class CodeDefinition:
    """A function, a class, a block of Terraform ("section") or a value that is declared ("constant").

    `scope` names what encloses it, with dots; `is_exported` says whether code outside the repository may use
    it.
    """

    path: str
    name: str
    scope: str
    unit: Literal["function", "class", "section", "constant"]
    start: int
    end: int
    is_exported: bool = True

    @property
    def qualified_name(self) -> str:
        """Scope and name, joined by a dot."""
        return f"{self.scope}.{self.name}" if self.scope else self.name


@dataclass(frozen=True, slots=True)
class CodeUse:
    """A line that uses a definition, within the definition of that qualified name ("" at the top).

    `certain` is False where another definition of the same name may be meant; a call may lead there `through`
    an interface or a base class of that name. The role "types" is an import that does not exist at run time.
    """

    path: str
    line: int
    within: str
    role: UseRole
    certain: bool
    through: str = ""


@dataclass(frozen=True, slots=True)
class AttributedUses:
    """All references to the names of some definitions, by what they mean.

    `uses` certainly or possibly mean one of the definitions, the certain ones first; of `unknown` it is not
    known what they mean; `others` mean something else of that name. These two have one for each line, by path
    and line.
    """

    uses: tuple[CodeUse, ...] = ()
    unknown: tuple[CodeUse, ...] = ()
    others: tuple[CodeUse, ...] = ()
