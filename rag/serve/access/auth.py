"""The caller of a route, as a dependency."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from rag.serve.access.keys import Caller


async def caller_of(request: Request) -> Caller:
    """Who sends a request: the gate has put it there. Asynchronous, so that no thread is asked for it."""
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(caller_of)]
"""A parameter of a route: `async def route(caller: CallerOf)`."""
