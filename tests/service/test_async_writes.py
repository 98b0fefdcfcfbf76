"""A write from an event loop has ended when its caller goes on, also when that one is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.backends.memory.turns import MemoryTurnStore
from rag.backends.sqlite.turns import SqliteTurnStore
from rag.errors import NotFound
from rag.ports import MemoryStore
from rag.service.loop.async_writes import written
from tests.contracts.sample_turns import new_turn, questions


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    store = MemoryTurnStore() if request.param == "memory" else SqliteTurnStore(tmp_path / "turns.db")
    yield store
    store.close()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_write_is_stored_when_its_cancelled_caller_goes_on(store: MemoryStore, times: int) -> None:
    here = store.create_conversation().id
    begun, go_on = threading.Event(), threading.Event()

    def append() -> None:
        begun.set()
        assert go_on.wait(60)
        store.append(new_turn("late"), conversation=here)

    task = asyncio.create_task(written(append))
    await asyncio.to_thread(begun.wait)
    for _ in range(times):
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0)
        assert not done and questions(store, here) == ""
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert questions(store, here) == "late"


async def test_the_error_of_a_write_is_raised_also_to_a_cancelled_caller(store: MemoryStore) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        begun.set()
        assert go_on.wait(60)
        store.append(new_turn("lost"), conversation="nowhere")

    task = asyncio.create_task(written(fail))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    go_on.set()
    with pytest.raises(NotFound):
        await task
    with pytest.raises(NotFound):
        await written(lambda: store.turn("nobody's"))
    assert await written(lambda: 7) == 7
