"""MCP sessions: each belongs to the key that started it, and their number is limited.

SDK 1.x does not support this, and 2.x does so differently. So this ASGI layer wraps both: a session of
another key is reported as not found, idle sessions are ended, and above the limit the least recently used
session of the caller with the most sessions is ended.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from rag.errors import NotFound
from rag.serve.access.keys import Caller
from rag.serve.errors import TemporarilyUnavailable, TooLarge
from rag.serve.middleware import App, Message, Receive, Scope, Send

_ID = b"mcp-session-id"
_RESUME = b"last-event-id"
"""Not supported: no events are stored, so a stream starts again. The SDK does not respond to it at all."""
_MAX_MESSAGE_BYTES = 1_000_000
_RETRY_S = 5.0


@dataclass(slots=True)
class _Session:
    owner: Caller
    used: float
    requests: int = 0
    """Running requests, including open streams."""


class Sessions:
    """Wraps the SDK's endpoint, and gives each session an owner.

    Args:
        app: the SDK's endpoint.
        max_sessions: the limit of sessions.
        idle_s: seconds without a request after which a session is ended.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, app: App, *, max_sessions: int, idle_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._max_sessions, self._idle_s, self._clock = app, max_sessions, idle_s, clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._starting = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its session.

        Raises:
            TooLarge: the message is above the size limit.
            NotFound: the session does not exist, or belongs to another caller.
            TemporarilyUnavailable: the limit is reached, and all sessions are in use.
        """
        receive = await _bounded(receive)
        scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != _RESUME]}
        caller: Caller = scope["state"]["caller"]
        session_id = next((value for name, value in scope["headers"] if name == _ID), None)
        await self._end_idle(scope)
        if session_id is None:
            await self._start(caller, scope, receive, send)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != caller:
            raise NotFound("the MCP session does not exist or has ended; start one with `initialize`")
        await self._use(session_id, session, scope, receive, send)

    async def _start(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make_room(scope)
        self._starting += 1
        started: list[tuple[bytes, _Session]] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not started:
                value = next((value for name, value in message["headers"] if name.lower() == _ID), None)
                if value is not None:
                    started.append((value, _Session(caller, self._clock(), requests=1)))
                    self._sessions[value] = started[0][1]
                    self._starting -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._starting -= not started
            for session_id, session in started:
                self._mark_used(session_id, session)

    async def _use(
        self, session_id: bytes, session: _Session, scope: Scope, receive: Receive, send: Send
    ) -> None:
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        session.requests += 1
        try:
            await self._app(scope, receive, sending)
        finally:
            self._mark_used(session_id, session)
        has_ended = scope["method"] == "DELETE" and 200 <= status < 300
        if has_ended or status == 404:  # the SDK has ended it
            self._sessions.pop(session_id, None)

    def _mark_used(self, session_id: bytes, session: _Session) -> None:
        session.requests, session.used = session.requests - 1, self._clock()
        if session_id in self._sessions:
            self._sessions.move_to_end(session_id)

    async def _end_idle(self, scope: Scope) -> None:
        oldest = self._clock() - self._idle_s
        idle = [key for key, one in self._sessions.items() if not one.requests and one.used <= oldest]
        for session_id in idle:
            await self._end(session_id, scope)

    async def _make_room(self, scope: Scope) -> None:
        while len(self._sessions) + self._starting >= self._max_sessions:
            counted = Counter(one.owner for one in self._sessions.values())
            unused = [(key, one.owner) for key, one in self._sessions.items() if not one.requests]
            if not unused:
                raise TemporarilyUnavailable(
                    f"{len(self._sessions)} MCP sessions are open and in use; retry in a moment",
                    retry_after_s=_RETRY_S,
                )
            await self._end(max(unused, key=lambda pair: counted[pair[1]])[0], scope)

    async def _end(self, session_id: bytes, scope: Scope) -> None:
        """Make the SDK end a session, as a request of its client would."""
        if self._sessions.pop(session_id, None) is None:
            return
        protocol = [pair for pair in scope["headers"] if pair[0] == b"host"]
        ending = {**scope, "method": "DELETE", "headers": [*protocol, (_ID, session_id)], "query_string": b""}

        async def empty() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def discard(message: Message) -> None:
            pass

        await self._app(ending, empty, discard)


async def _bounded(receive: Receive) -> Receive:
    """Check the size of the body, which the middleware has read, and return a `receive` that replays it."""
    first: Message | None = await receive()
    size = len(first.get("body", b"")) if first else 0
    if size > _MAX_MESSAGE_BYTES:
        raise TooLarge(f"the message has {size:,} bytes, the limit is {_MAX_MESSAGE_BYTES:,}")

    async def replay() -> Message:
        nonlocal first
        message, first = first, None
        return message or await receive()

    return replay
