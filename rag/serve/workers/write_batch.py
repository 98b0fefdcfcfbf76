"""Turns stored together when several answers are whole at once.

A turn store in one file lets one writer in at a time, and each transaction waits for the disk. While one
is under way, turns of other answers come; the next transaction takes those that wait, up to a few, in the
order in which they came. So a wait for the disk holds up everybody once, and not everybody in turn.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import deque
from collections.abc import Callable, Sequence

from rag.errors import RagError
from rag.ports import Grouping
from rag.service import Dialog
from rag.types import Answer

_MAX_BATCH_TURNS = 8
"""So many turns are one transaction at most: the first of them waits for the last."""

Store = Callable[[], Answer]


class Storing:
    """Stores turns: where the store can do several calls at once together, else each in a thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Store, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def store(self, dialog: Dialog, store: Store) -> Answer:
        """What `store` returns, which stores a turn of the dialog; it is on the disk then.

        Raises:
            RagError: what `store` raised, and nothing of it is stored; or the transaction could not be ended.
        """
        turns = dialog.engine.turns
        if not isinstance(turns, Grouping):
            return await to_thread(store)
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((store, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run(turns))
        return await done

    async def close(self) -> None:
        """Wait until all is stored."""
        if self._running is not None:
            await self._running

    async def _run(self, turns: Grouping) -> None:
        while some := self._next():
            # Whatever it is that fails, everybody who waits is told.
            storing = to_thread(_together, turns, [store for store, _ in some])
            (told,) = await asyncio.gather(storing, return_exceptions=True)
            for n, (_, done) in enumerate(some):
                _tell(done, told if isinstance(told, BaseException) else told[n])
        self._running = None

    def _next(self) -> list[tuple[Store, asyncio.Future[Answer]]]:
        """Those that wait longest. Of one who has gone meanwhile nothing is stored."""
        some: list[tuple[Store, asyncio.Future[Answer]]] = []
        while self._waiting and len(some) < _MAX_BATCH_TURNS:
            one = self._waiting.popleft()
            if not one[1].done():
                some.append(one)
        return some


def _together(turns: Grouping, calls: Sequence[Store]) -> list[Answer | RagError]:
    with turns.together():
        return [_outcome(call) for call in calls]


def _outcome(call: Store) -> Answer | RagError:
    try:
        return call()
    except RagError as error:
        return error


def _tell(done: asyncio.Future[Answer], outcome: Answer | BaseException) -> None:
    """Say what came of it, unless whoever asked has gone meanwhile."""
    if done.done():
        return
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
