"""Telemetry: Prometheus metrics and log lines.

It never contains a question, an answer, a key, a query string or a header. Each request is one line of the
logger `rag.serve.access`. Lines are JSON in ASCII, or text without control characters and characters that
change the direction of writing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rag.errors import RagError
from rag.quoting import visible
from rag.request_context import CURRENT, RequestContext

if TYPE_CHECKING:
    from rag.serve.access.rate_limits import Limiter
    from rag.types import Answer

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})
_NAME = "rag.serve"

log = logging.getLogger(_NAME)
access_log = logging.getLogger(f"{_NAME}.access")


class Telemetry:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "rag_http_requests", "HTTP requests.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "rag_http_request_seconds",
            "Duration of requests.",
            ("method", "route"),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._asked = Counter("rag_questions", "Questions, by outcome.", ("outcome",), registry=self.registry)
        self._answered = Histogram(
            "rag_answer_seconds", "Duration of answers.", registry=self.registry, buckets=_SECONDS
        )
        self._first = Histogram(
            "rag_first_piece_seconds", "Time to the first piece.", registry=self.registry, buckets=_SECONDS
        )
        self._tokens = Counter("rag_tokens", "Tokens, by direction.", ("direction",), registry=self.registry)

    def watch(self, limiter: Limiter, *, ready: Callable[[], int], indexing: Callable[[], int]) -> None:
        """Add gauges for the server's state: questions, and repositories that are ready or being indexed."""

        def gauge(name: str, what: str, read: Any) -> None:
            Gauge(name, what, registry=self.registry).set_function(read)

        gauge("rag_questions_asking", "Questions being answered.", lambda: limiter.asking)
        gauge("rag_questions_waiting", "Questions in the queue.", lambda: limiter.waiting)
        gauge("rag_repositories_ready", "Repositories that can answer.", ready)
        gauge("rag_index_jobs_running", "Repositories being indexed.", indexing)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def request(
        self,
        *,
        method: str,
        route: str,
        status: int,
        seconds: float,
        size_bytes: int,
        caller: str,
        current: RequestContext,
    ) -> None:
        """Record a request that has ended, and log it.

        Args:
            method: of the request.
            route: the pattern of its path.
            status: of the response.
            seconds: until the response was sent.
            size_bytes: of the response's body.
            caller: the name of the key or identity.
            current: the request.
        """
        # Each method name creates a series that is never removed, so unknown ones share one.
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
        # A page loads dozens of static files; log them at debug level only.
        level = logging.DEBUG if route.startswith("/static/") else logging.INFO
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "bytes": size_bytes,
            "seconds": round(seconds, 4),
            "cpu_s": round(current.cpu_s, 4),
            "caller": caller,
            "repository": ",".join(current.repositories),
        }
        access_log.log(level, "request", extra={"fields": fields})

    @contextmanager
    def question(self) -> Iterator[QuestionStats]:
        """Record a question while it is answered in the block."""
        metrics = QuestionStats(time.perf_counter())
        outcome = "given_up"
        try:
            yield metrics
        except RagError:
            outcome = "failed"
            raise
        finally:
            self._asked.labels("answered" if metrics.answer else outcome).inc()
            if metrics.first_s is not None:
                self._first.observe(metrics.first_s)
            if metrics.answer is not None:
                self._answered.observe(time.perf_counter() - metrics.began)
                usage = metrics.answer.usage
                self._tokens.labels("input").inc(usage.prompt_tokens)
                self._tokens.labels("output").inc(usage.answer_tokens)


@dataclass(slots=True)
class QuestionStats:
    """The measurements of one question."""

    began: float
    first_s: float | None = None
    answer: Answer | None = None

    def piece(self) -> None:
        """Record that a piece of the answer arrived."""
        if self.first_s is None:
            self.first_s = time.perf_counter() - self.began


class JsonFormatter(logging.Formatter):
    """Formats log records as one JSON object in ASCII per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON; its extra `fields` are merged into the object."""
        line = {**_head(record), **_fields(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Formats log records as lines of text: time, level, event, then `name=value` for each field.

    The lines of an exception follow, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        head = _head(record)
        words = [head["time"], head["level"].upper(), visible(head["event"])]
        words += [f"{name}={_value(value)}" for name, value in _fields(record).items() if value != ""]
        lines = [" ".join(words)]
        if record.exc_info:
            lines += [f"    {visible(line)}" for line in self.formatException(record.exc_info).splitlines()]
        return "\n".join(lines)


FORMATTERS: dict[str, type[logging.Formatter]] = {"json": JsonFormatter, "text": TextFormatter}
"""The forms of log lines."""


def _head(record: logging.LogRecord) -> dict[str, str]:
    time_utc = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {"time": time_utc, "level": record.levelname.lower(), "event": record.getMessage()}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the extra fields of a record, and the request that it belongs to."""
    fields = dict(getattr(record, "fields", {}))
    if (current := CURRENT.get()) is not None:
        fields["request_id"] = current.id
        if current.trace_id:
            fields["trace_id"] = current.trace_id
    return fields


def _value(value: Any) -> str:
    text = visible(str(value))
    return f'"{text}"' if " " in text or "=" in text else text
