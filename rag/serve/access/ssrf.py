"""SSRF protection: a host of a request's URL is resolved once, refused if not public, and pinned for git.

If git resolved the name again, it could get another address (DNS rebinding). So git receives the checked
addresses, in the format of curl's `--resolve`, and follows no redirects; with that setting it also uses no
alternates on other hosts. git before 2.37 does not have the setting, so with it no host is allowed. Behind a
proxy, the proxy resolves names. `rag doctor --server` reports both.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from rag.errors import SettingsError, SourceError
from rag.serve.errors import Forbidden
from rag.service.repositories.remotes import git_version

_NOT_PUBLIC = (
    "is_private is_loopback is_link_local is_site_local is_multicast is_reserved is_unspecified".split()
)
_OF_CLOUDS = tuple(
    map(
        ipaddress.ip_network,
        # Addresses where a cloud serves its own machines, in networks that count as public: Oracle's and
        # other protocol addresses, Azure's wire server, IBM's services, Google's private access, 6to4 relays.
        "192.0.0.0/24 168.63.129.16/32 161.26.0.0/16 166.8.0.0/14 199.36.153.4/30 199.36.153.8/30 "
        "192.88.99.0/24".split(),
    )
)
_FIRST_GIT_THAT_PINS = (2, 37)


async def resolve_public(url: str) -> str:
    """Resolve the host of an https URL; return `HOST:PORT:ADDRESS,…`, the only addresses git may connect to.

    Raises:
        Forbidden: one of its addresses is not public.
        SourceError: the name cannot be resolved.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SourceError(f"{host} cannot be resolved ({error.strerror or error})") from error
    addresses = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
    if not all(map(is_public, addresses)):
        raise Forbidden(f"{host} resolves to an address that is not public, which is not served")
    return f"{host}:{port}:{','.join(f'[{one}]' if ':' in one else one for one in addresses)}"


def is_public(address: str) -> bool:
    """Whether an IP address is public.

    Not public are shared addresses (100.64.0.0/10, where some clouds serve credentials), those where clouds
    serve their own machines, and IPv6 addresses that contain an address which is not public.
    """
    ip = ipaddress.ip_address(address)
    inner = _inner(ip) if isinstance(ip, ipaddress.IPv6Address) else None
    if inner is not None and not is_public(str(inner)):
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        return True
    of_cloud = any(ip in network for network in _OF_CLOUDS)
    return ip.is_global and not of_cloud and not any(getattr(ip, kind, False) for kind in _NOT_PUBLIC)


def _inner(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains: mapped, 6to4, or ISATAP in any network."""
    is_isatap = (int(ip) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE
    return (
        ip.ipv4_mapped
        or ip.sixtofour
        or (ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF) if is_isatap else None)
    )


def git_pins_addresses() -> bool:
    """Whether the installed git connects to given addresses only, without resolving the host itself."""
    try:
        version = git_version()
    except SourceError:
        return False
    found = re.search(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_GIT_THAT_PINS


def check_git(hosts: Sequence[str]) -> None:
    """Refuse allowed hosts with a git that would resolve their names again.

    Raises:
        SettingsError: hosts are allowed, and git is older than 2.37 or not installed.
    """
    if hosts and not git_pins_addresses():
        needed = ".".join(map(str, _FIRST_GIT_THAT_PINS))
        raise SettingsError(
            f"URLs on {', '.join(hosts)} cannot be served with the installed git: before {needed} it "
            "resolves names again after they were checked, which may lead to a private address; install git "
            f"{needed} or newer, or serve without --allow-urls"
        )
