"""The files of a repository as the graph of its code reads them, with what their imports bring."""

from __future__ import annotations

import posixpath
import re
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Literal, Protocol

from rag.code.file_graph import BASE, CALL, MENTION, Defined, FileGraph, Reference, References
from rag.code.imports import Import
from rag.code.languages import JAVASCRIPT, TERRAFORM
from rag.code.reference_queries import has_references
from rag.code.resolve import Above, Binding, Resolver
from rag.types import CodeDefinition, CodeUse, Kind, UseRole

MAX_FILES = 600
"""At most this many files are read for one question."""
_MAX_SCOPES = 48
_MAX_CACHED_NAMES = 2_000
_MAX_CACHED_BYTES = 32 << 20
"""At most this much of the files that were read is cached, as estimated by `LoadedFile.size`."""
_DEFINITION_BYTES, _OTHER_BYTES, _REFERENCE_BYTES = 450, 250, 32
"""What a definition, an import or a variable, and a reference take in a file that is cached."""
_UNITS: dict[str, Literal["function", "class", "section"]] = {"f": "function", "c": "class", "s": "section"}
_ROLES: dict[str, UseRole] = {CALL: "call", MENTION: "mention", BASE: "base"}


class GraphFiles(Protocol):
    """The files of a repository, as a store holds them."""

    def files(self) -> Mapping[str, tuple[str, Kind]]:
        """Return the language and kind of each file, by path."""
        ...

    def above(self) -> Above:
        """Return what is above the folder that the paths are relative to."""
        ...

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file; an empty one if it has none."""
        ...

    def holding(self, name: str) -> list[str]:
        """Return the paths of the files that may hold an identifier, ascending."""
        ...

    def files_defining(self, name: str) -> list[str]:
        """Return the paths of the files that define a name, and perhaps of others, ascending."""
        ...

    def files_referring(self, name: str) -> list[str]:
        """Return the paths of the files that refer to a name or import it, and perhaps of others."""
        ...

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file and its blob id; None if there is no such file."""
        ...


