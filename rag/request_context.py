"""The request that is being served: its id, its trace, and what is measured for its line in the log.

The context is a context variable, so it follows the request into threads (`asyncio.to_thread`) and tasks, and
into the jobs that it adds. Outside of a request there is none.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}", re.ASCII)
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")
_MAX_REPOSITORIES = 10
_MAX_REPOSITORY_CHARS = 200


@dataclass(slots=True)
class RequestContext:
    """A request: `id` and `traceparent` ("" for none) are safe to log.

    `cpu_s` is the time of the threads that have worked for it so far. `repositories` are those that it named.
    """

    id: str
    traceparent: str = ""
    cpu_s: float = 0.0
    repositories: dict[str, None] = field(default_factory=dict)

    @property
    def trace_id(self) -> str:
        """The id of the W3C trace that the request belongs to; "" for none."""
        return self.traceparent[3:35]

    def about(self, repository: str) -> None:
        """Record the name of a repository that the request is about. The first ten are kept."""
        if len(self.repositories) < _MAX_REPOSITORIES:
            self.repositories[_CREDENTIALS.sub("", repository)[:_MAX_REPOSITORY_CHARS]] = None


CURRENT: ContextVar[RequestContext | None] = ContextVar("request", default=None)
"""The request that this thread or task works for."""


def request_id() -> str:
    """Return the id of the current request; "" outside of one."""
    current = CURRENT.get()
    return "" if current is None else current.id


def note_repository(name: str) -> None:
    """Record that the current request, if there is one, is about a repository."""
    if (current := CURRENT.get()) is not None:
        current.about(name)


def new_request(request_ids: list[str], traceparents: list[str]) -> RequestContext:
    """Return the context of a new request.

    Args:
        request_ids: the values of `X-Request-ID`. A single valid one is kept: 1 to 128 ASCII letters, digits
            and `._:+/=-`. If not, a new id is made.
        traceparents: the values of `traceparent`. A single valid one is kept.
    """
    own = request_ids[0] if len(request_ids) == 1 and _REQUEST_ID.fullmatch(request_ids[0]) else ""
    is_traced = len(traceparents) == 1 and _TRACEPARENT.fullmatch(traceparents[0])
    return RequestContext(own or uuid.uuid4().hex, traceparents[0] if is_traced else "")


class MeasuringExecutor(ThreadPoolExecutor):
    """A thread pool that adds the CPU time of each call to the request that submitted it."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Schedule a call, see `ThreadPoolExecutor.submit`."""
        current = CURRENT.get()
        if current is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_measured, current, fn, *args, **kwargs)


def _measured(current: RequestContext, fn: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    began = time.thread_time()
    try:
        return fn(*args, **kwargs)
    finally:
        current.cpu_s += time.thread_time() - began
