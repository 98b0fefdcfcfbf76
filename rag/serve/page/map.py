"""`/api/repositories/NAME/map`: a two-dimensional map of the chunks of a repository.

The map shows the first two principal components of the chunks' vectors (Pearson 1901): points that are close
are mostly close in meaning, and the result is deterministic. It is computed once for each state of a store.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter, OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, FastAPI, Query
from pydantic import BaseModel

from rag.database.quantise import restored
from rag.database.store import Store
from rag.ports import Rows
from rag.serve.access.auth import CallerOf
from rag.serve.api.rendering import encodable
from rag.serve.api.routes import Named
from rag.serve.service import Service

Array = npt.NDArray[Any]

MAX_POINTS = 6_000
"""The sample size for a large repository, in addition to the chunks of requested files."""
MAX_FILES = 50
_FITTED = 20_000
"""The number of chunks that the components are computed from; more make no visible difference."""
_MAX_GROUPS = 10
_LARGE_SHARE = 0.3
_MAX_CACHED_MAPS = 8
_BLOCK_ROWS = 8192
_SEED = 7
_SPREAD = 1.2


class ChunkMap(BaseModel):
    """Chunks as points; the lists `x` to `end` have one entry per shown chunk.

    `x` and `y` are between -1 and 1. `explained` is the share of the variance that the map shows.
    `file` is an index into `files`, `group` one into `groups`, which are folders ("" for the rest).
    """

    chunks: int
    shown: int
    explained: float
    commit: str | None
    groups: list[str]
    files: list[str]
    group: list[int]
    x: list[float]
    y: list[float]
    file: list[int]
    start: list[int]
    end: list[int]


def install(app: FastAPI, service: Service) -> None:
    """Add the route."""
    router = APIRouter(prefix="/api", tags=["repositories"])
    planes = _Planes()

    @router.get("/repositories/{name:path}/map")
    async def chunk_map(
        caller: CallerOf,
        name: Named,
        path: Annotated[list[str], Query(max_length=MAX_FILES, description="Show all of these.")] = [],  # noqa: B006
    ) -> ChunkMap:
        """Return a two-dimensional map of the chunks: for a large repository a sample, and all of `path`."""
        repository = await service.registry.repository(name, caller=caller)
        async with service.limiter.long_slot():
            return await to_thread(lambda: planes.of(repository.store).drawn(repository.store, path))

    app.include_router(router)


@dataclass(frozen=True)
class Plane:
    """The coordinates of each chunk, (chunks, 2) in [-1, 1], and the share of the variance shown."""

    points: npt.NDArray[np.float32]
    explained: float
    sample: npt.NDArray[np.int64]
    """The shown chunks, ascending."""

    def drawn(self, store: Store, paths: list[str]) -> ChunkMap:
        """Return the map of the sample and the chunks of these files."""
        wanted = set(paths)
        extra = (
            [file for file in range(store.total_files) if store.file_path(file) in wanted] if wanted else []
        )
        live = _live(store)
        added = live[np.isin(store.file[live], np.asarray(extra, store.file.dtype))]
        chunks = np.union1d(self.sample, added)
        numbers, file = np.unique(store.file[chunks], return_inverse=True)
        files = [store.file_path(int(number)) for number in numbers]
        groups, group = grouped(files, np.bincount(file, minlength=len(files)))
        lines = [store.lines(int(chunk)) for chunk in chunks]
        return ChunkMap(
            chunks=len(live),
            shown=len(chunks),
            explained=round(self.explained, 4),
            commit=store.commit,
            groups=[encodable(name) for name in groups],
            files=[encodable(name) for name in files],
            group=group,
            x=[round(float(x), 4) for x in self.points[chunks, 0]],
            y=[round(float(y), 4) for y in self.points[chunks, 1]],
            file=file.tolist(),
            start=[first for first, _ in lines],
            end=[last for _, last in lines],
        )


class _Planes:
    """A cache of the planes of the most recently used stores."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], Plane] = OrderedDict()
        self._lock = Lock()

    def of(self, store: Store) -> Plane:
        """Return the plane of a store; compute it if the store has changed."""
        state = tuple(segment.header["id"] for segment in store.segments)
        with self._lock:  # concurrent requests compute it once
            if state not in self._known:
                self._known[state] = plane_of(store)
            self._known.move_to_end(state)
            while len(self._known) > _MAX_CACHED_MAPS:
                self._known.popitem(last=False)
            return self._known[state]


def plane_of(store: Store) -> Plane:
    """Compute the coordinates of the chunks of a store."""
    live = _live(store)
    chance = np.random.default_rng(_SEED)
    rows = np.sort(chance.permutation(live)[:MAX_POINTS])
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


def _live(store: Store) -> npt.NDArray[np.int64]:
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