class LoadedFile:
    """The graph of a file with the look-ups that resolution needs; `graph` is without the references."""

    def __init__(self, path: str, language: str, graph: FileGraph) -> None:
        self.path, self.language = path, language
        known = graph.references
        self.references = known if isinstance(known, References) else References(known)
        self.graph = replace(graph, references=(), variables=())
        definitions = graph.definitions
        named: dict[str, list[int]] = defaultdict(list)
        members: dict[tuple[int, str], list[int]] = defaultdict(list)
        owned: dict[tuple[str, str], list[int]] = defaultdict(list)
        variables: dict[tuple[int, str], list[str]] = defaultdict(list)
        bases: dict[int, list[Reference]] = defaultdict(list)
        for number, one in enumerate(definitions):
            named[one.name].append(number)
            if language == "elixir" and "." in one.name:
                named[one.name.rpartition(".")[2]].append(number)
            members[one.parent, one.name].append(number)
            if one.owner:
                owned[one.owner.removesuffix(".prototype"), one.name].append(number)
        for variable in graph.variables:
            variables[variable.within, variable.name].append(sys.intern(variable.value))
        for use in self.references.bases:
            bases[use.within].append(use)
        # Thousands of files are cached: plain dictionaries of tuples, where most names are defined once.
        self.named = {name: tuple(found) for name, found in named.items()}
        self.members = {
            key: self.named[key[1]] if len(found) == len(self.named[key[1]]) else tuple(found)
            for key, found in members.items()
        }
        self.owned = {key: tuple(found) for key, found in owned.items()}
        self.variables = {key: tuple(found) for key, found in variables.items()}
        self.bases = {number: tuple(found) for number, found in bases.items()}
        self.makers = {owner for owner, _ in owned}
        self.whole = tuple(number for number, one in enumerate(definitions) if one.owner == "module")
        """What `module.exports` is made to be."""
        others = len(graph.imports) + len(graph.variables) + len(graph.values)
        self.size = _DEFINITION_BYTES * len(definitions) + _OTHER_BYTES * others
        self.size += _REFERENCE_BYTES * len(self.references)

    def top(self, name: str) -> list[int]:
        """Return the definitions of a name at the top of the file, without those of an owner.

        An extension function of Kotlin is a function at the top, whatever it extends.
        """
        found = ((number, self.graph.definitions[number]) for number in self.members.get((-1, name), ()))
        is_top = self.language == "kotlin"
        return [n for n, one in found if (is_top or not one.owner) and "property" not in one.flags]

    def scopes(self, number: int) -> Iterator[int]:
        """Yield a definition and those around it, inside out."""
        seen = 0
        while 0 <= number < len(self.graph.definitions) and seen < _MAX_SCOPES:
            yield number
            number = self.graph.definitions[number].parent
            seen += 1

    def class_of(self, number: int) -> int:
        """Return the innermost class around a definition, or itself; -1 for none."""
        return next((n for n in self.scopes(number) if self.graph.definitions[n].unit == "c"), -1)

    def qualified(self, number: int) -> str:
        """Return the name of a definition with the names around it; "" for -1."""
        names = [self.graph.definitions[n].name for n in self.scopes(number)]
        if names and (owner := self.graph.definitions[number].owner.removesuffix(".prototype")):
            names.insert(1 if self.language == "kotlin" else len(names), owner)
        return ".".join(reversed([name for name in names if name]))

    def is_property(self, number: int) -> bool:
        """Return whether a definition is a function in an object of JavaScript that is written in place."""
        return "property" in self.graph.definitions[number].flags and self.language in JAVASCRIPT

    def class_at(self, line: int) -> int:
        """Return the innermost class on a line, -1 for none."""
        classes = ((n, one) for n, one in enumerate(self.graph.definitions) if one.unit == "c")
        inside = [n for n, one in classes if one.start <= line <= one.end]
        return inside[-1] if inside else -1

    def block_at(self, line: int) -> str:
        """Return the qualified name of the block of Terraform on a line, "" for none."""
        around = (n for n, one in enumerate(self.graph.definitions) if one.start <= line <= one.end)
        return next(map(self.qualified, around), "")

    def definition(self, number: int) -> CodeDefinition:
        """Return a definition by its number."""
        one = self.graph.definitions[number]
        scope = self.qualified(number).removesuffix(one.name).rstrip(".")
        is_exported = _is_exported(self.language, one)
        return CodeDefinition(self.path, one.name, scope, _UNITS[one.unit], one.start, one.end, is_exported)

    @cached_property
    def values(self) -> tuple[CodeDefinition, ...]:
        """The values that are declared at the top of the file and in its classes, in order."""
        return tuple(
            CodeDefinition(self.path, name, scope, "constant", start, end)
            for name, scope, start, end in self.graph.values
        )

    @cached_property
    def with_names(self) -> tuple[CodeDefinition, ...]:
        """The definitions that have a name, in order."""
        return tuple(self.definition(n) for n, one in enumerate(self.graph.definitions) if one.name)

    def number(self, target: CodeDefinition) -> int:
        """Return the number of a definition. Raises LookupError if it is not defined here."""
        for number in self.named.get(target.name, ()):
            if self.graph.definitions[number].start == target.start:
                return number
        raise LookupError(f"{self.path} does not define {target.name} on line {target.start}")

    def use(self, reference: Reference, *, certain: bool) -> CodeUse:
        """Return a reference as a use."""
        within = self.qualified(reference.within)
        return CodeUse(self.path, reference.line, within, _ROLES[reference.role], certain=certain)


def _text(source: GraphFiles, path: str) -> str:
    found = source.file_text(path)
    return found[0] if found else ""


