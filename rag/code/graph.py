"""The graph of one repository's code: files, definitions, imports and calls.

Files are given as texts (`rag.wiki.repository_graph` reads them from a store), and parsed once, when first
needed. Imports and calls that do not resolve to one of the files are left out.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rag.code import documentation
from rag.code.documentation import Quote
from rag.code.references import Import, RawCall, References, references
from rag.code.resolve import Binding, Resolver
from rag.code.symbols import JAVASCRIPT, File, Symbol, symbols_of
from rag.types import Checkout, Kind


@dataclass(frozen=True, slots=True)
class Link:
    """An import of one file (or a folder, which ends in "/") by another, with its lines."""

    source: str
    target: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a definition, with its file and line. A caller of None is module level."""

    path: str
    caller: Symbol | None
    callee: Symbol
    line: int


_REEXPORTS = 3


class Survey:
    """A repository's files and their analysis.

    Args:
        name: the repository's name.
        files: by path, in the order of their paths.
        checkout: where the files come from; None for texts without a source.
    """

    def __init__(self, name: str, files: Mapping[str, File], checkout: Checkout | None = None) -> None:
        self.name, self.files, self.checkout = name, files, checkout
        self._symbols: dict[str, tuple[Symbol, ...]] = {}
        self._references: dict[str, References] = {}
        self._lock = threading.RLock()

    def of_kind(self, *kinds: Kind) -> list[File]:
        """Return the files of these kinds, by path."""
        return [file for file in self.files.values() if file.kind in kinds]

    # ------------------------------------------------------------ definitions

    def symbols(self, path: str) -> tuple[Symbol, ...]:
        """Return the functions and classes of a file with their members, in order, outer before inner."""
        with self._lock:
            if path not in self._symbols:
                self._symbols[path] = tuple(symbols_of(self.files[path]))
            return self._symbols[path]

    def summary(self, path: str) -> Quote | None:
        """Return the documentation at the top of a file."""
        file = self.files[path]
        if file.kind == "doc":
            return next(iter(documentation.introduction(file.text, path, limit=1)), None)
        if file.language == "python":
            found = documentation.docstring(file.lines, path, 0, len(file.lines))
            if found is not None:
                return found
        return documentation.head_comment(file.lines, path, file.language)

    # ------------------------------------------------------------ imports

    def references(self, path: str) -> References:
        """Return the imports and calls of a file as they are written."""
        with self._lock:
            if path not in self._references:
                file = self.files[path]
                read = References() if file.gave_up else references(file.text, file.language)
                self._references[path] = read
            return self._references[path]

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver({path: file.text for path, file in self.files.items()})

    @cached_property
    def imports(self) -> Mapping[str, tuple[tuple[Import, Binding], ...]]:
        """The imports of each file from this repository, by its path; files without any are left out."""
        with self._lock:
            found = {}
            for path, file in self.files.items():
                brought = [
                    (imported, binding)
                    for imported in self.references(path).imports
                    for binding in self._resolver.bindings(path, file.language, imported)
                ]
                if brought:
                    found[path] = tuple(brought)
            return found

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All imports of a file or folder by another file, each pair and line once, by path and line."""
        found = {
            Link(path, binding.target, imported.start, imported.end): None
            for path, brought in self.imports.items()
            for imported, binding in brought
        }
        return tuple(sorted(found, key=lambda link: (link.source, link.start, link.target)))

    @cached_property
    def _links_from(self) -> Mapping[str, list[Link]]:
        found: dict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            found[link.source].append(link)
        return found

    @cached_property
    def _links_to(self) -> Mapping[str, list[Link]]:
        found: dict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            for path in self.files_of(link.target):
                found[path].append(link)
        return found

    def links_from(self, path: str) -> list[Link]:
        """Return the imports in a file, by line."""
        return self._links_from.get(path, [])

    def links_to(self, path: str) -> list[Link]:
        """Return the imports of a file, by path and line."""
        return self._links_to.get(path, [])

    def files_of(self, target: str) -> list[str]:
        """Return the files of a link's target: the file itself, or the code of the folder."""
        if not target.endswith("/"):
            return [target]
        return [f.path for f in self._in_folder.get(target[:-1], ()) if f.kind == "code"]

    @cached_property
    def _in_folder(self) -> Mapping[str, list[File]]:
        found: dict[str, list[File]] = defaultdict(list)
        for file in self.files.values():
            found[file.folder].append(file)
        return found

    # ------------------------------------------------------------ calls

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls between definitions, by path and line, as far as names identify them with certainty."""
        with self._lock:
            return tuple(call for path in self.files for call in _Callees(self, path).calls())

    @cached_property
    def callers(self) -> Mapping[Symbol, tuple[Call, ...]]:
        """The calls of each definition, by path and line."""
        found: dict[Symbol, list[Call]] = defaultdict(list)
        for call in self.calls:
            found[call.callee].append(call)
        return {symbol: tuple(calls) for symbol, calls in found.items()}

    def lookup(self, target: str, name: str, depth: int = _REEXPORTS) -> Symbol | None:
        """Return the definition of `name` in a file or folder, through re-exports, or None."""
        for path in self.files_of(target):
            if found := self._by_name(path).get(name):
                return found
        if depth and not target.endswith("/"):
            first, _, rest = name.partition(".")
            for _, binding in self.imports.get(target, ()):
                if binding.here == first and (
                    inner := ".".join(part for part in (binding.name, rest) if part)
                ):
                    return self.lookup(binding.target, inner, depth - 1)
        return None

    def _by_name(self, path: str) -> Mapping[str, Symbol]:
        """Return the definitions that a name can mean anywhere in the file, the first of equal ones.

        In JavaScript an indented definition without a scope belongs to some object or function.
        """
        if path not in self._names:
            file, symbols = self.files[path], reversed(self.symbols(path))
            local = file.language in JAVASCRIPT
            self._names[path] = {
                symbol.qualified_name: symbol
                for symbol in symbols
                if not local or symbol.scope or not file.lines[symbol.start - 1][:1].isspace()
            }
        return self._names[path]

    @cached_property
    def _names(self) -> dict[str, Mapping[str, Symbol]]:
        return {}

    def lookup_local(self, path: str, name: str) -> Symbol | None:
        """Return the definition of `name` in this file, or in its folder where files of a folder share a
        scope.
        """
        file = self.files[path]
        if file.language == "go":
            return self.lookup(f"{file.folder}/", name, 0) if file.folder else self.lookup(path, name, 0)
        return self._by_name(path).get(name)

    @cached_property
    def c_functions(self) -> Mapping[str, Symbol]:
        """The functions of C that are defined once in the whole repository, by name."""
        found: dict[str, list[Symbol]] = defaultdict(list)
        for path, file in self.files.items():
            if file.language in ("c", "cpp"):
                for symbol in self.symbols(path):
                    if not symbol.scope and symbol.unit == "function":
                        found[symbol.name].append(symbol)
        return {name: symbols[0] for name, symbols in found.items() if len(symbols) == 1}


class _Callees:
    """Resolves the calls of one file."""

    def __init__(self, survey: Survey, path: str) -> None:
        self.survey, self.path = survey, path
        self.language = survey.files[path].language
        self.bound = {b.here: b for _, b in survey.imports.get(path, ()) if b.here not in ("", "*")}

    def calls(self) -> Iterator[Call]:
        raw = self.survey.references(self.path).calls
        if not raw:
            return
        callers = self._callers()
        for call in raw:
            caller = callers.get(call.line)
            callee = self._callee(call, caller)
            if callee is not None and callee != caller:
                yield Call(self.path, caller, callee, call.line)

    def _callers(self) -> dict[int, Symbol]:
        """Return the innermost definition at each line."""
        return {
            line: symbol
            for symbol in self.survey.symbols(self.path)
            for line in range(symbol.start, symbol.end + 1)
        }

    def _callee(self, call: RawCall, caller: Symbol | None) -> Symbol | None:
        first = call.receiver or call.name
        if first in ("self", "this", "cls"):
            return self._member(call.name, caller)
        if caller is not None and first in _parameters(caller.signature):
            return None  # a parameter has this name
        binding = self.bound.get(first)
        if binding is not None:
            name = ".".join(part for part in (binding.name, call.name if call.receiver else "") if part)
            return self.survey.lookup(binding.target, name) if name else None
        if call.receiver:
            return self.survey.lookup_local(self.path, f"{call.receiver}.{call.name}")
        if self.language in ("java", "ruby") and (member := self._member(call.name, caller)):
            return member
        found = self.survey.lookup_local(self.path, call.name)
        if found is None and self.language in ("c", "cpp"):
            return self.survey.c_functions.get(call.name)
        return found

    def _member(self, name: str, caller: Symbol | None) -> Symbol | None:
        """Return a method of the class the caller belongs to."""
        if caller is None or not caller.scope:
            return None
        return self.survey.lookup_local(self.path, f"{caller.scope}.{name}")


@lru_cache(maxsize=1024)
def _parameters(signature: str) -> frozenset[str]:
    """Return the words in the parentheses of a signature, which include its parameters."""
    return frozenset(re.findall(r"\w+", signature.partition("(")[2]))
