"""`/api/repositories/NAME/map`: a two-dimensional map of the chunks of a repository.

It is computed by `rag.service.chunk_map`, once for each state of a store.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Annotated

import numpy as np
from fastapi import APIRouter, FastAPI, Query
from pydantic import BaseModel

from rag.database.store import Store
from rag.schema import Json, to_json
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.rendering import encodable
from rag.serve.api.routes import Named
from rag.serve.service import Service
from rag.service.chunk_map import Plane, chunk_names, grouped, live_chunks, named_regions, plane_of

MAX_POINTS = 6_000
"""The sample size for a large repository, in addition to the chunks of requested files."""
MAX_FILES = 50
_MAX_CACHED_MAPS = 8


class ChunkMap(BaseModel):
    """Chunks as points; the lists `x` to `end` have one entry per shown chunk.

    `x` and `y` are between -1 and 1. `explained` is the share of the variance that the map shows.
    `file` is an index into `files`, `group` one into `groups`, which are folders ("" for the rest).
    `regions` are of the sample, largest first, and none for a small repository.
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
    regions: list[responses.MapRegion]


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
            return await to_thread(lambda: drawn(planes.of(repository.store), repository.store, path))

    app.include_router(router)


def drawn(plane: Plane, store: Store, paths: list[str]) -> ChunkMap:
    """Return the map of the sample of a plane and the chunks of these files."""
    wanted = set(paths)
    extra = [file for file in range(store.total_files) if store.file_path(file) in wanted] if wanted else []
    live = live_chunks(store)
    added = live[np.isin(store.file[live], np.asarray(extra, store.file.dtype))]
    chunks = np.union1d(plane.sample, added)
    numbers, file = np.unique(store.file[chunks], return_inverse=True)
    files = [store.file_path(int(number)) for number in numbers]
    groups, group = grouped(files, np.bincount(file, minlength=len(files)))
    lines = [store.lines(int(chunk)) for chunk in chunks]
    return ChunkMap(
        chunks=len(live),
        shown=len(chunks),
        explained=round(plane.explained, 4),
        commit=store.commit,
        groups=[encodable(name) for name in groups],
        files=[encodable(name) for name in files],
        group=group,
        x=[round(float(x), 4) for x in plane.points[chunks, 0]],
        y=[round(float(y), 4) for y in plane.points[chunks, 1]],
        file=file.tolist(),
        start=[first for first, _ in lines],
        end=[last for _, last in lines],
        regions=_regions(plane, store),
    )


def _regions(plane: Plane, store: Store) -> list[Json]:
    """Return the named regions of the sample, so that they do not depend on the requested files."""
    paths = [store.file_path(int(number)) for number in store.file[plane.sample]]
    found = named_regions(plane, plane.sample, chunk_names(store, plane.sample), paths)
    return [
        to_json(replace(one, x=round(one.x, 4), y=round(one.y, 4), name=encodable(one.name))) for one in found
    ]


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
                self._known[state] = plane_of(store, MAX_POINTS)
            self._known.move_to_end(state)
            while len(self._known) > _MAX_CACHED_MAPS:
                self._known.popitem(last=False)
            return self._known[state]
