"""A two-dimensional map of the chunks of a repository, with named regions.

The map shows the first two principal components of the chunks' vectors (Pearson 1901): points that are close
are mostly close in meaning, and the result is deterministic. Regions are found by k-means on the map, and
named after the words of their definitions and files that are rarer elsewhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.analysis import is_stop_word
from rag.database.quantise import restored
from rag.database.store import Store
from rag.display.plot import Plot
from rag.display.regions import MapPoint, MapRegion, map_plot
from rag.ports import Rows

Array = npt.NDArray[Any]

MAX_POINTS = 2_000
"""The number of points of a drawing; of a larger repository it shows a sample."""
_FITTED = 20_000
"""The number of chunks that the components are computed from; more make no visible difference."""
_MAX_GROUPS = 10
_LARGE_SHARE = 0.3
_BLOCK_ROWS = 8192
_SEED = 7
_SPREAD = 1.2
_MAX_REGIONS, _CHUNKS_PER_REGION = 9, 25
_ROUNDS = 30
_NAME_WORDS = 2
_MIN_WORD = 3
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""The words of an identifier: `parseHTMLText` has three."""


@dataclass(frozen=True)
class Plane:
    """The coordinates of each chunk, (chunks, 2) in [-1, 1], and the share of the variance shown."""

    points: npt.NDArray[np.float32]
    explained: float
    sample: npt.NDArray[np.int64]
    """The shown chunks, ascending."""


def plane_of(store: Store, max_points: int = MAX_POINTS) -> Plane:
    """Compute the coordinates of the chunks of a store, of which at most `max_points` are shown."""
    live = live_chunks(store)
    chance = np.random.default_rng(_SEED)
    rows = np.sort(chance.permutation(live)[:max_points])
    if len(live) < 3:
        return Plane(np.zeros((len(store), 2), np.float32), 0.0, rows)
    fitted = _rows(store, np.sort(chance.permutation(live)[:_FITTED]))
    centre = fitted.mean(axis=0)
    variance, directions = np.linalg.eigh(np.cov(fitted - centre, rowvar=False))
    plane = directions[:, :-3:-1]
    # The sign of a direction is arbitrary: make its largest number positive, so that maps are stable.
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), range(2)])
    points = np.concatenate([_projected(rows, plane) for rows in store.vectors]) - centre @ plane
    # Move outliers towards the centre, so that the other points are not crowded together.
    spread = points[live].std(axis=0)
    points = points / np.where(spread > 0, _SPREAD * spread, 1)
    points = points / np.sqrt(1 + (points**2).sum(axis=1, keepdims=True))
    points = points / max(float(np.linalg.norm(points[live], axis=1).max()), 1e-9)
    total = float(variance.sum())
    explained = float(variance[-2:].sum()) / total if total > 0 else 0.0
    return Plane(points.astype(np.float32), explained, rows)


def grouped(files: list[str], weights: npt.NDArray[np.int64]) -> tuple[list[str], list[int]]:
    """Return groups of files by folder, the largest first, and the group of each file.

    Starts with the top folders and splits the largest while there are few groups. Everything beyond the
    tenth group is one group, "".
    """
    depth = dict.fromkeys(files, 1)
    while True:
        size: Counter[str] = Counter()
        for file, weight in zip(files, weights.tolist(), strict=True):
            size[_folder(file, depth[file])] += weight
        large = [name for name, n in size.most_common() if n > _LARGE_SHARE * sum(size.values())]
        if len(size) >= _MAX_GROUPS or not large:
            break
        taken = [file for file in files if _folder(file, depth[file]) in large]
        deeper = {file: depth[file] + 1 for file in taken}
        if all(_folder(file, deeper[file]) == _folder(file, depth[file]) for file in taken):
            break
        depth |= deeper
    names = [name for name, _ in size.most_common(_MAX_GROUPS)]
    rest = len(names)
    place = {name: n for n, name in enumerate(names)}
    group = [place.get(_folder(file, depth[file]), rest) for file in files]
    return [*names, ""] if rest in group else names, group


def _folder(file: str, depth: int) -> str:
    """Return the first folders of a path; "." for a file at the top."""
    return "/".join(file.split("/")[:-1][:depth]) or "."


def live_chunks(store: Store) -> npt.NDArray[np.int64]:
    """Return the chunks of a store that are not deleted, ascending."""
    return np.arange(len(store)) if store.dead is None else np.flatnonzero(~store.dead)


def _projected(rows: Rows, plane: Array) -> Array:
    """Project rows onto the plane in blocks, so that a large store's rows are not all in memory at once."""
    parts = [
        restored(rows.codes[first : first + _BLOCK_ROWS], rows.scale[first : first + _BLOCK_ROWS]) @ plane
        for first in range(0, len(rows.codes), _BLOCK_ROWS)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 2), np.float32)


