"""`/health` as deepwiki-open's containers ask for it. `/ready` says what ours does."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import FastAPI
from pydantic import BaseModel

from rag.serve.service import Service

PUBLIC = frozenset({"/health"})


class DeepWikiHealth(BaseModel):
    """The server answers."""

    status: str = "healthy"
    timestamp: str
    service: str = "deepwiki-api"
    version: str


def install(app: FastAPI, service: Service) -> None:
    """Add the route; it stands before ours."""

    @app.get("/health", tags=["deepwiki-open"])
    async def healthy() -> DeepWikiHealth:
        """Whether the server is alive. Needs no key."""
        return DeepWikiHealth(timestamp=datetime.now(UTC).isoformat(), version=app.version)
