"""The graph of a repository's code: who calls, uses, extends and imports a definition.

Each file was read on its own when it was indexed (`rag.code.references`). Here names are resolved across
files when they are asked for: through scopes, imports and re-exports, `self` and `this`, declared and
assigned types, and inheritance. A use is *certain* if that leads to one definition; where the type of the
object before the dot is not known it is *possible*, if the name is rare or resembles that of the class.
"""

from __future__ import annotations

import posixpath
import re
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from rag.code.file_graph import (
    BASE,
    CALL,
    COMPANION,
    MENTION,
    UNKNOWN,
    Defined,
    FileGraph,
    Reference,
    References,
)
from rag.code.imports import Import
from rag.code.reference_queries import has_references
from rag.code.resolve import Binding, Resolver
from rag.types import CodeDefinition, CodeUse, Kind, UseRole

_MAX_DEPTH = 12
_MAX_FILES = 600
"""At most this many files are read for one question."""
_MAX_POSSIBLE = 30
_MAX_CACHED_NAMES = 2_000
_MAX_CACHED_BYTES = 32 << 20
"""At most this much of the files that were read is cached, as estimated by `_File.size`."""
_DEFINITION_BYTES, _OTHER_BYTES, _REFERENCE_BYTES = 450, 250, 32
"""What a definition, an import or a variable, and a reference take in a file that is cached."""
_MAX_BASES = 50
"""At most this many bases of a class are looked at."""
_FEW_DEFINITIONS = 2
"""A name with more definitions needs a sign that the object is of the class in question."""
_FEW_MEMBERS = 25
"""The same in languages where the classes of most objects are not written down."""
_RESOLVED = frozenset(
    {"python", "javascript", "typescript", "tsx", "c", "go", "rust", "java", "kotlin", "elixir"}
)
"""The languages whose names are resolved; uses in others are possible at best."""
JAVASCRIPT = frozenset({"javascript", "typescript", "tsx"})
_STRUCTURAL = JAVASCRIPT
"""The languages in which an object has a type by its members alone."""
_CLASS_SCOPED = frozenset({"java", "kotlin", "elixir", "csharp", "cpp", "ruby", "php"})
"""The languages in which a bare name may be a member of the class it is used in."""
_COMMON = frozenset(
    """add all any append apply bind call clear close copy count create decode delete destroy each emit
    empty encode end endswith error exec execute exists extend filter find first flush forEach format
    get has head includes index indexOf info init insert items join key keys last length load lock log
    lower map match name next on open parse pop post print push put read release remove render replace
    reset reverse run save search send set setdefault shift size slice sort splice split start
    startswith stop strip sub substring test then to toString trim unlock update upper value values
    wait warn warning write""".split()
)
"""Names that objects of every library have: an unknown object is not taken for one of this repository."""
_CONSTRUCTORS = ("__init__", "constructor", "initialize")
_ROLES: dict[str, UseRole] = {CALL: "call", MENTION: "mention", BASE: "base"}
_SHELL_DEFINING = re.compile(r"\s*(?:function\s+[\w:.-]+|[\w:.-]+\s*\(\s*\)\s*(?:[{(#]|$))")
_DEFINING = re.compile(
    r"^\s*(?:(?:pub|public|private|protected|static|export|local|async|final|override)\s+)*"
    r"(?:def|defp|defmacro|fun|func|function|fn|sub|class|module|type|data|let|val|var|import|use|alias)\b"
)
_GETTERS = {"python": re.compile(r"property\b"), **dict.fromkeys(JAVASCRIPT, re.compile(r"\bget\b"))}
_COMMENT = re.compile(r"^\s*(?:#|//|--|;|\*|/\*|%|@doc|@spec)")


class GraphFiles(Protocol):
    """The files of a repository, as a store holds them."""

    def files(self) -> Mapping[str, tuple[str, Kind]]:
        """Return the language and kind of each file, by path."""
        ...

    def code_graph(self, path: str) -> FileGraph:
        """Return the graph of a file; an empty one if it has none."""
        ...

    def holding(self, name: str) -> list[str]:
        """Return the paths of the files that may hold an identifier, ascending."""
        ...

    def file_text(self, path: str) -> tuple[str, str] | None:
        """Return the text of a file and its blob id; None if there is no such file."""
        ...


class _Value(NamedTuple):
    """What an expression means: a definition or an object of it, or a file; `number` is the definition's."""

    kind: str
    path: str = ""
    number: int = -1


_EXTERNAL = _Value("external")
_RESULT = _Value("external", "()")
"""What a function of a library returns, which may be an object of the repository: an item of a collection."""
_TYPES = frozenset(
    "bool boolean bytearray bytes char dict double error float frozenset int list long number set str string"
    " tuple".split()
)
"""Types of the languages: to call one returns an object of it, as for a name that begins with a capital."""
Values = tuple[_Value, ...]


class _File:
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
        for use in self.references.of_role(BASE):
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
        others = len(graph.imports) + len(graph.variables)
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
        while 0 <= number < len(self.graph.definitions) and seen < _MAX_DEPTH * 4:
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


