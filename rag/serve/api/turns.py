"""`/api/conversations` and `/api/turns`: what was asked and answered, each caller's own."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response

from rag.errors import NotFound
from rag.memory.search import Kind
from rag.schema import Json
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import requests, responses
from rag.serve.api.pagination import MOST, Limit, Offset, page
from rag.serve.api.rendering import Renderer, shown
from rag.serve.service import Service
from rag.service import retention
from rag.service.corrections import correct_turn
from rag.service.facts import consolidate_conversation
from rag.service.recall import recall, recall_said
from rag.types import Conversation, DialogTurn

ConversationId = Annotated[str, Path(description="A conversation's id or name.", max_length=200)]
TurnId = Annotated[str, Path(description="A turn's id.", max_length=200)]

LastTurn = Annotated[
    str | None,
    Query(
        max_length=200,
        description='The id of the last turn that the caller knows of, "" for none. If the conversation has '
        "another one by now, nothing is removed (409).",
    ),
]

Words = Annotated[
    str, Query(min_length=1, max_length=1000, description="Words to look for.", examples=["token"])
]

T = TypeVar("T")

_TITLE_CHARS = 120


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_conversations(service))
    app.include_router(_changes(service))
    app.include_router(_turns(service))
    app.include_router(_turn_changes(service))
    app.include_router(_said(service))


class Desk:
    """One caller's conversations, with what the routes need of them."""

    def __init__(self, service: Service, caller: Caller, base: str = "") -> None:
        self.service, self.caller, self.namespace = service, caller, caller.namespace
        self.engine = service.engine_for(caller)
        self.store = self.engine.turns
        self.render = Renderer(service, caller, base)

    async def conversation(self, name: str) -> Conversation:
        """The conversation of an id or name. Raises NotFound."""
        return await to_thread(self.engine.find_conversation, name)

    async def call(self, method: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call a method of the store for the caller's namespace, in a thread."""
        return await to_thread(method, *arguments, namespace=self.namespace, **options)

    async def body(self, conversation: Conversation) -> Json:
        """A conversation as it is sent."""
        return (await self.bodies([conversation]))[0]

    async def bodies(self, conversations: Sequence[Conversation]) -> list[Json]:
        """Several, in their order."""
        titles = await to_thread(lambda: [self._title(one) for one in conversations])
        pairs = zip(conversations, titles, strict=True)
        return [self.render.conversation(one, title) for one, title in pairs]

    def _title(self, conversation: Conversation) -> str:
        if conversation.name or not conversation.turn_count:
            return conversation.name
        try:
            first = self.store.turns(conversation.id, namespace=self.namespace, before=1)
            first = first or self.store.turns(conversation.id, namespace=self.namespace, last=1)
        except NotFound:  # deleted meanwhile
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
        """The conversations, the one last written to first; only those about a repository if one is named.

        A `Link` header leads to the next page where more follow; `X-Total-Count` says how many there are.
        """
        desk = Desk(service, caller)
        async with service.limiter.seat():
            found = await desk.call(desk.store.conversations)
        if repository is not None:
            source = service.library.source(repository)
            found = [one for one in found if source in one.sources]
        return await desk.bodies(page(request, response, found, limit=limit, offset=offset))

    @router.get("/{conversation}")
    async def conversation(
        request: Request, caller: CallerOf, conversation: ConversationId
    ) -> responses.ConversationDetail:
        """One conversation with its turns."""
        desk = Desk(service, caller, str(request.base_url))
        one = await desk.conversation(conversation)
        async with service.limiter.seat():
            turns = await desk.call(desk.store.turns, one.id)
        return await desk.body(one) | {"all_turns": [desk.render.turn(turn) for turn in turns]}

    return router


def _changes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.patch("/{conversation}")
    async def rename(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Rename
    ) -> responses.Conversation:
        """Give a conversation another name."""
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        return await desk.body(await desk.call(desk.store.rename, one.id, wanted.name))

    @router.post("/{conversation}/fork", status_code=201)
    async def fork(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Fork | None = None
    ) -> responses.Conversation:
        """A conversation that goes on from a turn of this one."""
        wanted = wanted or requests.Fork()
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        return await desk.body(await desk.call(desk.store.fork, one.id, at=wanted.order, name=wanted.name))

    @router.post("/{conversation}/consolidate")
    async def consolidate(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Consolidate | None = None
    ) -> responses.ConsolidatedBody:
        """Take the turns that are not in the conversation's summary yet into it; they stay as they are.

        A model writes it and names facts; without one it is a digest.
        """
        recent = wanted.keep_recent if wanted else 0
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        async with service.limiter.long_seat():
            done = await to_thread(consolidate_conversation, desk.engine, one, keep_recent=recent)
        return responses.ConsolidatedBody(
            summary=shown(done.summary), turns=done.turns, facts=[shown(fact.text) for fact in done.facts]
        )

    @router.post("/{conversation}/rewind")
    async def rewind(
        caller: CallerOf, conversation: ConversationId, wanted: requests.Rewind | requests.RewindToOrder
    ) -> responses.Deleted:
        """Take back the turns after one, and all that was kept for them. A fork keeps what it inherited."""
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        gone = await to_thread(retention.rewind, desk.store, one, to=wanted.order, last_turn=wanted.last_turn)
        return responses.Deleted(turns=gone)

    @router.delete("/{conversation}")
    async def delete(
        caller: CallerOf, conversation: ConversationId, last_turn: LastTurn = None
    ) -> responses.Deleted:
        """Delete a conversation with its turns, and all that was kept for them."""
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        gone = await to_thread(retention.delete_conversation, desk.store, one, last_turn=last_turn)
        return responses.Deleted(turns=gone)

    return router


def _turns(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/turns", tags=["turns"])

    @router.get("")
    async def search(
        request: Request,
        caller: CallerOf,
        q: Words,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 20,
    ) -> list[responses.Turn]:
        """Turns that hold words of the query, best first."""
        desk = Desk(service, caller, str(request.base_url))
        async with service.limiter.seat():
            found = await to_thread(recall, desk.engine, q, k=limit)
        return [desk.render.turn(turn) for turn in found]

    @router.get("/{turn}")
    async def turn(request: Request, caller: CallerOf, turn: TurnId) -> responses.Turn:
        """One turn."""
        desk = Desk(service, caller, str(request.base_url))
        return desk.render.turn(await desk.call(desk.store.turn, turn))

    @router.get("/{turn}/prompt")
    async def prompt(caller: CallerOf, turn: TurnId) -> responses.PromptBody:
        """What the model was shown for a turn, word for word; null where that was not kept."""
        desk = Desk(service, caller)
        found = await desk.call(desk.store.turn, turn)
        text = await to_thread(retention.kept_prompt, desk.engine, found)
        return responses.PromptBody(turn=found.id, prompt=None if text is None else shown(text))

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
        """Correct a turn's question or answer. The version before is kept; marks and citations stay."""
        question = wanted.question if isinstance(wanted, requests.CorrectQuestion) else None
        service.limiter.check_question(question or "")
        desk = Desk(service, caller, str(request.base_url))
        edited = await desk.call(correct_turn, desk.store, turn, question=question, answer=wanted.answer)
        return desk.render.turn(edited)

    @router.delete("/{turn}")
    async def delete(caller: CallerOf, turn: TurnId) -> responses.Deleted:
        """Delete one turn, and all that was kept for it. Orders of the others stay."""
        desk = Desk(service, caller)
        if not await to_thread(retention.delete_turn, desk.store, await desk.call(desk.store.turn, turn)):
            raise NotFound("there is no such turn")
        return responses.Deleted(turns=1)

    @router.post("/{turn}/marks")
    async def mark(
        request: Request, caller: CallerOf, turn: TurnId, wanted: requests.Marking
    ) -> responses.Turn:
        """Give a turn marks, and take some."""
        desk = Desk(service, caller, str(request.base_url))
        found = await desk.call(desk.store.turn, turn)
        where = (await to_thread(desk.engine.conversation_of, found)).id
        for given in wanted.add:
            await desk.call(desk.store.update_marks, where, given, ids=[turn])
        for taken in wanted.remove:
            await desk.call(desk.store.update_marks, where, None, old=taken, ids=[turn])
        return desk.render.turn(await desk.call(desk.store.turn, turn))

    return router


def _said(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["turns"])

    @router.get("/recall")
    async def said(
        request: Request,
        caller: CallerOf,
        q: Words,
        conversation: Annotated[str | None, Query(max_length=200, description="Only this one.")] = None,
        kind: Annotated[Kind | None, Query(description="Only turns, or only messages.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 20,
    ) -> list[responses.RecalledBody]:
        """Turns, and messages that other programs stored, that hold words of the query, best first."""
        desk = Desk(service, caller, str(request.base_url))
        async with service.limiter.seat():
            found = await to_thread(
                recall_said, desk.engine, q, conversation=conversation, kind=kind, k=limit
            )
        return [
            responses.RecalledBody(kind="turn", score=one.score, turn=desk.render.turn(item))
            if isinstance(item, DialogTurn)
            else responses.RecalledBody(kind="message", score=one.score, message=desk.render.message(item))
            for one, item in found
        ]

    return router
