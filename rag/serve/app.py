"""The app: a gate, one service behind it, and doors.

How to add a door
    Write `rag.serve.DOOR` with `install(app, service)`, which adds routes to the app (or mounts one), and
    name it in `_DOORS` below. A module may also hold `PUBLIC`, the paths that need no key ("/static/" stands
    for all below it). In a route:

        async def route(caller: CallerOf)                    who asks; `caller.namespace` is whose turns
        dialog = await service.dialog(caller, ["NAME"], conversation="id or name")
        answer = await service.answered(dialog, question)    whole, stored as a turn
        async with aclosing(service.answer(dialog, question)) as pieces: …      str pieces, then the Answer
        repository = await service.library.repository("NAME", caller=caller)    open store, checkout
        found = await to_thread(dialog.search, question, k=10, turns=[])        retrieval alone
        engine = service.engine_for(caller)                                     the caller's conversations:
        turns = await to_thread(engine.turns.turns, id, namespace=caller.namespace)

    Errors: raise a `RagError` (those of `rag.serve.errors` carry a status); the handlers here give it its
    status and shape. Something that runs with the server: `service.lifespans.append(context_manager)`.
    Streams: `rag.serve.sse.EventStream` ends with its client and with the server. The engine is
    synchronous: nothing of it is called in the event loop itself, but `Service` and
    `RepositoryRegistry`.
    Nothing from a request is opened but through `service.library`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match

from rag.errors import RagError
from rag.serve.api import pagination
from rag.serve.api.responses import Error
from rag.serve.errors import headers_of, shape, shape_of, status_of
from rag.serve.middleware import Gate
from rag.serve.service import Service
from rag.serve.settings import ServerSettings

_DOORS = (
    "health",
    "openai.routes",
    "page.routes",
    "api.freshness",
    "api.routes",
    "api.transfer",
    "api.turns",
    "api.facts",
)
"""Modules of `rag.serve` with an `install`, in the order in which their routes are tried."""

_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": what}
    for status, what in (
        (400, "The request means nothing."),
        (401, "A key is needed."),
        (403, "Not served to anyone."),
        (404, "There is no such thing."),
        (408, "The body did not arrive."),
        (409, "Another thing has that name, or the conversation is about another repository."),
        (413, "Too large."),
        (422, "A field cannot be used."),
        (424, "The repository could not be indexed."),
        (429, "Too many; `Retry-After` says when to come again."),
        (500, "The server failed."),
        (502, "The model's service failed."),
        (503, "Not now; `Retry-After` says when to come again."),
    )
}

_SUMMARY = "Ask any code repository, and go on asking, with a memory that knows the code."


def create_app(settings: ServerSettings) -> FastAPI:
    """The app of a server. `app.state.service` is its Service.

    Raises:
        SettingsError: the settings would serve strangers, or cannot be used.
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="rag",
        summary=_SUMMARY,
        version=version("rag-turns"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=_RESPONSES,
    )
    app.state.service = service
    for kind, handler in _HANDLERS:
        app.add_exception_handler(kind, handler)
    public: frozenset[str] = frozenset()
    for name in doors(settings):
        door = import_module(f"rag.serve.{name}")
        door.install(app, service)
        public |= getattr(door, "PUBLIC", frozenset())
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Rag-Conversation", "X-Request-Id", "Retry-After", *pagination.HEADERS],
        )
    app.add_middleware(Gate, service=service, public=public)
    return app


def doors(settings: ServerSettings) -> tuple[str, ...]:
    """The doors that the settings open; MCP where its SDK is installed."""
    has_mcp = find_spec("mcp") is not None
    ours = (*_DOORS, *(("mcp.server",) if has_mcp else ()))
    return ("deepwiki.health", *ours, "deepwiki.routes") if settings.deepwiki else ours


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RagError)
    words = request.app.state.service.words(error)
    return JSONResponse(shape_of(error, words), status_of(error)[0], headers=headers_of(error))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the framework names the methods of the first route only
        headers["Allow"] = ", ".join(_methods(request))
    return JSONResponse(shape(error.status_code, str(error.detail)), error.status_code, headers=headers)


def _methods(request: Request) -> list[str]:
    """The methods that any route of this path has."""
    found: set[str] = set()
    for route in request.app.router.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0]) if error.errors() else {"msg": "invalid", "loc": ()}
    param = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
    message = f"{first['msg']} ({param})" if param else str(first["msg"])
    status = 400 if request.url.path.startswith("/v1/") else 422  # what OpenAI's clients expect
    return JSONResponse(shape(status, message, code="invalid", param=param or None), status)


async def _broken(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(shape(500, "the server failed; its log says how", code="internal"), 500)


_HANDLERS: tuple[tuple[type[Exception], Any], ...] = (
    (RagError, _ours),
    (HTTPException, _http),
    (RequestValidationError, _invalid),
    (Exception, _broken),
)
