"""Translates the openai package's exceptions into our own errors, and removes keys from messages.

`KINDS` names every exception of the package; a test walks the package and fails on one that is missing.
The transport's own exceptions (httpx, httpx2) are raised when a stream breaks off.
"""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

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

_KEY_SHAPED = re.compile(
    r"\b(?:(?:sk|gsk|xai|nvapi|pplx)-[A-Za-z0-9_\-]{8,}|(?:hf|r8)_[A-Za-z0-9]{16,}|AIza[A-Za-z0-9_\-]{20,})"
    r"|(?<=Bearer )\S+"
)
_MAX_MESSAGE_CHARS = 400
_UNREADABLE = (ValueError, OverflowError, RecursionError)
"""Raised while decoding a reply that is not JSON, or not the expected JSON."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a failed call, for its error message.

    `key` is removed from messages; `received` is the number of characters of the answer that arrived; `proxy`
    is the proxy between, in words; `embeds` is set for embeddings.
    """

    host: str
    model: str = ""
    key: str = ""
    timeout_s: float = 0.0
    received: int = 0
    local: bool = False
    key_variable: str = "OPENAI_API_KEY"
    proxy: str = ""
    embeds: bool = False


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
    if kind in (ProviderRejected, ProviderBroke) and (status == 402 or "quota" in reason.lower()):
        kind = RateLimited
    if kind is ProviderUnreachable:
        message, retryable = _unreachable(error, call)
    elif kind is AuthenticationFailed:
        message, retryable = _refused(call, reason, status), False
    elif kind is RateLimited:
        message, retryable = _limited(error, call, reason)
    elif kind is ProviderRejected:
        shown = _with_status(status, reason)
        message, retryable = f"{call.host} refused the request ({shown})", status in (408, 409)
        message += _advice(reason, status, call)
    else:
        message, retryable = _broke(error, call, reason, status), not isinstance(error, _UNREADABLE)
    if call.proxy and kind in (ProviderUnreachable, ProviderBroke) and not call.received:
        message += f". The request went through {call.proxy}"
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
    return int(code) if isinstance(code, int | str) and re.fullmatch("[45][0-9][0-9]", str(code)) else None


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
    """Return the first of `names` that the service reports as unsupported, or None.

    A refusal that mentions streaming is one of `stream`: "must be verified to stream this model".
    """
    if status_of(error) not in (400, 422, 501):
        return None
    if (param := getattr(error, "param", None)) in names:
        return str(param)
    reason = f"{_reason(error)} {getattr(error, 'code', '')}".lower()
    phrases = "support|unrecognized|unknown|unexpected|extra|permitted|allowed|invalid param".split("|")
    found = next((name for name in names if re.search(rf"\b{name}\b", reason)), None)
    if found and any(phrase in reason for phrase in phrases):
        return found
    return "stream" if "stream" in names and re.search(r"\bstream(?:ing|ed)?\b", reason) else None


_NO_SYSTEM = re.compile(
    r"\bsystem[ _-]?(?:role|message|prompt|instruction)|\broles?\b.{0,60}\bsystem\b|developer instruction"
    r"|roles must alternate",
    re.IGNORECASE,
)


def refuses_system_message(error: Exception) -> bool:
    """Whether the service, or the template of its model (Gemma's, for example), refuses a system message."""
    return status_of(error) in (400, 404, 422, 500) and bool(_NO_SYSTEM.search(_reason(error)))


_WORDS = """
error errors message msg detail details error_description error_message error_msg errormessage description
reason title
""".split()
"""The fields for the words of an error, in any case, as services, gateways and RFC 9457 name them."""
_MAX_DEPTH = 5
_COMPRESSED = "a compressed reply without the header Content-Encoding; correct the server, or its proxy"


def server_words(body: Any, depth: int = 0) -> str:
    """Return the message in the body of an error, in whichever of the usual fields it is; "" for none.

    FastAPI's errors name the field first: "body.messages: field required".
    """
    if isinstance(body, str):
        return body
    if depth > _MAX_DEPTH:
        return ""
    if isinstance(body, list):
        return "; ".join(filter(None, (server_words(one, depth + 1) for one in body[:_MAX_DEPTH])))
    if not isinstance(body, Mapping):
        return ""
    fields = {str(name).lower(): value for name, value in body.items()}
    words = next(filter(None, (server_words(fields.get(name), depth + 1) for name in _WORDS)), "")
    loc = body.get("loc")
    field = ".".join(str(part) for part in loc[:_MAX_DEPTH]) if isinstance(loc, list) else ""
    return f"{field}: {words}" if field and words else words


def _is_compressed(error: Exception) -> bool:
    """Whether a reply could not be read because it is in gzip, which its headers do not say."""
    response = getattr(error, "response", None)
    content = error.object if isinstance(error, UnicodeDecodeError) else getattr(response, "content", b"")
    return content.startswith(b"\x1f\x8b")


