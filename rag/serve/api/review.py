"""The route that says what a change of a repository makes false."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query

from rag.review.report import as_markdown
from rag.schema import to_json
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.rendering import sent
from rag.serve.api.routes import Named
from rag.serve.service import Service
from rag.service.checks.review import MAX_RANGE_CHARS, ReviewRange, review

Range = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=MAX_RANGE_CHARS,
        examples=["main...HEAD"],
        description="BASE..HEAD; BASE...HEAD compares with their last common commit, BASE alone with the "
        "work tree. Default: the work tree with HEAD.",
    ),
]


def install(app: FastAPI, service: Service) -> None:
    """Add the route."""
    router = APIRouter(prefix="/api", tags=["repositories"])

    @router.get("/repositories/{name:path}/review")
    async def reviewed(caller: CallerOf, name: Named, range: Range = None) -> responses.Review:
        """Say what a change makes false: callers, tests, and stored answers that rest on changed lines.

        `markdown` is the same for a pull request, with the first entries of each part.
        Both states are read from the git history of a served folder; nothing is fetched or indexed.
        """
        parsed = ReviewRange.parse(range)
        source = service.registry.entry(name, caller=caller).source
        engine = service.engine_for(caller)
        async with service.limiter.long_slot():
            found = await to_thread(review, engine, source, parsed, fetching=False)
        return sent(service, to_json(found) | {"markdown": as_markdown(found)})

    app.include_router(router)
