"""Limits on the time and bytes that a model server may take, so that it cannot exhaust or block us.

`RequestBounds` apply to one request across all of its retries: total bytes, bytes per line of a stream, and
seconds. Bytes are counted after decompression. We request no compression, but accept gzip and deflate and
decompress them in bounded pieces. Redirects are refused: following one would send the prompt, which is
private code, to a host that nobody configured.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import openai

from rag.backends.openai.proxies import httpx, proxy_of
from rag.errors import ProviderBroke, ProviderError, ProviderRejected, ProviderUnreachable

if TYPE_CHECKING:
    import asyncio

MAX_LINE_BYTES = 1_000_000
_MAX_ERROR_BYTES = 256_000
_BASE_BYTES = 4_000_000
_BYTES_PER_TOKEN = 1_000
"""A streamed token takes 200 to 400 bytes: its event repeats id, model and time."""
_DEFAULT_TOKENS = 32_000
_BYTES_PER_VECTOR = 160_000
"""Enough for 6,500 numbers written as decimals; common models return at most 4,096."""
_TOTAL_TIMEOUTS = 5
_ANSWER_TOKENS_PER_S = 5
"""A slow model on this machine; decides how long an answer that arrives as a whole may take."""
_MIN_TOKENS_PER_S = 1
_MIN_BYTES_PER_S = 10
"""Slower servers than these are given up: they would hold their place without end. A token is 200 bytes."""
_INFLATED_PIECE = 65_536

T = TypeVar("T")


class RequestBounds:
    """The limits of one request.

    Args:
        host: the server, for messages.
        timeout_s: the time limit of one read; all tries and pauses together may take five times as long.
        max_bytes: the bytes that the server may send in one try, after decompression.
        is_fixed: whether no setting changes the limits, so that the message names none.
        first_byte_s: if given, the reply begins within this time, and continues within `timeout_s` after each
            piece, of which comments that keep a stream alive are some. After both, it has one more second
            for each 10 bytes that arrived, and at most `answer_s`.
        answer_s: see `first_byte_s`.
        all_s: if given, all tries and pauses together may take this long instead.
    """

    def __init__(
        self,
        host: str,
        timeout_s: float,
        max_bytes: int,
        is_fixed: bool = False,
        first_byte_s: float | None = None,
        answer_s: float = math.inf,
        all_s: float | None = None,
    ) -> None:
        self.host, self.max_bytes = host, max_bytes
        all_s = timeout_s * _TOTAL_TIMEOUTS if all_s is None else all_s
        self.total_s = all_s if first_byte_s is None else first_byte_s
        self._pause_s = None if first_byte_s is None else timeout_s
        self._is_fixed = is_fixed
        self._answer_s = answer_s
        self._began = self._arrived = time.monotonic()
        self._bytes, self._is_slow = 0, False
        self._deadline = self._began + self.total_s
        self._sockets: list[Any] = []
        self._timer: threading.Timer | None = None
        self._wait: asyncio.Timeout | None = None

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0.0 after it."""
        return max(self._deadline - time.monotonic(), 0.0)

    def too_long(self, received: int = 0) -> ProviderError:
        """Return the error for a server that has not finished at the deadline."""
        kind = ProviderBroke if received else ProviderUnreachable
        so_far = f" ({received:,} characters of the answer arrived)" if received else ""
        what = f"did not finish within {self.total_s:g} s"
        if self._pause_s is not None:
            what = f"sent nothing for {self._pause_s if received else self.total_s:g} s"
            if self._is_slow:
                what = f"sent only {self._bytes:,} bytes in {time.monotonic() - self._began:,.0f} s"
        return kind(
            f"{self.host} {what}{so_far}; it may be busy or slow."
            + ("" if self._is_fixed else " Try again, or raise timeout_s (RAG_TIMEOUT)"),
            provider=self.host,
            retryable=True,
        )

    def too_large(self, what: str, limit: int) -> ProviderError:
        """Return the error for a reply that exceeds a size limit."""
        return ProviderBroke(
            f"{self.host} sent {what} of more than {limit:,} bytes; the rest was not read. Check that the "
            "address is that of a model server",
            provider=self.host,
            retryable=False,
        )

    def arrived(self, size: int) -> None:
        """Note that bytes of the reply arrived, which extends the deadline if `first_byte_s` was given.

        Raises:
            ProviderError: they arrived after the deadline.
        """
        if not self.left_s:
            raise self.too_long()
        self._bytes += size
        self._arrived = time.monotonic()
        self._extend()

    def resumed(self) -> None:
        """Note that the reply is waited for again. The time since the last piece does not count."""
        now = time.monotonic()
        self._began += now - self._arrived
        self._arrived = now
        self._extend()

    def _extend(self) -> None:
        if self._pause_s is None:
            return
        earned_s = min(self._bytes / _MIN_BYTES_PER_S, self._answer_s)
        latest = self._began + self.total_s + self._pause_s + earned_s
        paused = max(self._deadline, self._arrived + self._pause_s)
        self._deadline, self._is_slow = min(paused, latest), latest < paused
        if self._wait is not None:
            import asyncio

            self._wait.reschedule(asyncio.get_running_loop().time() + self.left_s)

    @contextmanager
    def waiting(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Let pieces that arrive in the block extend its time limit too."""
        self._wait = limit
        try:
            yield
        finally:
            self._wait = None

    def watch(self) -> None:
        """Close the connection at the deadline, even while a thread waits for it. `release` cancels this."""
        if self._timer is None:
            self._timer = threading.Timer(self.left_s, self._abort)
            self._timer.daemon = True
            self._timer.start()

    def release(self) -> None:
        """Stop watching. May be called repeatedly."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Record the socket of each connection that the transport opens."""
        stream = info.get("return_value")
        if event.endswith(("connect_tcp.complete", "start_tls.complete")) and stream is not None:
            self._sockets = [stream.get_extra_info("socket")]

    def _abort(self) -> None:
        if self.left_s:  # pieces have arrived
            if self._timer is not None:
                self._timer = None
                self.watch()
            return
        for opened in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)


