"""Errors of the server, with an HTTP status and one JSON shape.

    {"error": {"message": …, "type": …, "code": …, "param": …, "request_id": …}}

All routes use OpenAI's shape, so that any client finds the message in the same place.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rag.errors import (
    AuthenticationFailed,
    ConfigError,
    ContextTooSmall,
    ConversationChanged,
    ConversationMismatch,
    NotFound,
    ProviderError,
    QuestionTooLong,
    RagError,
    RateLimited,
    RefNotFound,
    ShelfError,
    ShelfUnreachable,
    SourceNotFound,
    SourceUnreachable,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    TooManyOpenFiles,
)
from rag.request_context import request_id


class ServeError(ConfigError):
    """A refused request. `status` is the HTTP status, `code` the reason, `headers` go into the response."""

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
    """The request is invalid."""


class Unauthorized(ServeError):
    """The key is missing or unknown."""

    status, code = 401, "invalid_api_key"

    @property
    def headers(self) -> Mapping[str, str]:
        """The authentication scheme."""
        return {"WWW-Authenticate": "Bearer"}


class KeyExpired(Unauthorized):
    """The key was valid, and has expired."""

    code = "expired_api_key"


class Forbidden(ServeError):
    """The request is not allowed for any caller."""

    status, code = 403, "not_allowed"


class AnsweredElsewhere(ServeError):
    """A running answer is not in the hands of this server."""

    status, code = 409, "answered_elsewhere"


class UnknownRepository(ServeError):
    """No repository of this name is served."""

    status, code = 404, "repository_not_found"


class TooLarge(ServeError):
    """A body, question or history is above its limit."""

    status, code = 413, "too_large"


class TooSlow(ServeError):
    """The body did not arrive in time."""

    status, code = 408, "too_slow"


class TemporarilyUnavailable(ServeError):
    """The request cannot be served now; retry after `retry_after_s`."""

    status, code = 503, "unavailable"

    def __init__(self, message: str, *, retry_after_s: float, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Mapping[str, str]:
        """`Retry-After`, in whole seconds."""
        return {"Retry-After": str(max(1, round(self.retry_after_s)))}


class TooMany(TemporarilyUnavailable):
    """Too many requests from this caller, or too many in the queue."""

    status, code = 429, "rate_limit_exceeded"


class StillIndexing(TemporarilyUnavailable):
    """The first index of the repository is not finished."""

    code = "indexing"


class ShuttingDown(TemporarilyUnavailable):
    """The server is shutting down."""

    code = "shutting_down"


class IndexingFailed(ServeError):
    """The repository could not be indexed. `kind` is the class name of the error."""

    status, code = 424, "indexing_failed"

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
        if kind == RefNotFound.__name__:  # the request named the ref
            self.status, self.code = 404, "ref_not_found"


class ModelFailed(ServeError):
    """The model failed on a question. `more` is added to the body next to the error: the quotes."""

    def __init__(self, error: ProviderError, message: str, more: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status, self.code = status_of(error)
        self.more = more
        self._headers = headers_of(error)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the model's error."""
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
    (ShelfUnreachable, 503, "shared_stores_unreachable"),
    (ShelfError, 500, "shared_stores_error"),
    (RateLimited, 429, "provider_rate_limited"),
    (AuthenticationFailed, 502, "provider_authentication"),
    (ProviderError, 502, "provider_error"),
    (QuestionTooLong, 413, "too_large"),
    (ConfigError, 400, "bad_request"),
)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def status_of(error: RagError) -> tuple[int, str]:
    """Return the HTTP status of an error, and the code of the reason."""
    if isinstance(error, ServeError):
        return error.status, error.code
    return next(((status, code) for kind, status, code in _STATUS if isinstance(error, kind)), (500, "error"))


def headers_of(error: RagError) -> dict[str, str]:
    """Return the response headers of an error: when to retry, how to authenticate."""
    if isinstance(error, ServeError):
        return dict(error.headers)
    return {"Retry-After": "2"} if status_of(error)[0] in (429, 503) else {}


def shape(status: int, message: str, *, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """Return the body of an error."""
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    body = {"message": message, "type": kind, "code": code, "param": param}
    return {"error": {**body, "request_id": request_id()}}


def shape_of(error: RagError, message: str | None = None) -> dict[str, Any]:
    """Return the body of an error, with another `message` where its own must not be shown to the caller."""
    status, code = status_of(error)
    body = shape(
        status, str(error) if message is None else message, code=code, param=getattr(error, "param", None)
    )
    return body | getattr(error, "more", {})


def invalid_request(
    errors: Sequence[Mapping[str, Any]], known: Sequence[str] = (), noun: str = "field"
) -> tuple[str, str]:
    """Return what is wrong with a request, and the field as a path with dots, "" for all of the body.

    Args:
        errors: those of the validation; the first one is described.
        known: the fields of the body, or the parameters of the route.
        noun: what `known` names: "field" or "parameter".
    """
    found: Mapping[str, Any] = errors[0] if errors else {"msg": "invalid", "loc": ()}
    if found.get("type") == "json_invalid":
        return f"the body is not JSON: {found['ctx']['error']}, at character {found['loc'][-1]}", ""
    param = ".".join(map(str, found["loc"][1:]))  # the first is the part of the request: body, query, …
    return _invalid_field(found, param, known, noun), param


def _invalid_field(found: Mapping[str, Any], param: str, known: Sequence[str], noun: str) -> str:
    if found.get("type") == "extra_forbidden":
        nearest = difflib.get_close_matches(param[:100], known, n=1, cutoff=0.5)
        meant = f"; did you mean `{nearest[0]}`?" if nearest else "."
        names = f" The {noun}s are: {', '.join(known)}." if known else ""
        return f"there is no {noun} `{param[:100]}`{meant}{names}"
    return f"{found['msg']} ({param})" if param else str(found["msg"])


def internal_error() -> bytes:
    """Return the encoded body of an error of the server itself."""
    what = "the server failed; its log has the reason, with the id of this request"
    return json.dumps(shape(500, what, code="internal")).encode()


def body_of(error: RagError) -> bytes:
    """Return the encoded body of an error."""
    return json.dumps(shape_of(error), ensure_ascii=False).encode("utf-8", "replace")
