"""The middleware: checks of every request before any route.

    Host        on loopback only the names of this machine are accepted, against DNS rebinding
    Origin      a web page may call only from the server's own origin or an allowed one
    site        without keys, pages of other sites may not load anything from here
    key         sets `request.state.caller`, or the identity header of a trusted proxy does; an address
                without a known key is limited
    body        read completely, with a size limit and a timeout; JSON of limited width and depth
    rate        the caller's request rate

Each request gets an id (`X-Request-ID`, the client's if it is valid), which is returned, logged, and part of
every error, and one line in the log.

Plain ASGI, so that it also covers mounted apps and WebSockets. Refusals have the shape of all errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from rag.errors import RagError
from rag.request_context import CURRENT, RequestContext, new_request
from rag.serve.access.identity import identified
from rag.serve.access.json_limits import check_json
from rag.serve.access.keys import Caller
from rag.serve.errors import (
    BadRequest,
    Forbidden,
    KeyExpired,
    TooLarge,
    TooSlow,
    Unauthorized,
    body_of,
    headers_of,
    internal_error,
    status_of,
)
from rag.serve.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_DEFAULT_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
_OWN_PAGES = frozenset({"", "same-origin", "none"})
"""Values of Sec-Fetch-Site for our own pages and the user; "" is sent by other programs."""
_POLICY_CLOSED = 1008
_LINGER_BYTES = 64_000_000
"""Bytes of a refused body that are still read: many clients send all of it before they read the response."""
_LINGER_S = 1.0


class RequestMiddleware:
    """The outermost layer of the app.

    Args:
        app: the next ASGI app.
        service: provides the keys, limits and telemetry.
        public: paths that need no key; one that ends with a slash includes all paths below it.
    """

    def __init__(self, app: App, service: Service, public: frozenset[str]) -> None:
        self._app, self._service, self._public = app, service, public
        settings = service.settings
        self._hosts = _LOCAL_NAMES | {name.lower() for name in settings.public_hosts}
        self._any_host = not settings.is_loopback and not settings.public_hosts
        self._identity = service.identity
        self._prefix = service.prefix
        self._origins = frozenset(origin.lower() for origin in settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            self._prefix.apply(scope)
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status, size, has_started = time.perf_counter(), 500, 0, False
        current = _begin(scope)

        async def sending(message: Message) -> None:
            nonlocal status, size, has_started
            size += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                headers = list(message.get("headers", ()))
                names = {name for name, _ in headers}
                defaults = [header for header in _DEFAULT_HEADERS if header[0] not in names]
                if self._service.limiter.draining and b"connection" not in names:
                    defaults.append((b"connection", b"close"))  # the next request goes to another server
                message["headers"] = [*headers, *defaults, (b"x-request-id", current.id.encode())]
            await send(message)

        caller = "-"
        try:
            try:
                await self._admit(scope)
                caller = scope["state"]["caller"].name
                receive = await self._with_body(scope, receive)
            except RagError as error:
                await self._refuse(error, receive, sending)
                return
            await self._app(scope, receive, sending)
        except Exception:  # the app's own handler is outside of this one, and would send no id
            if not has_started:
                await _send_error(internal_error(), 500, {}, sending)
            raise
        finally:
            self._service.telemetry.request(
                method=scope["method"],
                route=_route(scope),
                status=status,
                seconds=time.perf_counter() - began,
                size_bytes=size,
                caller=caller,
                current=current,
            )

    async def _refuse(self, error: RagError, receive: Receive, send: Send) -> None:
        """Respond with an error, and read the rest of the body for a moment.

        If a connection is closed with unread bytes, it is reset and the client may lose the response.
        """
        status, _ = status_of(error)
        await _send_error(body_of(error), status, headers_of(error), send, more_body=True)
        if not isinstance(error, TooSlow):
            await _discard(receive, _LINGER_BYTES)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status, size, caller = time.perf_counter(), 403, 0, "-"
        current = _begin(scope)

        async def sending(message: Message) -> None:
            nonlocal status, size
            size += len(message.get("bytes") or (message.get("text") or "").encode())
            if message["type"] == "websocket.accept":
                status = 101
                headers = [*message.get("headers", ()), (b"x-request-id", current.id.encode())]
                message["headers"] = headers
            await send(message)

        try:
            try:
                await self._admit(scope)
                caller = scope["state"]["caller"].name
            except RagError as error:
                await receive()
                await send({"type": "websocket.close", "code": _POLICY_CLOSED, "reason": str(error)[:120]})
                return
            await self._app(scope, receive, sending)
        finally:
            self._service.telemetry.request(
                method="WEBSOCKET",
                route=_route(scope),
                status=status,
                seconds=time.perf_counter() - began,
                size_bytes=size,
                caller=caller,
                current=current,
            )

    async def _admit(self, scope: Scope) -> None:
        identity = self._identity.take(scope)
        headers = dict(scope["headers"])
        hosts = {value for name, value in scope["headers"] if name == b"host"}
        if len(hosts) > 1:
            raise BadRequest("the request has several Host headers that differ")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._any_host and _without_port(host) not in self._hosts and host not in self._hosts:
            raise Forbidden("the Host header names another server; allow the name with --public-host")
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        is_public = self._is_public(scope["path"])
        # A frame without an origin, such as the page's own for diagrams, may load public files.
        harmless = origin == "null" and scope.get("method") == "GET" and is_public
        if origin and not harmless and origin not in self._origins and not _is_own(origin, host, scope):
            raise Forbidden("a page of another origin may not call this server; allow it with --origin")
        state = scope.setdefault("state", {})
        preflight = scope["type"] == "http" and scope["method"] == "OPTIONS" and bool(origin)
        if is_public or preflight:
            state["caller"] = self._service.keyring.anonymous
            return
        await self._service.reread_keys()
        site = headers.get(b"sec-fetch-site", b"").decode("latin-1").lower()
        # Without a key, the browser or the proxy adds all that is needed, also for the pages of others.
        needs_no_key = bool(identity) or not self._service.keyring.has_keys
        if site not in _OWN_PAGES and origin not in self._origins and needs_no_key:
            raise Forbidden("a page of another site may not load this; open the URL directly")
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        keyring = self._service.keyring
        state["caller"] = (
            identified(identity, keyring) if identity else self._authenticated(scope, authorization)
        )
        await self._service.limiter.check_rate(state["caller"])

    def _authenticated(self, scope: Scope, authorization: str) -> Caller:
        """Return the caller of a key. The key is checked first; only failures count against the address."""
        address = (scope.get("client") or ("",))[0]
        limiter = self._service.limiter
        try:
            caller = self._service.keyring.caller(authorization)
        except KeyExpired:  # a known key is no guess
            raise
        except Unauthorized:
            limiter.count_failure(address)
            raise
        limiter.check_key(address, caller)
        return caller

    def _is_public(self, path: str) -> bool:
        return path in self._public or any(
            p.endswith("/") and p != "/" and path.startswith(p) for p in self._public
        )

    async def _with_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body, and return a `receive` that replays it."""
        settings = self._service.settings
        limit = settings.max_body_bytes
        declared = next((v for n, v in scope["headers"] if n == b"content-length"), b"0")
        if not declared.isdigit():
            raise BadRequest("the Content-Length is not a number")
        if int(declared) > limit:
            raise _too_large(int(declared), limit)
        body = bytearray()
        try:
            async with asyncio.timeout(settings.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise _too_large(len(body), limit)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {settings.body_timeout_s:g} seconds") from None
        if _is_json(scope):
            check_json(bytes(body), max_values=settings.max_json_values)
        replayed = False

        async def replay() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return replay


def _begin(scope: Scope) -> RequestContext:
    """Make a new request current, for this task and what it starts; return its context."""

    def values(name: bytes) -> list[str]:
        return [value.decode("latin-1") for header, value in scope["headers"] if header == name]

    current = new_request(values(b"x-request-id"), values(b"traceparent"))
    scope.setdefault("state", {})["request_context"] = current
    CURRENT.set(current)
    return current


async def _send_error(
    body: bytes, status: int, more: Mapping[str, str], send: Send, *, more_body: bool = False
) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers += [(b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in more.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more_body})


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(f"the body has at least {size:,} bytes, the limit is {limit:,}")


async def _discard(receive: Receive, max_bytes: int) -> None:
    """Read and discard the rest of a body, up to a size and for a limited time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while max_bytes > 0:
                message = await receive()
                if not message.get("more_body", False):
                    return
                max_bytes -= len(message.get("body", b""))


def _is_own(origin: str, host: str, scope: Scope) -> bool:
    """Whether an origin is the server's own: scheme, host and port.

    Under a public name a proxy may terminate TLS without reporting it, so https is accepted too.
    """
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    schemes = {scheme} if _without_port(host) in _LOCAL_NAMES else {scheme, "https"}
    return origin in {f"{each}://{host}" for each in schemes}


def _is_json(scope: Scope) -> bool:
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    essence = kind.partition(b";")[0].strip().lower()
    return essence == b"application/json" or essence.endswith(b"+json")


def _route(scope: Scope) -> str:
    """Return the pattern that matched, never the path itself, which may contain private names."""
    if route := scope.get("route"):
        return str(route.path)
    # Starlette's own routes (`/mcp`, `/openapi.json`) have an endpoint only; without parameters the path is
    # the pattern.
    plain = "endpoint" in scope and not scope.get("path_params")
    return str(scope["path"]) if plain else "unmatched"


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
