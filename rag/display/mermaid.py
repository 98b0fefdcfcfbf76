"""Draw graphs and sequences in a small subset of mermaid that every version of it reads.

    flowchart LR                                  sequenceDiagram
      n1["rag/service"]                             participant n1 as Engine
      n2["rag/retrieval"]                           participant n2 as Dialog
      n1 -->|12| n2                                 n1->>n2: 1. prepare
      n1 -.-> n2                                    n1-->>n2: 2. callback
      click n1 href "service.md"                    link n1: Code @ service.md

Node ids are generated, labels have only letters, digits and a few signs, and links are addresses that we
created, so no text of a repository can become syntax, a link or HTML. `check` accepts exactly this subset.
No colors are set: the theme of the reader decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from rag.markdown import block
from rag.quoting import visible

MAX_NODES = 12
MAX_EDGES = 18

_LABEL_CHARS = re.compile(r"[^\w ./:+,()=@?!~^'-]")
_LOOKALIKES = str.maketrans(
    {"<": "‹", ">": "›", '"': "'", "`": "'", "[": "(", "]": ")", "{": "(", "}": ")", "|": "/"}
)
_MAX_LABEL = 60

_HEAD = re.compile(r"flowchart (?:LR|TB)|sequenceDiagram")
_ADDRESS = r"(?:https?://[\w.:-]+/[\w./%~#-]+|[\w./%~-]+\.(?:md|html)(?:#L\d+)?)"
"""Of a page on the web or a file of the wiki: where a page is only a text, other links lead nowhere."""
_CLICK = re.compile(rf'  click (n\d+) href "{_ADDRESS}"')
_PARTICIPANT = re.compile(r"  participant (n\d+) as (.+)")
_MESSAGE = re.compile(r"  (n\d+)--?>>(n\d+): (.+)")
_LINK = re.compile(rf"  link (n\d+): Code @ {_ADDRESS}")
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
    """Nodes with labels, weighted edges between them, some of them dotted. `outside` nodes are drawn round,
    `links` are followed from a node.
    """

    labels: dict[Hashable, str] = field(default_factory=dict)
    links: dict[Hashable, str] = field(default_factory=dict)
    edges: Counter[tuple[Hashable, Hashable]] = field(default_factory=Counter)
    dotted: set[tuple[Hashable, Hashable]] = field(default_factory=set)
    outside: set[Hashable] = field(default_factory=set)

    def node(self, key: Hashable, label: str, *, outside: bool = False, address: str = "") -> None:
        """Add a node; repeating it changes nothing."""
        self.labels.setdefault(key, label)
        if address and re.fullmatch(_ADDRESS, address):
            self.links.setdefault(key, address)
        if outside:
            self.outside.add(key)

    def edge(self, source: Hashable, target: Hashable, weight: int = 1) -> None:
        """Add weight to an edge between known nodes; an edge from a node to itself is not drawn."""
        if source != target:
            self.edges[source, target] += weight

    def draw(
        self,
        *,
        direction: str = "LR",
        max_nodes: int = MAX_NODES,
        max_edges: int = MAX_EDGES,
        counted: bool = False,
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
        edges = sorted(inside[:max_edges], key=lambda edge: (order[edge[0]], order[edge[1]]))
        nodes = sorted({key for edge in edges for key in edge}, key=order.__getitem__)
        if not edges:
            return None
        text = self._text(nodes, edges, direction, counted=counted)
        check(text, max_nodes)
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
            arrow = "-.->" if edge in self.dotted else "-->"
            lines.append(f"  {ids[edge[0]]} {arrow}{weight} {ids[edge[1]]}")
        lines += [f'  click {ids[key]} href "{self.links[key]}"' for key in nodes if key in self.links]
        return "\n".join(lines)


def sequence(
    participants: Mapping[Hashable, tuple[str, str]],
    messages: Sequence[tuple[Hashable, Hashable, str]],
    dashed: Set[int] = frozenset(),
) -> Diagram | None:
    """Return a sequence diagram of messages between participants; None without messages.

    Args:
        participants: the label and the address of each, from left to right; those without messages are left
            out.
        messages: sender, receiver and text, in order.
        dashed: the messages with a dashed arrow, by their place in `messages`.
    """
    used = {key for source, target, _ in messages for key in (source, target)}
    ids = {key: f"n{number}" for number, key in enumerate((k for k in participants if k in used), start=1)}
    lines = ["sequenceDiagram"]
    for key, name in ids.items():
        lines.append(f"  participant {name} as {_spoken(participants[key][0])}")
    for number, (source, target, text) in enumerate(messages, start=1):
        arrow = "-->>" if number - 1 in dashed else "->>"
        lines.append(f"  {ids[source]}{arrow}{ids[target]}: {number}. {_spoken(text)}")
    for key, name in ids.items():
        if re.fullmatch(_ADDRESS, participants[key][1]):
            lines.append(f"  link {name}: Code @ {participants[key][1]}")
    if not messages:
        return None
    text = "\n".join(lines)
    check(text)
    return Diagram(text, len(ids), len(messages))


def _spoken(text: str) -> str:
    """Return a label for a sequence diagram, in which `end` alone is a keyword."""
    return re.sub(r"\bend\b", "End", label_of(text))


def label_of(text: str) -> str:
    """Return a name as a label: possible syntax is replaced by lookalikes, or by `_`."""
    label = _LABEL_CHARS.sub("_", visible(text).translate(_LOOKALIKES).replace("‹", "(").replace("›", ")"))
    label = " ".join(label.split()) or "_"
    return label if len(label) <= _MAX_LABEL else "..." + label[-(_MAX_LABEL - 3) :].lstrip()


def check(text: str, max_nodes: int = MAX_NODES) -> None:
    """Check that a text is a diagram as written here, and that its edges join its own nodes.

    Raises:
        DiagramError: it is not; the message names the line.
    """
    head, *lines = text.split("\n")
    if not _HEAD.fullmatch(head):
        raise DiagramError(f"line 1 does not begin a diagram: {head!r}")
    known: set[str] = set()
    for number, line in enumerate(lines, start=2):
        if node := _NODE.fullmatch(line) or _PARTICIPANT.fullmatch(line):
            label = next(label for label in node.groups()[1:] if label)
            if node[1] in known or _LABEL_CHARS.search(label) or not label.strip():
                raise DiagramError(f"line {number} repeats a node or has an invalid label: {line!r}")
            known.add(node[1])
        elif message := _MESSAGE.fullmatch(line):
            if not {message[1], message[2]} <= known or _LABEL_CHARS.search(message[3]):
                raise DiagramError(f"line {number} joins an unknown node or has invalid text: {line!r}")
        elif edge := _EDGE.fullmatch(line):
            if not {edge[1], edge[2]} <= known:
                raise DiagramError(f"line {number} joins an unknown node: {line!r}")
        elif linked := _CLICK.fullmatch(line) or _LINK.fullmatch(line):
            if linked[1] not in known:
                raise DiagramError(f"line {number} links an unknown node: {line!r}")
        else:
            raise DiagramError(f"line {number} is neither a node, an edge nor a link: {line!r}")
    if not known:
        raise DiagramError("there is no node")
    if len(known) > max_nodes:
        raise DiagramError(f"{len(known)} nodes are more than {max_nodes}")


_BLOCK = re.compile(r"^```mermaid\nflowchart \w\w\n((?:  .*\n)+)```$", re.M)


def as_text(markdown: str) -> str:
    """Return Markdown for a terminal: a graph of the supported subset is a line for each node that leads to
    others.
    """
    return _BLOCK.sub(lambda found: _arrows(found[1].splitlines()), markdown)


def _arrows(lines: Sequence[str]) -> str:
    labels, targets = dict[str, str](), dict[str, list[str]]()
    for line in lines:
        if node := _NODE.fullmatch(line):
            labels[node[1]] = node[2] or node[3]
        elif edge := _EDGE.fullmatch(line):
            targets.setdefault(edge[1], []).append(edge[2])
    rows = (
        f"- {labels.get(source, source)} → {', '.join(labels.get(one, one) for one in found)}"
        for source, found in targets.items()
    )
    return "\n".join(rows)
