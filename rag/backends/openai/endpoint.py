"""Where a server of the OpenAI protocol is, what it has, and how patiently it is asked. Free of AdalFlow."""

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
from rag.errors import ProviderRejected, SettingsError

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOST = "api.openai.com"
DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
"""Asked when a key for OpenAI is all that is configured."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how patiently a failed call is tried again.

    The pause doubles from `first_pause_s` up to `longest_pause_s`, each time shortened at random by up to
    half so that many clients do not return together. A service that names a longer pause than
    `longest_pause_s` is not waited for. A server that is still loading its model is asked again and again for
    `loading_s`, whatever the limit. `sleep` and `asleep` are what waits.
    """

    limit: int = 3
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    loading_s: float = 120.0
    loading_pause_each_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    asleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)

    def pause_s(self, attempt: int, asked_s: float | None) -> float | None:
        """The pause before try number `attempt` (from 1), None when it is not to be tried again."""
        if attempt > self.limit or (asked_s or 0.0) > self.longest_pause_s:
            return None
        grown = min(self.first_pause_s * 2.0 ** (attempt - 1), self.longest_pause_s)
        return max(grown * random.uniform(0.5, 1.0), asked_s or 0.0)

    def loading_pause_s(self, waited_s: float) -> float | None:
        """The pause for a server that loads its model; None when it was waited for long enough."""
        return self.loading_pause_each_s if waited_s < self.loading_s else None


def checked_url(base_url: str | None, whence: str = "") -> str:
    """The address without a trailing slash, OpenAI's for None. Raises SettingsError when it is no address."""
    url = (base_url or OPENAI_URL).strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and "@" in parts.netloc:
        raise SettingsError(
            f"the address of {parts.hostname} holds credentials; give the key with RAG_API_KEY"
        )
    if not usable:
        shown = re.sub(r"(?s).*@", "…@", url)
        raise SettingsError(
            f"the address {shown!r}{whence} cannot be used; it looks like http://localhost:11434/v1"
        )
    return url


def host_of(base_url: str | None) -> str:
    """Host and port of an address, without credentials: what a message may name."""
    return urlsplit(checked_url(base_url)).netloc.rpartition("@")[2]


def is_local(base_url: str | None) -> bool:
    """Whether the address is this machine's or its private network's, where nothing is sold."""
    name = urlsplit(checked_url(base_url)).hostname or ""
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
        return address.is_loopback or address.is_private
    except ValueError:
        return "." not in name or name.endswith((".local", ".localhost", ".internal"))


def list_models(
    base_url: str | None = None, api_key: str | None = None, timeout_s: float = 10.0
) -> list[str]:
    """The names of the models a server has, in its order; asked once, without a second try.

    Raises:
        ProviderError: the server cannot be reached, refuses, or does not list models.
        SettingsError: the address or the key cannot be used.
    """
    url = checked_url(base_url)
    host = host_of(url)
    key = checked_key(api_key, host)
    call = CallContext(host=host, key=key, timeout_s=timeout_s, local=is_local(url))
    bounds = RequestBounds(host, timeout_s, chat_bytes(None))
    pool = openai.OpenAI(
        base_url=url, api_key=key, timeout=timeout_s, max_retries=0, http_client=http_client()
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
            f"{host} does not list its models; is the address right? It usually ends in /v1",
            provider=host,
            retryable=False,
        )
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]


def only_model(base_url: str | None = None, api_key: str | None = None, timeout_s: float = 10.0) -> str:
    """The model to ask when none is named: a server's only one; OpenAI's default at OpenAI.

    Raises:
        SettingsError: the server has several, or none.
        ProviderError: the server does not say.
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
    raise SettingsError(f"{host} has {has}; name one with --model (RAG_MODEL)")


def checked_key(api_key: str | None, host: str) -> str:
    """The key to send, "none" where there is none; at OpenAI the environment's OPENAI_API_KEY is looked up.

    Raises:
        SettingsError: it cannot stand in a header.
    """
    key = (api_key or (os.environ.get("OPENAI_API_KEY") if host == OPENAI_HOST else "") or "none").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError(f"the API key for {host} holds characters that no key has; was it pasted whole?")
    return key
