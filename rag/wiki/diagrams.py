"""The diagrams of a wiki, drawn from the graphs of imports and calls, and their captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rag.code.survey import Survey
from rag.wiki.mermaid import Diagram, Graph
from rag.wiki.models import WikiPage
from rag.wiki.modules import short_names

_MAX_OUTSIDE = 8


def pages_diagram(pages: Sequence[WikiPage], between: Mapping[tuple[str, str], int]) -> Diagram | None:
    """Draw which page's files import from which other page's, with the number of imports."""
    graph = Graph()
    for page in pages:
        graph.node(page.id, page.title)
    for (source, target), count in between.items():
        if source in graph.labels and target in graph.labels:
            graph.edge(source, target, count)
    return graph.draw(counted=True)


def modules_diagram(
    survey: Survey, paths: Sequence[str], page_of: Mapping[str, str], titles: Mapping[str, str]
) -> Diagram | None:
    """Draw the imports between these files, and the other pages most connected to them as round nodes."""
    inside = set(paths)
    graph = Graph()
    for path, name in short_names(paths).items():
        graph.node(path, name)
    outside: Counter[str] = Counter()
    edges: list[tuple[str, str]] = []
    for link in survey.links:
        for target in survey.files_of(link.target):
            if link.source in inside and target in inside:
                graph.edge(link.source, target)
            elif link.source in inside and (page := page_of.get(target)):
                outside[page] += 1
                edges.append((link.source, page))
            elif target in inside and (page := page_of.get(link.source)):
                outside[page] += 1
                edges.append((page, target))
    for page, _ in outside.most_common(_MAX_OUTSIDE):
        graph.node(page, titles[page], outside=True)
    for source, target in edges:
        if source in graph.labels and target in graph.labels:
            graph.edge(source, target)
    return graph.draw()


def calls_diagram(survey: Survey, paths: Sequence[str], limit: int = 24) -> Diagram | None:
    """Draw the calls between the most connected definitions of these files."""
    inside = set(paths)
    graph = Graph()
    calls = [call for call in survey.calls if call.path in inside and call.callee.path in inside]
    for call in calls:
        if call.caller is not None:
            graph.node(call.caller, call.caller.qualified_name)
            graph.node(call.callee, call.callee.qualified_name)
            graph.edge(call.caller, call.callee)
    return graph.draw(max_nodes=limit)


def left_out(diagram: Diagram, what: str) -> str:
    """Return a sentence on what the diagram omits; "" when it shows all."""
    if not diagram.nodes_left_out and not diagram.edges_left_out:
        return ""
    return (
        f"The {diagram.nodes:,} most connected {what} are drawn; {diagram.nodes_left_out:,} others and "
        f"{diagram.edges_left_out:,} arrows are not."
    )


def cycles(between: Mapping[tuple[str, str], int]) -> list[list[str]]:
    """Return groups of pages that all reach each other, largest first, by Tarjan's algorithm."""
    after: dict[str, list[str]] = {}
    for source, target in sorted(between):
        after.setdefault(source, []).append(target)
        after.setdefault(target, [])
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in sorted(after):
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, inner = work[-1]
            following = next(inner, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    position = stack.index(node)
                    if len(stack) - position > 1:
                        found.append(sorted(stack[position:]))
                    del stack[position:]
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(after[following])))
            elif following in stack:
                low[node] = min(low[node], index[following])
    return sorted(found, key=lambda group: (-len(group), group))
