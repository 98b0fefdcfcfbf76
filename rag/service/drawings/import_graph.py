"""Graphs of a repository for people: which file or folder imports which, or who calls a definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from rag.code.graph import RepositoryGraph
from rag.code.parts import main_parts
from rag.database.store import Store
from rag.display.graph import circular_edges, graph_plot
from rag.display.plot import Plot
from rag.service.drawings.call_diagram import call_diagram

_MAX_FILES = 40
"""Of a repository with more files of code, folders are drawn."""
Edges = dict[tuple[str, str], int]


def imports_plot(store: Store, name: str, limit: int) -> Plot:
    """Return which files import which; of a larger repository, which folders. Tests are left out.

    At most `limit` are drawn, the most connected ones. An arrow that follows from others is left out.
    """
    graph = RepositoryGraph(store)
    files = [path for path, (_, kind) in store.files().items() if kind == "code"]
    edges = _imports(graph, files)
    what, group_of = "files", {path: path for path in files}
    if len(files) > _MAX_FILES:
        parts = main_parts(dict.fromkeys(files, 1), limit)
        what, group_of = "folders", {path: part or "." for part, held in parts.items() for path in held}
    joined: Edges = Counter()
    for (source, target), count in edges.items():
        one, other = group_of.get(source), group_of.get(target)
        if one and other and one != other:
            joined[one, other] += count
    weight: Counter[str] = Counter()
    for (source, target), count in joined.items():
        weight[source] += count
        weight[target] += count
    chosen = [path for path, _ in weight.most_common(limit)]
    kept = {pair: n for pair, n in joined.items() if pair[0] in chosen and pair[1] in chosen}
    drawn = reduced(sorted(chosen), kept)
    left = [
        (len(set(group_of.values())) - len(chosen), f"less connected {what}"),
        (len(kept) - len(drawn), "arrows that follow from others"),
    ]
    omitted = " and ".join(f"{count:,} {words}" for count, words in left if count)
    caption = (
        f"{name}: {what} above import those below; a dotted arrow closes a circle. Imports for types alone "
        f"and inside of functions do not count.{f' Not drawn: {omitted}.' if omitted else ''}"
    )
    return graph_plot(_short(sorted(chosen)), drawn, caption)


def calls_plot(store: Store, name: str, of: str, limit: int) -> Plot:
    """Return who certainly calls a definition, and what it calls; at most `limit` definitions.

    Raises:
        NotFound: the repository defines nothing with this name.
    """
    found = call_diagram(store, of, "callers", most=limit)
    names = [f"{one.path} {one.name}" for one in found.nodes]
    calls = [one for one in found.arrows if one.certain]
    shown = {n for n, one in enumerate(found.nodes) if not one.depth}
    shown |= {end for one in calls for end in (one.source, one.target)}
    labels = {name: found.nodes[n].name for n, name in enumerate(names) if n in shown}
    edges = {(names[one.source], names[one.target]): one.count for one in calls}
    left = len(names) - len(labels) + found.left_out
    caption = f"Who calls {of}, and what it calls, as far as it is certain."
    return graph_plot(labels, edges, caption + (f" Not drawn: {left:,} more." if left else ""))


def _imports(graph: RepositoryGraph, files: Sequence[str]) -> Edges:
    """Return the imports that take place when a file is loaded, with their number."""
    known = set(files)
    inside: dict[str, list[str]] = defaultdict(list)
    for path in files:
        inside[str(PurePosixPath(path).parent)].append(path)
    edges: Edges = Counter()
    for path in files:
        for imported, binding in graph.files.bindings(graph.files.file(path)):
            if binding is None or imported.types_only or imported.within >= 0:
                continue
            whole = binding.target.endswith("/")
            targets = inside.get(binding.target.rstrip("/"), [])[:1] if whole else [binding.target]
            for target in targets:
                if target != path and target in known:
                    edges[path, target] += 1
    return edges


def reduced(nodes: Sequence[str], edges: Mapping[tuple[str, str], int]) -> Edges:
    """Return the edges without those between nodes that a longer way connects too."""
    back = circular_edges(nodes, edges)
    after: dict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        if (source, target) not in back:
            after[source].add(target)
    reached = {node: _reached(node, after) for node in nodes}
    return {
        (source, target): count
        for (source, target), count in edges.items()
        if (source, target) in back
        or not any(target in reached[other] for other in after[source] if other != target)
    }


def _reached(node: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    work = [node]
    while work:
        new = after.get(work.pop(), set()) - found
        found |= new
        work += new
    return found


def _short(paths: Sequence[str]) -> dict[str, str]:
    """Return the last part of each path, with more of it where two have the same."""
    names = {path: path.rsplit("/", 1)[-1] for path in paths}
    twice = Counter(names.values())
    return {
        path: name if twice[name] == 1 else "/".join(path.split("/")[-2:]) for path, name in names.items()
    }
