"""The scopes of a file while it is read, and what the names that are local to them mean."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from rag.code.file_graph import OWN_MODULE

_MAX_SUBSTITUTIONS = 6
_SELVES = frozenset({"self", "this", "cls", "Self", "$this", "static"})


@dataclass(slots=True)
class LexicalScope:
    """A function, class or closure while it is read. `bound` maps its local names to their values.

    `members` maps those that are taken out of an object to what they are called in it.

    `kind` is "top" for the file itself, the only one without an `outer` scope. `number` is the definition it
    is, or that it is in; `self_name` is the variable that holds the object; `receiver` is what `this` is in a
    lambda of Kotlin that has one, "" if that is unknown.
    """

    kind: str
    outer: LexicalScope | None
    end: int
    number: int
    is_named: bool = False
    self_name: str = ""
    bound: dict[str, str] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    open_names: set[str] = field(default_factory=set)
    receiver: str | None = None

    @property
    def function(self) -> int:
        """The definition of the innermost scope that is not a class, -1 at the top."""
        scope: LexicalScope | None = self
        while scope is not None and scope.kind == "class":
            scope = scope.outer
        return -1 if scope is None else scope.number

    @property
    def owner(self) -> int | None:
        """The definition of the innermost class, itself included."""
        scope: LexicalScope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.outer
        return None if scope is None else scope.number

    @property
    def implicit_object(self) -> str | None:
        """The object that a bare name may be a member of, in a lambda with a receiver."""
        scope: LexicalScope | None = self
        while scope is not None and scope.kind == "closure" and scope.receiver is None:
            scope = scope.outer
        return scope.receiver if scope is not None else None


class LocalNames:
    """Replaces names that are local to a function by what they mean outside it."""

    def __init__(self, language: str) -> None:
        self._selves: Set[str] = frozenset() if language == "python" else _SELVES

    def substituted(self, written: str, scope: LexicalScope) -> str:
        """Return an expression as it is seen from the top of the file, "" if it means something unknown."""
        if not written:
            return ""
        first, dot, rest = written.partition(".")
        called = first.endswith("()")
        value = self.value(first.removesuffix("()"), scope)
        if value is None:
            return written
        return f"{value}{'()' if called else ''}{dot}{rest}" if value else ""

    @staticmethod
    def member(name: str, scope: LexicalScope) -> str:
        """Return what a local name is called in the object that it is taken out of, "" for another one."""
        inner: LexicalScope | None = scope
        while inner is not None and name not in inner.bound:
            inner = inner.outer
        return inner.members.get(name, "") if inner is not None else ""

    def value(self, first: str, scope: LexicalScope, depth: int = 0) -> str | None:
        """Return what the first name of an expression means: "" if it is local and unknown, None if it
        is not local.
        """
        called = first.endswith("()")
        first = first.removesuffix("()")
        if first == "super" and called:
            return None
        inner = scope
        while inner.outer is not None:
            if first == "this" and inner.receiver is not None:
                return inner.receiver and self.substituted(inner.receiver, inner.outer)
            if first == OWN_MODULE:
                return "self"
            if first == inner.self_name or first in self._selves:
                return "self()" if called else "self"
            if first in inner.open_names:
                return None
            if first in inner.bound:
                value = inner.bound[first]
                if not value or depth >= _MAX_SUBSTITUTIONS:
                    return ""
                head, dot, rest = value.partition(".")
                again = self.value(head, inner, depth + 1) if head.removesuffix("()") != first else ""
                value = value if again is None else f"{again}{dot}{rest}" if again else ""
                return f"{value}()" if called and value else value
            inner = inner.outer
        return None
