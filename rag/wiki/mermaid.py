"""Draw graphs in a small subset of mermaid that every version of it reads.

    flowchart LR
      n1["rag/service"]
      n2["rag/retrieval"]
      n1 -->|12| n2

Node ids are generated, and labels have only letters, digits and a few signs, so no text of a repository can
become syntax, a link or HTML. `check` accepts exactly this subset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from rag.quoting import visible
from rag.wiki.markdown import block

MAX_NODES = 30
MAX_EDGES = 45

_LABEL_CHARS = re.compile(r"[^\w ./:+,()=@?!~^'-]")
_LOOKALIKES = str.maketrans(
    {"<": "‹", ">": "›", '"': "'", "`": "'", "[": "(", "]": ")", "{": "(", "}": ")", "|": "/"}
)
_MAX_LABEL = 60

_HEAD = re.compile(r"flowchart (?:LR|TB)")
_NODE = re.compile(r'  (n\d+)(?:\["([^"]+)"\]|\(\["([^"]+)"\]\))')
_EDGE = re.compile(r"  (n\d+) (?:-->|-\.->)(?:\|\d+\|)? (n\d+)")


class DiagramError(ValueError):
    """A text is not in the supported subset of mermaid."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A drawn graph: its mermaid text, and how much of the graph it shows."""

    text: str
    nodes: int
    edges: int
    nodes_left_out: int = 0
    edges_left_out: int = 0

    @property
    def markdown(self) -> str:
        """The diagram as a fenced block."""
        return block(self.text, "mermaid")


@dataclass(slots=True)
class Graph:
    """Nodes with labels, weighted edges between them. `outside` nodes are drawn round."""

    labels: dict[Hashable, str] = field(default_factory=dict)
    edges: Counter[tuple[Hashable, Hashable]] = field(default_factory=Counter)
    outside: set[Hashable] = field(default_factory=set)

    def node(self, key: Hashable, label: str, *, outside: bool = False) -> None:
        """Add a node; repeating it changes nothing."""
        self.labels.setdefault(key, label)
        if outside:
            self.outside.add(key)

    def edge(self, source: Hashable, target: Hashable, weight: int = 1) -> None:
        """Add weight to an edge between known nodes; an edge from a node to itself is not drawn."""
        if source != target:
            self.edges[source, target] += weight

    def draw(
        self, *, direction: str = "LR", max_nodes: int = MAX_NODES, counted: bool = False
    ) -> Diagram | None:
        """Return the diagram of the most connected nodes; None when no edge can be drawn.

        With `counted` an edge shows its weight. Nodes without any edge are left out and not counted.
        """
        degree: Counter[Hashable] = Counter()
        for (source, target), weight in self.edges.items():
            degree[source] += weight
            degree[target] += weight
        order = {key: position for position, key in enumerate(self.labels)}
        connected = sorted(degree, key=lambda key: (-degree[key], order[key]))
        shown = set(connected[:max_nodes])
        inside = [edge for edge in self.edges if edge[0] in shown and edge[1] in shown]
        inside.sort(key=lambda edge: (-self.edges[edge], order[edge[0]], order[edge[1]]))
        edges = sorted(inside[:MAX_EDGES], key=lambda edge: (order[edge[0]], order[edge[1]]))
        nodes = sorted({key for edge in edges for key in edge}, key=order.__getitem__)
        if not edges:
            return None
        text = self._text(nodes, edges, direction, counted=counted)
        check(text)
        return Diagram(text, len(nodes), len(edges), len(degree) - len(nodes), len(self.edges) - len(edges))

    def _text(
        self,
        nodes: Sequence[Hashable],
        edges: Sequence[tuple[Hashable, Hashable]],
        direction: str,
        *,
        counted: bool,
    ) -> str:
        ids: Mapping[Hashable, str] = {key: f"n{number}" for number, key in enumerate(nodes, start=1)}
        lines = [f"flowchart {direction}"]
        for key in nodes:
            label = f'["{label_of(self.labels[key])}"]'
            lines.append(f"  {ids[key]}{f'({label})' if key in self.outside else label}")
        for edge in edges:
            weight = f"|{self.edges[edge]}|" if counted else ""
            lines.append(f"  {ids[edge[0]]} -->{weight} {ids[edge[1]]}")
        return "\n".join(lines)


def label_of(text: str) -> str:
    """Return a name as a label: possible syntax is replaced by lookalikes, or by `_`."""
    label = _LABEL_CHARS.sub("_", visible(text).translate(_LOOKALIKES).replace("‹", "(").replace("›", ")"))
    label = " ".join(label.split()) or "_"
    return label if len(label) <= _MAX_LABEL else "..." + label[-(_MAX_LABEL - 3) :].lstrip()


def check(text: str) -> None:
    """Check that a text is a diagram as written here, and that its edges join its own nodes.

    Raises:
        DiagramError: it is not; the message names the line.
    """
    head, *lines = text.split("\n")
    if not _HEAD.fullmatch(head):
        raise DiagramError(f"line 1 does not begin a flowchart: {head!r}")
    known: set[str] = set()
    for number, line in enumerate(lines, start=2):
        if node := _NODE.fullmatch(line):
            label = node[2] or node[3]
            if node[1] in known or _LABEL_CHARS.search(label) or not label.strip():
                raise DiagramError(f"line {number} repeats a node or has an invalid label: {line!r}")
            known.add(node[1])
        elif edge := _EDGE.fullmatch(line):
            if not {edge[1], edge[2]} <= known:
                raise DiagramError(f"line {number} joins an unknown node: {line!r}")
        else:
            raise DiagramError(f"line {number} is neither a node nor an edge: {line!r}")
    if not known:
        raise DiagramError("there is no node")
    if len(known) > MAX_NODES:
        raise DiagramError(f"{len(known)} nodes are more than {MAX_NODES}")
