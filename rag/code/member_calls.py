"""Calls in C++ that the code graph leaves open: of members, of static members, and of free functions.

A call is taken only where one definition can be meant: the class is the one that the calling method belongs
to, or is written before the name, or is the declared type of the field that is called on; and the class has
one definition of that name. Overloads, inherited members and local variables are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from rag.code.file_graph import CALL, UNKNOWN, Reference
from rag.code.survey import Call, Survey
from rag.code.symbols import Symbol

_FIELD = re.compile(
    r"^\s*(?:(?:mutable|const|static|volatile)\s+)*"
    r"(?:std::)?(?:(?:unique|shared)_ptr<\s*)?(?P<type>(?:\w+::)*[A-Z]\w*)\s*(?:>\s*)?[\s*&]+(?:const\s+)?"
    r"(?P<name>[a-z]\w*)\s*(?:[A-Z_]+\([^()]*\)\s*)?(?:=[^;]*|\{[^;]*\})?;"
)
_MAX_BODY_LINES, _MAX_LINE_CHARS = 800, 300


def member_calls(survey: Survey, own: Iterable[str]) -> list[Call]:
    """Return the calls in C++ that lead to one definition, by path and line."""
    paths = [path for path in sorted(own) if survey.files[path].language == "cpp"]
    return list(_Finder(survey, paths).calls()) if paths else []


class _Finder:
    def __init__(self, survey: Survey, paths: list[str]) -> None:
        self.survey, self.paths = survey, paths
        self.members: dict[str, dict[str, list[Symbol]]] = defaultdict(lambda: defaultdict(list))
        self.classes: dict[str, set[str]] = defaultdict(set)
        self.fields: dict[str, dict[str, str]] = defaultdict(dict)
        for path in paths:
            for symbol in survey.symbols(path):
                if symbol.unit == "class":
                    self.classes[symbol.name].add(symbol.qualified_name)
                    self._read_fields(symbol)
                else:
                    self.members[symbol.scope][symbol.name].append(symbol)

    def calls(self) -> Iterator[Call]:
        for path in self.paths:
            callers = {
                line: symbol
                for symbol in self.survey.symbols(path)
                for line in range(symbol.start, symbol.end + 1)
            }
            for use in self.survey.file_graph(path).references:
                caller = callers.get(use.line)
                if use.role != CALL or caller is None or caller.unit != "function":
                    continue
                callee = self._callee(use, caller)
                if callee is not None and callee != caller:
                    yield Call(path, caller, callee, use.line)

    def _callee(self, use: Reference, caller: Symbol) -> Symbol | None:
        receiver = use.receiver
        if receiver in ("", "this"):
            return self._in_scopes(caller.scope, use.name, with_outer=not receiver)
        if receiver.startswith(UNKNOWN) or not re.fullmatch(r"[\w.]+", receiver):
            return None
        owner = self._class(receiver) or self._class(self.fields[caller.scope].get(receiver, ""))
        return self._only(owner, use.name) if owner else None

    def _in_scopes(self, scope: str, name: str, *, with_outer: bool) -> Symbol | None:
        """Return the definition of the innermost scope that has the name."""
        while True:
            if self.members[scope].get(name):
                return self._only(scope, name)
            if not scope or not with_outer:
                return None
            scope = scope.rpartition(".")[0]

    def _only(self, scope: str, name: str) -> Symbol | None:
        found = self.members[scope].get(name, [])
        return found[0] if len(found) == 1 else None

    def _class(self, name: str) -> str:
        """Return the only class that a name, which may have namespaces, can mean."""
        dotted = name.replace("::", ".")
        found = [
            full
            for full in self.classes.get(dotted.rpartition(".")[2], ())
            if full == dotted or full.endswith(f".{dotted}")
        ]
        return found[0] if len(found) == 1 else ""

    def _read_fields(self, symbol: Symbol) -> None:
        """Read the types of the fields, each declared on a line of its own; a name of two types is none."""
        own = self.fields[symbol.qualified_name]
        end = min(symbol.end, symbol.start + _MAX_BODY_LINES)
        for line in self.survey.files[symbol.path].lines[symbol.start : end]:
            if match := _FIELD.match(line[:_MAX_LINE_CHARS].rstrip("\r\n")):
                is_other = own.get(match["name"], match["type"]) != match["type"]
                own[match["name"]] = "" if is_other else match["type"]
