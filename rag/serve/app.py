"""The FastAPI app: a middleware, one service, and the interface modules that add routes.

How to add an interface
    Write `rag.serve.NAME` with `install(app, service)`, which adds routes to the app (or mounts one), and
    list it in `_INTERFACES` below. The module may define `PUBLIC`, the paths that need no key ("/static/"
    includes all paths below it). In a route:

        async def route(caller: CallerOf)                    `caller.namespace` selects the turns
        dialog = await service.dialog(caller, ["NAME"], conversation="id or name")
        answer = await service.answered(dialog, question)    the complete answer, stored as a turn
        async with aclosing(service.answer(dialog, question)) as pieces: …      str pieces, then the Answer
        repository = await service.registry.repository("NAME", caller=caller)   open store, checkout
        found = await to_thread(dialog.search, question, k=10, turns=[])        retrieval only
        engine = service.engine_for(caller)                                     the caller's conversations:
        turns = await to_thread(engine.turns.turns, id, namespace=caller.namespace)

    Errors: raise a `RagError` (those of `rag.serve.errors` have a status); the handlers here render it.
    To run something as long as the server runs: `service.lifespans.append(context_manager)`.
    Streams: `rag.serve.sse.EventStream` ends with its client and with the server. The engine is
    synchronous: in the event loop, call only `Service` and `RepositoryRegistry` directly.
    Open what a request names only through `service.registry`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match

from rag.errors import RagError
from rag.serve.api import pagination
from rag.serve.api.rendering import json_response
from rag.serve.api.responses import Error
from rag.serve.errors import headers_of, invalid_request, shape, shape_of, status_of
from rag.serve.middleware import RequestMiddleware
from rag.serve.service import Service
from rag.serve.settings import ServerSettings

_INTERFACES = (
    "health",
    "openai.routes",
    "page.routes",
    "api.answers",
    "api.code",
    "api.freshness",
    "api.review",
    "api.routes",
    "api.transfer",
    "api.turns",
    "api.facts",
    "mcp.endpoint",
)
"""Modules of `rag.serve` with an `install`; their routes are matched in this order."""

_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"content": _ERROR, "description": what}
    for status, what in (
        (400, "The request is invalid."),
        (401, "A key is required."),
        (403, "Not allowed."),
        (404, "Not found."),
        (408, "The body did not arrive in time."),
        (409, "The name is taken, or the conversation is about another repository."),
        (413, "Too large."),
        (422, "A field is invalid."),
        (424, "The repository could not be indexed."),
        (429, "Too many requests; `Retry-After` gives the time to wait."),
        (500, "The server failed."),
        (502, "The model's service failed."),
        (503, "Temporarily unavailable; `Retry-After` gives the time to wait."),
    )
}
_RESPONSES[500] = {"model": Error, "description": _RESPONSES[500]["description"]}
"""The model is named once: FastAPI builds a validator for each response that names one, in each route, which
was half of the time of a server's first request."""

_SUMMARY = "Ask questions about code repositories, with a conversation memory that knows the code."


def create_app(settings: ServerSettings) -> FastAPI:
    """Create the app of a server. `app.state.service` is its Service.

    Raises:
        SettingsError: the settings are invalid, or would serve strangers.
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
        dependencies=[Depends(_known_parameters)],
    )
    app.state.service = service
    for kind, handler in _HANDLERS:
        app.add_exception_handler(kind, handler)
    public: frozenset[str] = frozenset()
    for name in interfaces(settings):
        module = import_module(f"rag.serve.{name}")
        module.install(app, service)
        public |= getattr(module, "PUBLIC", frozenset())
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Rag-Conversation", "X-Request-Id", "Retry-After", *pagination.HEADERS],
        )
    app.add_middleware(RequestMiddleware, service=service, public=public)
    return app


def interfaces(settings: ServerSettings) -> tuple[str, ...]:
    """Return the interface modules that the settings enable."""
    return ("deepwiki.health", *_INTERFACES, "deepwiki.routes") if settings.deepwiki else _INTERFACES


async def _known_parameters(request: Request) -> None:
    """Refuse a query parameter that a route of `/api` does not take; deepwiki-open's have their own class."""
    route = request.scope.get("route")
    if request.query_params and type(route) is APIRoute and route.path.startswith("/api/"):
        known = set(_query_parameters(route.dependant))
        if unknown := [name for name in request.query_params if name not in known]:
            raise RequestValidationError([{"type": "extra_forbidden", "loc": ("query", unknown[0])}])


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters that a route and its dependencies take."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_parameters(inner)


async def _rag_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RagError)
    message = request.app.state.service.public_message(error)
    return json_response(shape_of(error, message), status_of(error)[0], headers=headers_of(error))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the framework lists the methods of the first route only
        headers["Allow"] = ", ".join(_methods(request))
    return json_response(shape(error.status_code, str(error.detail)), error.status_code, headers=headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of all routes of this path."""
    found: set[str] = set()
    for route in request.app.router.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    message, param = invalid_request(error.errors(), *_names(request, error))
    status = 400 if request.url.path.startswith("/v1/") else 422  # as OpenAI's clients expect
    return json_response(shape(status, message, code="invalid", param=param or None), status)


def _names(request: Request, error: RequestValidationError) -> tuple[Sequence[str], str]:
    """Return the names that a request may use where it is invalid, and what they are."""
    route = request.scope.get("route")
    if isinstance(route, APIRoute) and error.errors()[0]["loc"][0] == "query":
        return sorted(_query_parameters(route.dependant)), "parameter"
    body = getattr(route, "body_field", None)
    model = body.field_info.annotation if body is not None else None
    return list(getattr(model, "model_fields", ())), "field"


_HANDLERS: tuple[tuple[type[Exception], Any], ...] = (
    (RagError, _rag_error),
    (HTTPException, _http),
    (RequestValidationError, _invalid),
)
