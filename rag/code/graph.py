"""The graph of a repository's code: who calls, uses, extends and imports a definition.

Each file was read on its own when it was indexed (`rag.code.references`). Here names are resolved across
files when they are asked for (`rag.code.name_resolution`), and the uses of a definition are searched for
(`rag.code.use_search`). A use is *certain* if its name leads to one definition; where the type of the object
before the dot is not known it is *possible*, if the name is rare or resembles that of the class.
"""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from rag.code.file_graph import CALL
from rag.code.graph_files import MAX_FILES, GraphFiles, LoadedFiles
from rag.code.name_resolution import NameResolution
from rag.code.use_search import RESOLVED, UseSearch
from rag.identifiers import composed
from rag.types import AttributedUses, CodeDefinition, CodeUse, UseRole

_MAX_CACHED_DEFINITIONS = 20_000
"""Bounds the cache of definitions by name, about 6 MB."""
_SEPARATORS, _WITH_MARKS = re.compile(r"\.|::|->|(?<=\w)#|/"), re.compile(r"\.|::|->|#|/")
"""A name may begin with the mark of a private member, `Client.#send`, or only be written with it."""


class RepositoryGraph:
    """Implements `rag.ports.CodeGraph` over the files of a source. Safe to share between threads."""

    def __init__(self, source: GraphFiles) -> None:
        self.files = LoadedFiles(source)
        self.names = NameResolution(self.files)
        self._lock = threading.Lock()
        self._last = threading.local()
        self._defined: dict[tuple[str, bool], tuple[CodeDefinition, ...]] = {}
        self._defined_count = 0

    def definitions(self, name: str) -> list[CodeDefinition]:
        """Return the functions and classes of a name, by path and line. `Class.method` limits it to a class.

        A name that is defined as it is written, such as `s:open#file` or `save!`, is taken whole; else a mark
        at its end may be that of a sentence.
        """
        return self._written(name, are_values=False)

    def values(self, name: str) -> list[CodeDefinition]:
        """Return the values and types of a name that are declared, and what files other than code define
        (targets of make), as `definitions` does.
        """
        return self._written(name, are_values=True)

    def _written(self, name: str, *, are_values: bool) -> list[CodeDefinition]:
        name = composed(name)
        if not name.isidentifier() and (whole := self._named(name, [], are_values)):
            return whole
        for separators in (_SEPARATORS, _WITH_MARKS) if "#" in name else (_WITH_MARKS,):
            parts = list(filter(None, separators.split(name)))
            private = (
                [f"#{parts[-1]}"] if "#" in name and parts else []
            )  # `Client#req` may be the private one
            for last in (*parts[-1:], *private):
                if found := self._named(last, parts[:-1], are_values):
                    return found
            above = self.files.above.prefix.split("/")
            inside = [part for part in parts[:-1] if part not in above]  # a name of the source's own package
            if len(inside) < len(parts) - 1 and (found := self._named(parts[-1], inside, are_values)):
                return found
        return self._written(name[:-1], are_values=are_values) if name.endswith(("?", "!")) else []

    def _named(self, name: str, owners: Sequence[str], are_values: bool) -> list[CodeDefinition]:
        """Return the definitions of a name that are in all of the owners: modules, classes."""
        found = []
        for one in self._of_name(name, are_values):
            if owners:
                around = f"{posixpath.splitext(one.path)[0]}/{one.qualified_name}".replace("/", ".")
                if not all(owner in around.split(".")[:-1] for owner in owners):
                    continue
            found.append(one)
        return found

    def _of_name(self, name: str, are_values: bool) -> tuple[CodeDefinition, ...]:
        """Return all definitions of a name. One question asks for the same name several times: cached."""
        with self._lock:
            found = self._defined.get((name, are_values))
        if found is None:
            files = self.files.defining(name)
            if are_values:
                others = [self.files.file(path) for path in sorted(self.files.definers(name))[:MAX_FILES]]
                targets = (one for file in others if file not in files for one in file.with_names)
                every = (*(one for file in others for one in file.values), *targets)
                found = tuple(replace(one, unit="constant") for one in every if one.name == name)
            else:
                found = tuple(file.definition(n) for file in files for n in file.named.get(name, ()))
            with self._lock:
                if self._defined_count > _MAX_CACHED_DEFINITIONS:
                    self._defined.clear()
                    self._defined_count = 0
                self._defined[name, are_values] = found
                self._defined_count += 1 + len(found)
        return found

    def defined_in(self, path: str) -> list[CodeDefinition]:
        """Return the named definitions of a file, in order."""
        return list(self.files.file(path).with_names)

    def values_in(self, path: str) -> list[CodeDefinition]:
        """Return the values that a file declares at its top and in its classes, in order."""
        return list(self.files.file(path).values)

    def callers(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls of any of these definitions, certain ones first."""
        return [use for use in self.uses(targets) if use.role == "call"]

    def uses(self, targets: Sequence[CodeDefinition]) -> list[CodeUse]:
        """Return the calls and mentions of any of these definitions, certain ones first."""
        return self._search(targets).uses()

    def _search(self, targets: Sequence[CodeDefinition]) -> UseSearch:
        """Return the search for the uses of these definitions; the last one of a thread is kept."""
        key = tuple(targets)
        last: tuple[tuple[CodeDefinition, ...], UseSearch] | None = getattr(self._last, "search", None)
        if last is None or last[0] != key:
            last = self._last.search = (key, UseSearch(self.names, targets))
        return last[1]

    def attributed(self, targets: Sequence[CodeDefinition]) -> AttributedUses:
        """Return all references to the names of these definitions, by what they mean.

        Those that do not mean a definition are taken from files in its language alone.
        """
        search = self._search(targets)
        uses, unknown, others = list[CodeUse](), list[CodeUse](), list[CodeUse]()
        for file in search.files_to_read:
            is_alike = search.is_alike(file)
            for use, meaning in search.references_in(file):
                if meaning in ("certain", "possible"):
                    uses.append(use)
                elif is_alike and meaning == "open":
                    unknown.append(use)
                elif is_alike:
                    others.append(use)
        taken = {(use.path, use.line) for use in uses}
        rest = [_by_line(group, taken) for group in (unknown, others)]
        return AttributedUses(tuple(search.ordered(uses)), *rest)

    def unresolved(self, targets: Sequence[CodeDefinition], role: UseRole) -> list[CodeUse]:
        """Return the places that may refer to these definitions, but cannot be resolved, by path and line.

        "mention" asks for calls too, "override" for other definitions in classes with an unknown base. Only
        files in the languages of the definitions are read for calls, mentions and bases.
        """
        search = self._search(targets)
        if role == "import":
            found = {use for target in targets for use in self.files.unresolved_imports(target.path)}
        elif role == "override":
            found = set(search.unresolved_overrides())
        else:
            roles: set[UseRole] = {"call", "mention"} if role == "mention" else {role}
            found = {
                use
                for file in search.files_to_read
                if search.is_alike(file)
                for use in search.unresolved_in(file, roles)
            }
        return sorted(found, key=lambda use: (use.path, use.line))

    def callees(
        self, target: CodeDefinition, named: Callable[[str], bool] | None = None
    ) -> list[tuple[CodeUse, CodeDefinition]]:
        """Return the certain calls in a definition, each with the definition it calls, by line.

        `named` says of a name whether its calls are wanted: only these are resolved.
        """
        file, found = self.files.file(target.path), []
        number = file.number(target)
        for use in file.references.on_lines(target.start, target.end):
            if use.role != CALL:
                continue
            if (named is None or named(use.name)) and number in file.scopes(use.within):
                values = self.names.resolve(file, use)
                if len(values) == 1 and values[0].kind == "def":
                    callee = self.files.file(values[0].path).definition(values[0].number)
                    found.append((file.use(use, certain=file.language in RESOLVED), callee))
        return found

    def subclasses(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the classes that name this class as a base, certain ones first."""
        return self._search([target]).subclasses()

    def overrides(self, target: CodeDefinition) -> list[CodeUse]:
        """Return the definitions that override this method, in direct and indirect subclasses."""
        file = self.files.file(target.path)
        outer = file.class_of(file.graph.definitions[file.number(target)].parent)
        pending = [(file.definition(outer), True)] if outer >= 0 else []
        seen, found = set(pending), []
        while pending and len(seen) < MAX_FILES:
            owner, certain = pending.pop(0)
            for use in self.subclasses(owner):
                below = self.files.file(use.path)
                number = below.class_of(below.class_at(use.line))
                if number < 0:
                    continue
                entry = (below.definition(number), certain and use.certain)
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
        for file, imported, _ in self.files.importing(path):
            role: UseRole = "types" if imported.types_only else "import"
            within = file.qualified(imported.within)
            found[CodeUse(file.path, imported.start, within, role, certain=True)] = None
        return sorted(found, key=lambda use: (use.path, use.line))

    def imports_of(self, path: str, names: Set[str]) -> list[tuple[int, int]]:
        """Return the first and last lines of the imports of a file that bring one of the names, also under
        another name, in order.
        """
        file = self.files.file(path)
        bound = self.files.bound(file)
        brought = [one for name in names & bound.keys() for one, _ in bound[name]]
        brought += [one for one in file.graph.imports for there, _ in one.names if there in names]
        return sorted({(one.start, one.end) for one in brought})


def _by_line(uses: Sequence[CodeUse], taken: set[tuple[str, int]]) -> tuple[CodeUse, ...]:
    """Return the uses on other lines than those taken, one for each line, by path and line; take these."""
    found = {(use.path, use.line): use for use in reversed(uses)}
    free = sorted(found.keys() - taken)
    taken.update(free)
    return tuple(found[place] for place in free)
