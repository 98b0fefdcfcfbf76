"""Calls that are possible, not certain: through interfaces and base classes; and tables of functions.

- A call of a method of a base class or trait may run what overrides it in a class below it.
- A call of a method of an interface of Go may run the method of each type that has all of its methods.

Which of them runs is decided at run time, so none of these is a certain call.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag.code.file_graph import BASE, CALL
from rag.code.interfaces import go_interface, parameters
from rag.code.survey import Call, Survey
from rag.code.symbols import File, Symbol

MAX_TARGETS = 24
"""A call that may run more definitions says little about each."""
_MAX_LINE_CHARS = 300
_MAX_TABLE_LINES = 2_000
_MIN_TABLE = 2
_MAX_CLASSES = 500
_IMPLEMENTS = re.compile(
    r"\s*(?:unsafe\s+)?impl\b(?:\s*<[^{]*?>)?\s+!?(?:\w+::)*(\w+)(?:<[^{]*?>)?\s+for\s+(?:&\s*)?(?:\w+::)*(\w+)"
)
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "constructor", "initialize"})
_TABLE = re.compile(
    r"^(?:(?:static|const|extern)\s+)*(?:struct\s+)?(?P<type>\w+)\s+\**(?:const\s+)?(?P<name>\w+)\s*"
    r"(?:\[[^\]]*\]\s*)*=\s*\{"
    r"|^(?:export\s+)?(?:const|let|var)\s+(?P<script>\w+)(?:\s*:[^=]+)?\s*=\s*[\[{]"
    r"|^(?P<python>[^\W\d]\w*)(?:\s*:[^=]+)?\s*=\s*[\[{(]"
)
_TABLE_LANGUAGES = frozenset({"c", "cpp", "python", "javascript", "typescript", "tsx"})


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """A variable at the top of a file that holds functions, in the order of its lines."""

    name: str
    type: str
    path: str
    start: int
    end: int
    functions: tuple[Symbol, ...]


class Dispatch:
    """The possible calls of a repository's own code."""

    def __init__(self, survey: Survey, own: Iterable[str]) -> None:
        self.survey, self.own = survey, sorted(own)

    # ------------------------------------------------------------ classes

    @cached_property
    def implementations(self) -> Mapping[Symbol, Sequence[Symbol]]:
        """The classes directly below each class, trait or interface, by path and line."""
        found: dict[Symbol, set[Symbol]] = defaultdict(set)
        for base, below in (*self._declared(), *self._rust(), *self._go()):
            if base != below:
                found[base].add(below)
        return {base: tuple(sorted(below, key=_place)) for base, below in found.items()}

    def _symbol(self, path: str, number: int) -> Symbol | None:
        """Return a definition of the code graph, whose names are without the namespaces of C++."""
        file = self.survey.graph.files.file(path)
        one = file.graph.definitions[number]
        inside = (symbol for symbol in self.survey.symbols(path) if symbol.start == one.start)
        return next((symbol for symbol in inside if symbol.name == one.name), None)

    def _declared(self) -> Iterator[tuple[Symbol, Symbol]]:
        """Yield each class with a base that is certain."""
        graph = self.survey.graph
        named = self._classes(path for path in self.own if self.survey.files[path].language == "cpp")
        for path in self.survey.files:
            file = graph.files.file(path)
            for use in file.references.of_role(BASE):
                values = graph.names.resolve(file, use) if use.within >= 0 else ()
                if len(values) == 1 and values[0].kind == "def":
                    base = self._symbol(values[0].path, values[0].number)
                    below = self._symbol(path, use.within)
                    if base is not None and below is not None:
                        yield base, below
                elif file.language == "cpp" and use.within >= 0:
                    base = self._nearest(named, use.name, path)
                    below = self._symbol(path, use.within)
                    if base is not None and below is not None:
                        yield base, below

    def _rust(self) -> Iterator[tuple[Symbol, Symbol]]:
        for trait, below, _ in self._rust_blocks:
            yield trait, below

    @cached_property
    def _rust_blocks(self) -> Sequence[tuple[Symbol, Symbol, tuple[Symbol, ...]]]:
        """Each `impl Trait for Type` with its functions, where one trait and one type have these names."""
        paths = [path for path in self.own if self.survey.files[path].language == "rust"]
        classes = self._classes(paths)
        found = []
        for path in paths:
            lines = self.survey.files[path].lines
            inside = {symbol.start: symbol for symbol in self.survey.symbols(path)}
            for number, one in enumerate(self.survey.file_graph(path).definitions):
                match = _IMPLEMENTS.match(lines[one.start - 1][:_MAX_LINE_CHARS]) if one.unit == "c" else None
                traits, types = (
                    (self._nearest(classes, name, path) for name in match.groups()) if match else ("", "")
                )
                if isinstance(traits, Symbol) and isinstance(types, Symbol):
                    definitions = self.survey.file_graph(path).definitions
                    functions = [inside.get(d.start) for d in definitions if d.parent == number]
                    found.append((traits, types, tuple(f for f in functions if f is not None)))
        return found

    def _classes(self, paths: Iterable[str]) -> Mapping[str, list[Symbol]]:
        found: dict[str, list[Symbol]] = defaultdict(list)
        for path in paths:
            for symbol in self.survey.symbols(path):
                if symbol.unit == "class":
                    found[symbol.name].append(symbol)
        return found

    @staticmethod
    def _nearest(classes: Mapping[str, list[Symbol]], name: str, path: str) -> Symbol | None:
        """Return the only class of a name, or the one of the file."""
        known = classes.get(name, [])
        here = [symbol for symbol in known if symbol.path == path]
        return (here or known)[0] if len(here or known) == 1 else None

    def _go(self) -> Iterator[tuple[Symbol, Symbol]]:
        for interface, methods in self._interfaces.items():
            for type_, own in self._method_sets.items():
                if methods.items() <= {name: parameters(m.signature) for name, m in own.items()}.items():
                    yield interface, type_

    @cached_property
    def _interfaces(self) -> Mapping[Symbol, Mapping[str, int]]:
        """The methods of each interface of Go, with the number of their parameters."""
        found: dict[Symbol, dict[str, int]] = {}
        for path in self.own:
            file = self.survey.files[path]
            for symbol in self.survey.symbols(path) if file.language == "go" else ():
                if symbol.unit == "class" and (methods := go_interface(file.lines, symbol.start, symbol.end)):
                    found[symbol] = methods
        return dict(list(found.items())[:_MAX_CLASSES])

    @cached_property
    def _method_sets(self) -> Mapping[Symbol, Mapping[str, Symbol]]:
        """The methods of each type of Go by name, whichever file of its package they are in."""
        types: dict[tuple[str, str], Symbol] = {}
        methods: dict[tuple[str, str], dict[str, Symbol]] = defaultdict(dict)
        for path in self.own:
            folder = posixpath.dirname(path)
            for symbol in self.survey.symbols(path) if self.survey.files[path].language == "go" else ():
                if symbol.unit == "class":
                    types.setdefault((folder, symbol.name), symbol)
                elif symbol.scope:
                    methods[folder, symbol.scope][symbol.name] = symbol
        return {types[key]: inside for key, inside in methods.items() if key in types}

    # ------------------------------------------------------------ methods

    @cached_property
    def _overriding(self) -> Mapping[Symbol, Sequence[Symbol]]:
        """What overrides each method in the classes below its class."""
        members: dict[tuple[str, str], dict[str, Symbol]] = defaultdict(dict)
        for path in self.own:
            for symbol in self.survey.symbols(path):
                if symbol.unit == "function" and symbol.scope:
                    members[path, symbol.scope].setdefault(symbol.name, symbol)
        found: dict[Symbol, dict[Symbol, None]] = defaultdict(dict)
        for base in self.implementations:
            inherited = members.get((base.path, base.qualified_name), {})
            for below in self._below(base) if inherited else ():
                own = members.get((below.path, below.qualified_name), {})
                for name in sorted(inherited.keys() & own.keys() - _CONSTRUCTORS):
                    found[inherited[name]][own[name]] = None
        for trait, _, functions in self._rust_blocks:
            inherited = members.get((trait.path, trait.qualified_name), {})
            for function in functions:
                if function.name in inherited:
                    found[inherited[function.name]][function] = None
        return {method: sorted(below, key=_place) for method, below in found.items()}

    def _below(self, base: Symbol) -> Iterator[Symbol]:
        """Yield the classes below a class, at any depth."""
        pending, seen = list(self.implementations.get(base, ())), {base}
        while pending and len(seen) < _MAX_CLASSES:
            one = pending.pop(0)
            if one not in seen:
                seen.add(one)
                yield one
                pending += self.implementations.get(one, ())

    # ------------------------------------------------------------ tables

    @cached_property
    def tables(self) -> Sequence[FunctionTable]:
        """The variables that hold two functions or more, by path and line."""
        return [table for path in self.own for table in self._tables_in(self.survey.files[path])]

    def _tables_in(self, file: File) -> Iterator[FunctionTable]:
        if file.language not in _TABLE_LANGUAGES:
            return
        mentions = [use for use in self.survey.mentions_in(file.path) if use.caller is None]
        held: dict[int, list[Symbol]] = defaultdict(list)
        for use in mentions:
            if use.callee.unit == "function":
                held[use.line].append(use.callee)
        taken = 0
        for first in sorted(held):
            if first <= taken:
                continue
            start = next(
                (n for n in range(first, max(0, first - _MAX_TABLE_LINES), -1) if _begins(file, n)), 0
            )
            match = _TABLE.match(file.lines[start - 1][:_MAX_LINE_CHARS]) if start else None
            if match is None or start <= taken:
                continue
            end = next((n for n in range(first, len(file.lines) + 1) if _ends(file, n, start)), first)
            taken = end
            functions = tuple(dict.fromkeys(s for n in range(start, end + 1) for s in held.get(n, ())))
            if len(functions) >= _MIN_TABLE:
                name = match["name"] or match["script"] or match["python"]
                yield FunctionTable(name, match["type"] or "", file.path, start, end, functions)

    # ------------------------------------------------------------ calls

    def possible(self, certain: Mapping[Symbol, Sequence[Call]]) -> Mapping[Symbol, Sequence[Call]]:
        """Return what each definition may run besides its certain calls, at most `MAX_TARGETS` for a call."""
        found: dict[Symbol, dict[Symbol, Call]] = defaultdict(dict)
        for caller, call in self._calls(certain):
            known = {one.callee for one in certain.get(caller, ())}
            if call.callee != caller and call.callee not in known:
                found[caller].setdefault(call.callee, call)
        return {caller: tuple(calls.values()) for caller, calls in found.items()}

    def _calls(self, certain: Mapping[Symbol, Sequence[Call]]) -> Iterator[tuple[Symbol, Call]]:
        for caller, calls in certain.items():
            for call in calls:
                targets = self._overriding.get(call.callee, ())
                line = self.survey.files[call.path].lines[call.line - 1]
                if len(targets) <= MAX_TARGETS and "super" not in line:
                    yield from ((caller, Call(call.path, caller, one, call.line)) for one in targets)
        for path in self.own:
            if self.survey.files[path].language == "go" and self._interfaces:
                yield from self._through_interfaces(path)

    def _through_interfaces(self, path: str) -> Iterator[tuple[Symbol, Call]]:
        graph = self.survey.graph
        file = graph.files.file(path)
        names = {name for methods in self._interfaces.values() for name in methods}
        for use in file.references.named(names):
            if use.role != CALL or not use.receiver:
                continue
            for value in graph.names.receivers(file, use):
                other = graph.files.file(value.path)
                interface = self.survey.symbol(value.path, other.qualified(value.number))
                caller = self.survey.symbol(path, file.qualified(use.within)) if use.within >= 0 else None
                if caller is None or interface is None or use.name not in self._interfaces.get(interface, {}):
                    continue
                below = self.implementations.get(interface, ())
                if len(below) <= MAX_TARGETS:
                    for type_ in below:
                        yield caller, Call(path, caller, self._method_sets[type_][use.name], use.line)


def _place(symbol: Symbol) -> tuple[str, int]:
    return (symbol.path, symbol.start)


def _begins(file: File, number: int) -> bool:
    line = file.lines[number - 1]
    return bool(line.strip()) and not line[0].isspace() and bool(_TABLE.match(line[:_MAX_LINE_CHARS]))


def _ends(file: File, number: int, start: int) -> bool:
    """Return whether a table that began on an earlier line ends on this one."""
    line = file.lines[number - 1]
    return line[:1] in tuple("}])") or (number == start and line.rstrip().endswith((";", "}", "]", ")")))
