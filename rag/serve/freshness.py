"""`/api/conversations/ID/freshness`: whether what was answered still holds for the code as it is now."""

from __future__ import annotations

from asyncio import to_thread

from fastapi import APIRouter, FastAPI

from rag.serve import models, turn_models
from rag.serve.caller import CallerOf
from rag.serve.service import Service
from rag.serve.turns import ConversationId
from rag.service.freshness import checked
from rag.types import DialogTurn, Freshness


def install(app: FastAPI, service: Service) -> None:
    """Add the route."""
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("/{conversation}/freshness")
    async def freshness(caller: CallerOf, conversation: ConversationId) -> list[turn_models.TurnCheck]:
        """What became of the lines that each answer rests on; oldest turn first.

        They are compared with the repositories as they are on disk, byte for byte. Of a repository that is
        not served here nothing is known.
        """
        engine = service.engine_for(caller)
        namespace = caller.namespace
        one = await to_thread(engine.find_conversation, conversation)
        served = [source for source in one.sources if service.library.of_source(source)]

        def compared() -> list[DialogTurn]:
            return checked(engine, engine.turns.turns(one.id, namespace=namespace), served)

        async with service.limiter.seat():
            turns = await to_thread(compared)
        return [_turn_check(turn) for turn in turns]

    app.include_router(router)


def _turn_check(turn: DialogTurn) -> turn_models.TurnCheck:
    worst = turn.freshness or Freshness("unknown", "no source is cited")
    return turn_models.TurnCheck(
        turn=turn.id,
        state=worst.state,
        reason=models.shown(worst.reason),
        stale=worst.is_stale,
        checks=[
            turn_models.SourceCheck(
                n=citation.n,
                state=check.state,
                reason=models.shown(check.reason),
                path=models.shown(check.path),
                start=check.start,
                end=check.end,
            )
            for citation, check in zip(turn.citations, turn.checks, strict=True)
        ],
    )
