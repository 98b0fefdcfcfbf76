"""Whether the server is well: for load balancers, containers, and Prometheus."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from rag.serve.api.pagination import Limit, Offset, page
from rag.serve.registry import ServedRepository
from rag.serve.service import Service

PUBLIC = frozenset({"/health", "/ready"})


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok", "stopping"]
    version: str
    repositories: int
    ready: int
    indexing: int


class NotReady(BaseModel):
    """A repository that cannot be asked yet, and why."""

    name: str
    state: str
    error: str | None = None


class Readiness(Health):
    """What can be asked, and what of the list cannot: a page of it, and whether more follow."""

    not_ready: list[NotReady] = []
    more: bool = False


def install(app: FastAPI, service: Service) -> None:
    """Add /health, /ready and /metrics."""

    def health() -> dict[str, Any]:
        shelves = service.library.shelves()
        listed = [shelf for shelf in shelves if shelf.is_listed]
        return {
            "status": "stopping" if service.limiter.stopping else "ok",
            "version": app.version,
            "repositories": len(listed),
            "ready": sum(shelf.can_answer for shelf in listed),
            "indexing": sum(shelf.running for shelf in shelves),
        }

    # Where deepwiki-open's answer stands before ours, the specification describes that one.
    @app.get("/health", tags=["operation"], include_in_schema=not service.settings.deepwiki)
    async def alive() -> Health:
        """Whether the server is alive. Needs no key."""
        return Health(**health())

    @app.get("/ready", tags=["operation"], responses={503: {"model": Readiness}})
    async def ready(request: Request, response: Response, limit: Limit = 50, offset: Offset = 0) -> Readiness:
        """Whether any repository of the list can be asked; 503 until then. Needs no key.

        One that is broken holds nobody back: it is among `not_ready`, with the reason. Where the server has
        keys, names and reasons are told by `/api/repositories?ready=false` only, which needs one.
        """
        state = health()
        if state["status"] != "ok" or (state["repositories"] and not state["ready"]):
            response.status_code = 503
        if service.keyring.has_keys:
            return Readiness(**state)
        waiting = [s for s in service.library.shelves() if s.is_listed and not s.can_answer]
        shown = page(request, response, waiting, limit=limit, offset=offset)
        return Readiness(
            **state,
            not_ready=[_not_ready(service, shelf) for shelf in shown],
            more=offset + limit < len(waiting),
        )

    if service.settings.metrics:

        @app.get("/metrics", tags=["operation"], response_class=Response)
        async def metrics() -> Response:
            """Metrics as Prometheus reads them."""
            return Response(service.telemetry.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _not_ready(service: Service, shelf: ServedRepository) -> NotReady:
    error = None if shelf.error is None else service.told(str(shelf.error))
    return NotReady(name=shelf.name, state=shelf.state, error=error)
