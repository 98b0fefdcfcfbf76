"""A queue for the requests of this process to one server, for servers that compute one answer at a time."""

from __future__ import annotations

import asyncio
import threading
import time

from rag.errors import ProviderError, ProviderUnreachable

_POLL_S = 0.02


class RequestQueue:
    """Admits a limited number of requests at once, from threads and event loops."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.Semaphore(at_once)

    def enter(self, host: str, timeout_s: float) -> None:
        """Wait for a place; `leave` returns it. Raises ProviderError after `timeout_s`."""
        if not self._free.acquire(timeout=timeout_s):
            raise _busy(host, timeout_s)

    async def aenter(self, host: str, timeout_s: float) -> None:
        """Wait for a place without blocking the event loop; see `enter`."""
        deadline = time.monotonic() + timeout_s
        while not self._free.acquire(blocking=False):
            if time.monotonic() > deadline:
                raise _busy(host, timeout_s)
            await asyncio.sleep(_POLL_S)

    def leave(self) -> None:
        """Give the place to the next request."""
        self._free.release()


_queues: dict[tuple[str, int], RequestQueue] = {}
_queues_lock = threading.Lock()


def queue_of(host: str, at_once: int) -> RequestQueue:
    """Return this process's queue for a server."""
    with _queues_lock:
        return _queues.setdefault((host, at_once), RequestQueue(at_once))


def _busy(host: str, timeout_s: float) -> ProviderError:
    return ProviderUnreachable(
        f"{host} was busy with other questions for {timeout_s:g} s; try again later, or raise "
        "model_concurrency (RAG_MODEL_CONCURRENCY) if the server can answer several at once",
        provider=host,
        retryable=True,
    )
