"""Stores the turns of answers that finish at the same time in one transaction.

A turn store in one file has one writer at a time, and each transaction waits for the disk. During a
transaction, turns of other answers arrive; the next transaction takes the waiting ones, up to a limit, in
order of arrival. So each answer waits for about one disk flush, not for one flush per answer before it.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rag.errors import RagError
from rag.ports import Grouping, has_transactions
from rag.service import Dialog
from rag.service.loop.async_writes import written

_MAX_BATCH_TURNS = 8
"""The limit per transaction: the first turn waits for the last."""

T = TypeVar("T")
_Waiting = tuple[Callable[[], Any], asyncio.Future[Any]]


class WriteBatcher:
    """Stores turns: in batches if the store supports it, else each in a thread."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    async def store(self, dialog: Dialog, store: Callable[[], T]) -> T:
        """Return the result of `store`, which stores a turn of the dialog, after it is written to disk.

        If the caller is cancelled while the transaction runs, it waits for its end, as in `written`; before
        that, nothing is written.

        Raises:
            RagError: what `store` raised, and nothing of it is stored; or the transaction failed.
        """
        turns = dialog.engine.turns
        if not has_transactions(turns):
            return await written(store)
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((store, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run(turns))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if (store, done) in self._waiting:
                self._waiting.remove((store, done))
                raise
            while not done.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([done])
            done.result()
            raise

    async def close(self) -> None:
        """Wait until all turns are stored."""
        if self._running is not None:
            await self._running

    async def _run(self, turns: Grouping) -> None:
        while batch := self._next():
            # Any exception is passed to all callers of the batch.
            storing = to_thread(_store_batch, turns, [store for store, _ in batch])
            results: list[Any] | BaseException
            (results,) = await asyncio.gather(storing, return_exceptions=True)
            for n, (_, done) in enumerate(batch):
                _resolve(done, results if isinstance(results, BaseException) else results[n])
        self._running = None

    def _next(self) -> list[_Waiting]:
        """Return the next batch, oldest first."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH_TURNS))]


def _store_batch(turns: Grouping, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    with turns.together():
        return [_outcome(call) for call in calls]


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RagError as error:
        return error


def _resolve(done: asyncio.Future[Any], outcome: Any) -> None:
    """Set the result of a future."""
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
