"""Requests and responses: the little of WSGI that we need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any

from snip.errors import BadRequest

MAX_BODY_BYTES = 64 * 1024

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


@dataclass(frozen=True)
class Request:
    """What a handler sees of a request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    remote: str = ""

    @classmethod
    def from_environ(cls, environ: Environ) -> Request:
        """Read a WSGI environment. Raises BadRequest when the body is too large."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > MAX_BODY_BYTES:
            raise BadRequest(f"the body has {length} bytes, at most {MAX_BODY_BYTES} are read")
        headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        return cls(
            method=environ["REQUEST_METHOD"],
            path=environ.get("PATH_INFO") or "/",
            headers=headers,
            body=environ["wsgi.input"].read(length) if length else b"",
            remote=environ.get("REMOTE_ADDR", ""),
        )

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. Raises BadRequest when it is none."""
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise BadRequest("the body is not JSON") from error
        if not isinstance(value, dict):
            raise BadRequest("the body is not a JSON object")
        return value

    def cookie(self, name: str) -> str:
        """A cookie's value, "" when it was not sent."""
        try:
            cookies = SimpleCookie(self.headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[name].value if name in cookies else ""


@dataclass
class Response:
    """What goes back. Headers may repeat, so they are a list."""

    status: int = 200
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Response:
        """A JSON response."""
        return cls(status, json.dumps(value).encode(), [("Content-Type", "application/json")])

    @classmethod
    def redirect(cls, url: str) -> Response:
        """A redirect that browsers do not remember, so that clicks are counted."""
        return cls(302, b"", [("Location", url), ("Cache-Control", "no-store")])

    def set_cookie(self, name: str, value: str, max_age_s: int) -> None:
        """Add a cookie that scripts cannot read and other sites cannot send."""
        cookie = f"{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax"
        self.headers.append(("Set-Cookie", cookie))

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a WSGI server."""
        phrase = HTTPStatus(self.status).phrase
        start_response(f"{self.status} {phrase}", [*self.headers, ("Content-Length", str(len(self.body)))])
        return [self.body]
