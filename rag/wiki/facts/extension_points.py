"""Where a repository can be extended: classes to inherit from, interfaces, and what registers code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag.code.survey import Survey
from rag.code.symbols import Symbol

_REGISTERS = re.compile(
    r"^(?:register|add_?(?:[A-Z_]\w*)?(?:hook|handler|plugin|extension|middleware|filter|command|rule|route|processor"
    r"|parser|serializer|formatter|decorator|provider|backend|listener|type)|(?:before|after|teardown)_\w+"
    r"|on_?[A-Z]\w*|use|Use|\w*(?:[Hh]andler|[Hh]ook|[Pp]lugin|[Mm]iddleware)|Register\w*|register\w+)$"
)
_COMPILED = frozenset("c cpp csharp go java kotlin rust scala swift".split())
"""Languages without decorators that register what follows them."""
_HANDLER = re.compile(r"(?:[Hh]andler|[Hh]ook|[Pp]lugin|[Mm]iddleware)$")
_SETS = re.compile(r"(?i:add|set|register|install|use|with|on|append|push|attach|bind)(?![a-z])")
_ON = re.compile(r"on_?[A-Z]")
_TAKES_CODE = re.compile(
    r"callback|handler|listener|hook|block|action|=>|->|(?<![a-z])(?:cb|fn|func|f)\b", re.IGNORECASE
)
_INTERFACE = re.compile(r"\b(?:interface|trait|protocol|Protocol|ABC|abstract)\b")


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """A class that others extend, or an interface; `implementations` are classes, by path and line."""

    symbol: Symbol
    implementations: tuple[Symbol, ...]
    is_interface: bool


def extension_points(
    survey: Survey, own: Iterable[str], below: Mapping[Symbol, Sequence[Symbol]]
) -> list[ExtensionPoint]:
    """Return base classes and interfaces of own code, those with the most implementations first.

    `below` has the classes that extend or implement each class.
    """
    paths = frozenset(own)
    found = []
    for path in sorted(paths):
        for symbol in survey.symbols(path):
            if symbol.unit != "class" or not symbol.public:
                continue
            head = "".join(survey.files[path].lines[symbol.start - 1 : symbol.start + 1])[:400]
            inherited = tuple(sorted(below.get(symbol, ()), key=lambda s: (s.path, s.start)))
            is_interface = survey.files[path].language != "c" and bool(_INTERFACE.search(head))
            if inherited or is_interface:
                found.append(ExtensionPoint(symbol, inherited, is_interface))
    return sorted(
        found,
        key=lambda one: (-len(one.implementations), not one.is_interface, one.symbol.path, one.symbol.start),
    )


def registering(survey: Survey, own: Iterable[str]) -> list[Symbol]:
    """Return the documented public functions by whose names code is registered, by path and line."""
    return [
        symbol
        for path in sorted(own)
        for symbol in survey.symbols(path)
        if symbol.unit == "function" and symbol.public and symbol.summary and _registers(survey, symbol)
    ]


def _registers(survey: Survey, symbol: Symbol) -> bool:
    """Return whether code is registered by a function, by its name; a compiled `DataHandler` is a handler."""
    if _ON.match(symbol.name) and not _TAKES_CODE.search(symbol.signature):
        return False  # it handles an event itself
    is_handler = survey.files[symbol.path].language in _COMPILED and not _SETS.match(symbol.name)
    return bool(_REGISTERS.match(symbol.name)) and not (is_handler and _HANDLER.search(symbol.name))