class RepositoryGraph:
    """Implements `rag.ports.CodeGraph` over the files of a source. Safe to share between threads."""

    def __init__(self, source: GraphFiles) -> None:
        self._source = source
        self._lock = threading.RLock()
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._files_size = 0
        self._bound: dict[str, dict[str, list[tuple[Import, Binding | None]]]] = {}

    # ------------------------------------------------------------ what is asked

    def definitions(self, name: str) -> list[CodeDefinition]:
        """Return the definitions of a name, by path and line. `Class.method` limits it to that class."""
        parts = [part for part in re.split(r"\.|::|->|#|/", name) if part]
        if not parts:
            return []
        found = []
        for file in self.holding(parts[-1]):
            for number in file.named.get(parts[-1], ()):
                around = f"{posixpath.splitext(file.path)[0]}/{file.qualified(number)}".replace("/", ".")
                if all(part in around.split(".")[:-1] for part in parts[:-1]):
                    found.append(self.definition(file, number))
        return found

    def defined_in(self, path: str) -> list[CodeDefinition]:
        """Return the named definitions of a file, in order."""
        file = self.file(path)
        numbers = range(len(file.graph.definitions))
        return [self.definition(file, number) for number in numbers if file.graph.definitions[number].name]

    def callers(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls of any of these definitions, certain ones first."""
        return [use for use in self.uses(targets) if use.role == "call"]

    def uses(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls and mentions of any of these definitions, certain ones first."""
        search = _Search(self, targets)
        found = {use: None for file in search.files() for use in search.uses_in(file)}
        return search.ordered(found)

    def unresolved(self, targets: Sequence[CodeDefinition], role: UseRole) -> list[CodeUse]:
        """Return the places that may refer to these definitions, but cannot be resolved, by path and line.

        "mention" asks for calls too, "override" for other definitions in classes with an unknown base. Only
        files in the languages of the definitions are read for calls, mentions and bases.
        """
        search = _Search(self, targets)
        if role == "import":
            found = {use for target in targets for use in self._unresolved_imports(target.path)}
        elif role == "override":
            found = {use for file in search.files() for use in search.unresolved_overrides(file)}
        else:
            roles = {"call": CALL, "mention": CALL + MENTION, "base": BASE}[role]
            languages = {_family(self.known[target.path][0]) for target in targets}
            files = (file for file in search.files() if _family(file.language) in languages)
            found = {use for file in files for use in search.unresolved_in(file, roles)}
        return sorted(found, key=lambda use: (use.path, use.line))

    def callees(
        self, target: CodeDefinition, named: Callable[[str], bool] | None = None
    ) -> list[tuple[CodeUse, CodeDefinition]]:
        """Return the certain calls in a definition, each with the definition it calls, by line.

        `named` says of a name whether its calls are wanted: only these are resolved.
        """
        file, found = self.file(target.path), []
        number = self.number(target)
        for use in file.references:
            if use.role != CALL or not target.start <= use.line <= target.end:
                continue
            if (named is None or named(use.name)) and number in file.scopes(use.within):
                values = self.resolve(file, use)
                if len(values) == 1 and values[0].kind == "def":
                    callee = self.definition(self.file(values[0].path), values[0].number)
                    found.append((self.use_of(file, use, certain=file.language in _RESOLVED), callee))
        return found

    def subclasses(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the classes that name this class as a base, certain ones first."""
        search = _Search(self, [target])
        found = {use: None for file in search.files() for use in search.bases_in(file)}
        return search.ordered(found)

    def overrides(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the definitions that override this method, in direct and indirect subclasses."""
        file = self.file(target.path)
        outer = file.class_of(file.graph.definitions[self.number(target)].parent)
        pending = [(self.definition(file, outer), True)] if outer >= 0 else []
        seen, found = set(pending), []
        while pending and len(seen) < _MAX_FILES:
            owner, certain = pending.pop(0)
            for use in self.subclasses(owner):
                below = self.file(use.path)
                number = below.class_of(self._at(below, use))
                if number < 0:
                    continue
                entry = (self.definition(below, number), certain and use.certain)
                if entry[0] in {each for each, _ in seen}:
                    continue
                seen.add(entry)
                pending.append(entry)
                for member in below.members.get((number, target.name), ()):
                    one = below.graph.definitions[member]
                    found.append(
                        CodeUse(below.path, one.start, below.qualified(member), "override", certain=entry[1])
                    )
        return sorted(found, key=lambda use: (not use.certain, use.path, use.line))

    def importers(self, path: str) -> list[CodeUse]:
        """Return the imports of a file, by path and line; those for types alone have the role "types"."""
        found: dict[CodeUse, None] = {}
        for file, imported, _ in self.importing(path):
            role: UseRole = "types" if imported.types_only else "import"
            within = file.qualified(imported.within)
            found[CodeUse(file.path, imported.start, within, role, certain=True)] = None
        return sorted(found, key=lambda use: (use.path, use.line))

    def imports_of(self, path: str, names: Set[str]) -> list[tuple[int, int]]:
        """Return the first and last lines of the imports of a file that bring one of the names, in order."""
        bound = self.bound(self.file(path))
        return sorted({(one.start, one.end) for name in names & bound.keys() for one, _ in bound[name]})

    def importing(self, path: str) -> Iterator[tuple[_File, Import, Binding]]:
        """Yield the imports of a file, each with the file that has it and what it brings."""
        names = _import_names(path)
        for file in {file.path: file for name in names for file in self.holding(name)}.values():
            for imported, binding in self.bindings(file):
                if binding is not None and binding.target in (path, f"{posixpath.dirname(path)}/"):
                    yield file, imported, binding

    def _unresolved_imports(self, path: str) -> Iterator[CodeUse]:
        """Yield the imports that end with the name of a file, and lead to no file of the repository."""
        name = next(iter(_import_names(path)), "")
        for file in self.holding(name) if name else ():
            for imported, binding in self.bindings(file):
                words = [word for word in re.split(r"[^\w-]+", imported.module) if word]
                if binding is None and name in words[-2:]:  # the last word may be an extension
                    within = file.qualified(imported.within)
                    yield CodeUse(file.path, imported.start, within, "import", certain=False)

    # ------------------------------------------------------------ files

    @cached_property
    def known(self) -> Mapping[str, tuple[str, Kind]]:
        """The language and kind of each file, by path."""
        return self._source.files()

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.known, self.text)

    @cached_property
    def _folders(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.known:
            found[posixpath.dirname(path)].append(path)
        return found

    def text(self, path: str) -> str:
        """Return the text of a file, "" if there is none."""
        found = self._source.file_text(path)
        return found[0] if found else ""

    def file(self, path: str) -> _File:
        """Return a file with its look-ups. The last ones are cached."""
        with self._lock:
            found = self._files.get(path)
            if found is None:
                language = self.known.get(path, ("", "code"))[0]
                found = self._files[path] = _File(path, language, self._source.code_graph(path))
                self._files_size += found.size
                while self._files_size > _MAX_CACHED_BYTES and len(self._files) > 1:
                    gone, file = self._files.popitem(last=False)
                    self._files_size -= file.size
                    self._bound.pop(gone, None)
            else:
                self._files.move_to_end(path)
            return found

    def holding(self, name: str) -> list[_File]:
        """Return the files of code that may hold a name, of tests and documentation too."""
        paths = [path for path in sorted(self._holders(name)) if self._is_code(path)]
        return [self.file(path) for path in paths[:_MAX_FILES]]

    def _is_code(self, path: str) -> bool:
        language, kind = self.known[path]
        return (kind in ("code", "test") and language != "text") or has_references(language)

    def bindings(self, file: _File) -> list[tuple[Import, Binding | None]]:
        """Return what each import of a file brings, None for what is not in the repository."""
        return [each for found in self.bound(file).values() for each in found]

    def bound(self, file: _File) -> dict[str, list[tuple[Import, Binding | None]]]:
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

    def definition(self, file: _File, number: int) -> CodeDefinition:
        """Return a definition of a file by its number."""
        one = file.graph.definitions[number]
        scope = file.qualified(number).rpartition(".")[0]
        unit: Literal["function", "class"] = "class" if one.unit == "c" else "function"
        return CodeDefinition(file.path, one.name, scope, unit, one.start, one.end, _is_exported(file, one))

    def number(self, target: CodeDefinition) -> int:
        """Return the number of a definition in its file. Raises LookupError if it is not defined there."""
        file = self.file(target.path)
        for number in file.named.get(target.name, ()):
            if file.graph.definitions[number].start == target.start:
                return number
        raise LookupError(f"{target.path} does not define {target.name} on line {target.start}")

    @staticmethod
    def _at(file: _File, use: CodeUse) -> int:
        inside = [
            n
            for n, one in enumerate(file.graph.definitions)
            if one.start <= use.line <= one.end and one.unit == "c"
        ]
        return inside[-1] if inside else -1

    def use_of(self, file: _File, use: Reference, *, certain: bool) -> CodeUse:
        """Return a reference as a use."""
        return CodeUse(file.path, use.line, file.qualified(use.within), _ROLES[use.role], certain=certain)

    def is_one(self, values: Values) -> bool:
        """Return whether these are one definition, or overloads in one class of a file."""
        if len(values) == 1:
            return True
        places = {(v.kind, v.path, self.file(v.path).qualified(v.number)) for v in values if v.number >= 0}
        return len(places) == 1 and all(value.number >= 0 for value in values)

    def name(self, value: _Value) -> str:
        """Return the name of a definition."""
        return self.file(value.path).graph.definitions[value.number].name

    # ------------------------------------------------------------ resolution

    def bases(self, value: _Value) -> list[_Value]:
        """Return the classes that a class names as bases, as far as they are known."""
        groups = self._bases(self.file(value.path), value.number, _MAX_DEPTH)
        return [base._replace(kind="def") for group in groups for base in group if base.number >= 0]

    def has_unknown_base(self, file: _File, number: int) -> bool:
        """Return whether a class names a base that may be in the repository, but is not known."""
        return number >= 0 and not all(self._bases(file, number, _MAX_DEPTH))

    def origin(self, value: _Value) -> _Value:
        """Return the method of the farthest known base that a definition overrides, else the definition."""
        file = self.file(value.path)
        name, number = file.graph.definitions[value.number].name, file.class_of(value.number)
        pending = [_Value("def", value.path, number)] if 0 <= number != value.number else []
        seen, found = set(pending), value
        while pending and len(seen) < _MAX_BASES:
            above = [base for base in self.bases(pending.pop(0)) if base not in seen]
            seen |= set(above)
            pending += above
            for base in above:
                for member in self.file(base.path).members.get((base.number, name), ()):
                    found = _Value("def", base.path, member)
        return found

    def receivers(self, file: _File, use: Reference) -> set[_Value]:
        """Return the classes that the object before the dot may be of, as far as they are known."""
        if not use.receiver or use.receiver.startswith(UNKNOWN):
            return set()
        values = self.evaluate(file, use.receiver, use.within, _MAX_DEPTH)
        return {value._replace(kind="def") for value in values if value.kind == "object"}

    def resolve(self, file: _File, use: Reference) -> Values:
        """Return what a reference may mean: () if that is not known, several if it is ambiguous."""
        within = use.within
        if use.role == BASE and within >= 0:
            within = file.graph.definitions[within].parent
        if use.receiver.startswith(UNKNOWN):
            return self._extensions(file, use.name, (), within) if file.language == "kotlin" else ()
        written = f"{use.receiver}.{use.name}" if use.receiver else use.name
        return self.evaluate(file, written, within, _MAX_DEPTH)

    def evaluate(self, file: _File, written: str, within: int, depth: int) -> Values:
        """Return what an expression means, seen from a definition of a file."""
        if depth <= 0 or not written:
            return ()
        parts = written.split(".")
        if file.language == "rust" and len(parts) > 1 and parts[0] in ("crate", "super"):
            return self._rust_path(file, parts, depth)
        if file.language == "elixir" and parts[0][:1].isupper():
            return self._elixir_path(file, parts, within)
        if file.language in JAVASCRIPT and (owned := self._owned(file, parts, within)):
            return owned
        values = self._first(file, parts[0].removesuffix("()"), within, depth, called=parts[0].endswith("()"))
        if parts[0].endswith("()") and parts[0] not in ("super()",):
            values = self._called(values, depth, parts[0])
        for number, part in enumerate(parts[1:], 2):
            values = self._called(values, depth) if self._are_properties(values) else values
            name = part.removesuffix("()")
            before = values
            values = self._joined(self._attribute(value, name, depth - 1) for value in before)
            if file.language == "kotlin" and all(value.kind == "external" for value in values):
                values = self._extensions(file, name, before, within) or values
            elif file.language == "kotlin" and part == name and number < len(parts):
                values = self._joined(self._property(value, name, depth - 1) for value in before) or values
            if part.endswith("()"):
                values = self._called(values, depth, name)
        return values

    def _extensions(self, file: _File, name: str, objects: Values, within: int) -> Values:
        """Return the extension functions of Kotlin that a name after a dot may mean.

        If the object is not known (no `objects`, or external ones), these are those that the file defines or
        imports by name, which it does for this purpose.
        """
        if name in _COMMON:
            return ()
        known = [value for value in objects if value.kind in ("object", "def") and value.number >= 0]
        own = [n for scope in file.scopes(within) for n in file.members.get((scope, name), ())]
        found = tuple(_Value("def", file.path, number) for number in own)
        if not found and (known or file.top(name) or any(b for _, b in self.bound(file).get(name, ()))):
            found = self.top_level(file, name, _MAX_DEPTH)
        types = {one for value in known for one in self._type_names(value)}
        return tuple(
            value
            for value in found
            if value.kind == "def" and (extended := self._extended(value))
            if not known or extended in types or len(extended) == 1  # `fun <T : Base> T.name()`
        )

    def _type_names(self, value: _Value) -> set[str]:
        """Return the names of a class and of all its bases, as they are written where one is not known."""
        file = self.file(value.path)
        names = {self.name(value), *(use.name for use in file.bases.get(value.number, ()))}
        return names.union(*(self._type_names(base) for base in self.bases(value)))

    def _extended(self, value: _Value) -> str:
        """Return the name of the type that a function extends, "" if it extends none."""
        return self.file(value.path).graph.definitions[value.number].owner.rpartition(".")[2]

    def _property(self, value: _Value, name: str, depth: int) -> Values:
        """Return what a property of Kotlin is assigned, where a class has a function of that name as well."""
        if depth <= 0 or value.kind not in ("object", "def"):
            return ()
        file = self.file(value.path)
        if values := file.variables.get((value.number, name)):
            return self._assigned(file, values, value.number, "", depth)
        return self._joined(self._property(base, name, depth - 1) for base in self.bases(value))

    def _are_properties(self, values: Values) -> bool:
        """Return whether these are properties of Python or getters, whose value is what they return."""
        return bool(values) and all(
            value.kind == "def"
            and (held := _GETTERS.get(self.known[value.path][0])) is not None
            and held.search(self.file(value.path).graph.definitions[value.number].flags)
            for value in values
        )

    @staticmethod
    def _owned(file: _File, parts: list[str], within: int) -> Values:
        """Return the function that was assigned to `app.name`, for `app.name` and for `this.name` in another
        function of `app`.
        """
        if len(parts) != 2:
            return ()
        owner, name = parts
        if owner in ("this", "self") and file.class_of(within) < 0:
            owners = (file.graph.definitions[n].owner for n in file.scopes(within))
            owner = next((one.removesuffix(".prototype") for one in owners if one), "")
        return tuple(_Value("def", file.path, number) for number in file.owned.get((owner, name), ()))

    def _elixir_path(self, file: _File, parts: list[str], within: int) -> Values:
        """Return the module or function of Elixir with a name, of an alias or below a module around it."""
        module = [part for part in parts if part[:1].isupper()]
        brought = [
            imported.module
            for imported in file.graph.imports
            for name, here in imported.names
            if here == module[0] and not name
        ]
        around = [file.qualified(n) for n in file.scopes(within) if file.graph.definitions[n].unit == "c"]
        for before in (*brought, *(f"{outer}.{module[0]}" for outer in around), module[0]):
            if found := self._elixir_module(".".join((before, *module[1:]))):
                for part in parts[len(module) :]:
                    found = self._joined(self._attribute(value, part, _MAX_DEPTH) for value in found)
                return found
        return (_EXTERNAL,)

    def _elixir_imported(self, file: _File, name: str, depth: int) -> Values:
        """Return the functions of this name in the modules that a file of Elixir imports."""
        names = [imported.module for imported in file.graph.imports if ("*", "*") in imported.names]
        modules = self._joined(map(self._elixir_module, names))
        return self._joined(self._attribute(module, name, depth - 1) for module in modules)

    def _elixir_module(self, name: str) -> Values:
        """Return the modules of Elixir with a whole name."""
        last = name.rpartition(".")[2]
        files = (self.file(p) for p in sorted(self._holders(last)) if self.known[p][0] == "elixir")
        return tuple(
            _Value("def", file.path, number)
            for file in files
            for number in file.named.get(last, ())
            if file.graph.definitions[number].unit == "c" and file.qualified(number) == name
        )

    def _rust_path(self, file: _File, parts: list[str], depth: int) -> Values:
        made = Import("::".join(parts), (("", parts[-1]),), 0, 0)
        found = self._resolver.bindings(file.path, "rust", made)
        return self._joined(self._bound_value(binding, depth) for binding in found)

    @staticmethod
    def _joined(groups: Iterable[Values]) -> Values:
        return tuple(dict.fromkeys(value for group in groups for value in group))

    def _first(self, file: _File, name: str, within: int, depth: int, *, called: bool) -> Values:
        owner = file.class_of(within)
        if name in ("self", "this") and owner >= 0:
            return (_Value("object", file.path, owner),)
        if name in ("self", "this"):
            return self._owner(file, within, depth)
        if name == "super" and owner >= 0:
            return self._joined(self._bases(file, owner, depth))
        is_open = False
        for scope in file.scopes(within):
            one = file.graph.definitions[scope]
            if one.owner and file.language == "kotlin":
                for value in self._owner(file, scope, depth):
                    if found := self._attribute(value, name, depth - 1):
                        return found
            if one.unit == "f" and (inner := file.members.get((scope, name))):
                plain = (n for n in inner if not _is_property(file, n))
                return tuple(
                    _Value("def", file.path, n) for n in plain if not file.graph.definitions[n].owner
                )
            for imported, binding in self.bound(file).get(name, ()):
                if imported.within == scope:
                    return self._bound_value(binding, depth)
            if one.unit == "c" and file.language in _CLASS_SCOPED:
                if name == one.name:
                    return (_Value("def", file.path, scope),)
                found, complete = self._member(file, scope, name, depth - 1)
                is_field = (scope, name) in file.variables
                is_unknown = not complete and called and not name[:1].isupper()
                if found or is_field or (is_unknown and file.language != "kotlin"):
                    return found
                is_open = is_open or is_unknown
        values = self.top_level(file, name, depth)
        return () if is_open and values == (_EXTERNAL,) else values

    def _owner(self, file: _File, within: int, depth: int) -> Values:
        """Return the object of a function that belongs to a type by name: a method of Go, a prototype."""
        for scope in file.scopes(within):
            if owner := file.graph.definitions[scope].owner.removesuffix(".prototype"):
                values = self.top_level(file, owner, depth - 1)
                return tuple(value._replace(kind="object") for value in values if value.kind == "def")
        return ()

    def top_level(self, file: _File, name: str, depth: int, searched: dict[str, int] | None = None) -> Values:
        """Return what a name means at the top of a file.

        `searched` is the depth at which each file was already searched without success: modules that import
        all names of each other would be searched along each of the paths between them.
        """
        if depth <= 0:
            return ()
        if here := file.top(name):
            return tuple(_Value("def", file.path, number) for number in here)
        if brought := [b for i, b in self.bound(file).get(name, ()) if i.within < 0]:
            return self._joined(self._bound_value(binding, depth) for binding in brought)
        if values := file.variables.get((-1, name)):
            return self._assigned(file, values, -1, name, depth)
        if file.language == "go":
            found = self._in_folder(posixpath.dirname(file.path), name, "go")
            return found or (_EXTERNAL,)
        if file.language in ("c", "cpp"):
            return self._c_function(file, name)
        if file.language == "java":
            found = self._in_folder(posixpath.dirname(file.path), name, "java")
            if found:
                return found
        if file.language == "elixir":
            return self._elixir_imported(file, name, depth) or (_EXTERNAL,)
        if file.language == "kotlin" and (found := self._in_kotlin_package(file, name)):
            return found
        searched = {file.path: depth} if searched is None else searched
        for _, binding in self.bound(file).get("*", ()):
            if binding is not None:
                for path in self._paths_of(binding.target):
                    if file.language == "kotlin" and path not in self._holders(name):
                        continue
                    if searched.get(path, 0) >= depth - 1:
                        continue
                    searched[path] = depth - 1
                    found = self.top_level(self.file(path), name, depth - 1, searched)
                    if found and found != (_EXTERNAL,):
                        return found
            elif binding is None and file.language not in ("java", "kotlin"):
                return ()
        return (_EXTERNAL,)

    def _assigned(self, file: _File, values: Sequence[str], within: int, name: str, depth: int) -> Values:
        """Return what a name means that is assigned these expressions; () unless all are known."""
        groups = [
            self.evaluate(file, value, within, depth - 1) if value.partition(".")[0] != name else ()
            for value in values
        ]
        return self._joined(groups) if all(groups) else ()

    def _in_folder(self, folder: str, name: str, language: str) -> Values:
        """Return the definitions of a name in the files of a folder, which share one scope."""
        found = []
        for path in self._package(folder) if language == "java" else self._folders.get(folder, ()):
            if self.known[path][0] == language and path in self._holders(name):
                found += [_Value("def", path, number) for number in self.file(path).top(name)]
        return tuple(found)

    def _in_kotlin_package(self, file: _File, name: str) -> Values:
        """Return the definitions of a name in the files of a package, wherever they are."""
        package = file.variables.get((-1, "package"), ())
        here = posixpath.dirname(file.path)
        found = []
        for path in sorted(self._holders(name)):
            language = self.known.get(path, ("", ""))[0]
            if language == "java" and _in_package(posixpath.dirname(path)) == _in_package(here):
                found += [_Value("def", path, number) for number in self.file(path).top(name)]
            elif language == "kotlin":
                other = self.file(path)
                if other.variables.get((-1, "package"), ()) == package:
                    found += [_Value("def", path, number) for number in other.top(name)]
        return tuple(found)

    def _package(self, folder: str) -> list[str]:
        """Return the files of a package of Java, which has a folder in each source root: code and tests."""
        return [path for each in self._packages[_in_package(folder)] for path in self._folders[each]]

    @cached_property
    def _packages(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for folder in self._folders:
            found[_in_package(folder)].append(folder)
        return found

    def _holders(self, name: str) -> frozenset[str]:
        with self._lock:
            found = self._held.get(name)
            if found is None:
                if len(self._held) > _MAX_CACHED_NAMES:
                    self._held.clear()
                found = self._held[name] = frozenset(self._source.holding(name))
            return found

    @cached_property
    def _held(self) -> dict[str, frozenset[str]]:
        return {}

    def _c_function(self, file: _File, name: str) -> Values:
        """Return the functions of C that a name may mean outside its file: those that are not static."""
        found = []
        for path in self._holders(name):
            if self.known.get(path, ("", ""))[0] in ("c", "cpp"):
                other = self.file(path)
                for number in other.top(name):
                    if "static" not in other.graph.definitions[number].flags or path.endswith((".h", ".hpp")):
                        found.append(_Value("def", path, number))
        return tuple(sorted(found)) or (_EXTERNAL,)

    def _paths_of(self, target: str) -> list[str]:
        return self._folders.get(target[:-1], []) if target.endswith("/") else [target]

    def _bound_value(self, binding: Binding | None, depth: int) -> Values:
        if binding is None:
            return (_EXTERNAL,)
        if not binding.name:
            return self._shadowing(binding.target, depth) or self._module(binding.target, depth)
        values: Values = (_Value("module", binding.target),)
        for part in binding.name.split("."):
            values = self._joined(self._attribute(value, part, depth - 1) for value in values)
        return values

    def _shadowing(self, target: str, depth: int) -> Values:
        """Return what a package of Python imports under the name of its submodule, from that submodule."""
        folder, name = posixpath.split(target)
        package, name = posixpath.join(folder, "__init__.py"), name.removesuffix(".py")
        if package == target or package not in self.known:
            return ()
        for _, binding in self.bound(self.file(package)).get(name, ()):
            if binding is not None and binding.target == target and binding.name == name:
                return self._bound_value(binding, depth - 1)
        return ()

    def _module(self, target: str, depth: int) -> Values:
        """Return the value of a file that is imported whole: in CommonJS that may be a function."""
        if not target.endswith("/"):
            file = self.file(target)
            if file.whole:
                return tuple(_Value("def", target, number) for number in file.whole)
            if file.language in JAVASCRIPT and (given := file.variables.get((-1, "module.exports"))):
                values = self._assigned(file, given, -1, "", depth)
                if values:
                    return values
        return (_Value("module", target),)

    def _called(self, values: Values, depth: int, name: str = "") -> Values:
        """Return the results of calling these values, written as that name: an object of a class, or
        what a function declares.
        """
        found: list[Values] = []
        for value in values:
            if value.kind == "external":
                found.append((_EXTERNAL if name[:1].isupper() or name.rstrip("()") in _TYPES else _RESULT,))
            elif value.kind == "object":
                found.append((value,))  # `self()` of a class method, a declared type seen twice
            elif value.kind == "def":
                file = self.file(value.path)
                one = file.graph.definitions[value.number]
                is_maker = file.language in JAVASCRIPT and one.name in file.makers
                if one.unit == "c" or is_maker:
                    found.append((value._replace(kind="object"),))
                elif one.returns:
                    made = self.evaluate(file, one.returns, one.parent, depth - 1)
                    found.append(made)
                elif file.language != "kotlin" or len(values) == 1:
                    return ()  # in Kotlin, another function of that name may declare it
            else:
                return ()
        return self._joined(found) if all(found) else ()

    def _attribute(self, value: _Value, name: str, depth: int) -> Values:
        if depth <= 0:
            return ()
        if value.kind == "external":
            return (value,)
        if value.kind == "module":
            return self._exported(value.path, name, depth)
        file = self.file(value.path)
        if file.graph.definitions[value.number].unit != "c":
            owner = file.graph.definitions[value.number].name
            return tuple(_Value("def", file.path, n) for n in file.owned.get((owner, name), ()))
        return self._member(file, value.number, name, depth)[0]

    def _exported(self, target: str, name: str, depth: int) -> Values:
        """Return what `name` of a file or folder is."""
        paths = [path for path in self._paths_of(target) if path in self._holders(name)]
        if target.endswith("/") and any(self.known[path][0] == "kotlin" for path in paths):
            return tuple(
                _Value("def", path, number) for path in paths for number in self.file(path).top(name)
            )
        for path in self._paths_of(target):
            file = self.file(path)
            if target.endswith("/") and path not in self._holders(name):
                continue
            for owner in ("exports", "module.exports"):
                if found := file.owned.get((owner, name)):
                    return tuple(_Value("def", path, number) for number in found)
                if values := file.variables.get((-1, f"{owner}.{name}")):
                    return self._assigned(file, values, -1, "", depth)
            found_here = self.top_level(file, name, depth)
            if found_here and found_here != (_EXTERNAL,):
                return found_here
        if target.endswith("__init__.py"):
            inner = posixpath.join(posixpath.dirname(target), name)
            for path in (f"{inner}.py", f"{inner}/__init__.py"):
                if path in self.known:
                    return (_Value("module", path),)
        return ()

    def _bases(self, file: _File, number: int, depth: int) -> Iterator[Values]:
        """Yield the value of each base of a class; () for one that is not known."""
        for use in file.bases.get(number, ()):
            yield self.resolve_within(file, use, depth - 1)

    def resolve_within(self, file: _File, use: Reference, depth: int) -> Values:
        """Return the value of a base class."""
        if use.receiver.startswith(UNKNOWN):
            return ()
        written = f"{use.receiver}.{use.name}" if use.receiver else use.name
        return self.evaluate(file, written, file.graph.definitions[use.within].parent, depth)

    def _member(self, file: _File, number: int, name: str, depth: int) -> tuple[Values, bool]:
        """Return a member of a class or of its bases, and whether all of them are known."""
        if depth <= 0:
            return (), False
        own = self._own_member(file, number, name)
        if own:
            return own, True
        if values := file.variables.get((number, name)):
            return self._assigned(file, values, number, "", depth), True
        complete = True
        for values_of in self._bases(file, number, depth):
            if not values_of:
                complete = False
            for value in values_of:
                if value.kind == "external":
                    complete = False
                elif value.kind in ("def", "object"):
                    base = self.file(value.path)
                    if base.graph.definitions[value.number].unit != "c":
                        continue
                    found, known = self._member(base, value.number, name, depth - 1)
                    if found:
                        return found if complete else (), complete
                    complete = complete and known
        return (), complete

    def _own_member(self, file: _File, number: int, name: str) -> Values:
        one = file.graph.definitions[number]
        if name == one.name and file.language in _CLASS_SCOPED:
            return ()  # its constructor is no member
        found = [_Value("def", file.path, n) for n in file.members.get((number, name), ())]
        if file.language == "kotlin":
            companions = file.members.get((number, COMPANION), ())
            found += [
                _Value("def", file.path, n) for c in companions for n in file.members.get((c, name), ())
            ]
            return tuple(found)  # extension functions are no members
        found += [_Value("def", file.path, n) for n in file.owned.get((one.name, name), ())]
        if file.language == "rust":
            for other in file.named.get(one.name, ()):
                if other != number:
                    found += [_Value("def", file.path, n) for n in file.members.get((other, name), ())]
        elif file.language == "go":
            for path in self._folders.get(posixpath.dirname(file.path), ()):
                if path != file.path and path in self._holders(name):
                    found += [_Value("def", path, n) for n in self.file(path).owned.get((one.name, name), ())]
        return tuple(found)


class _Search:
    """Finds the uses of some definitions."""

    def __init__(self, graph: RepositoryGraph, targets: Sequence[CodeDefinition]) -> None:
        self.graph = graph
        self.targets = {_Value("def", t.path, graph.number(t)) for t in targets}
        self.classes: set[str] = set()
        self.names: set[str] = {name for t in targets for name in (t.name, t.name.rpartition(".")[2])}
        for target, value in [(t, _Value("def", t.path, graph.number(t))) for t in targets]:
            file = graph.file(target.path)
            outer = file.class_of(file.graph.definitions[value.number].parent)
            owner = file.graph.definitions[value.number].owner.removesuffix(".prototype")
            if outer >= 0:
                self.classes.add(file.graph.definitions[outer].name)
                name = file.graph.definitions[outer].name
                if target.name in (*_CONSTRUCTORS, name):
                    self.targets.add(_Value("def", target.path, outer))
                    self.names.add(name)
            elif owner and owner not in ("exports", "module.exports"):
                self.classes.add(owner)

    @cached_property
    def _families(self) -> set[str]:
        """The languages of the targets."""
        return {_family(self.graph.known[value.path][0]) for value in self.targets}

    @cached_property
    def definition_count(self) -> int:
        """How many definitions the repository has for the most frequent of the names.

        Those that override the same method count as one. More than `_FEW_MEMBERS` are not counted.
        """
        return max(len(self._origins(name)) for name in self.names)

    def _origins(self, name: str) -> set[_Value]:
        found: set[_Value] = set()
        for file in self.graph.holding(name):
            for number in file.named.get(name, ()):
                found.add(self.graph.origin(_Value("def", file.path, number)))
                if len(found) > _FEW_MEMBERS:
                    return found
        return found

    def files(self) -> list[_File]:
        """Return the files that may use the definitions, also under names that imports give them."""
        found: dict[str, _File] = {}
        self._add_default_names()
        pending = list(self.names)
        while pending and len(found) < _MAX_FILES:
            name = pending.pop()
            for file in self.graph.holding(name):
                if file.path in found:
                    continue
                found[file.path] = file
                for imported in file.graph.imports:
                    for there, here in imported.names:
                        if there in self.names and here not in self.names and here not in ("", "*"):
                            self.names.add(here)
                            pending.append(here)
        return sorted(found.values(), key=lambda file: file.path)

    def _add_default_names(self) -> None:
        """Add the names under which files import what a file exports without a name."""
        for value in list(self.targets):
            file = self.graph.file(value.path)
            name = file.graph.definitions[value.number].name
            given = [v for key in ("default", "module.exports") for v in file.variables.get((-1, key), ())]
            if name in given or value.number in file.whole:
                for _, _, binding in self.graph.importing(value.path):
                    if binding.name in ("default", "") and binding.here:
                        self.names.add(binding.here)

    @cached_property
    def _subclass_names(self) -> list[str]:
        """The names of the subclasses of the classes that have the targets as members."""
        names: set[str] = set()
        for value in self.targets:
            file = self.graph.file(value.path)
            outer = file.class_of(file.graph.definitions[value.number].parent)
            if outer >= 0:
                below = self.graph.subclasses(self.graph.definition(file, outer))
                names |= {use.within.rpartition(".")[2] for use in below}
        return [name.lower().replace("_", "") for name in names]

    def uses_in(self, file: _File) -> Iterator[CodeUse]:
        """Yield the calls and mentions in a file."""
        if not has_references(file.language):
            yield from self._lines(file)
            return
        for use in file.references.named(self.names):
            if use.role == BASE:
                continue
            if (certain := self._judge(file, use)) is not None:
                yield self.graph.use_of(file, use, certain=certain)

    def unresolved_in(self, file: _File, roles: str) -> Iterator[CodeUse]:
        """Yield the references of some roles to the names that are neither resolved nor possible uses."""
        for use in file.references.named(self.names):
            if use.role not in roles or self._judge(file, use) is not None:
                continue
            values = self.graph.resolve(file, use)
            if file.language not in _RESOLVED or all(value == _RESULT for value in values):
                yield self.graph.use_of(file, use, certain=False)

    def unresolved_overrides(self, file: _File) -> Iterator[CodeUse]:
        """Yield the other definitions of the names in classes of a file of which a base is not known."""
        for name in self.names:
            for number in file.named.get(name, ()):
                if _Value("def", file.path, number) not in self.targets and self.graph.has_unknown_base(
                    file, file.class_of(file.graph.definitions[number].parent)
                ):
                    start = file.graph.definitions[number].start
                    yield CodeUse(file.path, start, file.qualified(number), "override", certain=False)

    def bases_in(self, file: _File) -> Iterator[CodeUse]:
        """Yield the classes of a file that extend one of the targets."""
        for use in file.references.named(self.names):
            if use.role != BASE or use.within < 0 or file.graph.definitions[use.within].unit != "c":
                continue  # the base of a class without a name
            if (certain := self._judge(file, use)) is not None:
                line = file.graph.definitions[use.within].start
                yield CodeUse(file.path, line, file.qualified(use.within), "base", certain=certain)

    def _judge(self, file: _File, use: Reference) -> bool | None:
        """Return whether a reference to one of the names certainly means a target; None if it does not."""
        values = self.graph.resolve(file, use)
        resolved = file.language in _RESOLVED
        if hits := [value for value in values if value in self.targets]:
            same = len(hits) == len(values) or all(value.path == hits[0].path for value in values)
            return resolved and same
        if values and resolved:
            return False if self._is_dispatched(use, values) else None
        return False if self._is_possible(file, use) else None

    def _is_dispatched(self, use: Reference, values: Values) -> bool:
        """Return whether a call of a method may lead to a target that overrides it."""
        return use.role == CALL and use.receiver != "super()" and any(v in self._overridden for v in values)

    @cached_property
    def _ancestors(self) -> set[_Value]:
        """The classes that have the targets as members, and all their bases, as far as they are known."""
        pending = []
        for value in self.targets:
            file = self.graph.file(value.path)
            number = file.class_of(value.number)
            if 0 <= number != value.number:
                pending.append(_Value("def", value.path, number))
        found = set(pending)
        while pending and len(found) < _MAX_FILES:
            above = set(self.graph.bases(pending.pop())) - found
            found |= above
            pending += above
        return found

    @cached_property
    def _overridden(self) -> set[_Value]:
        """The methods of the bases that the targets override."""
        own = {name for value in self.targets if (name := self.graph.name(value))}
        return {
            _Value("def", base.path, number)
            for base in self._ancestors
            for name in own
            for number in self.graph.file(base.path).members.get((base.number, name), ())
        } - self.targets

    @cached_property
    def _are_members(self) -> bool:
        """Whether the targets are called on objects."""
        return bool(self.classes) or self._are_properties

    @cached_property
    def _are_properties(self) -> bool:
        """Whether a target is a function in an object that is written in place."""
        files = ((self.graph.file(value.path), value.number) for value in self.targets)
        return any(_is_property(file, number) and file.class_of(number) < 0 for file, number in files)

    def _may_be_interfaces(self, file: _File) -> bool:
        """Return whether classes without the member may be interfaces that the targets satisfy."""
        return self._are_properties if file.language in _STRUCTURAL else file.language == "go"

    def _is_possible(self, file: _File, use: Reference) -> bool:
        is_structural = file.language in _STRUCTURAL
        if use.role != CALL and use.receiver.startswith(UNKNOWN):
            return False
        if not use.receiver:
            return file.language not in _RESOLVED
        if not self._are_members and use.receiver.startswith(UNKNOWN) and file.language in _RESOLVED:
            return False  # functions are not called on objects
        owners = self.graph.receivers(file, use) if use.role == CALL else set()
        if owners & self._ancestors or (owners and self._may_be_interfaces(file)):
            return True
        is_typed = use.receiver[:1].isupper() and "." not in use.receiver
        if is_typed and not (is_structural and use.receiver.endswith("()")) and not self._resembles(use):
            return False  # a member of another class
        few = _FEW_MEMBERS if is_structural else _FEW_DEFINITIONS
        is_rare = use.name not in _COMMON and self.definition_count <= few
        return is_rare or self._resembles(use)

    @cached_property
    def _is_rare(self) -> bool:
        """Whether the names say alone what is meant."""
        return self.names.isdisjoint(_COMMON) and self.definition_count <= _FEW_DEFINITIONS

    def _resembles(self, use: Reference) -> bool:
        """Return whether the name of the object resembles the class of a target."""
        last = use.receiver.lstrip(UNKNOWN).rpartition(".")[2].removesuffix("()")
        words = {word for word in (*last.lower().split("_"), last.lower().replace("_", "")) if len(word) > 2}
        own = (name.lower().replace("_", "") for name in self.classes)
        names = [*own, *(self._subclass_names if words else ())]
        return any(word in name for word in words for name in names)

    def _lines(self, file: _File) -> Iterator[CodeUse]:
        """Yield the lines that hold a name, in a language whose references are not read.

        In a language other than the targets' a name that few definitions have must be written as code, or be
        all of a string: "check" in a sentence or in `form-check` is no use.
        """
        names = "|".join(re.escape(name) for name in sorted(self.names))
        held = re.compile(rf"(?<![\w$'?!])(?:{names})(?![\w?!'])")
        if _family(file.language) not in self._families:
            if not self._is_rare:
                return
            held = re.compile(
                rf"(?:\.|->|::|#|\\)(?:{names})(?![\w?!'-])|(?<![\w$'?!-])(?:{names})\(|([\"'])(?:{names})\1"
            )
        defining = _SHELL_DEFINING if file.language == "bash" else _DEFINING
        for number, line in enumerate(self.graph.text(file.path).splitlines(), 1):
            if held.search(line) and not defining.match(line) and not _COMMENT.match(line):
                yield CodeUse(file.path, number, "", "call", certain=False)

    def ordered(self, found: Iterable[CodeUse]) -> list[CodeUse]:
        """Return uses, certain ones first, then by path and line; one for each line and role.

        Of the possible ones the first are returned: those in the languages of the targets, code before tests.
        """
        uses = sorted(set(found), key=lambda use: (not use.certain, use.path, use.line))
        lines: dict[tuple[str, int, str], CodeUse] = {}
        for use in uses:
            lines.setdefault((use.path, use.line, use.role), use)

        def distance(use: CodeUse) -> tuple[bool, bool]:
            language, kind = self.graph.known[use.path]
            return _family(language) not in self._families, kind != "code"

        possible = sorted((use for use in lines.values() if not use.certain), key=distance)
        left_out = set(possible[_MAX_POSSIBLE:])
        return [use for use in lines.values() if use not in left_out]


def _in_package(folder: str) -> str:
    """Return the part of a folder below `src/main/java` or `src/test/java`."""
    return re.sub(r"^(?:.*/)?src/(?:main|test|\w+Test|\w+Main)/(?:java|\w+)(?:/|$)", "", folder)


def _family(language: str) -> str:
    """Return a name for the languages whose code is used by each other like its own."""
    if language in JAVASCRIPT:
        return "javascript"
    return {"cpp": "c", "kotlin": "java"}.get(language, language)


def _import_names(path: str) -> list[str]:
    """Return the names that an import of a file may have: its own, or its folder's, and then the folder's."""
    stem = posixpath.splitext(posixpath.basename(path))[0]
    folder = posixpath.basename(posixpath.dirname(path))
    names = [folder] if stem in ("__init__", "index", "mod", "lib") else [stem, folder]
    return [name for name in names if name]


def _is_property(file: _File, number: int) -> bool:
    return "property" in file.graph.definitions[number].flags and file.language in JAVASCRIPT


def _is_exported(file: _File, one: Defined) -> bool:
    """Return whether code outside the repository may use a definition, by the conventions of its language."""
    if file.language in ("c", "cpp"):
        return "static" not in one.flags
    if file.language == "go":
        return one.name[:1].isupper()
    if file.language == "elixir":
        return not {"defp", "defmacrop", "defguardp"} & set(one.flags.split())
    if file.language == "kotlin":
        return not {"private", "internal"} & set(one.flags.split())
    return not one.name.startswith(("_", "#")) or one.name.startswith("__")
