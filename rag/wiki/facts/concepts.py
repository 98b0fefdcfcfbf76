"""Group code by what belongs together: communities of the graph of imports and calls.

The nodes are modules: a file, or in C a source with its header. Two modules are joined by

- what one calls of the other: each called definition adds `1 / log2(1 + users)`, where `users` is the number
  of modules that call it. A helper that everything calls says nothing about kinship;
- imports, in the same way: an import of a file that everything imports adds little;
- folders: each is a node of its own, to which a module is joined as strongly as to all other modules
  together, and that is joined to the folder around it. Packages stay whole where their code does; in a flat
  folder every module has the same tie, which decides nothing;
- words in file names that few modules have (`cluster.c`, `cluster_legacy.c`).

The communities are those of Louvain's algorithm: it needs no number of groups, its
resolution is one number, and it takes well under a second for thousands of files. A community with too much
code is divided again, in its own part of the graph; tiny ones join the community that they have most to do
with.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rag.code.survey import Survey
from rag.code.symbols import File
from rag.wiki.facts.communities import communities

LINES_PER_CONCEPT = 900
_MANY = 24
_TINY_LINES = 150
_ALONE_LINES = 40
_TINY_SHARE = 4
"""A concept with less than a quarter of the mean size joins another."""
_LARGE_SHARE = 2.5
_FOLDER_SHARE = 1.0
_PARENT_SHARE = 0.5
_NAME_AFFINITY = 0.6
_MAX_SHARED_NAME = 8
"""A word in more file names joins nothing."""
_RESOLUTIONS = (1.0, 1.5, 2.2, 3.3)
_C_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh")
_PLAIN_STEMS = frozenset("init index main mod lib util utils common test types doc setup".split())


@dataclass(slots=True)
class Concept:
    """Code files that belong together, the most central first. `title` is "" where their names give one."""

    files: list[File] = field(default_factory=list)
    title: str = ""

    @property
    def lines(self) -> int:
        """The number of lines."""
        return sum(len(file.lines) for file in self.files)


Weights = Mapping[tuple[int, int], float]


def concepts(survey: Survey, files: Sequence[File], max_concepts: int) -> list[Concept]:
    """Return the concepts of these files, those with most code first; at most `max_concepts`.

    Every file is in one concept. Equal repositories have equal concepts. [] for no files.
    """
    modules = _modules(files)
    if not modules:
        return []
    weights = _weights(survey, modules)
    sizes = [sum(len(file.lines) for file in module) for module in modules]
    wanted = min(max(1, sum(sizes) // LINES_PER_CONCEPT), _MANY, max_concepts)
    mean = sum(sizes) / wanted
    whole = _with_folders(weights, modules)
    found = _divided(set(range(len(modules))), whole, sizes, mean * _LARGE_SHARE)
    found = _merged(
        found, weights, modules, sizes, max(_TINY_LINES, mean / _TINY_SHARE), wanted, max_concepts
    )
    centrality: Counter[int] = Counter()
    for (one, other), weight in weights.items():
        centrality[one] += weight  # type: ignore[assignment]
        centrality[other] += weight  # type: ignore[assignment]
    made = []
    for group in sorted(found, key=lambda group: (-sum(sizes[n] for n in group), min(group))):
        order = sorted(group, key=lambda n: (-centrality[n], n))
        made.append(Concept([file for n in order for file in modules[n]]))
    return made


def _modules(files: Sequence[File]) -> list[list[File]]:
    """Return the files of each module: a C source with its header is one."""
    found: dict[str, list[File]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.path):
        stem, ending = posixpath.splitext(file.path)
        found[stem if ending in _C_SUFFIXES else file.path].append(file)
    return [
        sorted(module, key=lambda file: file.path.endswith((".h", ".hh", ".hpp")))
        for module in found.values()
    ]


def _weights(survey: Survey, modules: Sequence[Sequence[File]]) -> Weights:
    home = {file.path: number for number, module in enumerate(modules) for file in module}
    weights: dict[tuple[int, int], float] = defaultdict(float)

    def join(one: int, other: int, weight: float) -> None:
        if one != other:
            weights[min(one, other), max(one, other)] += weight

    callers: dict[object, set[int]] = defaultdict(set)
    for call in survey.calls:
        if call.path in home and call.callee.path in home:
            callers[call.callee].add(home[call.path])
    for callee, users in callers.items():
        for user in users:
            join(user, home[callee.path], 1 / math.log2(1 + max(1, len(users))))  # type: ignore[attr-defined]
    importers: dict[str, set[int]] = defaultdict(set)
    for link in survey.links:
        if link.source in home:
            importers[link.target].add(home[link.source])
    for target, users in importers.items():
        inside = [home[path] for path in survey.files_of(target) if path in home]
        for user in users:
            for number in inside:
                join(user, number, 1 / math.log2(1 + len(users)) / len(inside))
    _join_names(modules, join)
    _join_inner_folders(modules, join)
    return dict(sorted(weights.items()))


def _with_folders(weights: Mapping[tuple[int, int], float], modules: Sequence[Sequence[File]]) -> Weights:
    """Return the weights with a node for each folder, numbered after the modules: a module is joined to its
    folder, and a folder to the one that it is in.
    """
    strength: Counter[int] = Counter()
    for (one, other), weight in weights.items():
        strength[one] += weight  # type: ignore[assignment]
        strength[other] += weight  # type: ignore[assignment]
    whole = dict(weights)
    numbers: dict[str, int] = {}
    for number, module in enumerate(modules):
        folder, weight = module[0].folder, _FOLDER_SHARE * max(1.0, strength[number])
        inner = number
        while True:
            outer = numbers.setdefault(folder, len(modules) + len(numbers))
            whole[inner, outer] = whole.get((inner, outer), 0.0) + weight
            if not folder:
                break
            folder, inner, weight = posixpath.dirname(folder), outer, weight * _PARENT_SHARE
    return whole


def _join_names(modules: Sequence[Sequence[File]], join: Callable[[int, int, float], None]) -> None:
    named: dict[str, list[int]] = defaultdict(list)
    for number, module in enumerate(modules):
        for word in dict.fromkeys(stem_words(module[0].path)):
            named[word].append(number)
    for inside in named.values():
        if 1 < len(inside) <= _MAX_SHARED_NAME:
            for position, one in enumerate(inside):
                for other in inside[position + 1 :]:
                    join(one, other, _NAME_AFFINITY)


def _join_inner_folders(modules: Sequence[Sequence[File]], join: Callable[[int, int, float], None]) -> None:
    """Join a file to those in the folder of its name next to it: `conn.ex` and `conn/`."""
    inside: dict[str, list[int]] = defaultdict(list)
    for number, module in enumerate(modules):
        inside[module[0].folder].append(number)
    for number, module in enumerate(modules):
        for other in inside.get(posixpath.splitext(module[0].path)[0], ()):
            join(number, other, 1 / math.log2(1 + len(inside)))


def stem_words(path: str) -> list[str]:
    """Return the words of a file's name, in lower case, without those that any file may have."""
    stem = posixpath.basename(path).partition(".")[0]
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", stem)
    return [word.lower() for word in words if word.lower() not in _PLAIN_STEMS]


