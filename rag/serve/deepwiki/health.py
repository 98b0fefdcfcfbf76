"""`/health` and `/` as in deepwiki-open, for programs. They are matched before our own routes.

`/ready` has the information of our `/health`, and browsers get our page at `/`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.types import Scope

from rag.serve.service import Service

PUBLIC = frozenset({"/health"})


class DeepWikiHealth(BaseModel):
    """The server is alive."""

    status: str = "healthy"
    timestamp: str
    service: str = "deepwiki-api"
    version: str


class Welcome(BaseModel):
    """The available routes, grouped by the first part of their path."""

    message: str = "Welcome to Streaming API"
    version: str
    endpoints: dict[str, list[str]]


class _ForPrograms(APIRoute):
    """A route that does not match requests of browsers, which accept HTML."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        accepts = dict(scope.get("headers") or ()).get(b"accept", b"")
        return (Match.NONE, {}) if b"text/html" in accepts else super().matches(scope)


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""

    @app.get("/health", tags=["deepwiki-open"])
    async def healthy() -> DeepWikiHealth:
        """Report that the server is alive. Needs no key."""
        return DeepWikiHealth(timestamp=datetime.now(UTC).isoformat(), version=app.version)

    async def welcome() -> Welcome:
        return Welcome(version=app.version, endpoints=_endpoints(app))

    app.router.routes.append(_ForPrograms("/", welcome, methods=["GET"], include_in_schema=False))


def _endpoints(app: FastAPI) -> dict[str, list[str]]:
    """Return all routes as `GET /path`, grouped."""
    groups: dict[str, list[str]] = {}
    for path, methods in app.openapi()["paths"].items():
        group = path.strip("/").partition("/")[0].capitalize() or "Root"
        groups.setdefault(group, []).extend(f"{method.upper()} {path}" for method in methods)
    return {group: sorted(listed) for group, listed in groups.items()}
