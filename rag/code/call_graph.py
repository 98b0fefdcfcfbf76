"""The certain calls between the definitions of a repository, seen from each definition."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from rag.code.dispatch import Dispatch
from rag.code.member_calls import member_calls
from rag.code.namespaces import Namespaces
from rag.code.survey import Call, Survey
from rag.code.symbols import Symbol

_REACH_DEPTH = 5
_MAX_REACH = 300
_MAX_USERS = 12
"""What more files call is a helper."""
_USERS_COST, _DOCUMENTED, _PUBLIC = 0.8, 0.7, 0.5
_RUNS = 1.0
_RUNNING = re.compile(
    r"(?:^|_|[a-z](?=[A-Z]))(?:[Mm]ain|[Rr]un|[Ss]erve|[Ll]isten|[Dd]ispatch|[Ee]xecute)(?![a-z])|[Ll]oop$"
)
"""How functions are named in which a program spends its time."""
_MAX_MAY_RUN = 3
_CONSTRUCTORS = frozenset({"__init__", "constructor", "initialize"})


class CallGraph:
    """What definitions call, and who calls them.

    Args:
        survey: the repository.
        own: the paths of its own code; calls elsewhere count only as uses in tests and examples.
    """

    def __init__(self, survey: Survey, own: Iterable[str]) -> None:
        self.survey, self.own = survey, frozenset(own)
        self.namespaces = Namespaces(survey)
        self._reach: dict[Symbol, int] = {}

    @cached_property
    def calls(self) -> Sequence[Call]:
        """All certain calls, from anywhere in the repository."""
        return (*self.survey.calls, *member_calls(self.survey, self.own))

    @cached_property
    def handed_on(self) -> Mapping[Symbol, Sequence[Call]]:
        """The functions of own code that a definition refers to without calling them: callbacks and handlers.

        The line of each is that of the first reference. A decorator is none.
        """
        found: dict[Symbol, dict[Symbol, Call]] = defaultdict(dict)
        for path in sorted(self.own):
            lines = self.survey.files[path].lines
            for use in self.survey.mentions_in(path):
                caller, callee = use.caller, use.callee
                is_own = callee.path in self.own and callee.unit == "function"
                if caller is None or not is_own or lines[use.line - 1].lstrip().startswith("@"):
                    continue
                found[caller].setdefault(callee, use)
        return {caller: tuple(uses.values()) for caller, uses in found.items()}

    @cached_property
    def callees(self) -> Mapping[Symbol, Sequence[Call]]:
        """The first call of each definition that a definition calls in own code, by line.

        To call a class is to call its constructor, too. What a file with a main function calls outside of its
        definitions, as in a table of commands, is called by that.
        """
        found: dict[Symbol, dict[Symbol, Call]] = defaultdict(dict)
        mains = {
            s.path: s for path in self.own for s in self.survey.symbols(path) if s.qualified_name == "main"
        }
        for call in self.calls:
            caller, is_own = call.caller or mains.get(call.path), {call.path, call.callee.path} <= self.own
            if caller is None or not is_own or call.callee in (caller, self.constructed.get(caller)):
                continue
            found[caller].setdefault(call.callee, call)
        return {caller: tuple(calls.values()) for caller, calls in found.items()}

    @cached_property
    def constructed(self) -> Mapping[Symbol, Symbol]:
        """The constructor of each class that has one."""
        classes: dict[tuple[str, str], Symbol] = {}
        found = {}
        for path in sorted(self.own):
            for symbol in self.survey.symbols(path):
                if symbol.unit == "class":
                    classes[path, symbol.qualified_name] = symbol
                elif symbol.name in _CONSTRUCTORS and (owner := classes.get((path, symbol.scope))):
                    found[owner] = symbol
        return found

    def called_by(self, symbol: Symbol) -> Sequence[Call]:
        """Return the calls in a definition; those in the constructor, for a class."""
        return self.callees.get(self.constructed.get(symbol, symbol), ())

    def leads_to(self, symbol: Symbol) -> Sequence[Call]:
        """Return the calls in a definition, then the functions that it hands on and does not call."""
        called = self.called_by(symbol)
        known = {call.callee for call in called}
        inside = self.handed_on.get(self.constructed.get(symbol, symbol), ())
        return (*called, *(use for use in inside if use.callee not in known and use.callee != symbol))

    def written(self, symbol: Symbol) -> Mapping[Symbol, str]:
        """Return the callees of a definition that its lines call by another name, with that name."""
        return {call.callee: call.written for call in self.leads_to(symbol) if call.written}

    @cached_property
    def dispatch(self) -> Dispatch:
        """Classes with what implements them, and tables of functions."""
        return Dispatch(self.survey, self.own)

    @cached_property
    def _possible(self) -> Mapping[Symbol, Sequence[Call]]:
        return self.dispatch.possible(self.callees)

    def may_run(self, symbol: Symbol) -> Sequence[Call]:
        """Return a few of the possible calls in a definition, those that lead furthest, by line."""
        known = {call.callee for call in self.leads_to(symbol)} | {symbol}
        inside = self._possible.get(self.constructed.get(symbol, symbol), ())
        possible = [call for call in inside if call.callee not in known]
        possible.sort(key=lambda call: (-self.worth(call.callee), call.callee.path, call.callee.start))
        return sorted(possible[:_MAX_MAY_RUN], key=lambda call: call.line)

    @cached_property
    def users(self) -> Mapping[Symbol, frozenset[str]]:
        """The files of own code that call a definition of another file."""
        return self._files_calling(lambda path: path in self.own)

    @cached_property
    def shown_in(self) -> Mapping[Symbol, frozenset[str]]:
        """The tests, examples and documents that call a definition."""
        return self._files_calling(lambda path: path not in self.own)

    def _files_calling(self, counts: Callable[[str], bool]) -> Mapping[Symbol, frozenset[str]]:
        found: dict[Symbol, set[str]] = defaultdict(set)
        for call in self.calls:
            if counts(call.path) and call.path != call.callee.path:
                found[call.callee].add(call.path)
        return {symbol: frozenset(paths) for symbol, paths in found.items()}

    @cached_property
    def is_called(self) -> frozenset[Symbol]:
        """The definitions that own code calls, from anywhere."""
        return frozenset(call.callee for call in self.calls if call.path in self.own)

    @cached_property
    def callbacks(self) -> frozenset[Symbol]:
        """The functions that own code hands on."""
        return frozenset(use.callee for uses in self.handed_on.values() for use in uses)

    def reach(self, symbol: Symbol) -> int:
        """Return how many definitions a call of this one leads to, within a few steps; callbacks count."""
        if symbol not in self._reach:
            seen, edge = {symbol}, [symbol]
            for _ in range(_REACH_DEPTH):
                following = {call.callee for one in edge for call in self.leads_to(one)} - seen
                seen |= following
                edge = list(following)
                if not edge or len(seen) > _MAX_REACH:
                    break
            self._reach[symbol] = min(len(seen) - 1, _MAX_REACH)
        return self._reach[symbol]

    def worth(self, symbol: Symbol) -> float:
        """Return how far a call of a definition leads; helpers that many files call are worth less."""
        users = len(self.users.get(symbol, ()))
        runs = _RUNS * bool(_RUNNING.search(symbol.name))
        known = (symbol.summary is not None) * _DOCUMENTED + symbol.public * _PUBLIC
        return math.log2(2 + self.reach(symbol)) + known + runs - _USERS_COST * math.log2(1 + users)

    def furthest(self, symbol: Symbol) -> list[Symbol]:
        """Return what a definition calls, the calls that lead furthest first, without common helpers."""
        callees = [call.callee for call in self.called_by(symbol)]
        callees = [callee for callee in callees if len(self.users.get(callee, ())) <= _MAX_USERS]
        return sorted(callees, key=lambda callee: (-self.worth(callee), callee.path, callee.start))

    def importance(self, symbol: Symbol) -> float:
        """Return how much a reader should know a definition: its users, its documentation, its reach."""
        users, shown = len(self.users.get(symbol, ())), len(self.shown_in.get(symbol, ()))
        documented = 1.5 if symbol.summary is not None else 0.0
        outer = 1.0 if not self.namespaces.scope(symbol) else 0.0
        is_type = 1.0 if symbol.unit == "class" else 0.0
        return min(users, 8) + min(shown, 6) + documented + outer + is_type + min(self.reach(symbol), 40) / 10
