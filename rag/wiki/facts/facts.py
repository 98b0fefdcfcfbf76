"""What the pages of a wiki are written from, computed once for each survey."""

from __future__ import annotations

import math
import posixpath
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

from rag.code.call_graph import CallGraph
from rag.code.exports import Exported, exports
from rag.code.flows import CallFlow, flows
from rag.code.roles import Role, code_by_role
from rag.code.survey import Survey
from rag.code.symbols import File, Symbol
from rag.identifiers import CAMEL, UPPER
from rag.wiki.facts.extension_points import ExtensionPoint, extension_points, registering
from rag.wiki.facts.sections import Section, sections_in
from rag.wiki.facts.settings import WikiSetting, settings_of
from rag.wiki.facts.subjects import WikiSubject, subjects


class WikiFacts:
    """The parts of a repository, its calls, flows and exports. Each is computed when it is first used."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self._sections: dict[str, list[Section]] = {}

    def sections(self, path: str) -> Sequence[Section]:
        """Return the sections of a file, in order; each of its definitions asks for them."""
        if path not in self._sections:
            self._sections[path] = sections_in(self.survey.files[path])
        return self._sections[path]

    @cached_property
    def roles(self) -> Mapping[Role, Sequence[File]]:
        """The code files by their role."""
        return code_by_role(self.survey)

    @cached_property
    def own(self) -> frozenset[str]:
        """The paths of the repository's own code."""
        return frozenset(file.path for file in self.roles["own"])

    @cached_property
    def graph(self) -> CallGraph:
        """The calls between the definitions of own code."""
        return CallGraph(self.survey, self.own)

    @cached_property
    def flows(self) -> Sequence[CallFlow]:
        """How requests, commands and jobs run."""
        return flows(self.survey, self.graph, self._shown_with_class)

    @cached_property
    def exports(self) -> Sequence[Exported]:
        """The public interface: what documents name, then what tests and examples use, comes first."""
        found = exports(self.survey, self.own)
        order = {one.symbol: number for number, one in enumerate(found)}
        return sorted(found, key=lambda one: (-self._shown(one.symbol), order[one.symbol]))

    @cached_property
    def settings(self) -> Sequence[WikiSetting]:
        """What can be set, by name."""
        return settings_of(self.survey, self.own)

    @cached_property
    def subjects(self) -> Sequence[WikiSubject]:
        """What the program deals with."""
        return subjects(self.survey, self.roles["own"], self.documented, self.importance)

    @cached_property
    def extension_points(self) -> Sequence[ExtensionPoint]:
        """Base classes and interfaces."""
        return extension_points(self.survey, self.own, self.graph.dispatch.implementations)

    @cached_property
    def registering(self) -> Sequence[Symbol]:
        """The functions that register code of users, the most used first."""
        exported = {one.symbol for one in self.exports}
        found = registering(self.survey, self.own)
        return sorted(found, key=lambda s: (s not in exported, -self.importance(s), s.path, s.start))

    @cached_property
    def documented(self) -> Mapping[str, int]:
        """How many documents contain each word."""
        texts = [file.text[:_MAX_DOCUMENT_CHARS] for file in self.survey.of_kind("doc")]
        return Counter(word for text in texts for word in set(_WORD.findall(text)))

    @cached_property
    def _named(self) -> Mapping[str, int]:
        """How many documents contain each word that is a name there."""
        texts = [file.text[:_MAX_DOCUMENT_CHARS] for file in self.survey.of_kind("doc")]
        return Counter(name for text in texts for name in names_in(text))

    def _shown(self, symbol: Symbol) -> float:
        """Return how much documents, tests and examples show a definition."""
        named = [symbol.name, *filter(None, [self.scope(symbol).rpartition(".")[2]])]
        documents = min(10, *(self._named.get(name, 0) for name in named))
        return documents + min(len(self.graph.shown_in.get(symbol, ())), 10) + (symbol.summary is not None)

    def _shown_with_class(self, symbol: Symbol) -> float:
        """Return how much documents, tests and examples show a definition and the class that it is in."""
        outer = self.survey.symbol(symbol.path, symbol.scope) if symbol.scope else None
        is_exported = bool({symbol, outer} & self._exported)
        return self._shown(symbol) + (self._shown(outer) if outer else 0) + 3 * is_exported

    @cached_property
    def _exported(self) -> frozenset[Symbol | None]:
        return frozenset(one.symbol for one in self.exports)

    def importance(self, symbol: Symbol) -> float:
        """Return how much a reader should know a definition."""
        is_type = symbol.unit == "class"
        held = len(self._holders(symbol)) / max(1, self._functions[symbol.name]) if is_type else 0
        named = self.documented.get(symbol.name, 0) if len(symbol.name) > 3 else 0
        size = math.log2(1 + symbol.end - symbol.start) if held else 0.0
        is_inner = symbol.unit == "class" and symbol.path.endswith((".c", ".cc", ".cpp", ".cxx"))
        return (
            self.graph.importance(symbol)
            - _INNER_TYPE_COST * is_inner
            + 2 * math.log2(1 + held)
            + size / 2
            + min(named, 12) / 3
        )

    @cached_property
    def _functions(self) -> Mapping[str, int]:
        """The number of own files that define a function or method of each name."""
        symbols = {path: self.survey.symbols(path) for path in self.own}
        return Counter(
            name for found in symbols.values() for name in {s.name for s in found if s.unit != "class"}
        )

    def _holders(self, symbol: Symbol) -> Sequence[object]:
        if symbol not in self._held:
            self._held[symbol] = self.survey.graph.files.holding(symbol.name)
        return self._held[symbol]

    @cached_property
    def _held(self) -> dict[Symbol, Sequence[object]]:
        return {}

    def scope(self, symbol: Symbol) -> str:
        """Return the scope of a definition without namespaces; "" for the top."""
        return self.graph.namespaces.scope(symbol)

    def ranked(self, paths: Sequence[str]) -> list[Symbol]:
        """Return the public definitions of files, the most important first; of variants with one name the
        first.
        """
        found = [
            symbol
            for path in paths
            if path in self.survey.files
            for symbol in self.survey.symbols(path)
            if symbol.public and not self.graph.namespaces.includes(symbol)
        ]
        found.sort(key=lambda s: (-self.importance(s), s.path, s.start))
        folders: dict[tuple[str, str], Symbol] = {}
        for symbol in found:
            folders.setdefault((posixpath.dirname(symbol.path), symbol.qualified_name), symbol)
        return list(folders.values())


