"""Whether what was answered still holds for the code as it is now, and what would be answered today."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response

from rag.serve.access.auth import CallerOf
from rag.serve.api import requests, responses
from rag.serve.api.pagination import MOST, Limit, Offset, page
from rag.serve.api.rendering import Renderer
from rag.serve.api.routes import Named
from rag.serve.api.turns import ConversationId, Desk, TurnId
from rag.serve.errors import IndexingFailed
from rag.serve.service import Service
from rag.serve.sse import until_gone
from rag.service.freshness import checked, turns_about
from rag.service.replay import Replay
from rag.types import DialogTurn

Ref = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="A branch, tag or commit; the present without."),
]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    for router in (_freshness(service), _about(service), _replay(service)):
        app.include_router(router)


def _freshness(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("/{conversation}/freshness")
    async def freshness(
        request: Request, caller: CallerOf, conversation: ConversationId, ref: Ref = None
    ) -> list[responses.CheckedTurn]:
        """What became of the lines that each answer rests on; oldest turn first.

        They are compared with the repositories as they are on disk, byte for byte, or at a `ref`. Of a
        repository that is not served here nothing is known.
        """
        engine = service.engine_for(caller)
        namespace = caller.namespace
        one = await to_thread(engine.find_conversation, conversation)
        shelves = [shelf for source in one.sources if (shelf := service.library.of_source(source))]
        if ref is not None:
            shelves = [service.at_ref(shelf, ref, caller) for shelf in shelves]
        for shelf in shelves:
            try:  # a ref or URL beyond the list may have made room on disk
                if ref is not None or not shelf.is_listed:
                    await service.library.opened(shelf)
            except IndexingFailed:
                if ref is not None:
                    raise
        served = [shelf.source for shelf in shelves]

        def compared() -> list[DialogTurn]:
            return checked(engine, engine.turns.turns(one.id, namespace=namespace), served)

        async with service.limiter.seat():
            turns = await to_thread(compared)
        renderer = Renderer(service, caller, str(request.base_url))
        return [responses.CheckedTurn(**renderer.checked_turn(turn)) for turn in turns]

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
        limit: Limit = MOST,
        offset: Offset = 0,
    ) -> list[responses.TurnAbout]:
        """The turns whose answers rest on a file, or on a line of it, wherever its lines stood then.

        Oldest first; with `NAME@REF` of that state of the repository.
        """
        desk = Desk(service, caller, str(request.base_url))
        shelf = service.library.shelf(name, caller=caller)
        await service.library.opened(shelf)
        async with service.limiter.seat():
            found = await to_thread(turns_about, desk.engine, shelf.source, path, line=line)
        return [
            responses.TurnAbout(turn=desk.render.turn(turn), citations=desk.render.checked(pairs))
            for turn, pairs in page(request, response, found, limit=limit, offset=offset)
        ]

    return router


def _replay(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/turns", tags=["turns"])

    @router.post("/{turn}/replay")
    async def replay(
        request: Request, caller: CallerOf, turn: TurnId, wanted: requests.ReplayRequest | None = None
    ) -> responses.ReplayBody:
        """Ask a turn's question again, of the code as it is now or at a `ref`, and say what differs.

        Nothing is stored.
        """
        desk = Desk(service, caller, str(request.base_url))
        found = await desk.call(desk.store.turn, turn)
        ref = wanted.ref if wanted else None
        return _replayed(await until_gone(request, service.replayed(caller, found, ref)), desk.render)

    return router


def _replayed(replay: Replay, renderer: Renderer) -> responses.ReplayBody:
    turn = replay.turn
    return responses.ReplayBody(
        turn=renderer.turn(turn),
        answer=renderer.answer(replay.answer),
        freshness=renderer.freshness(turn),
        differs=turn.answer.strip() != replay.answer.text.strip(),
        lost=renderer.checked(replay.lost),
        gained=[renderer.citation(citation) for citation in replay.gained],
    )