class _NamedFiles:
    """The paths of the files of a name. Those of the last names are cached. Safe to share between threads."""

    def __init__(self, look_up: Callable[[str], list[str]]) -> None:
        self._look_up = look_up
        self._known: dict[str, frozenset[str]] = {}

    def of(self, name: str) -> frozenset[str]:
        """Return the paths of the files of a name."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) > _MAX_CACHED_NAMES:
                self._known.clear()
            found = self._known[name] = frozenset(self._look_up(name))
        return found


class LoadedFiles:
    """Reads files when they are asked for; caches the last ones. Safe to share between threads."""

    def __init__(self, source: GraphFiles) -> None:
        self._source = source
        self._lock = threading.RLock()
        self._files: OrderedDict[str, LoadedFile] = OrderedDict()
        self._files_size = 0
        self._bound: dict[str, dict[str, list[tuple[Import, Binding | None]]]] = {}
        self._held = _NamedFiles(source.holding)
        self._defining = _NamedFiles(source.files_defining)
        self._referring = _NamedFiles(source.files_referring)

    @cached_property
    def known(self) -> Mapping[str, tuple[str, Kind]]:
        """The language and kind of each file, by path."""
        return self._source.files()

    @cached_property
    def above(self) -> Above:
        """What is above the folder that the paths are relative to."""
        return self._source.above()

    @cached_property
    def _resolver(self) -> Resolver:
        read = partial(_text, self._source)  # a method of self would make a cycle
        return Resolver(self.known, read, self.above)

    @cached_property
    def folders(self) -> Mapping[str, list[str]]:
        """The paths of the files in each folder, without those below it."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.known:
            found[posixpath.dirname(path)].append(path)
        return found

    def text(self, path: str) -> str:
        """Return the text of a file, "" if there is none."""
        return _text(self._source, path)

    def file(self, path: str) -> LoadedFile:
        """Return a file with its look-ups. The last ones are cached."""
        with self._lock:
            found = self._files.get(path)
            if found is None:
                language = self.known.get(path, ("", "code"))[0]
                found = self._files[path] = LoadedFile(path, language, self._source.code_graph(path))
                self._files_size += found.size
                while self._files_size > _MAX_CACHED_BYTES and len(self._files) > 1:
                    gone, file = self._files.popitem(last=False)
                    self._files_size -= file.size
                    self._bound.pop(gone, None)
            else:
                self._files.move_to_end(path)
            return found

    def holding(self, name: str) -> list[LoadedFile]:
        """Return the files of code that may hold a name, of tests and documentation too."""
        return self._code(self.holders(name))

    def defining(self, name: str) -> list[LoadedFile]:
        """Return the files of code that may define a name."""
        return self._code(self.definers(name))

    def referring(self, name: str) -> list[LoadedFile]:
        """Return the files of code that may refer to a name or import it.

        Where references are not read, those are all that hold the name.
        """
        by_text = {path for path in self.holders(name) if not self._has_columns(path)}
        return self._code(by_text | self._referring.of(name))

    def _code(self, paths: Iterable[str]) -> list[LoadedFile]:
        return [self.file(path) for path in sorted(filter(self._is_code, paths))[:MAX_FILES]]

    def holders(self, name: str) -> frozenset[str]:
        """Return the paths of the files that may hold a name."""
        return self._held.of(name)

    def definers(self, name: str) -> frozenset[str]:
        """Return the paths of the files that may define a name."""
        return self._defining.of(name)

    def _has_columns(self, path: str) -> bool:
        language = self.known[path][0]
        return language != TERRAFORM and has_references(language)

    def _is_code(self, path: str) -> bool:
        language, kind = self.known[path]
        return (
            (kind in ("code", "test") and language != "text")
            or has_references(language)
            or language == TERRAFORM
        )

    def paths_of(self, target: str) -> list[str]:
        """Return the files that the target of an import consists of."""
        return self.folders.get(target[:-1], []) if target.endswith("/") else [target]

    def java_package(self, folder: str) -> list[str]:
        """Return the files of a package of Java, which has a folder in each source root: code and tests."""
        return [path for each in self._packages[in_package(folder)] for path in self.folders[each]]

    @cached_property
    def _packages(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for folder in self.folders:
            found[in_package(folder)].append(folder)
        return found

    def bindings(self, file: LoadedFile) -> list[tuple[Import, Binding | None]]:
        """Return what each import of a file brings, None for what is not in the repository."""
        return [each for found in self.bound(file).values() for each in found]

    def brought(self, file: LoadedFile) -> Iterator[tuple[Import, Binding | None]]:
        """Yield the imports as `bindings` does, then those that bring no name and are not followed."""
        yield from self.bindings(file)
        yield from ((one, None) for one in file.graph.imports if not one.names)

    def import_names(self, path: str) -> list[str]:
        """Return the names that an import of a file may have."""
        return _import_names(self.above.prefix + path)

    def bound(self, file: LoadedFile) -> dict[str, list[tuple[Import, Binding | None]]]:
        """Return the imports of a file by the name they have there."""
        with self._lock:
            known = self._bound.get(file.path)
        if known is not None:
            return known
        found: dict[str, list[tuple[Import, Binding | None]]] = defaultdict(list)
        for imported in file.graph.imports:
            brought = self._resolver.bindings(file.path, file.language, imported)
            for binding in brought:
                found[binding.here].append((imported, binding))
            for _, here in imported.names:
                if all(binding.here != here for binding in brought):
                    found[here].append((imported, None))
            if file.language == "python" and not imported.names and "." in imported.module:
                first = imported.module.partition(".")[0]
                top = Import(first, (("", first),), imported.start, imported.end, imported.within)
                tops = self._resolver.bindings(file.path, file.language, top)
                found[first] += [(top, one) for one in tops] or [(top, None)]
        with self._lock:
            self._bound[file.path] = dict(found)
        return found

    def importing(self, path: str) -> Iterator[tuple[LoadedFile, Import, Binding]]:
        """Yield the imports of a file, each with the file that has it and what it brings."""
        names = self.import_names(path)
        for file in {file.path: file for name in names for file in self.holding(name)}.values():
            for imported, binding in self.bindings(file):
                if binding is not None and binding.target in (path, f"{posixpath.dirname(path)}/"):
                    yield file, imported, binding

    def unresolved_imports(self, path: str) -> Iterator[CodeUse]:
        """Yield the imports that end with the name of a file, and lead to no file of the repository."""
        name = next(iter(self.import_names(path)), "")
        for file in self.holding(name) if name else ():
            for imported, binding in self.bindings(file):
                words = [word for word in re.split(r"[^\w-]+", imported.module) if word]
                if binding is None and name in words[-2:]:  # the last word may be an extension
                    within = file.qualified(imported.within)
                    yield CodeUse(file.path, imported.start, within, "import", certain=False)

    def imported(self, file: LoadedFile, module: str, name: str, there: str = "") -> list[Binding]:
        """Return what a path in an expression leads to, as an import of it would."""
        return self._resolver.bindings(file.path, file.language, Import(module, ((there, name),), 0, 0))


def in_package(folder: str) -> str:
    """Return the part of a folder below `src/main/java` or `src/test/java`."""
    return re.sub(r"^(?:.*/)?src/(?:main|test|\w+Test|\w+Main)/(?:java|\w+)(?:/|$)", "", folder)


def _import_names(path: str) -> list[str]:
    """Return the names that an import of a file may have: its own, or its folder's, and then the folder's;
    for one in `src` also the name of the folder above, which is usually that of a package.
    """
    *_, above, folder, file = ("", "", *path.split("/"))
    stem = posixpath.splitext(file)[0]
    names = [folder] if stem in ("__init__", "index", "mod", "lib") else [stem, folder]
    return [name for name in (*names, above if folder == "src" else "") if name]


def _is_exported(language: str, one: Defined) -> bool:
    """Return whether code outside the repository may use a definition, by the conventions of its language."""
    if language in ("c", "cpp"):
        return "static" not in one.flags
    if language == TERRAFORM:
        return one.owner in ("var", "output")
    if language == "go":
        return one.name[:1].isupper()
    if language == "elixir":
        return not {"defp", "defmacrop", "defguardp"} & set(one.flags.split())
    if language == "kotlin":
        return not {"private", "internal"} & set(one.flags.split())
    return not one.name.startswith(("_", "#")) or one.name.startswith("__")
