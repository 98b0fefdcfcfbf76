"""Store writes from an event loop whose outcome is known even when the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def written(call: Callable[[], T]) -> T:
    """Run a call that writes to a store in a thread, and return its result.

    A thread cannot be stopped, so a cancelled caller waits until the call has ended. CancelledError means
    that the call succeeded and everything is stored; if it failed, its own error is raised and nothing is
    stored. Nothing is written later in either case.
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
