"""Translates the openai package's exceptions into our own errors, and removes keys from messages.

`KINDS` names every exception of the package; a test walks the package and fails on one that is missing.
The transport's own exceptions (httpx, httpx2) are raised when a stream breaks off.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import openai

from rag.errors import (
    AuthenticationFailed,
    ProviderBroke,
    ProviderError,
    ProviderRejected,
    ProviderUnreachable,
    RateLimited,
)
from rag.types import now_utc

KINDS: Mapping[str, type[ProviderError]] = {
    "OpenAIError": ProviderBroke,
    "APIError": ProviderBroke,
    "APIStatusError": ProviderRejected,
    "APIResponseValidationError": ProviderBroke,
    "APIConnectionError": ProviderUnreachable,
    "APITimeoutError": ProviderUnreachable,
    "AuthenticationError": AuthenticationFailed,
    "OAuthError": AuthenticationFailed,
    "SubjectTokenProviderError": AuthenticationFailed,
    "PermissionDeniedError": AuthenticationFailed,
    "RateLimitError": RateLimited,
    "BadRequestError": ProviderRejected,
    "NotFoundError": ProviderRejected,
    "ConflictError": ProviderRejected,
    "UnprocessableEntityError": ProviderRejected,
    "InternalServerError": ProviderBroke,
    "LengthFinishReasonError": ProviderBroke,
    "ContentFilterFinishReasonError": ProviderRejected,
    "InvalidWebhookSignatureError": ProviderBroke,
    "WebSocketConnectionClosedError": ProviderBroke,
    "WebSocketQueueFullError": ProviderBroke,
}
"""The error for each exception of the openai package; an unlisted subclass uses its nearest listed base."""

_KEY_SHAPED = re.compile(r"\b(?:sk|gsk|xai)-[A-Za-z0-9_\-]{8,}|(?<=Bearer )\S+")
_MAX_MESSAGE_CHARS = 400
_UNREADABLE = (ValueError, OverflowError, RecursionError)
"""Raised while decoding a reply that is not JSON, or not the expected JSON."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a failed call, for its error message.

    `key` is removed from messages; `received` is the number of characters of the answer that arrived.
    """

    host: str
    model: str = ""
    key: str = ""
    timeout_s: float = 0.0
    received: int = 0
    local: bool = False
    key_variable: str = "OPENAI_API_KEY"


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that a call through the openai package can raise: its own, the transport's, and
    those of decoding JSON that is invalid, too deeply nested, or holds numbers of thousands of digits."""
    transports = tuple(sys.modules[name].HTTPError for name in ("httpx2", "httpx") if name in sys.modules)
    return (openai.OpenAIError, ProviderError, *_UNREADABLE, *transports)


def translated(error: Exception, call: CallContext) -> ProviderError:
    """Return our error for a failed call; an error that is already ours is returned unchanged.

    Keys are also removed from `error` itself, because a traceback shows it as the cause.
    """
    if (ours := _our_error(error)) is not None:
        return ours
    reason = scrubbed(_reason(error), call.key)
    if isinstance(error, openai.OpenAIError):
        error.args = (scrubbed(str(error), call.key),)
    status = status_of(error)
    kind = _kind(error, status, call)
    if kind is ProviderRejected and "api key" in reason.lower():
        kind = AuthenticationFailed  # Gemini's endpoint refuses a key with 400
    if kind is ProviderUnreachable:
        message, retryable = _unreachable(error, call), True
    elif kind is AuthenticationFailed:
        message, retryable = _refused(call, reason, status), False
    elif kind is RateLimited:
        message, retryable = _limited(error, call, reason)
    elif kind is ProviderRejected:
        shown = _with_status(status, reason)
        message, retryable = f"{call.host} refused the request ({shown})", status in (408, 409)
        message += _advice(reason, call)
    else:
        message, retryable = _broke(error, call, reason, status), not isinstance(error, _UNREADABLE)
    return kind(message, provider=call.host, retryable=retryable, status=status)


