"""A directed graph in layers: what uses comes above what is used. The layout is Sugiyama's, in small.

Circles are opened at an edge (drawn dashed), each node is one layer below the lowest that uses it, and the
order in a layer follows the mean place of the neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.display.plot import Plot
from rag.display.svg import colour, drawing, legend, plain, shortened, text, text_width

_BOX, _LEVEL, _GAP, _MARGIN = 26, 74, 18, 10  # pixels
_MAX_LABEL = 190
_MAX_LAYER = 6
"""The number of nodes in a layer; the rest of it moves to the next."""
_SWEEPS = 8
_BEND = 36
_Place = tuple[float, float, float]
"""The middle of a node, the top of its box, and half of its width."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node: its label, its group (a colour), and what the pointer shows."""

    id: str
    label: str
    group: str = ""
    note: str = ""


def graph_plot(
    nodes: Sequence[GraphNode], edges: Mapping[tuple[str, str], int], *, caption: str, relation: str
) -> Plot:
    """Draw nodes and edges (source, target) with their number of uses; `relation` is the verb of an edge."""
    known = {node.id for node in nodes}
    drawn = {pair: n for pair, n in edges.items() if pair[0] != pair[1] and known.issuperset(pair)}
    layers, back = layered([node.id for node in nodes], list(drawn))
    at = _places(nodes, layers)
    groups = list(dict.fromkeys(node.group for node in nodes))
    by_id = {node.id: node for node in nodes}
    shapes = [_arrowhead()]
    most = max(drawn.values(), default=1)
    for (source, target), count in drawn.items():
        note = f"{by_id[source].label} {relation} {by_id[target].label} ({count})"
        shapes.append(_edge(at[source], at[target], count / most, (source, target) in back, note))
    for node in nodes:
        shapes.append(_box(node, at[node.id], colour(groups.index(node.group))))
    width = max((x + half for x, _, half in at.values()), default=200) + _MARGIN
    height = max((y for _, y, _ in at.values()), default=0) + _BOX + _MARGIN
    if any(edge in drawn for edge in back):
        width += 2 * _BEND
    if len(groups) > 1:
        key, end = legend([name or "other" for name in groups], _MARGIN, height + 14)
        shapes.append(key)
        width, height = max(width, end), height + 24
    rows = [{"source": s, "target": t, "count": n, "circular": (s, t) in back} for (s, t), n in drawn.items()]
    return Plot(
        drawing(max(width, 260), height, shapes, caption),
        caption=caption,
        rows=rows,
        vega_lite={
            "mark": {"type": "rect", "tooltip": {"content": "data"}},
            "encoding": {
                "x": {"field": "target", "type": "nominal"},
                "y": {"field": "source", "type": "nominal"},
                "color": {"field": "count", "type": "quantitative"},
            },
        },
    )


def layered(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[str]], set[tuple[str, str]]]:
    """Return the layers of nodes, each in its order, and the edges that go up again."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    back = _back_edges(nodes, after)
    down = [edge for edge in edges if edge not in back]
    level = dict.fromkeys(nodes, 0)
    for _ in nodes:
        moved = False
        for source, target in down:
            if level[target] <= level[source]:
                level[target], moved = level[source] + 1, True
        if not moved:
            break
    layers: list[list[str]] = []
    for n in range(max(level.values(), default=-1) + 1):
        members = [node for node in nodes if level[node] == n]
        layers += [members[first : first + _MAX_LAYER] for first in range(0, len(members), _MAX_LAYER)]
    return _ordered(layers, down), back


def _back_edges(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    """Return edges without which there is no circle: those that lead to a node on the way to their source."""
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


def _ordered(layers: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    neighbours: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    place = {node: n - len(layer) / 2 for layer in layers for n, node in enumerate(layer)}
    for _ in range(_SWEEPS):
        for layer in layers:
            mean = {
                node: sum(place[other] for other in neighbours[node]) / len(neighbours[node])
                if neighbours[node]
                else place[node]
                for node in layer
            }
            layer.sort(key=lambda node: mean[node])
            place |= {node: n - len(layer) / 2 for n, node in enumerate(layer)}
    return layers


def _places(nodes: Sequence[GraphNode], layers: Sequence[Sequence[str]]) -> dict[str, _Place]:
    """Return the place of each node; each layer is centred."""
    half = {node.id: (min(text_width(node.label), _MAX_LABEL) + 18) / 2 for node in nodes}
    widths = [sum(2 * half[node] + _GAP for node in layer) - _GAP for layer in layers]
    whole = max(widths, default=0)
    at: dict[str, _Place] = {}
    for n, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        x = _MARGIN + (whole - width) / 2
        for node in layer:
            at[node] = (x + half[node], _MARGIN + n * _LEVEL, half[node])
            x += 2 * half[node] + _GAP
    return at


def _arrowhead() -> str:
    return (
        '<defs><marker id="rag-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="currentColor" opacity=".6"/></marker></defs>'
    )


def _edge(source: _Place, target: _Place, weight: float, up: bool, note: str) -> str:
    x1, y1, x2, y2 = source[0], source[1] + _BOX, target[0], target[1]
    if up or y2 < y1:
        x1, y1 = source[0] + source[2], source[1] + _BOX / 2
        x2, y2 = target[0] + target[2], target[1] + _BOX / 2
        bend = max(x1, x2) + _BEND
        way = f"M{x1:.0f} {y1:.0f} C{bend:.0f} {y1:.0f} {bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    else:
        middle = (y1 + y2) / 2
        way = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"
    dashed = ' stroke-dasharray="5 4"' if up else ""
    return (
        f'<path d="{way}" fill="none" stroke="currentColor" stroke-width="{1 + 1.5 * weight:.1f}" '
        f'opacity=".45"{dashed} marker-end="url(#rag-arrow)"><title>{plain(note)}</title></path>'
    )


def _box(node: GraphNode, at: _Place, stroke: str) -> str:
    x, y, half = at
    label = shortened(node.label, _MAX_LABEL)
    return (
        f'<g><title>{plain(node.note or node.label)}</title><rect x="{x - half:.1f}" y="{y:.1f}" '
        f'width="{2 * half:.1f}" height="{_BOX}" rx="5" fill="{stroke}" fill-opacity=".14" stroke="{stroke}" '
        f'stroke-width="1.5"/>{text(x, y + 17, label, "middle")}</g>'
    )
