"""Health, readiness and metrics, for load balancers, containers and Prometheus."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from rag.serve.api.pagination import Limit, Offset, page
from rag.serve.repositories.entry import ServedRepository
from rag.serve.service import Service

PUBLIC = frozenset({"/health", "/ready"})


class Health(BaseModel):
    """The server is alive."""

    status: Literal["ok", "stopping"]
    version: str
    repositories: int
    ready: int
    indexing: int


class NotReady(BaseModel):
    """A repository that cannot answer questions yet, and why."""

    name: str
    state: str
    error: str | None = None


class Readiness(Health):
    """The repositories that are ready, and a page of those that are not; `more` when others follow."""

    not_ready: list[NotReady] = []
    more: bool = False


def install(app: FastAPI, service: Service) -> None:
    """Add /health, /ready and /metrics."""

    def health() -> dict[str, Any]:
        # The refs and URLs that callers have requested are theirs; others need not know how many there are.
        listed = [entry for entry in service.registry.entries() if entry.is_listed]
        return {
            "status": "stopping" if service.limiter.draining else "ok",
            "version": app.version,
            "repositories": len(listed),
            "ready": sum(entry.can_answer for entry in listed),
            "indexing": sum(entry.running for entry in listed),
        }

    # With deepwiki-open's /health installed first, the specification describes that one.
    @app.get("/health", tags=["operation"], include_in_schema=not service.settings.deepwiki)
    async def alive() -> Health:
        """Report that the server is alive. Needs no key."""
        return Health(**health())

    @app.get("/ready", tags=["operation"], responses={503: {"model": Readiness}})
    async def ready(request: Request, response: Response, limit: Limit = 50, offset: Offset = 0) -> Readiness:
        """Report whether any listed repository can answer questions; 503 until then. Needs no key.

        A broken repository does not make the server unready: `not_ready` lists it with the reason. If the
        server has keys, only `/api/repositories?ready=false`, which needs one, returns names and reasons.
        """
        state = health()
        if state["status"] != "ok" or (state["repositories"] and not state["ready"]):
            response.status_code = 503
        if service.keyring.has_keys:
            return Readiness(**state)
        waiting = [s for s in service.registry.entries() if s.is_listed and not s.can_answer]
        shown = page(request, response, waiting, limit=limit, offset=offset)
        return Readiness(
            **state,
            not_ready=[_not_ready(service, entry) for entry in shown],
            more=offset + limit < len(waiting),
        )

    @app.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(service.telemetry.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _not_ready(service: Service, entry: ServedRepository) -> NotReady:
    error = None if entry.error is None else service.redacted(str(entry.error))
    return NotReady(name=entry.name, state=entry.state, error=error)
