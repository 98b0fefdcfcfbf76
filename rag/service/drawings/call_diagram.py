"""Small diagrams of the calls around one definition, for people: who calls it, and what a call leads to.

A diagram has at most `MAX_NODES` nodes, so that it can be read, and says how much it leaves out. The calls
come from the graph of the code (`rag.code.graph`): certain ones, and for callers possible ones too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from rag.database.store import Store
from rag.errors import NotFound
from rag.types import CodeDefinition, CodeUse, Kind

MAX_NODES = 12
CallView = Literal["callers", "flow"]
_MAX_OTHERS = 12
_MIN_CALLERS = 6
"""How many callers are shown before callees take their places."""
_MAX_EXAMINED = 60
"""How many definitions are examined for where they lead; the others lead nowhere."""
_DEPTH_COST, _MAX_REACH = 1.5, 6
_CONSTRUCTORS = frozenset({"__init__", "constructor", "initialize", "__construct"})
_KINDS: dict[Kind, int] = {"code": 0, "test": 1}


@dataclass(frozen=True, slots=True)
class CallNode:
    """A definition of a diagram. `depth` is 0 for the subject, -1 for its callers, and counts calls after it.

    Code outside of definitions has the name of its file, and the line of its call.
    """

    name: str
    path: str
    start: int
    end: int
    kind: Kind
    depth: int


@dataclass(frozen=True, slots=True)
class CallArrow:
    """Calls between two nodes, by their index. `line` is the first one, in the file of the source."""

    source: int
    target: int
    line: int
    count: int
    certain: bool


@dataclass(frozen=True, slots=True)
class CallDiagram:
    """The calls around a definition, which is the node of depth 0; in a flow in the order of the calls.

    The caption does not say that nothing is left out of the callers: what is not indexed is not known.

    `left_out` counts what is not drawn: callers and callees, in a flow calls. `others` are other definitions
    of the same name.
    """

    view: CallView
    nodes: tuple[CallNode, ...]
    arrows: tuple[CallArrow, ...]
    left_out: int
    caption: str
    others: tuple[CallNode, ...]


class _Lines(NamedTuple):
    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls between the subject and another node."""

    node: CallNode
    line: int
    count: int
    certain: bool

    def arrow(self, source: int, target: int) -> CallArrow:
        return CallArrow(source, target, self.line, self.count, self.certain)


def call_diagram(
    store: Store,
    name: str,
    view: CallView,
    *,
    path: str = "",
    start: int = 1,
    end: int | None = None,
    most: int = MAX_NODES,
) -> CallDiagram:
    """Return the calls around a definition.

    Args:
        store: the store of the repository.
        name: of the definition, such as `Class.method`; "" for the definition at the lines.
        view: "callers" for who calls it and what it calls itself, "flow" for the calls that follow.
        path: of its file, if it is known.
        start: the first line of the definition, or a line in it; only with `path`.
        end: the last line; without a name, a definition that begins until there is found too.
        most: how many nodes it has at most.

    Raises:
        NotFound: the repository defines nothing with this name, or nothing at these lines.
    """
    drawing = _Drawing(store, most)
    subject, others = drawing.subject(name, _Lines(path, start, start if end is None else end))
    found = drawing.callers(subject) if view == "callers" else drawing.flow(subject)
    return replace(found, others=tuple(drawing.node(one, 0) for one in others[:_MAX_OTHERS]))