def _divided(nodes: set[int], weights: Weights, sizes: Sequence[int], largest: float) -> list[set[int]]:
    """Return communities of the nodes, each with at most `largest` lines where that is possible."""
    for resolution in _RESOLUTIONS:
        found = _communities(nodes, weights, len(sizes), resolution)
        if len(found) > 1:
            break
    else:
        return [nodes]
    return [
        part
        for group in found
        for part in (
            _divided(group, weights, sizes, largest)
            if len(group) > 1 and sum(sizes[n] for n in group) > largest
            else [group]
        )
    ]


def _communities(nodes: set[int], weights: Weights, count: int, resolution: float) -> list[set[int]]:
    """Return communities of modules; the nodes from `count` on are folders, which are left out of them."""
    inner = {
        (one, other): weight
        for (one, other), weight in weights.items()
        if (one in nodes or one >= count) and (other in nodes or other >= count)
    }
    found = communities({*nodes, *(node for pair in inner for node in pair)}, inner, resolution)
    inside = ({node for node in group if node < count} for group in found)
    return sorted((group for group in inside if group), key=min)


def _merged(
    groups: Iterable[set[int]],
    weights: Weights,
    modules: Sequence[Sequence[File]],
    sizes: Sequence[int],
    tiny: float,
    wanted: int,
    limit: int,
) -> list[set[int]]:
    """Return the groups without tiny ones, about as many as wanted, and at most `limit`.

    The smallest joins the group that it has most to do with. One that has to do with none stays alone, unless
    there are too many groups.
    """
    found = list(groups)
    alone: list[set[int]] = []

    def size(group: set[int]) -> int:
        return sum(sizes[node] for node in group)

    while found and len(found) + len(alone) > 1:
        group = min(found, key=lambda one: (size(one), min(one)))
        if size(group) >= tiny and len(found) + len(alone) <= wanted:
            break
        found.remove(group)
        others = [*found, *alone]
        nearest = max(others, key=lambda one: (*_affinity(group, one, weights, modules), -min(one)))
        if not _affinity(group, nearest, weights, modules)[0] and size(group) >= _ALONE_LINES:
            alone.append(group)
        else:
            nearest |= group
    found += alone
    while len(found) > limit:
        found.sort(key=lambda one: (-size(one), min(one)))
        last = found.pop()
        found[-1] |= last
    return found


def _affinity(
    one: set[int], other: set[int], weights: Weights, modules: Sequence[Sequence[File]]
) -> tuple[float, int]:
    """Return how much two groups have to do with each other, then how long a folder they share."""
    between = sum(
        weight for (a, b), weight in weights.items() if (a in one and b in other) or (a in other and b in one)
    )
    shared = posixpath.commonpath([posixpath.join("/", modules[n][0].folder) for n in (*one, *other)])
    return between / math.sqrt(len(other)), len(shared)