def chat_bytes(answer_tokens: int | None) -> int:
    """Return the max bytes of a reply with this many answer tokens, including protocol overhead."""
    return _BASE_BYTES + (answer_tokens or _DEFAULT_TOKENS) * _BYTES_PER_TOKEN


def whole_answer_s(answer_tokens: int | None) -> float:
    """Return how long a model on this machine may generate an answer that arrives as a whole."""
    return (answer_tokens or _DEFAULT_TOKENS) / _ANSWER_TOKENS_PER_S


def longest_answer_s(answer_tokens: int | None, timeout_s: float) -> float:
    """Return how long the slowest model on this machine may generate an answer."""
    return max((answer_tokens or _DEFAULT_TOKENS) / _MIN_TOKENS_PER_S, timeout_s * _TOTAL_TIMEOUTS)


def embedding_bytes(texts: int) -> int:
    """Return the max bytes of a reply with this many vectors."""
    return MAX_LINE_BYTES + texts * _BYTES_PER_VECTOR


_bounds: ContextVar[RequestBounds] = ContextVar("the bounds of the request that is being sent")


@contextmanager
def sending(bounds: RequestBounds) -> Iterator[None]:
    """Apply the limits to the request sent in the block and to its response."""
    token = _bounds.set(bounds)
    try:
        yield
    finally:
        _bounds.reset(token)


async def within(bounds: RequestBounds, work: Awaitable[T], received: int = 0) -> T:
    """Wait for the work until the deadline. Raises ProviderError after it."""
    import asyncio

    if received:
        bounds.resumed()
    limit = asyncio.timeout(bounds.left_s)
    try:
        async with limit:
            with bounds.waiting(limit):
                return await work
    except TimeoutError:
        if limit.expired():
            raise bounds.too_long(received) from None
        raise


def http_client(url: str) -> Any:
    """Return a synchronous HTTP client that applies the limits of `sending` and follows no redirect.

    Each request uses its own connection, so that closing it affects no other request. This machine is asked
    directly, other servers through the proxy of the environment.

    Raises:
        ProviderUnreachable: the proxy or the file of trusted certificates cannot be used.
    """
    hooks: dict[str, list[Any]] = {"request": [_watch_connection], "response": [_bound]}
    return openai.DefaultHttpxClient(event_hooks=hooks, **_options(url))


def async_http_client(url: str) -> Any:
    """Return the same client for an event loop, where `within` enforces the deadline."""
    return openai.DefaultAsyncHttpxClient(event_hooks={"response": [_bound_async]}, **_options(url))


def _options(url: str) -> dict[str, Any]:
    proxy = proxy_of(url)
    encrypts = url.startswith("https:") or (proxy is not None and proxy.url.startswith("https:"))
    return {
        "follow_redirects": False,
        "headers": {"Accept-Encoding": "identity"},
        "limits": httpx.Limits(max_keepalive_connections=0),
        "trust_env": False,
        "proxy": proxy.url if proxy else None,
        "verify": _certificates(url) if encrypts else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    }


