"""`/api/facts`, `/api/preferences`, `/api/cache`: what is kept beside the turns, each caller's own."""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field, JsonValue

from rag.errors import NotFound
from rag.memory.facts import Fact
from rag.memory.preferences import Preferences
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api.models import Name, Strict, shown
from rag.serve.api.pagination import MOST, Limit, Offset, page
from rag.serve.service import Service
from rag.service.cached_answers import answers_of
from rag.service.facts import add_fact, check_facts, facts_of, forget_fact
from rag.service.recall import USER
from rag.types import FreshnessState

FactId = Annotated[str, Path(description="A fact's id, or how it alone begins.", max_length=200)]
Key = Annotated[str, Path(description="What about.", min_length=1, max_length=100, examples=["language"])]


_MOST_CHARS = 10_000


class FactSource(BaseModel):
    """Lines that a fact rests on."""

    path: str
    start: int
    end: int


class FactBody(BaseModel):
    """Something that is so. `repository` is null where it is not served, `state` where it was not checked."""

    id: str
    text: str
    repository: str | None
    turn: str | None
    created: datetime
    sources: list[FactSource]
    state: FreshnessState | None = None
    reason: str = ""


FactText = Annotated[
    str, Field(min_length=1, max_length=2000, pattern=r"\S", examples=["Codes have seven signs"])
]


class FactAbout(Strict):
    """A fact about a repository, on one's own word."""

    text: FactText
    repository: Name


class FactOfTurn(Strict):
    """A fact that a turn states."""

    text: FactText
    turn: Annotated[str, Field(min_length=1, max_length=200)]


def _kept(value: JsonValue) -> JsonValue:
    """JSON knows no NaN and no infinity, though Python reads them."""
    if len(json.dumps(value, allow_nan=False)) > _MOST_CHARS:
        raise ValueError(f"a preference has at most {_MOST_CHARS:,} signs")
    return value


class Preferred(Strict):
    """A value: text, or any JSON."""

    value: Annotated[JsonValue, AfterValidator(_kept), Field(examples=["zh-CN"])]


class CacheBody(BaseModel):
    """How many answers are cached, and what became of all look-ups."""

    entries: int
    hits: int
    misses: int
    stale: int
    hit_rate: float


class Cleared(BaseModel):
    """How many answers were forgotten."""

    cleared: int


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_facts(service))
    app.include_router(_preferences(service))
    app.include_router(_cache(service))


def _facts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/facts", tags=["facts"])

    def body(fact: Fact, caller: Caller) -> FactBody:
        names = {shelf.source.location: shelf.name for shelf in reversed(service.library.seen_by(caller))}
        return FactBody(
            id=fact.id,
            text=shown(fact.text),
            repository=names.get(fact.location),
            turn=fact.turn or None,
            created=fact.created,
            sources=[FactSource(path=shown(c.path), start=c.start, end=c.end) for c in fact.citations],
            state=fact.freshness.state if fact.freshness else None,
            reason=shown(service.told(fact.freshness.reason)) if fact.freshness else "",
        )

    @router.get("")
    async def facts(
        request: Request,
        response: Response,
        caller: CallerOf,
        repository: Annotated[str | None, Query(max_length=300)] = None,
        check: Annotated[bool, Query(description="Say which still hold, for the code on disk.")] = False,
        limit: Limit = MOST,
        offset: Offset = 0,
    ) -> list[FactBody]:
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
        return [body(fact, caller) for fact in found]

    @router.post("", status_code=201)
    async def add(caller: CallerOf, wanted: FactAbout | FactOfTurn) -> FactBody:
        """Keep a fact. One that a turn states rests on the lines that it cites, and holds while they do."""
        engine = service.engine_for(caller)
        if isinstance(wanted, FactAbout):
            source = service.library.shelf(wanted.repository, caller=caller).source
            return body(await to_thread(add_fact, engine, wanted.text, turn=None, source=source), caller)
        turn = await to_thread(engine.turns.turn, wanted.turn, namespace=caller.namespace)
        return body(await to_thread(add_fact, engine, wanted.text, turn=turn, source=None), caller)

    @router.delete("/{fact}")
    async def forget(caller: CallerOf, fact: FactId) -> FactBody:
        """Forget a fact."""
        return body(await to_thread(forget_fact, service.engine_for(caller), fact), caller)

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
    async def prefer(caller: CallerOf, key: Key, wanted: Preferred) -> dict[str, JsonValue]:
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
    async def stats(caller: CallerOf) -> CacheBody:
        """How many of the caller's answers are cached, and what became of all look-ups."""
        found = await to_thread(answers_of(service.engine_for(caller)).stats)
        return CacheBody(**asdict(found), hit_rate=found.hit_rate)

    @router.delete("")
    async def clear(caller: CallerOf) -> Cleared:
        """Forget the caller's cached answers; the turns that they were given in stay."""
        return Cleared(cleared=await to_thread(answers_of(service.engine_for(caller)).clear))

    return router
