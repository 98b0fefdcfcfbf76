"""Native routes of running answers: follow one, stop it, and watch which conversations change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Request, Response

from rag.errors import ProviderError, RagError
from rag.memory.asked import is_interrupted
from rag.serve.access.auth import CallerOf
from rag.serve.api import responses
from rag.serve.api.rendering import Renderer, sent
from rag.serve.api.turns import CallerContext, TurnId
from rag.serve.errors import AnsweredElsewhere, ModelFailed, shape_of
from rag.serve.service import Service
from rag.serve.sse import COMMENT, EventStream, event
from rag.serve.workers.answer_jobs import AnswerJob
from rag.types import Answer, DialogTurn, TraceStep

EVENTS: dict[int | str, dict[str, object]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Events."}
}

LastEventId = Annotated[
    int, Header(ge=0, description="The id of the last event that was received; 0 for all events.")
]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_running(service))
    app.include_router(_changes(service))


def _running(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/turns", tags=["questions"])

    @router.get("/{turn}/events", responses=EVENTS, response_class=Response)
    async def follow(
        request: Request, caller: CallerOf, turn: TurnId, last_event_id: LastEventId = 0
    ) -> Response:
        """Follow the answer of a turn: the events of `/api/ask` after the one with the id `Last-Event-ID`.

        If the answer is not written by this server, or ended some time ago, the only event is `turn`: the
        turn as it is stored.
        """
        ctx = CallerContext(service, caller, str(request.base_url))
        job = service.jobs.find(caller.namespace, turn)
        if job is not None:
            return answer_stream(ctx, job, after=last_event_id, is_started=True)
        found = await ctx.call(ctx.store.turn, turn)

        async def stored() -> AsyncGenerator[bytes, None]:
            yield event(ctx.render.turn(found), "turn")

        return EventStream(stored(), streams=service.streams, error_event=partial(error_event, service))

    @router.post("/{turn}/stop")
    async def stop(request: Request, caller: CallerOf, turn: TurnId) -> responses.Turn:
        """Stop the answer of a turn; return the turn with what came of it, which is kept.

        A turn that has ended is returned as it is. 409 if another process answers it.
        """
        ctx = CallerContext(service, caller, str(request.base_url))
        job = service.jobs.find(caller.namespace, turn)
        if job is not None:
            await job.stop()
        found = await ctx.call(ctx.store.turn, turn)
        if found.state == "asked" and not is_interrupted(found):
            raise AnsweredElsewhere("the turn is answered by another process; stop it there")
        return ctx.render.turn(found)

    return router


def _changes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["conversations"])

    @router.get("/events", responses=EVENTS, response_class=Response)
    async def events(caller: CallerOf) -> Response:
        """Send an event `conversation` ({"id": …}) when one of the caller's conversations changes.

        That is when a question is asked or answered, or the conversation is renamed, forked, shortened or
        deleted through this server. The first event is `watching`: changes before it are not sent.
        """

        async def changed() -> AsyncGenerator[bytes, None]:
            async with aclosing(service.changes.watch(caller.namespace)) as ids:
                async for id_ in ids:
                    if id_ is None:
                        yield COMMENT
                    else:
                        yield event({"id": id_}, "conversation") if id_ else event({}, "watching")

        return EventStream(changed(), streams=service.streams, error_event=partial(error_event, service))

    return router


def answer_stream(
    ctx: CallerContext,
    job: AnswerJob,
    *,
    after: int = 0,
    is_started: bool = False,
    start_after_s: float | None = None,
) -> EventStream:
    """Return the events of an answer after the first `after` ones, as they come.

    With `is_started` the response starts at once, so that an error is always an event.
    """
    service = ctx.service

    async def events() -> AsyncGenerator[bytes, None]:
        if is_started:
            yield COMMENT
        has_answer = False
        try:
            async with aclosing(job.follow(after)) as said:
                async for number, one in said:
                    has_answer = has_answer or isinstance(one, Answer)
                    yield COMMENT if one is None else _event(ctx.render, one, number)
        except ProviderError as error:
            raise failed(ctx.service, ctx.render, error) from error
        if not has_answer and job.turn:
            turn = await ctx.call(ctx.store.turn, job.turn)
            yield event(ctx.render.turn(turn), "turn")

    return EventStream(
        events(),
        streams=service.streams,
        error_event=partial(error_event, service),
        start_after_s=start_after_s,
    )


def _event(render: Renderer, said: Any, number: int) -> bytes:
    """Return what was said as an event with its number."""
    if isinstance(said, Answer):
        return event(render.answer(said), "answer", number)
    if isinstance(said, str):
        return event({"text": said}, "piece", number)
    if isinstance(said, DialogTurn):
        return event({"turn": said.id, "conversation": said.conversation_id}, "asked", number)
    if isinstance(said, TraceStep):
        return event(render.step(said), "step", number)
    return event({"sources": render.citations(said)}, "sources", number)


def failed(service: Service, render: Renderer, error: ProviderError) -> RagError:
    """Return the error of a failed model as callers receive it, with the answer without a model."""
    if error.quotes is None:
        return error
    quotes = sent(service, render.answer(error.quotes))
    return ModelFailed(error, service.public_message(error), {"quotes": quotes})


def error_event(service: Service, error: RagError) -> bytes:
    """Return an error as the last event of a stream."""
    return event(shape_of(error, service.public_message(error)), "error")
