"""Which conversations have changed, for the clients that watch a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from rag.serve.errors import TooMany

_MAX_WATCHERS = 200
"""The limit per namespace."""
_MAX_CHANGED = 1_000
"""The limit per watcher that does not read; the oldest changes are forgotten."""
_RETRY_S = 10.0


class _Watcher:
    """The changed conversations that a client has not received yet, each once."""

    def __init__(self) -> None:
        self.changed: dict[str, None] = {}
        self.news = asyncio.Event()


class ConversationChanges:
    """The changes of conversations, by namespace: those that this server makes, and those of others.

    Attributes:
        send: notifies the other servers of a change, if there are any.
    """

    def __init__(self) -> None:
        self._watchers: dict[str, set[_Watcher]] = {}
        self.send: Callable[[str, str], None] = lambda namespace, conversation: None

    def publish(self, namespace: str, conversation: str) -> None:
        """Notify the watchers of a namespace that a conversation was created, changed or deleted."""
        self.deliver(namespace, conversation)
        self.send(namespace, conversation)

    def deliver(self, namespace: str, conversation: str) -> None:
        """Notify the watchers of this server; an empty id notifies all that they may have missed changes."""
        everyone = [watcher for some in self._watchers.values() for watcher in some]
        for watcher in self._watchers.get(namespace, ()) if conversation else everyone:
            watcher.changed.pop(conversation, None)
            watcher.changed[conversation] = None
            if len(watcher.changed) > _MAX_CHANGED:
                del watcher.changed[next(iter(watcher.changed))]
            watcher.news.set()

    async def watch(self, namespace: str, *, beat_s: float = 15) -> AsyncGenerator[str | None, None]:
        """Yield "" at the start, then the ids of conversations as they change; None is a sign of life.

        Raises:
            TooMany: too many clients watch the namespace.
        """
        watchers = self._watchers.setdefault(namespace, set())
        if len(watchers) >= _MAX_WATCHERS:
            raise TooMany(f"{len(watchers)} clients watch already; close some pages", retry_after_s=_RETRY_S)
        watcher = _Watcher()
        watchers.add(watcher)
        try:
            yield ""
            while True:
                try:
                    await asyncio.wait_for(watcher.news.wait(), beat_s)
                except TimeoutError:
                    yield None
                watcher.news.clear()
                while watcher.changed:
                    changed = next(iter(watcher.changed))
                    del watcher.changed[changed]
                    yield changed
        finally:
            watchers.discard(watcher)
            if not watchers:
                self._watchers.pop(namespace, None)