def _rows(store: Store, chunks: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    parts, first = [], 0
    for rows in store.vectors:
        own = chunks[(chunks >= first) & (chunks < first + len(rows.codes))] - first
        parts.append(restored(rows.codes[own], rows.scale[own]))
        first += len(rows.codes)
    return np.concatenate(parts)


def map_of(store: Store, name: str) -> Plot:
    """Return the map of a repository, with a colour for each folder and the names of the regions."""
    plane = plane_of(store)
    chunks = plane.sample
    numbers, file = np.unique(store.file[chunks], return_inverse=True)
    files = [store.file_path(int(number)) for number in numbers]
    groups, group = grouped(files, np.bincount(file, minlength=len(files)))
    names = chunk_names(store, chunks)
    places = [store.lines(int(chunk)) for chunk in chunks]
    points = [
        MapPoint(
            round(float(plane.points[chunk, 0]), 4),
            round(float(plane.points[chunk, 1]), 4),
            groups[group[of]] or "other folders",
            f"{files[of]}:{first}-{last}",
            named,
        )
        for chunk, of, named, (first, last) in zip(chunks, file.tolist(), names, places, strict=True)
    ]
    found = named_regions(plane, chunks, names, [files[of] for of in file.tolist()])
    total = len(live_chunks(store))
    shown = f"{len(points):,} of {total:,} chunks" if len(points) < total else f"{total:,} chunks"
    colours = " A colour is a folder." if len({point.group for point in points}) > 1 else ""
    caption = f"{name}: {shown}. Near points are similar.{colours} The map shows "
    caption += f"{plane.explained:.0%} of the differences."
    return map_plot(points, found, caption)


def chunk_names(store: Store, chunks: npt.NDArray[np.int64]) -> list[str]:
    """Return the names of what each chunk defines, in one string; "" for a chunk without any."""
    return [" ".join(filter(None, pair[::-1])) for pair in store.names(chunks)]


def named_regions(
    plane: Plane, chunks: npt.NDArray[np.int64], names: list[str], paths: list[str]
) -> list[MapRegion]:
    """Return the regions of these chunks, largest first, named after their definitions and files."""
    about = [
        _plain_words(f"{named} {PurePosixPath(path).stem}") for named, path in zip(names, paths, strict=True)
    ]
    return regions(plane.points[chunks], about)


def regions(points: npt.NDArray[np.float32], about: list[list[str]]) -> list[MapRegion]:
    """Return the regions of a map; `about` are the words of each point. None for few points."""
    count = min(len(points) // _CHUNKS_PER_REGION, _MAX_REGIONS)
    if count <= 1:
        return []
    own = _clusters(points, count)
    everywhere = Counter(word for found in about for word in set(found))
    named, taken = [], set[str]()
    for n in np.argsort(-np.bincount(own, minlength=count)).tolist():
        members = np.flatnonzero(own == n)
        here = Counter(word for member in members for word in set(about[member]))
        scored = {
            word: found * math.log(found / len(members) / (everywhere[word] / len(points)))
            for word, found in here.items()
            if word not in taken
        }
        best = _unlike(sorted(scored, key=lambda word: (-scored[word], word)))
        taken |= set(best)
        if len(members) and best:
            x, y = np.median(points[members], axis=0).tolist()
            named.append(MapRegion(x, y, " · ".join(best), len(members)))
    return named


def _unlike(ordered: list[str]) -> list[str]:
    """Return the first words that do not begin alike, as `parse` and `parser` do."""
    found: list[str] = []
    for word in ordered:
        if len(found) < _NAME_WORDS and not any(word[:4] == other[:4] for other in found):
            found.append(word)
    return found


def _plain_words(names: str) -> list[str]:
    """Return the words of identifiers in small letters, without short, common and generated ones."""
    parts = _PARTS.findall(names)
    return [w for part in parts if len(w := part.lower()) >= _MIN_WORD and not is_stop_word(w)]


def _clusters(points: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """Return the cluster of each point by k-means, which begins with points that are far from each other."""
    chosen = [int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmin())]
    far = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < count:
        chosen.append(int(far.argmax()))
        far = np.minimum(far, np.linalg.norm(points - points[chosen[-1]], axis=1))
    centres, own = points[chosen], np.zeros(len(points), np.int64)
    for _ in range(_ROUNDS):
        own = np.linalg.norm(points[:, None] - centres[None], axis=2).argmin(axis=1)
        centres = np.stack(
            [points[own == n].mean(axis=0) if (own == n).any() else centres[n] for n in range(count)]
        )
    return own
