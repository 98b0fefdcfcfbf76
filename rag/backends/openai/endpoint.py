"""The server of the OpenAI protocol: its address, models, key and retry policy. Does not import AdalFlow."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai

from rag.backends.openai.bounds import RequestBounds, chat_bytes, http_client, sending
from rag.backends.openai.errors import CallContext, failures, translated
from rag.backends.openai.proxies import is_loopback, proxy_of
from rag.errors import ProviderRejected, SettingsError
from rag.settings import Settings

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
_PROMPT_TOKENS_PER_S = 30
"""What a model of 1.5 billion weights reads on one processor core."""
DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
"""Used when only a key for OpenAI is configured."""


@dataclass(frozen=True, slots=True)
class Retries:
    """When and how often a failed call is retried.

    The pause doubles from `first_pause_s` up to `longest_pause_s`, with random jitter of up to minus half so
    that many clients do not retry at the same moment. A service that requests a longer pause than
    `longest_pause_s` is not retried. A server that is still loading its model is retried for
    `loading_s`, regardless of the limit. `sleep` and `asleep` perform the waiting.
    """

    limit: int = 3
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    loading_s: float = 120.0
    loading_pause_each_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    asleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)

    def pause_s(self, attempt: int, asked_s: float | None) -> float | None:
        """Return the pause before retry number `attempt` (from 1), or None for no more retries."""
        if attempt > self.limit or (asked_s or 0.0) > self.longest_pause_s:
            return None
        grown = min(self.first_pause_s * 2.0 ** (attempt - 1), self.longest_pause_s)
        return max(grown * random.uniform(0.5, 1.0), asked_s or 0.0)

    def loading_pause_s(self, waited_s: float) -> float | None:
        """Return the pause for a server that loads its model, or None after `loading_s`."""
        return self.loading_pause_each_s if waited_s < self.loading_s else None


def request_limits(settings: Settings) -> dict[str, Any]:
    """Return the client's `timeout_s`, `first_byte_s` and `at_once` for the configured model.

    A model on this machine may compute for minutes before its answer begins, and mostly computes one answer
    at a time. A `timeout_s` that the user has set is respected.
    """
    first_byte_s, at_once = None, settings.model_concurrency
    if settings.local_model or (settings.base_url and on_loopback(settings.base_url)):
        first_byte_s, at_once = settings.timeout_s, at_once or 1
        if settings.is_default("timeout_s"):
            first_byte_s = max(first_byte_s, settings.context_tokens / _PROMPT_TOKENS_PER_S)
    return {"timeout_s": settings.timeout_s, "first_byte_s": first_byte_s, "at_once": at_once}


def checked_url(base_url: str | None, origin: str = "") -> str:
    """Return the address without a trailing slash (None: OpenAI's). Raises SettingsError if invalid."""
    url = (base_url or OPENAI_URL).strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and "@" in parts.netloc:
        raise SettingsError(
            f"the address of {parts.hostname} contains credentials; set the key with RAG_API_KEY instead"
        )
    if not usable:
        shown = re.sub(r"(?s).*@", "…@", url)
        raise SettingsError(
            f"the address {shown!r}{origin} is invalid; use one like http://localhost:11434/v1"
        )
    return url


def host_of(base_url: str | None) -> str:
    """Return the host and port of an address, without credentials, as shown in messages."""
    return urlsplit(checked_url(base_url)).netloc.rpartition("@")[2]


def is_local(base_url: str | None) -> bool:
    """Whether the address is on this machine or in its private network, where calls cost nothing."""
    name = urlsplit(checked_url(base_url)).hostname or ""
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
        return address.is_loopback or address.is_private
    except ValueError:
        return "." not in name or name.endswith((".local", ".localhost", ".internal"))


def on_loopback(base_url: str | None) -> bool:
    """Whether the address is on this machine."""
    return is_loopback(urlsplit(checked_url(base_url)).hostname or "")


def list_models(
    base_url: str | None = None, api_key: str | None = None, timeout_s: float = 10.0
) -> list[str]:
    """Return the names of the models of a server, in its order, without retries.

    Raises:
        ProviderError: the server is unreachable, refuses, or does not list models.
        SettingsError: the address or the key is invalid.
    """
    url = checked_url(base_url)
    host = host_of(url)
    key = checked_key(api_key, host)
    proxy = str(proxy_of(url) or "")
    call = CallContext(host=host, key=key, timeout_s=timeout_s, local=is_local(url), proxy=proxy)
    bounds = RequestBounds(host, timeout_s, chat_bytes(None))
    pool = openai.OpenAI(
        base_url=url, api_key=key, timeout=timeout_s, max_retries=0, http_client=http_client(url)
    )
    try:
        bounds.watch()
        with pool as connection, sending(bounds):
            listed: Any = connection.get("/models", cast_to=object)
    except failures() as error:
        raise translated(error, call) if bounds.left_s else bounds.too_long() from error
    finally:
        bounds.release()
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        raise ProviderRejected(
            f"{host} does not list its models; check the address, which usually ends in /v1",
            provider=host,
            retryable=False,
        )
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]


def only_model(base_url: str | None = None, api_key: str | None = None, timeout_s: float = 10.0) -> str:
    """Return the model to use when none is configured: the server's only one, or OpenAI's default.

    Raises:
        SettingsError: the server has several, or none.
        ProviderError: the list of models is not available.
    """
    host = host_of(base_url)
    if host == OPENAI_HOST:
        return DEFAULT_OPENAI_MODEL
    names = list_models(base_url, api_key, timeout_s)
    if len(names) == 1:
        return names[0]
    has = (
        f"{len(names)} models ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})"
        if names
        else "no model"
    )
    raise SettingsError(f"{host} has {has}; choose one with --model (RAG_MODEL)")


def checked_key(api_key: str | None, host: str) -> str:
    """Return the key to send, or "none"; for OpenAI the default is the environment's OPENAI_API_KEY.

    Raises:
        SettingsError: the key is not valid in an HTTP header.
    """
    key = (api_key or (os.environ.get("OPENAI_API_KEY") if host == OPENAI_HOST else "") or "none").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError(f"the API key for {host} contains invalid characters; check that it is complete")
    return key
