"""The caller of a route, as a FastAPI dependency."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from rag.serve.access.keys import Caller


async def caller_of(request: Request) -> Caller:
    """Return the caller that the middleware has stored. Asynchronous, so that it needs no thread."""
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(caller_of)]
"""A parameter of a route: `async def route(caller: CallerOf)`."""