_MAX_DOCUMENT_CHARS = 200_000
_WORD = re.compile(r"[^\W\d]\w+")
_NAME_IN_CODE = re.compile(rf"\b(?=\w*[{UPPER}_\d])[^\W\d]\w+")
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_NAME_ANYWHERE = re.compile(rf"(?<=[.:#~])[^\W\d]\w+|\b[^\W\d]\w+(?=\()|\b[^\W\d_]+?(?:_|\d|{CAMEL})\w*")
"""What cannot be a plain word: `app.run`, `run(`, `run_app`, `RunApp`."""


def names_in(document: str) -> set[str]:
    """Return the words of a document that may be names: no plain words, but in code those with a capital."""
    found: set[str] = set()
    in_fence = False
    for line in document.splitlines():
        is_mark = line.lstrip().startswith(("```", "~~~"))
        in_fence ^= is_mark
        found.update(_NAME_ANYWHERE.findall(line))
        is_code = in_fence or is_mark or line.startswith(("    ", "\t"))
        for part in [line] if is_code else _CODE_SPAN.findall(line):
            found.update(_NAME_IN_CODE.findall(part))
    return found


_INNER_TYPE_COST = 3.0
"""A type that is not in a header is for one file of C or C++."""
_CPP_SUFFIXES = (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp")
_facts: WeakKeyDictionary[Survey, WikiFacts] = WeakKeyDictionary()
_lock = threading.Lock()


def facts_of(survey: Survey) -> WikiFacts:
    """Return the facts of a survey; they are cached as long as it exists."""
    with _lock:
        found = _facts.get(survey)
        if found is None:
            found = _facts[survey] = WikiFacts(survey)
        return found


def short_name(symbol: Symbol) -> str:
    """Return the name of a definition with its class; the namespaces of C++ are in small letters."""
    outer = symbol.scope.rpartition(".")[2]
    if outer.islower() and symbol.path.endswith(_CPP_SUFFIXES):
        outer = ""
    return f"{outer}.{symbol.name}" if outer else symbol.name


def base_name(path: str) -> str:
    """Return the name of a file without its folder."""
    return posixpath.basename(path)
