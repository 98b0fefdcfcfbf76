"""Add the other parts of a definition to a hit that is one part of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from rag.retrieval.search import Searcher
from rag.types import Hit

EXPANDED_HITS = 5
"""How many of the best hits are expanded."""
MAX_PARTS = 8
"""The largest number of parts added to one hit, the nearest first."""


def other_parts(searchers: Sequence[Searcher], hits: Sequence[Hit]) -> list[Hit]:
    """Return the parts of the same definition that adjoin the best hits without a gap.

    They are in the order of the hits, for each hit the nearest first. A part that is a hit itself is left
    out. Their score is 0.
    """
    known = {(hit.location, hit.path, hit.start) for hit in hits}
    found: list[Hit] = []
    for hit in hits[:EXPANDED_HITS]:
        for searcher in searchers:
            for part in _around(searcher, hit):
                if (part.location, part.path, part.start) not in known:
                    known.add((part.location, part.path, part.start))
                    found.append(part)
    return found


def _around(searcher: Searcher, hit: Hit) -> list[Hit]:
    """Return the parts of a hit's definition in one store, from the hit outwards."""
    index = searcher.index
    if not hit.symbol:
        return []
    defining = np.asarray(index.defining(hit.symbol), np.int64)
    parts = {}
    files = index.file[defining].tolist()
    of_path = {file for file in set(files) if index.file_path(file) == hit.path}
    inside = defining[[file in of_path for file in files]]
    for chunk, name in zip(inside.tolist(), index.names(inside), strict=True):
        if name == (hit.symbol, hit.scope):
            parts[index.lines(chunk)[0]] = chunk
    if hit.start not in parts:
        return []
    spans = [index.lines(chunk) for chunk in parts.values()]
    below = [start for start, _ in _chain(dict(spans)[hit.start], dict(spans), step=1)]
    above = [start for _, start in _chain(hit.start, {last: first for first, last in spans}, step=-1)]
    starts = [start for pair in zip_longest(below, above) for start in pair if start is not None]
    around = [index.hit(parts[start], 0.0, {}) for start in starts[:MAX_PARTS]]
    return [part for part in around if (part.location, part.blob) == (hit.location, hit.blob)]


def _chain(edge: int, ends: dict[int, int], *, step: int) -> list[tuple[int, int]]:
    """Return the spans that follow each other from `edge` on, as (near end, far end), nearest first."""
    chain = []
    while (other := ends.get(edge + step)) is not None:
        chain.append((edge + step, other))
        edge = other
    return chain
