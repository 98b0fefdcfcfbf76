"""`/api/conversations` and `/api/turns`: a caller's conversations."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response

from rag.errors import NotFound
from rag.schema import Json
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import requests, responses
from rag.serve.api.pagination import MAX_LIMIT, Limit, Offset, page
from rag.serve.api.rendering import Renderer, encodable
from rag.serve.service import Service
from rag.service import Dialog
from rag.service.checks.recall import recall
from rag.service.loop.corrections import correct_turn
from rag.service.upkeep import retention
from rag.types import Conversation

ConversationId = Annotated[str, Path(description="A conversation's id or name.", max_length=200)]
TurnId = Annotated[str, Path(description="A turn's id.", max_length=200)]

LastTurn = Annotated[
    str | None,
    Query(
        max_length=200,
        description='The id of the last turn that the caller has seen, "" for none. If the conversation has '
        "a newer one, nothing is removed (409).",
    ),
]

Words = Annotated[
    str, Query(min_length=1, max_length=1000, description="Words to search for.", examples=["token"])
]

T = TypeVar("T")

_TITLE_CHARS = 120


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_conversations(service))
    app.include_router(_changes(service))
    app.include_router(_turns(service))
    app.include_router(_turn_changes(service))


class CallerContext:
    """A caller's engine, store and renderer, as the routes need them."""

    def __init__(
        self, service: Service, caller: Caller, base: str = "", dialog: Dialog | None = None
    ) -> None:
        self.service, self.caller, self.namespace = service, caller, caller.namespace
        self.engine = service.engine_for(caller)
        self.store = self.engine.turns
        self.render = Renderer(service, caller, base, dialog)

    async def conversation(self, name: str) -> Conversation:
        """Return the conversation of an id or name. Raises NotFound."""
        return await to_thread(self.engine.find_conversation, name)

    async def call(self, method: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a method of the store for the caller's namespace, in a thread."""
        return await to_thread(method, *arguments, namespace=self.namespace, **options)

    def changed(self, conversation: str | None) -> None:
        """Notify the caller's clients that a conversation has changed."""
        self.service.changes.publish(self.namespace, conversation or "")

    async def body(self, conversation: Conversation) -> Json:
        """Return the JSON of a conversation."""
        return (await self.bodies([conversation]))[0]

    async def bodies(self, conversations: Sequence[Conversation]) -> list[Json]:
        """Return the JSON of several conversations, in order."""
        titles = await to_thread(lambda: [self._title(one) for one in conversations])
        pairs = zip(conversations, titles, strict=True)
        return [self.render.conversation(one, title) for one, title in pairs]

    def _title(self, conversation: Conversation) -> str:
        if conversation.name or not conversation.turn_count:
            return conversation.name
        try:
            first = self.store.turns(conversation.id, namespace=self.namespace, before=1)
            first = first or self.store.turns(conversation.id, namespace=self.namespace, last=1)
        except NotFound:  # deleted in the meantime
            return ""
        return " ".join(first[0].question.split())[:_TITLE_CHARS] if first else ""


def _conversations(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("")
    async def conversations(
        request: Request,
        response: Response,
        caller: CallerOf,
        repository: Annotated[str | None, Query(max_length=300)] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> list[responses.Conversation]:
        """List the conversations about served repositories, the last changed first; optionally about one.

        `Link` is the next page, if there is one; `X-Total-Count` is the total.
        """
        ctx = CallerContext(service, caller)
        async with service.limiter.slot():
            found = service.registry.about_served(await ctx.call(ctx.store.conversations))
        if repository is not None:
            source = service.registry.source(repository)
            found = [one for one in found if source in one.sources]
        return await ctx.bodies(page(request, response, found, limit=limit, offset=offset))

    @router.get("/{conversation}")
    async def conversation(
        request: Request, caller: CallerOf, conversation: ConversationId
    ) -> responses.ConversationDetail:
        """Return one conversation with its turns."""
        ctx = CallerContext(service, caller, str(request.base_url))
        one = await ctx.conversation(conversation)
        async with service.limiter.slot():
            turns = await ctx.call(ctx.store.turns, one.id)
        return await ctx.body(one) | {"all_turns": [ctx.render.turn(turn) for turn in turns]}

    return router


def _changes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.patch("/{conversation}")
    async def rename(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Rename
    ) -> responses.Conversation:
        """Rename a conversation."""
        ctx = CallerContext(service, caller)
        one = await ctx.conversation(conversation)
        renamed = await ctx.call(ctx.store.rename, one.id, wanted.name)
        ctx.changed(one.id)
        return await ctx.body(renamed)

    @router.post("/{conversation}/fork", status_code=201)
    async def fork(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Fork | None = None
    ) -> responses.Conversation:
        """Create a conversation that continues from a turn of this one."""
        wanted = wanted or requests.Fork()
        ctx = CallerContext(service, caller)
        one = await ctx.conversation(conversation)
        forked = await ctx.call(ctx.store.fork, one.id, at=wanted.order, name=wanted.name)
        ctx.changed(forked.id)
        return await ctx.body(forked)

    @router.delete("/{conversation}")
    async def delete(
        caller: CallerOf, conversation: ConversationId, last_turn: LastTurn = None
    ) -> responses.Deleted:
        """Delete a conversation with its turns, and all data stored for them."""
        ctx = CallerContext(service, caller)
        one = await ctx.conversation(conversation)
        gone = await to_thread(retention.delete_conversation, ctx.store, one, last_turn=last_turn)
        ctx.changed(one.id)
        return responses.Deleted(turns=gone)

    return router


def _turns(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/turns", tags=["turns"])

    @router.get("")
    async def search(
        request: Request,
        caller: CallerOf,
        q: Words,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
    ) -> list[responses.Turn]:
        """Search for turns that contain words of the query, best first."""
        ctx = CallerContext(service, caller, str(request.base_url))
        async with service.limiter.slot():
            found = await to_thread(recall, ctx.engine, q, k=limit)
        return [ctx.render.turn(turn) for turn in found]

    @router.get("/{turn}")
    async def turn(request: Request, caller: CallerOf, turn: TurnId) -> responses.Turn:
        """Return one turn."""
        ctx = CallerContext(service, caller, str(request.base_url))
        return ctx.render.turn(await ctx.call(ctx.store.turn, turn))

    @router.get("/{turn}/prompt")
    async def prompt(caller: CallerOf, turn: TurnId) -> responses.PromptBody:
        """Return the exact prompt that the model received for a turn, or null if it was not stored."""
        ctx = CallerContext(service, caller)
        found = await ctx.call(ctx.store.turn, turn)
        text = await to_thread(retention.kept_prompt, ctx.engine, found)
        return responses.PromptBody(turn=found.id, prompt=None if text is None else encodable(text))

    return router


def _turn_changes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/turns", tags=["turns"])

    @router.patch("/{turn}")
    async def correct(
        request: Request,
        caller: CallerOf,
        turn: TurnId,
        wanted: requests.CorrectAnswer | requests.CorrectQuestion,
    ) -> responses.Turn:
        """Correct a turn's question or answer. The old version is kept; marks and citations are unchanged."""
        question = wanted.question if isinstance(wanted, requests.CorrectQuestion) else None
        service.limiter.check_question(question or "")
        ctx = CallerContext(service, caller, str(request.base_url))
        edited = await ctx.call(correct_turn, ctx.store, turn, question=question, answer=wanted.answer)
        ctx.changed(edited.conversation_id)
        return ctx.render.turn(edited)

    @router.delete("/{turn}")
    async def delete(caller: CallerOf, turn: TurnId) -> responses.Deleted:
        """Delete one turn, and all data stored for it. The orders of the others are unchanged."""
        ctx = CallerContext(service, caller)
        found = await ctx.call(ctx.store.turn, turn)
        if (job := service.jobs.find(caller.namespace, turn)) is not None:
            await job.stop()
        if not await to_thread(retention.delete_turn, ctx.store, found):
            raise NotFound("the turn does not exist")
        ctx.changed(found.conversation_id)
        return responses.Deleted(turns=1)

    return router
