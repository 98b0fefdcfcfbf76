"""What goes wrong at a door, as an HTTP status and one JSON shape.

    {"error": {"message": …, "type": …, "code": …, "param": …}}

The shape is OpenAI's, for every route: a client of any kind finds the message in one place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag.errors import (
    AuthenticationFailed,
    ConfigError,
    ContextTooSmall,
    ConversationChanged,
    ConversationMismatch,
    NotFound,
    ProviderError,
    RagError,
    RateLimited,
    RefNotFound,
    SourceNotFound,
    SourceUnreachable,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    TooManyOpenFiles,
)


class ServeError(ConfigError):
    """A request that is refused. `status` is HTTP's, `code` names the reason, `headers` go with it."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response."""
        return {}


class BadRequest(ServeError):
    """The request means nothing."""


class Unauthorized(ServeError):
    """No key, or one that is not known."""

    status, code = 401, "invalid_api_key"

    @property
    def headers(self) -> Mapping[str, str]:
        """How to come again."""
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(ServeError):
    """Something that is not served to anyone."""

    status, code = 403, "not_allowed"


class UnknownRepository(ServeError):
    """No repository of this name is served."""

    status, code = 404, "repository_not_found"


class TooLarge(ServeError):
    """A body, question or history beyond the limit."""

    status, code = 413, "too_large"


class TooSlow(ServeError):
    """A body that does not arrive."""

    status, code = 408, "too_slow"


class ComeAgain(ServeError):
    """Not now. `retry_after_s` says when."""

    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: float, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        """When to come again, in whole seconds."""
        return {"Retry-After": str(max(1, round(self.retry_after_s)))}


class TooMany(ComeAgain):
    """Too many requests: of this caller, or waiting altogether."""

    status, code = 429, "rate_limit_exceeded"


class StillIndexing(ComeAgain):
    """The repository is being indexed for the first time."""

    code = "indexing"


class ShuttingDown(ComeAgain):
    """The server is about to stop."""

    code = "shutting_down"


class IndexingFailed(ServeError):
    """The repository could not be indexed. `kind` is the name of the error."""

    status, code = 424, "indexing_failed"

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
        if kind == RefNotFound.__name__:  # who asked named it
            self.status, self.code = 404, "ref_not_found"


class ModelFailed(ServeError):
    """The model failed on a question. `more` goes into the body beside the error: the quotes."""

    def __init__(self, error: ProviderError, message: str, more: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.code = status_of(error)
        self.more = more
        self._headers = headers_of(error)

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the model's error."""
        return self._headers


_STATUS: tuple[tuple[type[RagError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (SourceNotFound, 404, "repository_not_found"),
    (SourceUnreachable, 502, "repository_unreachable"),
    (RefNotFound, 404, "ref_not_found"),
    (ConversationMismatch, 409, "conversation_mismatch"),
    (ConversationChanged, 409, "conversation_changed"),
    (ContextTooSmall, 400, "context_length_exceeded"),
    (StoreBusy, 503, "busy"),
    (StoreUnreachable, 503, "memory_unreachable"),
    (TooManyOpenFiles, 503, "too_many_open_files"),
    (StoreError, 500, "store_error"),
    (RateLimited, 429, "provider_rate_limited"),
    (AuthenticationFailed, 502, "provider_authentication"),
    (ProviderError, 502, "provider_error"),
    (ConfigError, 400, "bad_request"),
)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def status_of(error: RagError) -> tuple[int, str]:
    """HTTP's status for one of our errors, and the name of the reason."""
    if isinstance(error, ServeError):
        return error.status, error.code
    return next(((status, code) for kind, status, code in _STATUS if isinstance(error, kind)), (500, "error"))


def headers_of(error: RagError) -> dict[str, str]:
    """Headers that go with an error: when to come again, how to identify oneself."""
    if isinstance(error, ServeError):
        return dict(error.headers)
    return {"Retry-After": "2"} if status_of(error)[0] in (429, 503) else {}


def shape(status: int, message: str, *, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}


def shape_of(error: RagError, message: str | None = None) -> dict[str, Any]:
    """The body for one of our errors; with another `message` where its own is not for everybody."""
    status, code = status_of(error)
    body = shape(
        status, str(error) if message is None else message, code=code, param=getattr(error, "param", None)
    )
    return body | getattr(error, "more", {})


def body_of(error: RagError) -> bytes:
    """The body for one of our errors, as it is sent."""
    return json.dumps(shape_of(error), ensure_ascii=False).encode("utf-8", "replace")
