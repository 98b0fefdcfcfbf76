"""Hosts that requests may name: looked up once, refused if they lead inside, and git told where they lead.

Between the look-up and git's own a name could come to lead elsewhere (DNS rebinding). So git is not left to
look it up: it is given the very addresses that were looked at, as curl's `--resolve` takes them, follows no
redirect, and with that takes no alternates from elsewhere either. A git before 2.37 does not know that
setting, so no host is allowed with it; behind a proxy it is the proxy that looks names up. `rag doctor
--server` says both.
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
from rag.service.remotes import git_version

_NOT_PUBLIC = (
    "is_private is_loopback is_link_local is_site_local is_multicast is_reserved is_unspecified".split()
)
_OF_CLOUDS = tuple(
    map(
        ipaddress.ip_network,
        # What a cloud answers its own machines at, in networks that are public by their numbers: Oracle's and
        # other protocol addresses, Azure's wire server, IBM's services, Google's private access, 6to4 relays.
        "192.0.0.0/24 168.63.129.16/32 161.26.0.0/16 166.8.0.0/14 199.36.153.4/30 199.36.153.8/30 "
        "192.88.99.0/24".split(),
    )
)
_PINS_FROM = (2, 37)


async def public_place(url: str) -> str:
    """Where the host of an https URL leads, as `HOST:PORT:ADDRESS,…`: what git may connect to.

    Raises:
        Forbidden: one of its addresses is not public.
        SourceError: the name leads nowhere.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SourceError(f"{host} cannot be found ({error.strerror or error})") from error
    addresses = dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found)
    if not all(map(is_public, addresses)):
        raise Forbidden(f"{host} leads to an address that is not public, which is not served")
    return f"{host}:{port}:{','.join(f'[{one}]' if ':' in one else one for one in addresses)}"


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public network.

    Not so are shared ones (100.64.0.0/10, where some clouds tell their secrets), those at which clouds answer
    their own machines, and IPv6 ones that hold an address which is not public.
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
    """The IPv4 address that an IPv6 one leads to: mapped, 6to4, or ISATAP in whatever network."""
    is_isatap = (int(ip) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE
    return (
        ip.ipv4_mapped
        or ip.sixtofour
        or (ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF) if is_isatap else None)
    )


def git_stays_where_told() -> bool:
    """Whether the git there is connects to the addresses that it is given, and looks nothing up itself."""
    try:
        told = git_version()
    except SourceError:
        return False
    found = re.search(r"(\d+)\.(\d+)", told)
    return found is not None and (int(found[1]), int(found[2])) >= _PINS_FROM


def check_git(hosts: Sequence[str]) -> None:
    """Refuse to allow hosts where git would look their names up again.

    Raises:
        SettingsError: hosts are allowed, and git is older than 2.37 or not there.
    """
    if hosts and not git_stays_where_told():
        needed = ".".join(map(str, _PINS_FROM))
        raise SettingsError(
            f"URLs on {', '.join(hosts)} cannot be served with the git that is here: one older than {needed} "
            "looks names up again after they were checked, and may be led inside; install git "
            f"{needed} or newer, or serve without --allow-urls"
        )