def _our_error(error: BaseException) -> ProviderError | None:
    """Return our error that `error` is, or was raised from: some versions of openai wrap it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ProviderError):
        cause = cause.__cause__
    return cause


def _kind(error: Exception, status: int | None, call: CallContext) -> type[ProviderError]:
    kind = next((KINDS[t.__name__] for t in type(error).__mro__ if t.__name__ in KINDS), None)
    if kind is ProviderUnreachable and call.received:
        return ProviderBroke
    if kind in (None, ProviderBroke, ProviderRejected) and status is not None:
        if status in (401, 403):
            return AuthenticationFailed
        if status == 429:
            return RateLimited
        return ProviderBroke if status >= 500 else ProviderRejected
    if kind is not None:
        return kind
    named = type(error).__name__
    unreached = not call.received and ("Connect" in named or "Timeout" in named)
    return ProviderUnreachable if unreached else ProviderBroke


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of a failure, including one reported inside a stream, or None."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, str) and re.fullmatch("[45][0-9][0-9]", code) else None


def scrubbed(text: str, key: str) -> str:
    """Return `text` without the key and without anything that looks like a key."""
    if len(key) >= 4 and key != "none":
        text = text.replace(key, "…")
    return _KEY_SHAPED.sub("…", text)


def retry_after_s(error: Exception) -> float | None:
    """Return the pause that the service requests, or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - now_utc()).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


def is_loading(error: Exception) -> bool:
    """Whether the server reports that it is still loading its model, as llama.cpp does."""
    return status_of(error) == 503 and "loading" in _reason(error).lower()


def asks_for_unknown_model(error: Exception) -> bool:
    """Whether the service reports that it does not have the model."""
    if status_of(error) not in (400, 404):
        return False
    reason = _reason(error).lower()
    unknown = "not found|not exist|unknown|invalid model|no such|not available|model_not_found".split("|")
    return "model" in reason and any(phrase in reason for phrase in unknown)


def refused_parameter(error: Exception, names: tuple[str, ...]) -> str | None:
    """Return the first of `names` that the service reports as unsupported, or None."""
    if status_of(error) not in (400, 422):
        return None
    reason = f"{_reason(error)} {getattr(error, 'code', '')}".lower()
    phrases = "support|unrecognized|unknown|unexpected|extra|permitted|allowed|invalid param".split("|")
    if not any(phrase in reason for phrase in phrases):
        return None
    return next((name for name in names if re.search(rf"\b{name}\b", reason)), None)


def _reason(error: Exception) -> str:
    """Return the service's own error message, on one line."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
    text = " ".join((message if message and isinstance(message, str) else str(error)).split())
    if text.startswith("<"):
        return "it sent a web page"
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[:_MAX_MESSAGE_CHARS] + "…"


def _with_status(status: int | None, reason: str) -> str:
    return f"{status}: {reason}" if status is not None else reason


def _unreachable(error: Exception, call: CallContext) -> str:
    if "Timeout" in type(error).__name__:
        return (
            f"{call.host} did not answer {f'within {call.timeout_s:g} s' if call.timeout_s else 'in time'}; "
            "it may be busy. Try again, or raise timeout_s (RAG_TIMEOUT)"
        )
    cause = _root(error, call)
    hint = "is the server running?" if call.local else "is the address right, and the network up?"
    return f"nothing answers at {call.host} ({cause}); {hint} Check --base-url (RAG_BASE_URL)"


def _root(error: BaseException, call: CallContext) -> str:
    """Return the innermost cause: "Connection refused" rather than "Connection error."."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return scrubbed(str(error) or type(error).__name__, call.key)


def _refused(call: CallContext, reason: str, status: int | None) -> str:
    sent = "the key was refused" if call.key and call.key != "none" else "no key was given"
    return f"{call.host}: {sent} ({_with_status(status, reason)}); set {call.key_variable} to a valid key"


def _limited(error: Exception, call: CallContext, reason: str) -> tuple[str, bool]:
    if getattr(error, "code", None) == "insufficient_quota" or "quota" in reason.lower():
        return f"{call.host}: the quota is spent ({reason}); check the plan and billing of the key", False
    wait = retry_after_s(error)
    when = f"in {wait:g} s" if wait is not None else "later"
    return f"{call.host} is limiting requests ({reason}); try again {when}", True


def _advice(reason: str, call: CallContext) -> str:
    lower = reason.lower()
    if "context" in lower and ("length" in lower or "size" in lower or "exceed" in lower):
        return "; the prompt is too long for the model: lower --context-tokens (RAG_CONTEXT_TOKENS)"
    if call.model and "model" in lower:
        return f"; check the model name {call.model!r}, or choose another with --model"
    return "; check the address, which usually ends in /v1"


def _broke(error: Exception, call: CallContext, reason: str, status: int | None) -> str:
    if isinstance(error, RecursionError):
        return f"{call.host} sent JSON that is nested too deeply; is this a model server?"
    if isinstance(error, _UNREADABLE):
        return f"{call.host} sent something that is not JSON; check the address, which usually ends in /v1"
    if call.received:
        cause = reason if status is not None or getattr(error, "body", None) else _root(error, call)
        return f"the answer of {call.host} broke off after {call.received} characters ({cause}); ask again"
    return f"{call.host} failed ({_with_status(status, reason)}); try again later"
