"""Routes that check answers against the current code."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response

from rag.schema import add_diffs
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.pagination import MAX_LIMIT, Limit, Offset, page
from rag.serve.api.rendering import Renderer
from rag.serve.api.routes import Named
from rag.serve.api.turns import CallerContext, ConversationId
from rag.serve.errors import IndexingFailed
from rag.serve.service import Service
from rag.service.checks.freshness import Differences, checked, differences, turns_about
from rag.types import DialogTurn

Ref = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="A branch, tag or commit. Default: the current state."),
]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    for router in (_freshness(service), _about(service)):
        app.include_router(router)


def _freshness(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("/{conversation}/freshness", response_model_exclude_unset=True)
    async def freshness(
        request: Request,
        caller: CallerOf,
        conversation: ConversationId,
        ref: Ref = None,
        diff: Annotated[bool, Query(description="Add how the lines of each citation differ now.")] = False,
    ) -> list[responses.CheckedTurn]:
        """Check the lines that each answer cites; oldest turn first.

        They are compared byte for byte with the repositories on disk, or at a `ref`. For a repository that
        is not served here the result is unknown.
        """
        engine = service.engine_for(caller)
        namespace = caller.namespace
        one = await to_thread(engine.find_conversation, conversation)
        entries = [entry for source in one.sources if (entry := service.registry.entry_of(source))]
        if ref is not None:
            entries = [service.at_ref(entry, ref, caller) for entry in entries]
        for entry in entries:
            try:  # the store of an unlisted ref or URL may have been evicted
                if ref is not None or not entry.is_listed:
                    await service.registry.opened(entry)
            except IndexingFailed:
                if ref is not None:
                    raise
        served = [entry.source for entry in entries]

        def compared() -> tuple[list[DialogTurn], Differences]:
            turns = checked(engine, engine.turns.turns(one.id, namespace=namespace), served)
            return turns, differences(engine, turns, served) if diff else {}

        async with service.limiter.slot():
            turns, diffs = await to_thread(compared)
        renderer = Renderer(service, caller, str(request.base_url))
        found = [(renderer.checked_turn(turn), diffs.get(turn.id, {})) for turn in turns]
        return [responses.CheckedTurn(**(add_diffs(*each) if diff else each[0])) for each in found]

    return router


def _about(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["turns"])

    @router.get("/repositories/{name:path}/turns")
    async def about(
        request: Request,
        response: Response,
        caller: CallerOf,
        name: Named,
        path: Annotated[str, Query(min_length=1, max_length=1000, examples=["snip/auth.py"])],
        line: Annotated[int | None, Query(ge=1, le=2**31)] = None,
        limit: Limit = MAX_LIMIT,
        offset: Offset = 0,
    ) -> list[responses.TurnAbout]:
        """List the turns whose answers cite a file, or a line of it, even if the line has moved since.

        Oldest first; `NAME@REF` selects a state of the repository.
        """
        ctx = CallerContext(service, caller, str(request.base_url))
        entry = service.registry.entry(name, caller=caller)
        await service.registry.opened(entry)
        lines = None if line is None else (line, line)
        async with service.limiter.slot():
            found = await to_thread(turns_about, ctx.engine, entry.source, path, lines=lines)
        return [
            responses.TurnAbout(turn=ctx.render.turn(turn), citations=ctx.render.checked(pairs), wrote=wrote)
            for turn, pairs, wrote in page(request, response, found, limit=limit, offset=offset)
        ]

    return router
