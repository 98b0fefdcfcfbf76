"""The search for the uses of some definitions in a repository's code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Literal

from rag.code.file_graph import BASE, CALL, UNKNOWN, Reference
from rag.code.graph_files import MAX_FILES, LoadedFile
from rag.code.imports import Import
from rag.code.interfaces import Interfaces
from rag.code.languages import HYPHENATED, JAVASCRIPT, TERRAFORM
from rag.code.name_resolution import COMMON, RESULT, NameResolution, Value, Values, is_around
from rag.code.reference_queries import has_references
from rag.code.resolve import Binding
from rag.identifiers import composed
from rag.lines import lines_of
from rag.types import CodeDefinition, CodeUse, UseRole

MAX_POSSIBLE = 300
Meaning = Literal["certain", "possible", "open", "other"]
"""What a reference to a name means of the definitions in question: one of them, perhaps one of them, what is
not known, or something else.
"""
_FEW_DEFINITIONS = 2
"""A name with more definitions needs a sign that the object is of the class in question."""
_FEW_MEMBERS = 25
"""The same in languages where the classes of most objects are not written down."""
RESOLVED = frozenset(
    {"python", "javascript", "typescript", "tsx", "c", "go", "rust", "java", "kotlin", "elixir"}
)
"""The languages whose names are resolved; uses in others are possible at best."""
_STRUCTURAL = JAVASCRIPT
"""The languages in which an object has a type by its members alone."""
_JVM = frozenset({"java", "kotlin"})
_PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)
_MODULE = re.compile(r"^[ \t]*(?:export|import)\b|\bexports\b|\brequire\s*\(|\bdefine\s*\(", re.MULTILINE)
_CONSTRUCTORS = ("__init__", "constructor", "initialize")
_SHELL_DEFINING = re.compile(r"\s*(?:function\s+[\w:.-]+|[\w:.-]+\s*\(\s*\)\s*(?:[{(#]|$))")
_MODIFIERS = r"^\s*(?:(?:pub|public|private|protected|static|export|local|async|final|override)\s+)*"
_IMPORTING = re.compile(_MODIFIERS + r"(?:import|use|alias)\b")
_DEFINING = (
    _MODIFIERS + r"(?:def|defp|defmacro|fun|func|function|fn|sub|class|module|type|data|let|val|var)\b"
    r"(?:!|\s+(?:rec|inline|mutable))?\s+(?:[\w:]+[.:#])?"
)
"""What comes before a name that a line defines."""
_COMMENT = re.compile(r"^\s*(?:#|//|--|;|\*|/\*|%|@doc|@spec)")


class UseSearch:
    """Finds the uses of some definitions."""

    def __init__(self, meanings: NameResolution, targets: Sequence[CodeDefinition]) -> None:
        self.meanings, self.files = meanings, meanings.files
        self.targets = {Value("def", t.path, self.files.file(t.path).number(t)) for t in targets}
        self._blocks = [one for one in targets if one.unit == "section"]
        self.classes: set[str] = set()
        self._reaching: dict[str, bool] = {}
        self._values: dict[tuple[str, str], bool] = {}
        self._judged: dict[str, Sequence[tuple[CodeUse, Meaning]]] = {}
        self.names: set[str] = {name for t in targets for name in (t.name, t.name.rpartition(".")[2])}
        for target, value in [(t, Value("def", t.path, self.files.file(t.path).number(t))) for t in targets]:
            file = self.files.file(target.path)
            outer = file.class_of(file.graph.definitions[value.number].parent)
            owner = file.graph.definitions[value.number].owner.removesuffix(".prototype")
            if outer >= 0:
                self.classes.add(file.graph.definitions[outer].name)
                name = file.graph.definitions[outer].name
                if target.name in (*_CONSTRUCTORS, name):
                    self.targets.add(Value("def", target.path, outer))
                    self.names.add(name)
            elif owner and owner not in ("exports", "module.exports"):
                self.classes.add(owner)

    def uses(self) -> list[CodeUse]:
        """Return the calls and mentions, certain ones first."""
        return self.ordered({use: None for file in self.files_to_read for use in self.uses_in(file)})

    def subclasses(self) -> list[CodeUse]:
        """Return the classes that extend one of the targets, certain ones first."""
        return self.ordered({use: None for file in self.files_to_read for use in self.bases_in(file)})

    @cached_property
    def _families(self) -> set[str]:
        """The languages of the targets."""
        return {family(self.files.known[value.path][0]) for value in self.targets}

    @cached_property
    def _is_rare(self) -> bool:
        """Whether the names say alone what is meant."""
        return self.names.isdisjoint(COMMON) and self.definition_count <= _FEW_DEFINITIONS

    @cached_property
    def definition_count(self) -> int:
        """How many definitions the repository has for the most frequent of the names.

        Those that override the same method count as one. More than `_FEW_MEMBERS` are not counted.
        """
        return max(len(self._origins(name)) for name in self.names)

    def _origins(self, name: str) -> set[Value]:
        found: set[Value] = set()
        for file, number in self._definitions(name):
            found.add(self.meanings.origin(Value("def", file.path, number)))
            if len(found) > _FEW_MEMBERS:
                break
        return found

    def _definitions(self, name: str) -> Iterator[tuple[LoadedFile, int]]:
        return ((file, number) for file in self.files.defining(name) for number in file.named.get(name, ()))

    @cached_property
    def files_to_read(self) -> list[LoadedFile]:
        """The files that may use the definitions, also under names that imports give them."""
        found: dict[str, LoadedFile] = {}
        self._add_default_names()
        pending = list(self.names)
        while pending and len(found) < MAX_FILES:
            name = pending.pop()
            for file in self.files.referring(name):
                if file.path in found:
                    continue
                found[file.path] = file
                for imported in file.graph.imports:
                    for there, here in imported.renamed:
                        if there in self.names and here not in self.names and here not in ("", "*"):
                            self.names.add(here)
                            pending.append(here)
        return sorted(found.values(), key=lambda file: file.path)

    def _add_default_names(self) -> None:
        """Add the names under which files import what a file exports without a name."""
        for value in list(self.targets):
            file = self.files.file(value.path)
            name = file.graph.definitions[value.number].name
            given = [v for key in ("default", "module.exports") for v in file.variables.get((-1, key), ())]
            if name in given or value.number in file.whole:
                for _, _, binding in self.files.importing(value.path):
                    if binding.name in ("default", "") and binding.here:
                        self.names.add(binding.here)

    @cached_property
    def _subclass_names(self) -> list[str]:
        """The names of the subclasses of the classes that have the targets as members."""
        names: set[str] = set()
        for value in self.targets:
            file = self.files.file(value.path)
            outer = file.class_of(file.graph.definitions[value.number].parent)
            if outer >= 0:
                below = UseSearch(self.meanings, [file.definition(outer)]).subclasses()
                names |= {use.within.rpartition(".")[2] for use in below}
        return [name.lower().replace("_", "") for name in names]

    def is_alike(self, file: LoadedFile) -> bool:
        """Return whether a file is in a language of the targets."""
        return family(file.language) in self._families

    def uses_in(self, file: LoadedFile) -> Iterator[CodeUse]:
        """Yield the calls and mentions in a file."""
        for use, meaning in self.references_in(file):
            if meaning in ("certain", "possible") and use.role != "base":
                yield use

    def references_in(self, file: LoadedFile) -> Sequence[tuple[CodeUse, Meaning]]:
        """Return all references to the names in a file, each with what it means.

        They are remembered: who asks for the uses often asks next for what could not be resolved.
        """
        found = self._judged.get(file.path)
        if found is None:
            found = self._judged[file.path] = list(self._judged_in(file))
        return found

    def _judged_in(self, file: LoadedFile) -> Iterator[tuple[CodeUse, Meaning]]:
        if file.language == TERRAFORM and self._blocks:
            for use in self._uses_of_blocks(file):
                yield use, "certain" if use.certain else "possible"
        elif not has_references(file.language):
            for use in self._lines(file):
                yield use, "possible"
            return
        for reference in file.references.named(self.names):
            certain, values = self._judge(file, reference)
            if certain is not None:
                use = file.use(reference, certain=certain)
                through = "" if certain else self._through(file, reference, values)
                yield replace(use, through=through), "certain" if certain else "possible"
            else:
                is_proven = file.language in RESOLVED and not all(value == RESULT for value in values)
                is_proven = is_proven and not (_are_foreign(values) and self._may_reach(file, reference))
                yield file.use(reference, certain=False), "other" if is_proven else "open"

    def _may_reach(self, file: LoadedFile, use: Reference) -> bool:
        """Return whether a name that seems to lead out of the repository may be a target: the file has an
        import that looks like one of its file, or the target is a global function of scripts.
        """
        if not use.receiver and file.language in JAVASCRIPT and self._are_global:
            return True
        known = self._reaching.get(file.path)
        if known is None:
            known = self._reaching[file.path] = any(map(self._is_open_import, self.files.brought(file)))
        return known

    def _is_open_import(self, pair: tuple[Import, Binding | None]) -> bool:
        """Return whether an import may bring a target under a name that is not written in it, or cannot be
        followed and may lead to its file.
        """
        imported, binding = pair
        if binding is not None:
            folder = f"{posixpath.dirname(binding.target)}/" if "/__init__." in binding.target else ""
            paths = [value.path for value in self.targets]
            is_above = bool(folder) and any(path.startswith(folder) for path in paths)
            return binding.here == "*" and (binding.target in paths or is_above)
        words = map(_as_word, re.split(r"[^\w-]+", imported.module))
        return not self._import_names.isdisjoint(words) or imported.module in self._packages

    @cached_property
    def _import_names(self) -> set[str]:
        """The words by which an import may name the files of the targets."""
        return {_as_word(name) for value in self.targets for name in self.files.import_names(value.path)}

    @cached_property
    def _packages(self) -> set[str]:
        """The packages that the files of the targets declare, also with the names of the targets."""
        texts = (self.files.text(v.path) for v in self.targets if self.files.known[v.path][0] in _JVM)
        packages = [found[1] for text in texts if (found := _PACKAGE.search(text))]
        return {one for package in packages for one in (package, *(f"{package}.{n}" for n in self.names))}

    @cached_property
    def _are_global(self) -> bool:
        """Whether a target is in a script of JavaScript that is no module: all scripts of a page share it."""
        paths = {v.path for v in self.targets if self.files.known[v.path][0] in JAVASCRIPT}
        return not all(_MODULE.search(self.files.text(path)) for path in paths)

    def unresolved_in(self, file: LoadedFile, roles: Set[UseRole]) -> Iterator[CodeUse]:
        """Yield the references of some roles to the names that are neither resolved nor possible uses."""
        return (use for use, meaning in self.references_in(file) if meaning == "open" and use.role in roles)

    def unresolved_overrides(self) -> Iterator[CodeUse]:
        """Yield the other definitions of the names in classes of which a base is not known."""
        for name in self.names:
            for file, number in self._definitions(name):
                if Value("def", file.path, number) not in self.targets and self.meanings.has_unknown_base(
                    file, file.class_of(file.graph.definitions[number].parent)
                ):
                    start = file.graph.definitions[number].start
                    yield CodeUse(file.path, start, file.qualified(number), "override", certain=False)

    def bases_in(self, file: LoadedFile) -> Iterator[CodeUse]:
        """Yield the classes of a file that extend one of the targets."""
        for use in file.references.named(self.names):
            if use.role != BASE or use.within < 0 or file.graph.definitions[use.within].unit != "c":
                continue  # the base of a class without a name
            if (certain := self._judge(file, use)[0]) is not None:
                line = file.graph.definitions[use.within].start
                yield CodeUse(file.path, line, file.qualified(use.within), "base", certain=certain)

    def _judge(self, file: LoadedFile, use: Reference) -> tuple[bool | None, Values]:
        """Return whether a reference to one of the names certainly means a target, None if it does not; and
        what it may mean.
        """
        values = self.meanings.resolve(file, use)
        resolved = file.language in RESOLVED or self._can_mean_nothing_else(file, use)
        if hits := [value for value in values if value in self.targets]:
            same = len(hits) == len(values) or all(value.path == hits[0].path for value in values)
            return resolved and same, values
        if values and resolved:
            return False if self._through(file, use, values) else None, values
        return False if self._is_possible(file, use) else None, values

    def _can_mean_nothing_else(self, file: LoadedFile, use: Reference) -> bool:
        """Return whether a bare call of C++ can mean nothing but a target: all definitions of its name are
        targets, no value of the repository or of the file has it, and it is no member of a class of a library
        that the class around extends.
        """
        if file.language != "cpp" or use.role != CALL or use.receiver or use.name in COMMON:
            return False
        every = (Value("def", other.path, number) for other, number in self._definitions(use.name))
        if not all(value in self.targets for value in every) or self._is_value(file, use.name):
            return False
        around = use.within >= 0 and self.meanings.owner(Value("def", file.path, use.within))
        return not around or self.meanings.is_within_repository(around)

    def _is_value(self, file: LoadedFile, name: str) -> bool:
        """Return whether something that can be called has a name, such as a field with a function."""
        if (file.path, name) not in self._values:
            declared = re.compile(rf"(?:\*\s*|[\w>]\s*&&?\s*|>\s+){re.escape(name)}\s*[),;={{]")
            others = [self.files.file(path) for path in sorted(self.files.definers(name))[:MAX_FILES]]
            is_known = any(one.name == name for other in others for one in other.values)
            self._values[file.path, name] = is_known or bool(declared.search(self.files.text(file.path)))
        return self._values[file.path, name]

    def _through(self, file: LoadedFile, use: Reference, values: Values) -> str:
        """Return the interface or base class whose method a call names, if a target may run there."""
        if use.role != CALL or use.receiver == "super()" or not self._owners:
            return ""
        named = [owner for value in values if value.kind == "def" and (owner := self.meanings.owner(value))]
        for owner in (*named, *sorted(self.meanings.receivers(file, use))):
            if owner not in self._owners and (owner in self._ancestors or self._satisfy(owner)):
                return self.meanings.name(owner)
        return ""

    def _satisfy(self, interface: Value) -> bool:
        return any(self._interfaces.satisfies(owner, interface) for owner in self._owners)

    @cached_property
    def _interfaces(self) -> Interfaces:
        return Interfaces(self.meanings, self.files)

    @cached_property
    def _owners(self) -> set[Value]:
        """The classes that have the targets as methods."""
        return {owner for value in self.targets if (owner := self.meanings.owner(value))}

    @cached_property
    def _ancestors(self) -> set[Value]:
        """The classes that have the targets as members, and all their bases, as far as they are known."""
        pending = []
        for value in self.targets:
            file = self.files.file(value.path)
            number = file.class_of(value.number)
            if 0 <= number != value.number:
                pending.append(Value("def", value.path, number))
        found = set(pending)
        while pending and len(found) < MAX_FILES:
            above = set(self.meanings.bases(pending.pop())) - found
            found |= above
            pending += above
        return found

    @cached_property
    def _are_members(self) -> bool:
        """Whether the targets are called on objects."""
        return bool(self.classes) or self._are_properties

    @cached_property
    def _are_properties(self) -> bool:
        """Whether a target is a function in an object that is written in place."""
        files = ((self.files.file(value.path), value.number) for value in self.targets)
        return any(file.is_property(number) and file.class_of(number) < 0 for file, number in files)

    def _may_be_interfaces(self, file: LoadedFile) -> bool:
        """Return whether classes without the member may be interfaces that the targets satisfy."""
        return self._are_properties if file.language in _STRUCTURAL else file.language == "go"

    def _is_possible(self, file: LoadedFile, use: Reference) -> bool:
        is_structural = file.language in _STRUCTURAL
        if use.role != CALL and use.receiver.startswith(UNKNOWN):
            return False
        if not use.receiver:
            return file.language not in RESOLVED
        if not self._are_members and use.receiver.startswith(UNKNOWN) and file.language in RESOLVED:
            return False  # functions are not called on objects
        owners = self.meanings.receivers(file, use) if use.role == CALL else set()
        if owners & self._ancestors or (owners and self._may_be_interfaces(file)):
            return True
        is_typed = use.receiver[:1].isupper() and "." not in use.receiver
        is_typed = is_typed and not is_around(file, use.receiver)
        if is_typed and not (is_structural and use.receiver.endswith("()")) and not self._resembles(use):
            return False  # a member of another class
        few = _FEW_MEMBERS if is_structural else _FEW_DEFINITIONS
        is_rare = use.name not in COMMON and self.definition_count <= few
        return is_rare or self._resembles(use)

    def _resembles(self, use: Reference) -> bool:
        """Return whether the name of the object resembles the class of a target."""
        last = use.receiver.lstrip(UNKNOWN).rpartition(".")[2].removesuffix("()")
        words = {word for word in (*last.lower().split("_"), last.lower().replace("_", "")) if len(word) > 2}
        own = (name.lower().replace("_", "") for name in self.classes)
        names = [*own, *(self._subclass_names if words else ())]
        return any(word in name for word in words for name in names)

    def _lines(self, file: LoadedFile) -> Iterator[CodeUse]:
        """Yield the lines that hold a name, in a language whose references are not read.

        In a language other than the targets' a name that few definitions have must be written as code, or be
        all of a string: "check" in a sentence or in `form-check` is no use.
        """
        names = "|".join(re.escape(name) for name in sorted(self.names))
        hyphen = "-" if file.language in HYPHENATED else ""
        quote = "" if file.language in ("lisp", "clojure") else "'"  # there it precedes a name
        held = re.compile(rf"(?<![\w$?!{quote}{hyphen}])(?:{names})(?![\w?!'{hyphen}])")
        if family(file.language) not in self._families:
            if not self._is_rare:
                return
            held = re.compile(
                rf"(?:\.|->|::|#|\\)(?:{names})(?![\w?!'-])|(?<![\w$'?!-])(?:{names})\(|([\"'])(?:{names})\1"
            )
        defining = re.compile(rf"{_DEFINING}(?:{names})(?![\w?!'{hyphen}])")
        heads = {file.graph.definitions[n].start for name in self.names for n in file.named.get(name, ())}
        ignored = [_COMMENT, _IMPORTING, *([_SHELL_DEFINING] if file.language == "bash" else [defining])]
        for number, line in enumerate(lines_of(composed(self.files.text(file.path))), 1):
            if held.search(line) and number not in heads and not any(one.match(line) for one in ignored):
                yield CodeUse(file.path, number, "", "call", certain=False)

    def _uses_of_blocks(self, file: LoadedFile) -> Iterator[CodeUse]:
        """Yield the lines of a file of Terraform that refer to one of the targets: to a block of the same
        folder, which is a module, or possibly to an output of another one.
        """
        folder = file.path.rpartition("/")[0]
        own = [b.qualified_name for b in self._blocks if b.path.rpartition("/")[0] == folder]
        outputs = [re.escape(b.name) for b in self._blocks if b.scope == "output"]
        patterns = [(True, "|".join(map(re.escape, own)))] if own else []
        if outputs:
            patterns.append((False, rf"module\.[\w-]+(?:\[[^\]]*\])?\.(?:{'|'.join(outputs)})"))
        for certain, pattern in patterns:
            refers = re.compile(rf"(?<![\w.-])(?:{pattern})(?![\w-])")
            for number, line in enumerate(lines_of(composed(self.files.text(file.path))), 1):
                if refers.search(line) and not _COMMENT.match(line):
                    yield CodeUse(file.path, number, file.block_at(number), "mention", certain)

    def ordered(self, found: Iterable[CodeUse]) -> list[CodeUse]:
        """Return uses, certain ones first, then by path and line; one for each line and role.

        Of the possible ones the first are returned: those in the languages of the targets, code before tests.
        """
        uses = sorted(set(found), key=lambda use: (not use.certain, use.path, use.line))
        lines: dict[tuple[str, int, str], CodeUse] = {}
        for use in uses:
            lines.setdefault((use.path, use.line, use.role), use)

        def distance(use: CodeUse) -> tuple[bool, bool]:
            language, kind = self.files.known[use.path]
            return family(language) not in self._families, kind != "code"

        possible = sorted((use for use in lines.values() if not use.certain), key=distance)
        left_out = set(possible[MAX_POSSIBLE:])
        return [use for use in lines.values() if use not in left_out]


def _are_foreign(values: Values) -> bool:
    """Return whether what a name means is known, and all of it is outside the repository."""
    return bool(values) and all(value.kind == "external" for value in values)


def _as_word(name: str) -> str:
    """Return a name as it is alike in the name of a file and in an import: `HttpServer`, `http_server`."""
    return name.lower().replace("_", "")


def family(language: str) -> str:
    """Return a name for the languages whose code is used by each other like its own."""
    if language in JAVASCRIPT:
        return "javascript"
    return {"cpp": "c", "kotlin": "java"}.get(language, language)
