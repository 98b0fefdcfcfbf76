"""A whole repository's code at once: files, definitions, imports and calls.

Files are given as texts (`rag.service.tools.survey_of` reads them from a store), with their graphs or parsed
when first needed. `rag.code.graph` resolves names; imports and calls that do not resolve to one of the files
are left out.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rag.analysis import words
from rag.code import documentation
from rag.code.above import above
from rag.code.documentation import Quote
from rag.code.file_graph import CALL, MENTION, Defined, FileGraph, Reference, Variable
from rag.code.graph import RepositoryGraph
from rag.code.imports import Import
from rag.code.parsing import SourceText, parsed_texts
from rag.code.resolve import Above, Binding
from rag.code.symbols import File, Symbol, symbols_of
from rag.types import Checkout, Kind

_MIN_HEAD_WORDS = 3
"""A comment at the top of a file with fewer words does not document it."""


@dataclass(frozen=True, slots=True)
class Link:
    """An import of one file (or a folder, which ends in "/") by another, with its lines.

    `types_only` imports do not exist at run time.
    """

    source: str
    target: str
    start: int
    end: int
    types_only: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a definition, with its file and line. A caller of None is module level.

    `written` is how the line names the callee where that is another name: an alias, an exported name.
    """

    path: str
    caller: Symbol | None
    callee: Symbol
    line: int
    written: str = ""


class Survey:
    """A repository's files and their analysis.

    Args:
        name: the repository's name.
        files: by path, in the order of their paths.
        checkout: where the files come from; None for texts without a source.
        read_graph: returns the graph of a file; None parses its text.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, File],
        checkout: Checkout | None = None,
        read_graph: Callable[[str], FileGraph] | None = None,
    ) -> None:
        self.name, self.files, self.checkout, self.read_graph = name, files, checkout, read_graph
        self.graph = RepositoryGraph(_Files(self))
        self._symbols: dict[str, tuple[Symbol, ...]] = {}
        self._graphs: dict[str, FileGraph] = {}
        self._lock = threading.RLock()

    def part(self, keeps: Callable[[str], bool]) -> Survey:
        """Return the same without some of the files; `keeps` says of a path whether it is kept."""
        files = {path: file for path, file in self.files.items() if keeps(path)}
        return Survey(self.name, files, self.checkout, self.read_graph)

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
        comment = documentation.head_comment(file.lines, path, file.language)
        return comment if comment is not None and len(comment.text.split()) >= _MIN_HEAD_WORDS else None

    # ------------------------------------------------------------ imports

    def file_graph(self, path: str) -> FileGraph:
        """Return what a file defines, imports and refers to, as it is written."""
        with self._lock:
            if path not in self._graphs:
                self._graphs[path] = self.read_graph(path) if self.read_graph else self._parsed(path)
            return self._graphs[path]

    def _parsed(self, path: str) -> FileGraph:
        file = self.files[path]
        if file.kind not in ("code", "test") or file.gave_up:
            return FileGraph()
        (found,) = parsed_texts([SourceText(file.text, file.language)], max_chars=None)
        return found.graph

    @cached_property
    def imports(self) -> Mapping[str, tuple[tuple[Import, Binding], ...]]:
        """The imports of each file from this repository, by its path; files without any are left out."""
        found = {}
        for path in (path for path, file in self.files.items() if file.kind != "doc"):
            brought = self.graph.files.bindings(self.graph.files.file(path))
            if inner := tuple((imported, binding) for imported, binding in brought if binding is not None):
                found[path] = inner
        return found

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All imports of a file or folder by another file, each pair and line once, by path and line."""
        found = {
            Link(path, binding.target, imported.start, imported.end, imported.types_only): None
            for path, brought in self.imports.items()
            for imported, binding in brought
        }
        return tuple(sorted(found, key=lambda link: (link.source, link.start, link.target)))

    @cached_property
    def _links_to(self) -> Mapping[str, list[Link]]:
        found: dict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            for path in self.files_of(link.target):
                found[path].append(link)
        return found

    def links_to(self, path: str) -> list[Link]:
        """Return the imports of a file, by path and line."""
        return self._links_to.get(path, [])

    @cached_property
    def imported(self) -> Mapping[str, frozenset[str]]:
        """The files that each file imports; none of those that import nothing."""
        found: dict[str, set[str]] = defaultdict(set)
        for link in self.links:
            found[link.source].update(self.files_of(link.target))
        return {path: frozenset(paths) for path, paths in found.items()}

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
            return tuple(call for path in self.files for call in self._calls_in(path))

    def mentions_in(self, path: str) -> Iterator[Call]:
        """Yield the references in a file to a definition that is passed on or stored, not called, by line."""
        with self._lock:
            yield from self._calls_in(path, MENTION)

    def _calls_in(self, path: str, role: str = CALL) -> Iterator[Call]:
        file = self.graph.files.file(path)
        callers = {
            line: symbol
            for symbol in (self.symbols(path) if file.references else ())
            for line in range(symbol.start, symbol.end + 1)
        }
        for use in file.references:
            values = self.graph.names.resolve(file, use) if use.role == role else ()
            if values and values[0].kind == "def" and self.graph.names.is_one(values):
                other = self.graph.files.file(values[0].path)
                callee = self.symbol(values[0].path, other.qualified(values[0].number))
                if callee is not None and callee != callers.get(use.line):
                    yield Call(path, callers.get(use.line), callee, use.line, _written(use, callee))

    def symbol(self, path: str, name: str) -> Symbol | None:
        """Return the definition of a file with this qualified name; None if it has none."""
        if path not in self._names:
            self._names[path] = {symbol.qualified_name: symbol for symbol in reversed(self.symbols(path))}
        return self._names[path].get(name)

    @cached_property
    def _names(self) -> dict[str, Mapping[str, Symbol]]:
        return {}

    @cached_property
    def callers(self) -> Mapping[Symbol, tuple[Call, ...]]:
        """The calls of each definition, by path and line."""
        found: dict[Symbol, list[Call]] = defaultdict(list)
        for call in self.calls:
            found[call.callee].append(call)
        return {symbol: tuple(calls) for symbol, calls in found.items()}


def _written(use: Reference, callee: Symbol) -> str:
    """Return how a reference names what it refers to; "" if by its own name."""
    if use.name == callee.name:
        return ""
    return f"{use.receiver}.{use.name}" if re.fullmatch(r"\w+", use.receiver) else use.name


class _Files:
    """The files of a survey as `rag.code.graph` reads them."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def files(self) -> dict[str, tuple[str, Kind]]:
        return {path: (file.language, file.kind) for path, file in self._survey.files.items()}

    def above(self) -> Above:
        checkout = self._survey.checkout
        return above(checkout.source.location) if checkout else Above()

    def code_graph(self, path: str) -> FileGraph:
        return self._survey.file_graph(path)

    def file_text(self, path: str) -> tuple[str, str] | None:
        file = self._survey.files.get(path)
        return None if file is None else (file.text, file.blob)

    def holding(self, name: str) -> list[str]:
        return self._holding.get(name, [])

    files_defining = files_referring = holding

    @cached_property
    def _holding(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._survey.files:
            graph = self._survey.file_graph(path)
            named: list[Defined | Reference | Variable] = [
                *graph.definitions,
                *graph.references,
                *graph.variables,
            ]
            names = {one.name.rpartition(".")[2] for one in named}
            names |= {there for imported in graph.imports for there, _ in imported.names}
            names |= {word for imported in graph.imports for word in words(imported.module)}
            for name in names:
                found[name].append(path)
        return found
