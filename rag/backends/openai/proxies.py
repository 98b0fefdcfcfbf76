"""The proxy of the environment between this machine and a model's server."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import openai

from rag.errors import ProviderUnreachable

_client_class = next(kind for kind in openai.DefaultHttpxClient.__mro__ if kind.__name__ == "Client")
httpx: Any = import_module(_client_class.__module__.partition(".")[0])
"""httpx or httpx2, whichever this version of the openai package uses."""

_MAX_PORT = 65_535
_SCHEMES = "http", "https", "socks5", "socks5h"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy: its address, and the environment variable that names it ("" for a setting of the system)."""

    url: str
    variable: str

    def __str__(self) -> str:
        """Return its host and where it is set, for messages; never its password."""
        shown = self.url.partition("://")[2].rpartition("@")[2].partition("/")[0] or "without an address"
        return f"the proxy {shown}{f' ({self.variable})' if self.variable else ''}"

    def scheme(self) -> str:
        """Return its protocol. Raises ValueError if the address cannot be read."""
        try:
            parts = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise ValueError(str(error)) from error
        if not parts.host or not 0 < (parts.port or 1) <= _MAX_PORT:
            raise ValueError("it has no host, or an impossible port")
        return str(parts.scheme)


def proxy_of(url: str) -> Proxy | None:
    """Return the proxy for an address; None for a direct connection, which this machine always gets.

    Raises:
        ProviderUnreachable: the proxy's address is invalid, or its protocol needs a package that is missing.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    known = getproxies()
    value = known.get(parts.scheme) or known.get("all")
    if not value:
        return None
    named = next((name for name, set_to in os.environ.items() if _is_variable(name) and set_to == value), "")
    proxy = Proxy(value if "://" in value else f"http://{value}", named)
    try:
        scheme = proxy.scheme()
    except ValueError as error:
        raise _unusable(proxy, host, f"its address cannot be read ({error}); correct it") from error
    if scheme not in _SCHEMES:
        raise _unusable(proxy, host, f"the protocol {scheme!r} is unknown; use one of {', '.join(_SCHEMES)}")
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise _unusable(proxy, host, "SOCKS needs the package socksio; run `pip install socksio`")
    return proxy


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _is_variable(name: str) -> bool:
    return name.lower().endswith("_proxy")


def _unusable(proxy: Proxy, host: str, why: str) -> ProviderUnreachable:
    return ProviderUnreachable(
        f"{host} cannot be reached through {proxy}: {why}, or add {host} to NO_PROXY for a direct connection",
        provider=host,
        retryable=False,
    )
