"""Communities of a weighted graph by Louvain's algorithm, and its cycles.

A node joins the neighbouring community that adds most to the modularity, until none moves; then each
community becomes a node of a smaller graph, and it begins again. Nodes are visited in order, so that equal
graphs have equal communities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)
_LEAST_GAIN = 1e-9


def communities(
    nodes: Iterable[int], weights: Mapping[tuple[int, int], float], resolution: float
) -> list[set[int]]:
    """Return the communities of nodes that are joined by these weights; a higher resolution has more."""
    groups = [{node} for node in sorted(nodes)]
    while True:
        home = {node: number for number, group in enumerate(groups) for node in group}
        joined: dict[tuple[int, int], float] = defaultdict(float)
        for (one, other), weight in weights.items():
            joined[min(home[one], home[other]), max(home[one], home[other])] += weight
        moved = _moved(len(groups), joined, resolution)
        merged: dict[int, set[int]] = defaultdict(set)
        for number, group in enumerate(groups):
            merged[moved[number]] |= group
        if len(merged) == len(groups):
            return groups
        groups = list(merged.values())


def _moved(count: int, weights: Mapping[tuple[int, int], float], resolution: float) -> list[int]:
    """Return the community of each node after all moves between neighbours that add to the modularity."""
    near: list[dict[int, float]] = [{} for _ in range(count)]
    degree, total = [0.0] * count, sum(weights.values())
    for (one, other), weight in weights.items():
        degree[one] += weight
        degree[other] += weight
        if one != other:
            near[one][other] = near[other][one] = weight
    home, inside = list(range(count)), list(degree)
    pending = total > 0
    while pending:
        pending = False
        for node in range(count):
            links: dict[int, float] = defaultdict(float)
            for other, weight in near[node].items():
                links[home[other]] += weight
            own = home[node]
            inside[own] -= degree[node]
            gains = {
                to: weight - resolution * inside[to] * degree[node] / (2 * total)
                for to, weight in {own: 0.0, **links}.items()
            }
            best = max(gains, key=lambda to: (gains[to], -to))
            home[node] = best if gains[best] > gains[own] + _LEAST_GAIN else own
            inside[home[node]] += degree[node]
            pending |= home[node] != own
    return home


def cycles(arrows: Iterable[tuple[_Node, _Node]]) -> list[set[_Node]]:
    """Return the groups of two nodes or more that all reach each other."""
    after: dict[_Node, set[_Node]] = defaultdict(set)
    for source, target in arrows:
        after[source].add(target)
    reached = {node: _reached(node, after) for node in list(after)}
    found: dict[frozenset[_Node], None] = {}
    for node, far in reached.items():
        found[frozenset(other for other in far if node in reached.get(other, ()))] = None
    return [set(group) for group in found if len(group) > 1]


def _reached(node: _Node, after: Mapping[_Node, set[_Node]]) -> set[_Node]:
    found, pending = set[_Node](), [node]
    while pending:
        following = after.get(pending.pop(), set()) - found
        found |= following
        pending += following
    return found
