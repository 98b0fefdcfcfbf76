"""Routes that check answers against the current code."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request

from rag.schema import add_diffs
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.rendering import Renderer
from rag.serve.api.turns import ConversationId
from rag.serve.errors import IndexingFailed
from rag.serve.service import Service
from rag.service.checks.freshness import Differences, checked, differences
from rag.types import DialogTurn

Ref = Annotated[
    str | None,
    Query(min_length=1, max_length=200, description="A branch, tag or commit. Default: the current state."),
]


def install(app: FastAPI, service: Service) -> None:
    """Add the route."""
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

    app.include_router(router)