class _Drawing:
    """Draws diagrams of one store."""

    def __init__(self, store: Store, most: int) -> None:
        self._graph, self._most = store.graph, most
        self._files = store.files()
        self._leads: dict[CodeDefinition, list[tuple[CodeUse, CodeDefinition]]] = {}

    def subject(self, name: str, lines: _Lines) -> tuple[CodeDefinition, list[CodeDefinition]]:
        """Return the definition that is meant, and the others of its name."""
        if not name:
            return self._at(lines), []
        found = sorted(
            self._graph.definitions(name), key=lambda one: (_KINDS.get(self._kind(one.path), 2), one.path)
        )
        if not found:
            raise NotFound(
                f"no indexed file defines {name!r}; an exact search finds where a name occurs in the text"
            )
        meant = [one for one in found if one.path == lines.path]
        around = [one for one in meant if one.start <= lines.start <= one.end]
        first = (around or meant or found)[0]
        return first, [one for one in found if one != first]

    def _at(self, lines: _Lines) -> CodeDefinition:
        if lines.path not in self._files:
            raise NotFound(f"no file {lines.path!r} is in the index")
        defined = self._graph.defined_in(lines.path)
        around = [one for one in defined if one.start <= lines.start <= one.end]
        inside = [one for one in defined if lines.start <= one.start <= lines.end]
        if not around and not inside:
            raise NotFound(f"no definition is at {lines.path}:{lines.start}")
        return max(around, key=lambda one: one.start) if around else inside[0]

    def node(self, one: CodeDefinition, depth: int) -> CallNode:
        """Return a definition as a node."""
        return CallNode(one.qualified_name, one.path, one.start, one.end, self._kind(one.path), depth)

    def callers(self, subject: CodeDefinition) -> CallDiagram:
        """Return who calls a definition, and what it calls itself."""
        callers, callees = self._callers(subject), self._callees(subject)
        room = self._most - 1
        shown = callers[: max(_MIN_CALLERS, room - len(callees))][:room]
        below = callees[: room - len(shown)]
        nodes = [one.node for one in shown] + [self.node(subject, 0)] + [one.node for one in below]
        middle = len(shown)
        arrows = [
            *(one.arrow(n, middle) for n, one in enumerate(shown)),
            *(one.arrow(middle, n) for n, one in enumerate(below, start=middle + 1)),
        ]
        missing = [
            _count(len(callers) - len(shown), "caller"),
            _count(len(callees) - len(below), "definition", "that it calls"),
        ]
        name = subject.qualified_name
        caption = f"Who calls {name}, and what it calls itself."
        if not all(one.certain for one in shown):
            caption += " A dashed arrow is a possible call."
        return CallDiagram(
            "callers",
            tuple(nodes),
            tuple(arrows),
            len(callers) + len(callees) - len(arrows),
            f"{caption} {_left_out(missing)}" if any(missing) else caption,
            (),
        )

    def flow(self, subject: CodeDefinition) -> CallDiagram:
        """Return the certain calls that follow from a definition, those that lead furthest."""
        depths = {subject: 0}
        chosen: dict[CodeDefinition, list[tuple[CodeUse, CodeDefinition]]] = defaultdict(list)
        pending = self._following(subject)
        while pending and len(depths) < self._most:
            best = max(
                pending,
                key=lambda one: self._reach(one) - _DEPTH_COST * depths[pending[one][1]],
            )
            use, caller = pending.pop(best)
            depths[best] = depths[caller] + 1
            chosen[caller].append((use, best))
            for one, call in self._following(best).items():
                if one not in depths:
                    pending.setdefault(one, call)
        nodes, arrows = [self.node(subject, 0)], list[CallArrow]()
        self._walk(subject, 0, chosen, nodes, arrows)
        pairs = {(one, callee) for one in depths for _, callee in self._calls(one) if callee != one}
        missing = len(pairs) - len(arrows)
        caption = (
            f"What a call of {subject.qualified_name} leads to, in the order of the code; certain calls."
        )
        return CallDiagram(
            "flow",
            tuple(nodes),
            tuple(arrows),
            missing,
            f"{caption} {_left_out([_count(missing, 'call')])}",
            (),
        )

    def _walk(
        self,
        caller: CodeDefinition,
        number: int,
        chosen: dict[CodeDefinition, list[tuple[CodeUse, CodeDefinition]]],
        nodes: list[CallNode],
        arrows: list[CallArrow],
    ) -> None:
        """Add the calls of a definition in the order of their lines, each followed by what it leads to."""
        depth = nodes[number].depth + 1
        for use, callee in sorted(chosen[caller], key=lambda call: call[0].line):
            nodes.append(self.node(callee, depth))
            count = sum(other == callee for _, other in self._calls(caller))
            arrows.append(CallArrow(number, len(nodes) - 1, use.line, count, use.certain))
            self._walk(callee, len(nodes) - 1, chosen, nodes, arrows)

    def _following(self, caller: CodeDefinition) -> dict[CodeDefinition, tuple[CodeUse, CodeDefinition]]:
        """Return what a definition calls, in order: the first call of each, and the definition itself."""
        found: dict[CodeDefinition, tuple[CodeUse, CodeDefinition]] = {}
        for use, callee in self._calls(caller):
            if callee != caller:
                found.setdefault(callee, (use, caller))
        return found

    def _calls(self, caller: CodeDefinition) -> Sequence[tuple[CodeUse, CodeDefinition]]:
        """Return the certain calls in a function, or in the constructor of a class."""
        if caller not in self._leads:
            self._leads[caller] = [call for one in self._called(caller) for call in self._graph.callees(one)]
        return self._leads[caller]

    def _called(self, one: CodeDefinition) -> list[CodeDefinition]:
        """Return the code that a call of a definition runs; without a known constructor none of a class."""
        if one.unit != "class":
            return [one]
        constructors = {*_CONSTRUCTORS, one.name}
        return [
            inner
            for inner in self._graph.defined_in(one.path)
            if inner.scope == one.qualified_name and inner.name in constructors
        ]

    def _reach(self, one: CodeDefinition) -> int:
        """Return how many definitions one calls, up to a bound; 0 once enough were examined."""
        if one not in self._leads and len(self._leads) >= _MAX_EXAMINED:
            return 0
        return min(len(self._following(one)), _MAX_REACH)

    def _callees(self, subject: CodeDefinition) -> list[_Calls]:
        count = Counter(callee for _, callee in self._calls(subject))
        return [
            _Calls(self.node(callee, 1), use.line, count[callee], use.certain)
            for callee, (use, _) in self._following(subject).items()
        ]

    def _callers(self, subject: CodeDefinition) -> list[_Calls]:
        """Return who calls a definition: certain calls, then code before tests, then frequent ones first."""
        uses: dict[tuple[str, str], list[CodeUse]] = defaultdict(list)
        for use in self._graph.callers([subject]):
            itself = use.path == subject.path and use.within == subject.qualified_name
            is_code = use.certain or self._graph.defined_in(use.path)  # a name in data is no call
            if is_code and not itself:
                uses[use.path, use.within].append(use)
        found = [
            _Calls(self._caller(calls[0]), calls[0].line, len(calls), any(use.certain for use in calls))
            for calls in uses.values()
        ]
        return sorted(
            found, key=lambda one: (not one.certain, _KINDS.get(one.node.kind, 2), -one.count, one.node.path)
        )

    def _caller(self, use: CodeUse) -> CallNode:
        around = [
            one
            for one in (self._graph.defined_in(use.path) if use.within else ())
            if one.qualified_name == use.within and one.start <= use.line <= one.end
        ]
        if around:
            return self.node(around[0], -1)
        name = use.within or PurePosixPath(use.path).name
        return CallNode(name, use.path, use.line, use.line, self._kind(use.path), -1)

    def _kind(self, path: str) -> Kind:
        return self._files[path][1]


def _count(number: int, noun: str, after: str = "") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}{f' {after}' if after else ''}" if number else ""


def _left_out(counts: Sequence[str]) -> str:
    named = " and ".join(filter(None, counts))
    return f"Left out: {named}." if named else "Nothing is left out."
