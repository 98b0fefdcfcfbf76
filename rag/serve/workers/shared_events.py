"""What the servers of one database send each other: which conversations have changed.

One thread listens. After a break, in which events may have been missed, every client that watches is sent
the first event again, so that it loads what it shows.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
from asyncio import to_thread
from collections.abc import Callable
from typing import Any

from rag.errors import StoreError
from rag.ports import SharedState
from rag.serve.telemetry import log

_POLL_S = 1.0
_PAUSE_S = 2.0
_PRUNE_EVERY_S = 3_600.0


class SharedEvents:
    """Sends the events of this server, and receives those of others. It is created in the event loop.

    Args:
        shared: sends and receives.
        conversation_changed: called in the event loop with namespace and id; the id "" means that changes
            may have been missed, in every namespace.
    """

    def __init__(
        self,
        shared: SharedState,
        *,
        conversation_changed: Callable[[str, str], None],
    ) -> None:
        self._shared = shared
        self._conversation_changed = conversation_changed
        self._id = uuid.uuid4().hex
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._listen, name="shared-events", daemon=True)
        self._thread.start()

    def send(self, namespace: str, conversation: str) -> None:
        """Notify the other servers of a changed conversation."""
        event = {
            "kind": "conversation",
            "from": self._id,
            "namespace": namespace,
            "conversation": conversation,
        }
        task = asyncio.create_task(self._send(json.dumps(event)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, event: str) -> None:
        try:
            await to_thread(self._shared.publish, event)
        except (StoreError, ValueError) as error:
            log.warning("other servers were not notified of a change: %s", error)

    async def close(self) -> None:
        """Send what is left, and end the thread."""
        await asyncio.gather(*self._tasks)
        self._closing.set()
        await to_thread(self._thread.join)

    # ---- in the thread

    def _listen(self) -> None:
        is_away, prune_at = False, 0.0
        while not self._closing.is_set():
            try:
                if time.monotonic() >= prune_at:
                    prune_at = time.monotonic() + _PRUNE_EVERY_S
                    self._shared.prune()
                events = self._shared.listen(_POLL_S)
                if events is None:
                    self._deliver("", "")
                for text in events or ():
                    self._handle(json.loads(text))
                is_away = False
            except (StoreError, ValueError) as error:
                if not is_away:
                    log.warning("the events of other servers cannot be read, trying again: %s", error)
                is_away = True
                self._closing.wait(_PAUSE_S)

    def _handle(self, event: dict[str, Any]) -> None:
        if event.get("kind") == "conversation" and event.get("from") != self._id:
            self._deliver(str(event["namespace"]), str(event["conversation"]))

    def _deliver(self, namespace: str, conversation: str) -> None:
        if not self._closing.is_set():
            self._loop.call_soon_threadsafe(self._conversation_changed, namespace, conversation)
