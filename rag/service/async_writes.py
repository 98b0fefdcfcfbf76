"""Writes from an event loop, whose outcome a cancelled caller knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def written(call: Callable[[], T]) -> T:
    """Run a call that writes to a store in a thread, and return what it returns.

    A thread cannot be stopped, so a caller that is cancelled waits until the call has ended. After
    CancelledError everything that the call writes is stored; if it failed, its error is raised instead, and
    nothing is stored. Either way nothing is written later.
    """
    running = asyncio.get_running_loop().run_in_executor(None, copy_context().run, call)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    result = running.result()
    if cancelled is not None:
        raise cancelled
    return result
