"""A directed graph as a plot: a mermaid diagram in which what uses is above what is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rag.display.mermaid import Graph
from rag.display.plot import Plot

_MARKS = {
    "mark": {"type": "rect", "tooltip": {"content": "data"}},
    "encoding": {
        "x": {"field": "target", "type": "nominal"},
        "y": {"field": "source", "type": "nominal"},
        "color": {"field": "count", "type": "quantitative"},
    },
}


def graph_plot(labels: Mapping[str, str], edges: Mapping[tuple[str, str], int], caption: str) -> Plot:
    """Return a plot of nodes, id → label, and edges (source, target) between them with their number of uses.

    An edge that closes a circle is dotted.
    """
    drawn = {pair: n for pair, n in edges.items() if pair[0] != pair[1] and labels.keys() >= set(pair)}
    graph = Graph(dotted=set(circular_edges(list(labels), drawn)))
    for node, label in labels.items():
        graph.node(node, label)
    for (source, target), count in drawn.items():
        graph.edge(source, target, count)
    diagram = graph.draw(direction="TB", max_nodes=len(labels), max_edges=len(drawn))
    rows = [
        {"source": source, "target": target, "count": n, "circular": (source, target) in graph.dotted}
        for (source, target), n in drawn.items()
    ]
    return Plot(caption, rows, _MARKS, diagram.text if diagram else "")


def circular_edges(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return edges without which there is no circle: those that lead to a node on the way to their source."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    back, done = set(), set()
    for root in nodes:
        way: list[str] = []
        work: list[tuple[str, bool]] = [(root, True)]
        while work:
            node, enters = work.pop()
            if not enters:
                way.pop()
                done.add(node)
            elif node not in done and node not in way:
                way.append(node)
                work.append((node, False))
                for target in after.get(node, ()):
                    if target in way:
                        back.add((node, target))
                    else:
                        work.append((target, True))
            elif node in way and len(work) and way:
                back.add((way[-1], node))
    return back
