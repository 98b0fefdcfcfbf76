"""The identity header: a proxy that has authenticated a user names the user.

Only the connection's own peer counts, not `X-Forwarded-For`: the header is read if the peer is one of the
configured proxies, and is removed from every other request. So are names that differ only in `_` for `-`,
which proxies and gateways treat as the same. An IPv4 address that is
written as IPv6 (`::ffff:10.0.0.1`) is that IPv4 address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from rag.errors import SettingsError
from rag.serve.access.keys import NAME, Caller, Keyring
from rag.serve.errors import Forbidden, Unauthorized

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Scope = MutableMapping[str, Any]
PEER = "rag.peer"
"""The key of the scope with the address of the connection's peer."""

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_RESERVED = frozenset({"authorization", "cookie", "host", "origin", "x-forwarded-for", "x-request-id"})
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_MIN_PREFIX = {4: 8, 6: 16}
"""The widest networks that are believed: a typing error must not make everyone a proxy."""


class IdentityHeader:
    """Reads the header of one server.

    Args:
        name: of the header; "" for none.
        proxies: the addresses and networks that are believed.

    Raises:
        SettingsError: the name or an address is invalid; or nobody is believed.
    """

    def __init__(self, name: str, proxies: tuple[str, ...]) -> None:
        self._name = name.lower().encode()
        self._networks: list[Network] = []
        if not name:
            return
        if not _HEADER.fullmatch(name) or name.lower() in _RESERVED:
            raise SettingsError(f"{name!r} cannot be the identity header; name one such as X-Forwarded-User")
        self._networks = [_network(text) for text in proxies]
        if not self._networks:
            raise SettingsError(
                "the identity header needs trusted_proxies (--trusted-proxy 10.0.0.5): from everyone else it "
                "is ignored"
            )

    def take(self, scope: Scope) -> str:
        """Remove the header from a request, and return the identity that it names; "" for none.

        Raises:
            Unauthorized: a proxy sent it twice, or its value is no valid name.
        """
        if not self._name:
            return ""
        same = [(name, value) for name, value in scope["headers"] if _plain(name) == self._name]
        if not same:
            return ""
        scope["headers"] = [pair for pair in scope["headers"] if _plain(pair[0]) != self._name]
        if not is_within(scope.get(PEER, ""), self._networks):
            return ""
        values = [value.decode("latin-1").strip() for name, value in same if name.lower() == self._name]
        if len(values) > 1:
            raise Unauthorized("the identity header was sent more than once; let the proxy replace it")
        if values and values[0] and not NAME.fullmatch(values[0]):
            raise Unauthorized(
                "the identity is not valid; it has 1 to 64 letters, digits, '.', '_', '-', '@' and '+'"
            )
        return values[0] if values else ""


def is_within(peer: str, networks: Iterable[Network]) -> bool:
    """Whether the address of a peer is in one of the networks."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in networks)


def identified(name: str, keyring: Keyring) -> Caller:
    """Return the caller of an identity: as the key of this name, else with a namespace of its own.

    Raises:
        KeyExpired: the key of this name has expired.
        Forbidden: its namespace would be one that keys of other names use.
    """
    if (known := keyring.named(name)) is not None:
        return known
    if name in keyring.namespaces:
        raise Forbidden(
            f"{name} is the namespace of other keys; the operator can allow it with `rag keys add {name}`"
        )
    return Caller(name, name)


def with_peer(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Return an ASGI app that records the peer, before a middleware replaces it by `X-Forwarded-For`."""

    async def recorded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            scope[PEER] = (scope.get("client") or ("",))[0]
        await app(scope, receive, send)

    return recorded


def forwarding_networks(proxies: tuple[str, ...]) -> list[str]:
    """Return proxies for uvicorn, which does not know that `::ffff:10.0.0.1` is 10.0.0.1."""
    found = list(proxies)
    for text in proxies:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if network.version == 4:
            found.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return found


def _plain(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


def proxy_network(text: str) -> Network:
    """Return the address or network of a proxy. Raises SettingsError: it is none."""
    try:
        network: Network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise SettingsError(
            f"{text!r} is not an address or network of a proxy, such as 10.0.0.5 or 10.0.0.0/24: {error}"
        ) from error
    return network


def _network(text: str) -> Network:
    network = proxy_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        mapped = network.network_address.ipv4_mapped
        network = ipaddress.IPv4Network((mapped or 0, network.prefixlen - _MAPPED.prefixlen))
    if network.prefixlen < _MIN_PREFIX[network.version]:
        raise SettingsError(f"{text} is too wide: everyone there could be anyone; name the proxy itself")
    return network