def _certificates(url: str) -> Any:
    try:
        return _trusted_certificates()
    except OSError as error:  # ssl.SSLError is one: the file holds no certificates
        host, file = urlsplit(url).netloc, os.environ.get("SSL_CERT_FILE", "")
        raise ProviderUnreachable(
            f"{host} cannot be reached: the file of trusted certificates {file!r} (SSL_CERT_FILE) cannot be "
            f"read ({error.strerror or error}); correct SSL_CERT_FILE, or unset it",
            provider=host,
            retryable=False,
        ) from error


@cache
def _trusted_certificates() -> Any:
    """Return the SSL context of all clients: loading the trusted certificates takes 25 ms."""
    return httpx.create_ssl_context()


def _watch_connection(request: Any) -> None:
    request.extensions["trace"] = _bounds.get().trace


def _bound(response: Any) -> None:
    response.stream = _BoundedStream(response.stream, _meter(response))


async def _bound_async(response: Any) -> None:
    response.stream = _AsyncBoundedStream(response.stream, _meter(response))


def _meter(response: Any) -> _Meter:
    """Return the meter for the body of a response. Raises ProviderRejected for a redirect."""
    bounds = _bounds.get()
    if response.has_redirect_location:
        raise _redirected(bounds.host, response.status_code, response.headers["location"])
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise ProviderBroke(
            f"{bounds.host} sent an answer compressed with {encoding[:40]!r}, although none was requested; "
            "check for a proxy in between",
            provider=bounds.host,
            retryable=False,
        )
    streams = response.headers.get("content-type", "").startswith("text/event-stream")
    return _Meter(
        bounds, response.status_code, inflates=encoding.endswith(("gzip", "deflate")), lines=streams
    )


def _redirected(host: str, status: int, location: str) -> ProviderError:
    try:
        target = urlsplit(location).netloc.rpartition("@")[2] or host
    except ValueError:
        target = "an unreadable address"
    return ProviderRejected(
        f"{host} answered {status} and redirects to {target[:200]}; nothing was sent there. If the model is "
        "there, set --base-url (RAG_BASE_URL; RAG_EMBEDDING_BASE_URL for embeddings) to its address",
        provider=host,
        retryable=False,
        status=status,
    )


class _Meter:
    """Decompresses a body as it arrives and enforces the size limits."""

    def __init__(self, bounds: RequestBounds, status: int, *, inflates: bool, lines: bool) -> None:
        self._bounds, self._is_error, self._has_lines = bounds, status >= 400, lines
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if inflates else None
        self._total = self._line = 0

    @property
    def is_full(self) -> bool:
        """Whether enough of an error body has arrived."""
        return self._is_error and self._total >= _MAX_ERROR_BYTES

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield a chunk's decompressed pieces. Raises ProviderError above a size limit."""
        self._bounds.arrived(len(chunk))
        for piece in self._decompressed(chunk):
            self._count(piece)
            yield piece
            if self.is_full:
                return

    def _decompressed(self, chunk: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            yield chunk
            return
        while True:
            try:
                piece = self._inflater.decompress(chunk, _INFLATED_PIECE)
            except zlib.error as error:
                host = self._bounds.host
                message = f"{host} sent an answer whose compression is damaged ({error})"
                raise ProviderBroke(message, provider=host, retryable=True) from error
            if piece:
                yield piece
            chunk = self._inflater.unconsumed_tail
            if not chunk and len(piece) < _INFLATED_PIECE:
                return

    def _count(self, piece: bytes) -> None:
        bounds = self._bounds
        self._total += len(piece)
        if self._is_error:
            return
        if self._total > bounds.max_bytes:
            raise bounds.too_large("an answer", bounds.max_bytes)
        if not self._has_lines:
            return
        last = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        self._line = len(piece) - last - 1 if last >= 0 else self._line + len(piece)
        if self._line > MAX_LINE_BYTES:
            raise bounds.too_large("a line", MAX_LINE_BYTES)


class _BoundedStream(httpx.SyncByteStream):  # type: ignore[misc]
    """The body of a response, measured as it is read."""

    def __init__(self, stream: Any, meter: _Meter) -> None:
        self._stream, self._meter = stream, meter

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield from self._meter.pieces(chunk)
            if self._meter.is_full:
                return

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class _AsyncBoundedStream(httpx.AsyncByteStream):  # type: ignore[misc]
    """A `_BoundedStream` for an event loop."""

    def __init__(self, stream: Any, meter: _Meter) -> None:
        self._stream, self._meter = stream, meter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            for piece in self._meter.pieces(chunk):
                yield piece
            if self._meter.is_full:
                return

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
