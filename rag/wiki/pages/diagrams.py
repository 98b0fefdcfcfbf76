"""The diagrams of a wiki, drawn from the graphs of imports and calls, and their captions."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

from rag.code.call_graph import CallGraph
from rag.code.flows import CallFlow
from rag.code.symbols import Symbol
from rag.display.mermaid import MAX_EDGES, MAX_NODES, Diagram, Graph, sequence
from rag.quoting import counted
from rag.wiki.facts.facts import short_name
from rag.wiki.models import WikiPage
from rag.wiki.pages.links import CitationWriter

_MAX_PARTICIPANTS = 8
_MAX_OWN_SHARE = 0.4
"""A sequence with more messages from a participant to itself is drawn as a chart."""
_MORE_ARROWS = 3


def concepts_diagram(
    cited: CitationWriter, pages: Sequence[WikiPage], between: Mapping[tuple[str, str], int]
) -> tuple[Diagram | None, list[tuple[str, str]]]:
    """Draw the concepts that have most to do with each other; return the drawn arrows too.

    Of two concepts that use each other only the stronger arrow is drawn, and in all a few more arrows than
    concepts.
    """
    titles = {page.id: page for page in pages}
    edges = {pair: count for pair, count in between.items() if pair[0] in titles and pair[1] in titles}
    degree: dict[str, int] = {}
    for pair, count in edges.items():
        for name in pair:
            degree[name] = degree.get(name, 0) + count
    shown = set(sorted(degree, key=lambda name: (-degree[name], name))[:MAX_NODES])
    inside = sorted((pair for pair in edges if set(pair) <= shown), key=lambda pair: (-edges[pair], pair))
    kept: list[tuple[str, str]] = []
    for pair in inside:
        is_first = not set(pair) <= {name for one in kept for name in one}
        is_stronger = edges.get((pair[1], pair[0]), 0) <= edges[pair]
        if is_stronger and (is_first or len(kept) < len(shown) + _MORE_ARROWS):
            kept.append(pair)
    kept = kept[:MAX_EDGES]
    graph = Graph()
    for page in pages:
        if any(page.id in pair for pair in kept):
            graph.node(page.id, page.title, address=cited.links.page(page))
    for source, target in kept:
        graph.edge(source, target, edges[source, target])
    drawn = graph.draw(direction="TB")
    if drawn is None:
        return None, []
    return (
        Diagram(drawn.text, drawn.nodes, drawn.edges, len(pages) - drawn.nodes, len(edges) - drawn.edges),
        kept,
    )


PageOf = Callable[[str], str]
"""Returns the address of the page of a file, "" for none."""


def calls_diagram(
    cited: CitationWriter, graph: CallGraph, ranked: Sequence[Symbol], page_of: PageOf
) -> Diagram | None:
    """Draw the calls between the most important of these definitions, at most 12 and at least 3."""
    inside = set(ranked)
    weight = {symbol: len(ranked) - number for number, symbol in enumerate(ranked)}
    pairs = [
        (caller, call.callee)
        for caller in ranked
        for call in graph.called_by(caller)
        if call.callee in inside and call.callee != caller
    ]
    order = sorted(pairs, key=lambda pair: -(weight[pair[0]] + weight[pair[1]]))
    shown: dict[Symbol, None] = {}
    for caller, callee in order:
        if len({*shown, caller, callee}) <= MAX_NODES:
            shown |= {caller: None, callee: None}
    drawn = Graph()
    for symbol in sorted(shown, key=lambda symbol: (symbol.path, symbol.start)):
        drawn.node(symbol, short_name(symbol), address=_address(cited, symbol, page_of))
    kept = [pair for pair in order if set(pair) <= shown.keys()]
    for caller, callee in kept[:MAX_EDGES]:
        drawn.edge(caller, callee)
    found = drawn.draw()
    if found is None or found.nodes < 3:
        return None
    others = len({symbol for pair in pairs for symbol in pair}) - found.nodes
    return Diagram(found.text, found.nodes, found.edges, others, len(set(pairs)) - found.edges)


def flow_diagram(
    cited: CitationWriter, flow: CallFlow, page_of: PageOf, scope: Callable[[Symbol], str]
) -> Diagram | None:
    """Draw a flow as a sequence of calls between classes and files.

    `scope` returns the class of a definition, without namespaces.
    """

    def label(symbol: Symbol) -> str:
        outer = scope(symbol).partition(".")[0]
        return outer or (symbol.name if symbol.unit == "class" else symbol.path.rpartition("/")[2])

    def participant(symbol: Symbol) -> tuple[str, str]:
        return (symbol.path, label(symbol))

    addresses: dict[tuple[str, str], tuple[str, str]] = {}
    stack = {0: flow.root}
    messages: list[tuple[Hashable, Hashable, str]] = []
    for depth, call in flow.steps:
        messages.append((participant(stack[depth - 1]), participant(call.callee), call.callee.name))
        stack[depth] = call.callee
    own = sum(source == target for source, target, _ in messages)
    if own > _MAX_OWN_SHARE * len(messages) or len({participant(s) for s in flow.nodes}) > _MAX_PARTICIPANTS:
        return _flow_chart(cited, flow, page_of)
    for symbol in flow.nodes:
        if participant(symbol) not in addresses:
            addresses[participant(symbol)] = (label(symbol), _address(cited, symbol, page_of))
    handed = {number for number, (_, call) in enumerate(flow.steps) if call in flow.handed_on | flow.possible}
    drawn = sequence(_distinguished(addresses), messages, handed)
    return Diagram(drawn.text, drawn.nodes, drawn.edges, 0, flow.left_out) if drawn else None


def _distinguished(
    participants: Mapping[tuple[str, str], tuple[str, str]],
) -> dict[Hashable, tuple[str, str]]:
    """Return the participants with labels that name the folder of each of those with an equal label."""
    counts = Counter(label for label, _ in participants.values())
    return {
        (path, name): (f"{label} ({posixpath.basename(posixpath.dirname(path)) or path})", address)
        if counts[label] > 1
        else (label, address)
        for (path, name), (label, address) in participants.items()
    }


def _flow_chart(cited: CitationWriter, flow: CallFlow, page_of: PageOf) -> Diagram | None:
    graph = Graph()
    for symbol in flow.nodes:
        graph.node(symbol, short_name(symbol), address=_address(cited, symbol, page_of))
    stack = {0: flow.root}
    for number, (depth, call) in enumerate(flow.steps, start=1):
        graph.edge(stack[depth - 1], call.callee, number)
        if call in flow.handed_on | flow.possible:
            graph.dotted.add((stack[depth - 1], call.callee))
        stack[depth] = call.callee
    drawn = graph.draw(counted=True)
    return Diagram(drawn.text, drawn.nodes, drawn.edges, 0, flow.left_out) if drawn else None


def _address(cited: CitationWriter, symbol: Symbol, page_of: PageOf) -> str:
    return cited.address(symbol.path, symbol.start, symbol.end, page_of(symbol.path))


def left_out(diagram: Diagram, what: str, arrow: str) -> str:
    """Return a sentence on what the diagram omits; "Nothing is left out." when it shows all."""
    parts = []
    if diagram.nodes_left_out > 0:
        parts.append(counted(diagram.nodes_left_out, what))
    if diagram.edges_left_out > 0:
        parts.append(counted(diagram.edges_left_out, arrow))
    return f"Left out: {' and '.join(parts)}." if parts else "Nothing is left out."


def circles(between: Mapping[tuple[str, str], int]) -> list[list[str]]:
    """Return groups of two pages or more that all reach each other, largest first."""
    after: dict[str, set[str]] = defaultdict(set)
    for source, target in between:
        after[source].add(target)
    reached = {page: _reached(page, after) for page in list(after)}
    found = {frozenset(one for one in far if page in reached.get(one, ())) for page, far in reached.items()}
    return sorted(
        (sorted(group) for group in found if len(group) > 1), key=lambda group: (-len(group), group)
    )


def _reached(page: str, after: Mapping[str, set[str]]) -> set[str]:
    found, pending = set[str](), [page]
    while pending:
        following = after.get(pending.pop(), set()) - found
        found |= following
        pending += following
    return found
