"""Whether the server is well: for load balancers, containers, and Prometheus."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI, Response
from pydantic import BaseModel

from rag.serve.service import Service

PUBLIC = frozenset({"/health", "/ready"})


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok", "stopping"]
    version: str
    repositories: int
    ready: int
    indexing: int


def install(app: FastAPI, service: Service) -> None:
    """Add /health, /ready and /metrics."""

    def health() -> Health:
        shelves = service.library.shelves()
        listed = [shelf for shelf in shelves if shelf.is_listed]
        return Health(
            status="stopping" if service.limiter.stopping else "ok",
            version=app.version,
            repositories=len(listed),
            ready=sum(shelf.repository is not None for shelf in listed),
            indexing=sum(shelf.running for shelf in shelves),
        )

    # Where deepwiki-open's answer stands before ours, the specification describes that one.
    @app.get("/health", tags=["operation"], include_in_schema=not service.settings.deepwiki)
    async def alive() -> Health:
        """Whether the server is alive. Needs no key."""
        return health()

    @app.get("/ready", tags=["operation"], responses={503: {"model": Health}})
    async def ready(response: Response) -> Health:
        """Whether every repository of the list can be asked; 503 until then. Needs no key."""
        state = health()
        if state.ready < state.repositories or state.status != "ok":
            response.status_code = 503
        return state

    if service.settings.metrics:

        @app.get("/metrics", tags=["operation"], response_class=Response)
        async def metrics() -> Response:
            """Metrics as Prometheus reads them."""
            return Response(service.telemetry.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
