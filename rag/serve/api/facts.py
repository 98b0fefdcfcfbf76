"""`/api/facts` and `/api/preferences`: a caller's data other than turns."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from pydantic import JsonValue

from rag.errors import NotFound
from rag.memory.facts import Fact, FactState
from rag.memory.preferences import Preferences
from rag.serve.access.auth import CallerOf
from rag.serve.access.keys import Caller
from rag.serve.api import requests, responses
from rag.serve.api.pagination import MAX_LIMIT, Limit, Offset, page
from rag.serve.api.rendering import Renderer, json_response
from rag.serve.api.turns import ConversationId
from rag.serve.errors import BadRequest
from rag.serve.service import Service
from rag.service import Engine
from rag.service.checks.facts import (
    add_fact,
    check_facts,
    confirm_fact,
    facts_at,
    facts_of,
    forget_fact,
    reject_fact,
)
from rag.service.checks.propose_facts import propose_facts
from rag.service.checks.recall import USER
from rag.settings import FactScope
from rag.types import Source

FactId = Annotated[str, Path(description="A fact's id, or a unique prefix of it.", max_length=200)]
Key = Annotated[str, Path(description="The key.", min_length=1, max_length=100, examples=["language"])]


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    app.include_router(_facts(service))
    app.include_router(_decisions(service))
    app.include_router(_proposals(service))
    app.include_router(_preferences(service))


def _facts(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/facts", tags=["facts"])

    @router.get("")
    async def facts(
        request: Request,
        response: Response,
        caller: CallerOf,
        repository: Annotated[str | None, Query(max_length=300)] = None,
        check: Annotated[bool, Query(description="Check each fact against the code on disk.")] = False,
        state: Annotated[
            FactState, Query(description="Proposed facts wait to be confirmed; prompts hold confirmed ones.")
        ] = "confirmed",
        scope: Annotated[FactScope | None, Query(description="Whose facts. Default: all.")] = None,
        closed: Annotated[bool, Query(description="List superseded facts too.")] = False,
        at: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=200,
                description="Only the facts that held at this branch, tag or commit of the `repository`.",
            ),
        ] = None,
        limit: Limit = MAX_LIMIT,
        offset: Offset = 0,
    ) -> list[responses.Fact]:
        """List the facts of a repository or of all, oldest first, in pages.

        With `at`, they are the confirmed facts whose commit is an ancestor of that commit, and which none
        that is an ancestor too has superseded.
        """
        engine = service.engine_for(caller)
        source = None
        if repository is not None:
            source = service.registry.entry(repository, caller=caller).source
        found: Sequence[Fact] = await to_thread(_wanted, engine, source, state, scope, closed, at)
        found = page(request, response, found, limit=limit, offset=offset)
        if check:
            served = [entry.source for entry in service.registry.visible_to(caller)]
            async with service.limiter.slot():
                found = await to_thread(check_facts, engine, found, served)
        return [_fact_body(service, request, caller, fact) for fact in found]

    @router.post("", status_code=201)
    async def add(
        request: Request, caller: CallerOf, wanted: requests.FactAbout | requests.FactOfTurn
    ) -> responses.Fact:
        """Add a fact. One from a turn rests on the lines that the turn cites, and is valid while they are.

        `may_supersede` of the reply are facts about the same subject; `supersedes` closes those it names.
        """
        engine = service.engine_for(caller)
        await to_thread(_check_supersedes, engine, wanted.supersedes)
        turn = source = None
        if isinstance(wanted, requests.FactAbout):
            source = service.registry.entry(wanted.repository, caller=caller).source
        else:
            turn = await to_thread(engine.turns.turn, wanted.turn, namespace=caller.namespace)
        fact = await to_thread(
            add_fact,
            engine,
            wanted.text,
            turn=turn,
            source=source,
            scope=wanted.scope,
            supersedes=wanted.supersedes,
        )
        return _fact_body(service, request, caller, fact)

    return router


def _decisions(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/facts", tags=["facts"])

    @router.post("/{fact}/confirm")
    async def confirm(
        request: Request, caller: CallerOf, fact: FactId, wanted: requests.Confirmed | None = None
    ) -> responses.Fact:
        """Confirm a proposed fact: from now on every prompt about its repository shows it."""
        wanted = wanted or requests.Confirmed()
        engine = service.engine_for(caller)
        await to_thread(_check_supersedes, engine, wanted.supersedes)
        found = await to_thread(confirm_fact, engine, fact, scope=wanted.scope, supersedes=wanted.supersedes)
        return _fact_body(service, request, caller, found)

    @router.post("/{fact}/reject")
    async def reject(request: Request, caller: CallerOf, fact: FactId) -> responses.Fact:
        """Reject a proposed fact, so that it is not proposed again."""
        return _fact_body(
            service, request, caller, await to_thread(reject_fact, service.engine_for(caller), fact)
        )

    @router.delete("/{fact}")
    async def forget(request: Request, caller: CallerOf, fact: FactId) -> responses.Fact:
        """Delete a fact."""
        return _fact_body(
            service, request, caller, await to_thread(forget_fact, service.engine_for(caller), fact)
        )

    return router


def _proposals(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/conversations", tags=["facts"])

    @router.post("/{conversation}/facts")
    async def propose(
        request: Request, caller: CallerOf, conversation: ConversationId
    ) -> list[responses.Fact]:
        """Look for facts in a conversation, by rules and by the model if there is one; return the new ones.

        They are proposed: prompts show them once they are confirmed.
        """
        engine = service.engine_for(caller)
        one = await to_thread(engine.find_conversation, conversation)

        def found() -> list[Fact]:
            turns = engine.turns.turns(one.id, namespace=caller.namespace)
            return [facts_of(engine).with_candidates(fact) for fact in propose_facts(engine, one, turns)]

        async with service.limiter.long_slot():
            facts = await to_thread(found)
        return [_fact_body(service, request, caller, fact) for fact in facts]

    return router


def _fact_body(service: Service, request: Request, caller: Caller, fact: Fact) -> responses.Fact:
    return Renderer(service, caller, str(request.base_url)).fact(fact)


def _check_supersedes(engine: Engine, supersedes: Sequence[str]) -> None:
    """Raise BadRequest if a fact that is to be closed does not exist; a 404 is for the fact in the URL."""
    for fact in supersedes:
        try:
            facts_of(engine).fact(fact)
        except NotFound as error:
            raise BadRequest(str(error), param="supersedes") from error


def _wanted(
    engine: Engine,
    source: Source | None,
    state: FactState,
    scope: FactScope | None,
    closed: bool,
    at: str | None,
) -> list[Fact]:
    """Return the facts that a request asks for. Raises BadRequest where `at` has no repository."""
    known, location = facts_of(engine), source.location if source else None
    if at is None:
        return known.list(location, state=state, scope=scope, closed=closed)
    if source is None:
        raise BadRequest("name the repository of the commit", param="repository")
    return facts_at(engine, known.all(location, scope=scope), [source], at)


def _preferences(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/preferences", tags=["preferences"])

    def stored(caller: Caller) -> Preferences:
        return Preferences(service.engine_for(caller).turns, namespace=caller.namespace)

    @router.get("", response_model=dict[str, JsonValue])
    async def preferences(caller: CallerOf) -> Response:
        """Return all preferences of the caller, by key. They are part of each prompt."""
        return json_response(await to_thread(stored(caller).get_all, USER))

    @router.put("/{key}", response_model=dict[str, JsonValue])
    async def prefer(caller: CallerOf, key: Key, wanted: requests.Preferred) -> Response:
        """Set a preference. `language` is the language of answers."""
        await to_thread(stored(caller).save, USER, key, wanted.value)
        return json_response({key: wanted.value})

    @router.delete("/{key}", status_code=204)
    async def forget(caller: CallerOf, key: Key) -> None:
        """Delete a preference."""
        if not await to_thread(stored(caller).delete, USER, key):
            raise NotFound("there is no preference with this key")

    return router
