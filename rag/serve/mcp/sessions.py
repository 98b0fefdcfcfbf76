"""Sessions of the Model Context Protocol: each belongs to the key that began it, and they are bounded.

The SDK's two lines differ in what they know of this, 1.x of nothing. So it stands before both, as ASGI: a
session of another key is answered as one that is not there, one that was not used for long is ended, and
where there are too many, the one that was used longest ago goes, of the caller who has most.
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
_MAX_MESSAGE_BYTES = 1_000_000
_RETRY_S = 5.0


@dataclass(slots=True)
class _Session:
    owner: Caller
    used: float
    requests: int = 0
    """Those under way; a stream is one as long as it is open."""


class Sessions:
    """The endpoint of the SDK, with sessions that have owners.

    Args:
        app: the SDK's endpoint.
        most: sessions at once.
        idle_s: a session that was not used for so long is ended.
        clock: seconds that never go back.
    """

    def __init__(
        self, app: App, *, most: int, idle_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._most, self._idle_s, self._clock = app, most, idle_s, clock
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._beginning = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its session.

        Raises:
            TooLarge: the message is longer than any that a tool takes.
            NotFound: the session is not there, or not the caller's.
            TemporarilyUnavailable: there are too many sessions, and all are in use.
        """
        receive = await _bounded(receive)
        caller: Caller = scope["state"]["caller"]
        session_id = next((value for name, value in scope["headers"] if name == _ID), None)
        await self._end_idle(scope)
        if session_id is None:
            await self._begin(caller, scope, receive, send)
            return
        session = self._sessions.get(session_id)
        if session is None or session.owner != caller:
            raise NotFound("there is no such MCP session (any more); begin one with `initialize`")
        await self._use(session_id, session, scope, receive, send)

    async def _begin(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make_room(scope)
        self._beginning += 1
        begun: list[tuple[bytes, _Session]] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not begun:
                value = next((value for name, value in message["headers"] if name.lower() == _ID), None)
                if value is not None:
                    begun.append((value, _Session(caller, self._clock(), requests=1)))
                    self._sessions[value] = begun[0][1]
                    self._beginning -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._beginning -= not begun
            for session_id, session in begun:
                self._used(session_id, session)

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
            self._used(session_id, session)
        has_ended = scope["method"] == "DELETE" and 200 <= status < 300
        if has_ended or status == 404:  # the SDK has ended it by itself
            self._sessions.pop(session_id, None)

    def _used(self, session_id: bytes, session: _Session) -> None:
        session.requests, session.used = session.requests - 1, self._clock()
        if session_id in self._sessions:
            self._sessions.move_to_end(session_id)

    async def _end_idle(self, scope: Scope) -> None:
        oldest = self._clock() - self._idle_s
        idle = [key for key, one in self._sessions.items() if not one.requests and one.used <= oldest]
        for session_id in idle:
            await self._end(session_id, scope)

    async def _make_room(self, scope: Scope) -> None:
        while len(self._sessions) + self._beginning >= self._most:
            counted = Counter(one.owner for one in self._sessions.values())
            unused = [(key, one.owner) for key, one in self._sessions.items() if not one.requests]
            if not unused:
                raise TemporarilyUnavailable(
                    f"{len(self._sessions)} MCP sessions are open and in use; come again in a moment",
                    retry_after_s=_RETRY_S,
                )
            await self._end(max(unused, key=lambda pair: counted[pair[1]])[0], scope)

    async def _end(self, session_id: bytes, scope: Scope) -> None:
        """Have the SDK end a session, as its client would."""
        if self._sessions.pop(session_id, None) is None:
            return
        protocol = [pair for pair in scope["headers"] if pair[0] == b"host"]
        ending = {**scope, "method": "DELETE", "headers": [*protocol, (_ID, session_id)], "query_string": b""}

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            pass

        await self._app(ending, nothing, unheard)


async def _bounded(receive: Receive) -> Receive:
    """Read the body, which the gate gives whole, and give back a `receive` that gives it again."""
    first: Message | None = await receive()
    size = len(first.get("body", b"")) if first else 0
    if size > _MAX_MESSAGE_BYTES:
        raise TooLarge(f"the message has {size:,} bytes, {_MAX_MESSAGE_BYTES:,} are taken")

    async def again() -> Message:
        nonlocal first
        message, first = first, None
        return message or await receive()

    return again
