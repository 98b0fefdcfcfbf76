"""A reverse proxy on loopback that misbehaves as planned: slow, failing, truncating, resetting, corrupting.

with Proxy("http://127.0.0.1:9000") as proxy:
    proxy.plan([Truncated()])             # the next request that matches; later ones pass
    proxy.plan(itertools.repeat(Status(status=503)))

Headers are passed on unchanged, so signatures of requests stay valid. With `conditional`, it obeys the
conditions of writes (If-Match, If-None-Match) in place of a server that ignores them: one write or deletion
at a time (s3rver ends when a deletion removes the empty folder that another write is about to use).
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body."""

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade"}
_TIMEOUT_S = 30


@dataclass(frozen=True)
class Fault:
    """What is done to a request whose method and path match."""

    method: str = ""
    part: str = ""

    def matches(self, method: str, path: str) -> bool:
        return (not self.method or method == self.method) and self.part in path


@dataclass(frozen=True)
class Status(Fault):
    """An answer of the proxy itself."""

    status: int = 503
    code: str = "Injected"


@dataclass(frozen=True)
class Truncated(Fault):
    """The body ends in the middle, although its length was announced."""


@dataclass(frozen=True)
class Reset(Fault):
    """The connection is reset before the answer, or after half of its body."""

    after_half: bool = False


@dataclass(frozen=True)
class AfterThat(Fault):
    """The request is handled, and then the connection is reset: the client does not learn the outcome."""


@dataclass(frozen=True)
class Silent(Fault):
    """No answer for as long as the proxy runs."""


@dataclass(frozen=True)
class Trickle(Fault):
    """One byte of the body at a time, each after a pause."""

    pause_s: float = 0.05


@dataclass(frozen=True)
class Corrupted(Fault):
    """The first byte of the body is another one."""


@dataclass
class Proxy:
    """The proxy; `requests` are the methods and paths that it has seen."""

    target: str
    conditional: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._planning = threading.Lock()
        self._plan: Iterator[Fault] | None = None
        self._next: Fault | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def plan(self, faults: Iterable[Fault]) -> None:
        """Do these to the requests that match them, in this order."""
        with self._planning:
            self._plan, self._next = iter(faults), None

    def planned(self) -> int:
        """How many planned faults, of a finite plan, have not been done."""
        with self._planning:
            left = [] if self._plan is None else list(self._plan)
            return len(left) + (self._next is not None)

    def fault(self, method: str, path: str) -> Fault | None:
        """Record a request, and return what is done to it."""
        with self._planning:
            self.requests.append((method, path))
            if self._next is None and self._plan is not None:
                self._next = next(self._plan, None)
            if self._next is None or not self._next.matches(method, path):
                return None
            found, self._next = self._next, None
            return found

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Return the answer of the server."""
        if self.conditional and method not in {"GET", "HEAD"}:
            with self._writing:
                if not self._is_allowed(path, headers):
                    return 412, [], b"<Error><Code>PreconditionFailed</Code></Error>"
                return self._sent(method, path, headers, body)
        return self._sent(method, path, headers, body)

    def _is_allowed(self, path: str, headers: dict[str, str]) -> bool:
        wanted = {name.lower(): value for name, value in headers.items()}
        if not {"if-match", "if-none-match"} & wanted.keys():
            return True
        status, found, _ = self._sent("HEAD", path, {}, b"")
        tags = {name.lower(): value for name, value in found}
        tag = tags.get("etag") if status == 200 else None
        if "if-none-match" in wanted:
            return tag is None
        return tag == wanted["if-match"]

    def _sent(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        host = urlsplit(self.target).netloc
        connection = http.client.HTTPConnection(host, timeout=_TIMEOUT_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if "host" not in {name.lower() for name in headers}:
                connection.putheader("Host", host)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            fault = proxy.fault(self.command, self.path)
            if isinstance(fault, Silent):
                proxy._ended.wait()
                self.close_connection = True
                return
            if isinstance(fault, Reset) and not fault.after_half:
                self._reset()
                return
            if isinstance(fault, Status):
                answer: tuple[int, list[tuple[str, str]], bytes] = (
                    fault.status,
                    [],
                    f"<Error><Code>{fault.code}</Code></Error>".encode(),
                )
            else:
                answer = proxy.forward(self.command, self.path, headers, body)
            if isinstance(fault, AfterThat):
                self._reset()
                return
            self._answer(answer, fault)

        def _answer(self, answer: Answer, fault: Fault | None) -> None:
            status, headers, body = answer
            self.send_response_only(status)
            named = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in _HOP and not (
                    name.lower() == "content-length" and self.command != "HEAD"
                ):
                    self.send_header(name, value)
            if self.command != "HEAD" or "content-length" not in named:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            if isinstance(fault, Corrupted) and body:
                body = bytes([body[0] ^ 1]) + body[1:]
            if isinstance(fault, Trickle):
                for position in range(len(body)):
                    if proxy._ended.wait(fault.pause_s):
                        return
                    self.wfile.write(body[position : position + 1])
                    self.wfile.flush()
                return
            if isinstance(fault, Truncated) or (isinstance(fault, Reset) and fault.after_half):
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                self.close_connection = True
                if isinstance(fault, Reset):
                    self._reset()
                return
            self.wfile.write(body)

        def _reset(self) -> None:
            """Close the connection with a reset."""
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # the client has gone, or the connection was reset
                super().handle()

        def finish(self) -> None:
            with suppress(OSError, ValueError):
                super().finish()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any  # noqa: N815

    return Handler
