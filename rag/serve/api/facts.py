"""`/api/facts`, `/api/preferences`, `/api/cache`: what is kept beside the turns, each caller's own."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from pydantic import JsonValue

from rag.errors import NotFound
from rag.memory.facts import Fact
from rag.memory.preferences import Preferences
from rag.schema import to_json
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import requests, responses
from rag.serve.api.pagination import MOST, Limit, Offset, page
from rag.serve.api.rendering import Renderer
from rag.serve.service import Service
from rag.service.cached_answers import answers_of
from rag.service.facts import add_fact, check_facts, facts_of, forget_fact
from rag.service.recall import USER

FactId = Annotated[str, Path(description="A fact's id, or how it alone begins.", max_length=200)]
Key = Annotated[str, Path(description="What about.", min_length=1, max_length=100, examples=["language"])]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_facts(service))
    app.include_router(_preferences(service))
    app.include_router(_cache(service))


def _facts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/facts", tags=["facts"])

    def body(request: Request, fact: Fact, caller: Caller) -> responses.Fact:
        return Renderer(service, caller, str(request.base_url)).fact(fact)

    @router.get("")
    async def facts(
        request: Request,
        response: Response,
        caller: CallerOf,
        repository: Annotated[str | None, Query(max_length=300)] = None,
        check: Annotated[bool, Query(description="Say which still hold, for the code on disk.")] = False,
        limit: Limit = MOST,
        offset: Offset = 0,
    ) -> list[responses.Fact]:
        """The facts of a repository, else all, oldest first; paged as all lists are."""
        engine = service.engine_for(caller)
        location = None
        if repository is not None:
            location = service.library.shelf(repository, caller=caller).source.location
        found: Sequence[Fact] = await to_thread(facts_of(engine).list, location)
        found = page(request, response, found, limit=limit, offset=offset)
        if check:
            served = [shelf.source for shelf in service.library.seen_by(caller)]
            async with service.limiter.seat():
                found = await to_thread(check_facts, engine, found, served)
        return [body(request, fact, caller) for fact in found]

    @router.post("", status_code=201)
    async def add(
        request: Request, caller: CallerOf, wanted: requests.FactAbout | requests.FactOfTurn
    ) -> responses.Fact:
        """Keep a fact. One that a turn states rests on the lines that it cites, and holds while they do."""
        engine = service.engine_for(caller)
        if isinstance(wanted, requests.FactAbout):
            source = service.library.shelf(wanted.repository, caller=caller).source
            fact = await to_thread(add_fact, engine, wanted.text, turn=None, source=source)
        else:
            turn = await to_thread(engine.turns.turn, wanted.turn, namespace=caller.namespace)
            fact = await to_thread(add_fact, engine, wanted.text, turn=turn, source=None)
        return body(request, fact, caller)

    @router.delete("/{fact}")
    async def forget(request: Request, caller: CallerOf, fact: FactId) -> responses.Fact:
        """Forget a fact."""
        return body(request, await to_thread(forget_fact, service.engine_for(caller), fact), caller)

    return router


def _preferences(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/preferences", tags=["preferences"])

    def kept(caller: Caller) -> Preferences:
        return Preferences(service.engine_for(caller).turns, namespace=caller.namespace)

    @router.get("")
    async def preferences(caller: CallerOf) -> dict[str, JsonValue]:
        """All that the caller prefers, by key; a model is told."""
        return await to_thread(kept(caller).get_all, USER)

    @router.put("/{key}")
    async def prefer(caller: CallerOf, key: Key, wanted: requests.Preferred) -> dict[str, JsonValue]:
        """Prefer a value. `language` is the one that answers are in."""
        await to_thread(kept(caller).save, USER, key, wanted.value)
        return {key: wanted.value}

    @router.delete("/{key}", status_code=204)
    async def forget(caller: CallerOf, key: Key) -> None:
        """Prefer nothing any more."""
        if not await to_thread(kept(caller).delete, USER, key):
            raise NotFound("nothing is preferred about that")

    return router


def _cache(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/cache", tags=["cache"])

    @router.get("")
    async def stats(caller: CallerOf) -> responses.Cache:
        """How many of the caller's answers are cached, and what became of all look-ups."""
        found = await to_thread(answers_of(service.engine_for(caller)).stats)
        return to_json(found) | {"hit_rate": found.hit_rate}

    @router.delete("")
    async def clear(caller: CallerOf) -> responses.Cleared:
        """Forget the caller's cached answers; the turns that they were given in stay."""
        return responses.Cleared(cleared=await to_thread(answers_of(service.engine_for(caller)).clear))

    return router