def _reason(error: Exception) -> str:
    """Return the service's own error message, on one line, without control characters."""
    if _is_compressed(error):
        return _COMPRESSED
    words = server_words(getattr(error, "body", None)) or str(error)
    text = "".join(char for char in " ".join(words[: _MAX_MESSAGE_CHARS * 10].split()) if char.isprintable())
    if text.startswith("<"):
        return "it sent a web page"
    return text if len(text) <= _MAX_MESSAGE_CHARS else text[:_MAX_MESSAGE_CHARS] + "…"


def _with_status(status: int | None, reason: str) -> str:
    return f"{status}: {reason}" if status is not None else reason


def _unreachable(error: Exception, call: CallContext) -> tuple[str, bool]:
    """Return the message, and whether a later try may succeed."""
    if "Timeout" in type(error).__name__:
        return (
            f"{call.host} did not answer {f'within {call.timeout_s:g} s' if call.timeout_s else 'in time'}; "
            "it may be busy. Try again, or raise timeout_s (RAG_TIMEOUT)"
        ), True
    causes = list(_causes(error))
    if tls := next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None):
        return _not_trusted(tls, call), False
    cause = scrubbed(str(causes[-1]) or type(causes[-1]).__name__, call.key)
    if call.proxy:
        return (
            f"{call.host} cannot be reached through {call.proxy}: {cause}. Correct the proxy, or add "
            f"{call.host} to NO_PROXY for a direct connection"
        ), True
    hint = "is the server running?" if call.local else "is the address right, and the network up?"
    return f"nothing answers at {call.host} ({cause}); {hint} Check --base-url (RAG_BASE_URL)", True


def _not_trusted(error: ssl.SSLError, call: CallContext) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {call.host} is not trusted ({error.verify_message}); if it is your server, "
            "set SSL_CERT_FILE to a file with its certificate, or that of its authority"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return (
        f"no encrypted connection to {call.host} ({reason}); if the server speaks plain HTTP, "
        "use an address that begins with http://"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, "Connection refused" after "Connection error."."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _refused(call: CallContext, reason: str, status: int | None) -> str:
    sent = "the key was refused" if call.key and call.key != "none" else "no key was given"
    return f"{call.host}: {sent} ({_with_status(status, reason)}); set {call.key_variable} to a valid key"


def _limited(error: Exception, call: CallContext, reason: str) -> tuple[str, bool]:
    code = getattr(error, "code", None)
    if code == "insufficient_quota" or "quota" in reason.lower() or status_of(error) == 402:
        return f"{call.host}: the quota is spent ({reason}); check the plan and billing of the key", False
    wait = retry_after_s(error)
    return f"{call.host} is limiting requests ({reason}); try again {_when(wait)}", True


def _when(wait_s: float | None) -> str:
    if wait_s is None or wait_s > _LONGEST_WAIT_S:
        return "later"
    if wait_s < 120:
        return f"in {wait_s:.3g} s"
    return f"in {wait_s / 60:.0f} minutes" if wait_s < 7_200 else f"in {wait_s / 3_600:.0f} hours"


_LONGEST_WAIT_S = 14 * 86_400
"""A service that asks for a longer wait means that it does not know when."""


def _advice(reason: str, status: int | None, call: CallContext) -> str:
    if call.embeds and is_too_large(reason):
        return "; a text is too long for the model: choose an embedding model with a larger context"
    lower = reason.lower()
    if "context" in lower and ("length" in lower or "size" in lower or "exceed" in lower):
        return "; the prompt is too long for the model: lower --context-tokens (RAG_CONTEXT_TOKENS)"
    if call.model and "model" in lower:
        return f"; check the model name {call.model!r}, or choose another with --model"
    return "; check the address, which usually ends in /v1" if status in (None, 404, 405) else ""


_TOO_LARGE = re.compile(
    r"too (?:large|long|many|big)|(?:larger|longer|more) than|exceed|at most|maximum|\bmax[ _]|\blimit"
    r"|batch[ _-]?size|context (?:length|size)",
    re.IGNORECASE,
)


def is_too_large(reason: str) -> bool:
    """Whether a refusal is about the size of the request."""
    return bool(_TOO_LARGE.search(reason))


def _broke(error: Exception, call: CallContext, reason: str, status: int | None) -> str:
    if isinstance(error, RecursionError):
        return f"{call.host} sent JSON that is nested too deeply; is this a model server?"
    if status is None and _is_compressed(error):
        return f"{call.host} failed ({_COMPRESSED})"
    if isinstance(error, _UNREADABLE):
        return f"{call.host} sent something that is not JSON; check the address, which usually ends in /v1"
    if call.received:
        root = list(_causes(error))[-1]
        cause = scrubbed(str(root) or type(root).__name__, call.key)
        cause = reason if status is not None or getattr(error, "body", None) else cause
        return f"the answer of {call.host} broke off after {call.received} characters ({cause}); ask again"
    return f"{call.host} failed ({_with_status(status, reason)}); try again later"
