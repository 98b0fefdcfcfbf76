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

from rag.errors import RagError
from rag.ports import Grouping, has_transactions
from rag.service import Dialog
from rag.types import Answer

_MAX_BATCH_TURNS = 8
"""The limit per transaction: the first turn waits for the last."""

Store = Callable[[], Answer]


class WriteBatcher:
    """Stores turns: in batches if the store supports it, else each in a thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Store, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def store(self, dialog: Dialog, store: Store) -> Answer:
        """Return the result of `store`, which stores a turn of the dialog, after it is written to disk.

        Raises:
            RagError: what `store` raised, and nothing of it is stored; or the transaction failed.
        """
        turns = dialog.engine.turns
        if not has_transactions(turns):
            return await to_thread(store)
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((store, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run(turns))
        return await done

    async def close(self) -> None:
        """Wait until all turns are stored."""
        if self._running is not None:
            await self._running

    async def _run(self, turns: Grouping) -> None:
        while batch := self._next():
            # Any exception is passed to all callers of the batch.
            storing = to_thread(_store_batch, turns, [store for store, _ in batch])
            (results,) = await asyncio.gather(storing, return_exceptions=True)
            for n, (_, done) in enumerate(batch):
                _resolve(done, results if isinstance(results, BaseException) else results[n])
        self._running = None

    def _next(self) -> list[tuple[Store, asyncio.Future[Answer]]]:
        """Return the next batch, oldest first, without the turns whose callers were cancelled."""
        batch: list[tuple[Store, asyncio.Future[Answer]]] = []
        while self._waiting and len(batch) < _MAX_BATCH_TURNS:
            one = self._waiting.popleft()
            if not one[1].done():
                batch.append(one)
        return batch


def _store_batch(turns: Grouping, calls: Sequence[Store]) -> list[Answer | RagError]:
    with turns.together():
        return [_outcome(call) for call in calls]


def _outcome(call: Store) -> Answer | RagError:
    try:
        return call()
    except RagError as error:
        return error


def _resolve(done: asyncio.Future[Answer], outcome: Answer | BaseException) -> None:
    """Set the result of a future, unless its caller was cancelled."""
    if done.done():
        return
    if isinstance(outcome, BaseException):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
