"""Graphs of a repository for people: which file or folder imports which, or who calls a definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from rag.code.graph import RepositoryGraph
from rag.database.store import Store
from rag.display.graph import circular_edges, graph_plot
from rag.display.plot import Plot
from rag.errors import NotFound
from rag.types import CodeDefinition

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
        what, group_of = "folders", _folders(files, limit)
    joined: Edges = Counter()
    for (source, target), count in edges.items():
        one, other = group_of[source], group_of[target]
        if one != other:
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
    graph = RepositoryGraph(store)
    targets = graph.definitions(of)
    if not targets:
        raise NotFound(
            f"{name} defines nothing called {of!r}; `rag search --exact` finds where a name occurs"
        )
    edges: Edges = Counter()
    labels: dict[str, str] = {}

    def node(path: str, named: str) -> str:
        key = f"{path} {named}"
        labels.setdefault(key, named or PurePosixPath(path).name)
        return key

    for target in targets:
        node(target.path, target.qualified_name)
    for use in graph.callers(targets):
        if use.certain:
            for target in _called(targets, use.path):
                edges[node(use.path, use.within), node(target.path, target.qualified_name)] += 1
    for target in targets:
        for _, callee in graph.callees(target):
            edges[node(target.path, target.qualified_name), node(callee.path, callee.qualified_name)] += 1
    own = list(dict.fromkeys(node(target.path, target.qualified_name) for target in targets))
    others = sorted(
        set(labels) - set(own), key=lambda key: -sum(n for pair, n in edges.items() if key in pair)
    )
    chosen = [*own, *others][:limit]
    left = len(labels) - len(chosen)
    caption = f"Who calls {of}, and what it calls, as far as it is certain."
    caption += f" Not drawn: {left:,} more." if left else ""
    return graph_plot({key: labels[key] for key in chosen}, edges, caption)


def _called(targets: Sequence[CodeDefinition], path: str) -> Sequence[CodeDefinition]:
    """Return the definitions that a call in a file may mean: those of the file, if it has one."""
    return [target for target in targets if target.path == path] or targets[:1]


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


def _folders(files: Iterable[str], limit: int) -> dict[str, str]:
    """Return the folder that each file is drawn as: the largest are split while there is room."""
    depth = dict.fromkeys(files, 1)
    while True:
        folder = {path: "/".join(path.split("/")[:-1][:n]) or "." for path, n in depth.items()}
        size = Counter(folder.values())
        for name, _ in size.most_common():
            inner = [path for path, of in folder.items() if of == name]
            deeper = {"/".join(path.split("/")[:-1][: depth[path] + 1]) or "." for path in inner}
            if deeper != {name} and len(size) - 1 + len(deeper) <= limit:
                depth |= {path: depth[path] + 1 for path in inner}
                break
        else:
            return folder


def _short(paths: Sequence[str]) -> dict[str, str]:
    """Return the last part of each path, with more of it where two have the same."""
    names = {path: path.rsplit("/", 1)[-1] for path in paths}
    twice = Counter(names.values())
    return {
        path: name if twice[name] == 1 else "/".join(path.split("/")[-2:]) for path, name in names.items()
    }
