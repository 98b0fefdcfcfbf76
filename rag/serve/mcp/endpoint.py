"""The route /mcp: each message of a client is a request, and its reply the response.

`initialize` begins a session, which belongs to the key that began it: a session of another key is reported as
not found. Idle sessions are ended, and above the limit the one that was not used longest of the caller with
the most. A call whose client wants to know its progress is answered by a stream of events. The server sends
nothing by itself, so there is no stream to open with GET.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from rag.errors import NotFound
from rag.mcp.protocol import (
    CANCELLED,
    REVISIONS,
    ClientMessage,
    ClientSession,
    Json,
    ProtocolError,
    Report,
    failure,
    read,
    written,
)
from rag.serve.access.keys import Caller
from rag.serve.errors import BadRequest, TemporarilyUnavailable, TooLarge
from rag.serve.mcp.host import ServedHost
from rag.serve.middleware import Receive, Scope, Send
from rag.serve.service import Service
from rag.wiki.pages.known_structures import Structures

_MAX_MESSAGE_BYTES = 1_000_000
_RETRY_S = 5.0
_JSON, _EVENTS = "application/json", "text/event-stream"


def install(app: FastAPI, service: Service) -> None:
    """Add /mcp (streamable HTTP) to the app."""
    app.router.routes.append(Route("/mcp", endpoint=McpEndpoint(service)))


@dataclass(slots=True)
class _Open:
    """A session; `running` are the requests that are being answered, by their ids."""

    owner: Caller
    session: ClientSession
    used: float
    running: dict[str | int, asyncio.Task[Json]] = field(default_factory=dict)


class McpEndpoint:
    """Answers the requests to /mcp.

    Args:
        service: the service; its settings limit the sessions.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, service: Service, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._sessions: OrderedDict[str, _Open] = OrderedDict()
        self._structures = Structures()

    def __len__(self) -> int:
        return len(self._sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            TooLarge: the message is above the size limit.
            BadRequest: it names no session, or a revision that is not spoken.
            NotFound: the session does not exist, or belongs to another caller.
            TemporarilyUnavailable: the limit is reached, and all sessions are in use.
        """
        request = HttpRequest(scope, receive)
        self._end_idle()
        if request.method == "POST":
            response = await self._posted(request, scope["state"]["caller"], send)
        elif request.method == "DELETE":
            name, opened = self._named(request, scope["state"]["caller"])
            self._end(name, opened)
            response = Response()
        else:
            self._named(request, scope["state"]["caller"])
            response = Response(status_code=405, headers={"Allow": "POST, DELETE"})
        if response is not None:
            await response(scope, receive, send)

    async def _posted(self, request: HttpRequest, caller: Caller, send: Send) -> Response | None:
        """Return the response to a message; None if it was sent as a stream."""
        body = await request.body()
        if len(body) > _MAX_MESSAGE_BYTES:
            raise TooLarge(f"the message has {len(body):,} bytes, the limit is {_MAX_MESSAGE_BYTES:,}")
        try:
            message = read(body)
        except ProtocolError as error:
            return _json(failure(error), status=400)
        if message is not None and message.method == "initialize" and message.id is not None:
            return await self._begun(message, caller)
        _, opened = self._named(request, caller)
        if message is None or message.id is None:
            cancelled = None if message is None else message.cancels
            if cancelled is not None and (task := opened.running.get(cancelled)):
                task.cancel()
            return Response(status_code=202)
        if message.progress_token is not None and _EVENTS in request.headers.get("accept", ""):
            await self._streamed(opened, message, send)
            return None
        return _json(await self._answered(opened, message, _discard))

    async def _begun(self, message: ClientMessage, caller: Caller) -> Response:
        """Begin a session."""
        self._make_room()
        name = secrets.token_hex(16)
        session = ClientSession(
            ServedHost(self._service, caller, self._structures), self._service.settings.mcp_tools
        )
        opened = self._sessions[name] = _Open(caller, session, self._clock())
        return _json(await self._answered(opened, message, _discard), headers={"Mcp-Session-Id": name})

    async def _answered(self, opened: _Open, message: ClientMessage, report: Report) -> Json:
        """Return the reply to a request; if it is cancelled, an error."""
        assert message.id is not None
        task = asyncio.create_task(opened.session.reply(message, report))
        opened.running[message.id] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            return failure(ProtocolError(CANCELLED, "the request was cancelled"), message.id)
        finally:
            opened.running.pop(message.id, None)
            opened.used = self._clock()

    async def _streamed(self, opened: _Open, message: ClientMessage, send: Send) -> None:
        """Send what a call reports, and then its reply, as events."""
        headers = [(b"content-type", _EVENTS.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def event(one: Json) -> None:
            body = b"event: message\ndata: " + written(one) + b"\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})

        await event(await self._answered(opened, message, event))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    # ------------------------------------------------------------ sessions

    def _named(self, request: HttpRequest, caller: Caller) -> tuple[str, _Open]:
        """Return the session that a request names."""
        revision = request.headers.get("mcp-protocol-version", REVISIONS[0])
        if revision not in REVISIONS:
            raise BadRequest(f"revision {revision[:40]!r} is not spoken; use {REVISIONS[-1]}")
        name = request.headers.get("mcp-session-id")
        if name is None:
            raise BadRequest("the request names no MCP session; start one with `initialize`")
        opened = self._sessions.get(name)
        if opened is None or opened.owner != caller:
            raise NotFound("the MCP session does not exist or has ended; start one with `initialize`")
        opened.used = self._clock()
        self._sessions.move_to_end(name)
        return name, opened

    def _end_idle(self) -> None:
        oldest = self._clock() - self._service.settings.mcp_idle_s
        idle = [pair for pair in self._sessions.items() if not pair[1].running and pair[1].used <= oldest]
        for name, opened in idle:
            self._end(name, opened)

    def _make_room(self) -> None:
        while len(self._sessions) >= self._service.settings.mcp_sessions:
            counted = Counter(one.owner for one in self._sessions.values())
            unused = [pair for pair in self._sessions.items() if not pair[1].running]
            if not unused:
                raise TemporarilyUnavailable(
                    f"{len(self._sessions)} MCP sessions are open and in use; retry in a moment",
                    retry_after_s=_RETRY_S,
                )
            self._end(*max(unused, key=lambda pair: counted[pair[1].owner]))

    def _end(self, name: str, opened: _Open) -> None:
        self._sessions.pop(name, None)
        for task in opened.running.values():
            task.cancel()


async def _discard(message: Json) -> None:
    """Send nothing: the client did not ask for progress."""


def _json(message: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(written(message), status, headers, media_type=_JSON)
