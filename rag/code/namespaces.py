"""Namespaces: names that only group definitions, such as those of C++ and C#, and the modules of Ruby."""

from __future__ import annotations

import re
from functools import cached_property

from rag.code.survey import Survey
from rag.code.symbols import Symbol

_LANGUAGES = frozenset("cpp csharp kotlin php ruby rust scala".split())
_MODULE = re.compile(r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:module|mod|namespace)\s")


class Namespaces:
    """The namespaces of a repository. The names of definitions are read without them."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._scopes: dict[Symbol, str] = {}

    def scope(self, symbol: Symbol) -> str:
        """Return the scope of a definition without the namespaces that it is in; "" for the top."""
        if not symbol.scope or self._survey.files[symbol.path].language not in _LANGUAGES:
            return symbol.scope
        if symbol not in self._scopes:
            parts = symbol.scope.split(".")
            outer = 0
            while outer < len(parts) and self._is_namespace(".".join(parts[: outer + 1])):
                outer += 1
            self._scopes[symbol] = ".".join(parts[outer:])
        return self._scopes[symbol]

    def includes(self, symbol: Symbol) -> bool:
        """Return whether a definition is a namespace itself."""
        return symbol.qualified_name in self._modules

    def _is_namespace(self, name: str) -> bool:
        return name in self._modules or name not in self._defined

    @cached_property
    def _defined(self) -> frozenset[str]:
        """The names of all definitions; C++ namespaces are none."""
        return frozenset(
            symbol.qualified_name
            for path, file in self._survey.files.items()
            if file.language in _LANGUAGES
            for symbol in self._survey.symbols(path)
        )

    @cached_property
    def _modules(self) -> frozenset[str]:
        """The names of modules that have classes."""
        with_classes: set[str] = set()
        modules: set[str] = set()
        for path, file in self._survey.files.items():
            if file.language not in _LANGUAGES:
                continue
            for symbol in self._survey.symbols(path):
                if symbol.unit == "class":
                    with_classes.add(symbol.scope)
                    if _MODULE.match(file.lines[symbol.start - 1]):
                        modules.add(symbol.qualified_name)
        return frozenset(modules & with_classes)
