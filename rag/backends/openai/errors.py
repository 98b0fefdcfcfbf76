"""What the openai package raises becomes our own errors, with keys left out.

`KINDS` names every exception of the package; a test walks the package and fails on one that is not
named. The transport's own exceptions (httpx, httpx2) come through when a stream breaks off.
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
"""The error each exception of the openai package becomes; a subclass not named here as its nearest base."""

_KEY_SHAPED = re.compile(r"\b(?:sk|gsk|xai)-[A-Za-z0-9_\-]{8,}|(?<=Bearer )\S+")
_MAX_TOLD = 400
_UNREADABLE = (ValueError, OverflowError, RecursionError)
"""What reading a reply ends with that is no JSON, or nothing like what was asked for."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What was being done when it failed: what the message needs to be of use.

    `host` is where; `key` what must not appear; `received` the characters of the answer that had come.
    """

    host: str
    model: str = ""
    key: str = ""
    timeout_s: float = 0.0
    received: int = 0
    local: bool = False
    key_variable: str = "OPENAI_API_KEY"


def failures() -> tuple[type[Exception], ...]:
    """The exceptions a call through the openai package can end with: its own, the transport's, and those of
    reading JSON that is none, nests too deeply, or holds numbers of thousands of digits."""
    transports = tuple(sys.modules[name].HTTPError for name in ("httpx2", "httpx") if name in sys.modules)
    return (openai.OpenAIError, ProviderError, *_UNREADABLE, *transports)


def translated(error: Exception, call: CallContext) -> ProviderError:
    """Return our error for a failed call; an error that is ours already comes back as it is.

    The message of `error` itself loses its keys too, since it is shown as the cause in a traceback.
    """
    if (ours := _within(error)) is not None:
        return ours
    told = scrubbed(_told(error), call.key)
    if isinstance(error, openai.OpenAIError):
        error.args = (scrubbed(str(error), call.key),)
    status = status_of(error)
    kind = _kind(error, status, call)
    if kind is ProviderRejected and "api key" in told.lower():
        kind = AuthenticationFailed  # Gemini's endpoint refuses a key with 400
    if kind is ProviderUnreachable:
        message, retryable = _unreachable(error, call), True
    elif kind is AuthenticationFailed:
        message, retryable = _refused(call, told, status), False
    elif kind is RateLimited:
        message, retryable = _limited(error, call, told)
    elif kind is ProviderRejected:
        message, retryable = f"{call.host} refused the request ({_shown(status, told)})", status in (408, 409)
        message += _advice(told, call)
    else:
        message, retryable = _broke(error, call, told, status), not isinstance(error, _UNREADABLE)
    return kind(message, provider=call.host, retryable=retryable, status=status)


def _within(error: BaseException) -> ProviderError | None:
    """The error of ours that `error` is, or was raised from: some versions of openai wrap it."""
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
    """The HTTP status of a failure, also of one reported inside a stream; None when there was none."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, str) and re.fullmatch("[45][0-9][0-9]", code) else None


def scrubbed(text: str, key: str) -> str:
    """Return `text` without the key and without anything shaped like one."""
    if len(key) >= 4 and key != "none":
        text = text.replace(key, "…")
    return _KEY_SHAPED.sub("…", text)


def retry_after_s(error: Exception) -> float | None:
    """How long the service asks us to wait, None when it does not say."""
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
    """Whether the server says that it is still loading its model, as llama.cpp's does."""
    return status_of(error) == 503 and "loading" in _told(error).lower()


def asks_for_unknown_model(error: Exception) -> bool:
    """Whether the service says that it does not have the model."""
    if status_of(error) not in (400, 404):
        return False
    told = _told(error).lower()
    unknown = (
        "not found",
        "not exist",
        "unknown",
        "invalid model",
        "no such",
        "not available",
        "model_not_found",
    )
    return "model" in told and any(phrase in told for phrase in unknown)


def refused_parameter(error: Exception, names: tuple[str, ...]) -> str | None:
    """The first of `names` that the service says it does not take, None when it is not about them."""
    if status_of(error) not in (400, 422):
        return None
    told = f"{_told(error)} {getattr(error, 'code', '')}".lower()
    phrases = (
        "support",
        "unrecognized",
        "unknown",
        "unexpected",
        "extra",
        "permitted",
        "allowed",
        "invalid param",
    )
    if not any(phrase in told for phrase in phrases):
        return None
    return next((name for name in names if re.search(rf"\b{name}\b", told)), None)


def _told(error: Exception) -> str:
    """What the service itself said, on one line."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    said = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
    text = " ".join((said if said and isinstance(said, str) else str(error)).split())
    if text.startswith("<"):
        return "it sent a web page"
    return text if len(text) <= _MAX_TOLD else text[:_MAX_TOLD] + "…"


def _shown(status: int | None, told: str) -> str:
    return f"{status}: {told}" if status is not None else told


def _unreachable(error: Exception, call: CallContext) -> str:
    if "Timeout" in type(error).__name__:
        return (
            f"{call.host} did not answer {f'within {call.timeout_s:g} s' if call.timeout_s else 'in time'}; "
            "is it busy? Try again, or raise timeout_s (RAG_TIMEOUT)"
        )
    why = _root(error, call)
    mend = "is the server running?" if call.local else "is the address right, and the network up?"
    return f"nothing answers at {call.host} ({why}); {mend} Check --base-url (RAG_BASE_URL)"


def _root(error: BaseException, call: CallContext) -> str:
    """What went wrong at the bottom: "Connection refused" rather than "Connection error."."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return scrubbed(str(error) or type(error).__name__, call.key)


def _refused(call: CallContext, told: str, status: int | None) -> str:
    sent = "the key was refused" if call.key and call.key != "none" else "no key was given"
    return f"{call.host}: {sent} ({_shown(status, told)}); set {call.key_variable} to a valid key"


def _limited(error: Exception, call: CallContext, told: str) -> tuple[str, bool]:
    if getattr(error, "code", None) == "insufficient_quota" or "quota" in told.lower():
        return f"{call.host}: the quota is spent ({told}); check the plan and billing of the key", False
    wait = retry_after_s(error)
    when = f"in {wait:g} s" if wait is not None else "later"
    return f"{call.host} takes no more requests for now ({told}); try again {when}", True


def _advice(told: str, call: CallContext) -> str:
    lower = told.lower()
    if "context" in lower and ("length" in lower or "size" in lower or "exceed" in lower):
        return "; the prompt is too long for the model: lower --context-tokens (RAG_CONTEXT_TOKENS)"
    if call.model and "model" in lower:
        return f"; is the model {call.model!r} right? Choose one with --model"
    return "; is the address right? It usually ends in /v1"


def _broke(error: Exception, call: CallContext, told: str, status: int | None) -> str:
    if isinstance(error, RecursionError):
        return f"{call.host} sent JSON that nests too deeply to be read; is this a model's server?"
    if isinstance(error, _UNREADABLE):
        what = "sent something that is not JSON; is the address right? It usually ends in /v1"
        return f"{call.host} {what}"
    if call.received:
        why = told if status is not None or getattr(error, "body", None) else _root(error, call)
        return f"the answer of {call.host} broke off after {call.received} characters ({why}); ask again"
    return f"{call.host} failed ({_shown(status, told)}); try again later"
