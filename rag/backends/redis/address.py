"""The address of a Redis or Valkey server, parsed from a URL.

    redis://[user:password@]host[:6379][/db]           one server; rediss:// over TLS; valkey:// is the same
    unix://[user:password@]/path/to/socket[?db=N]      one server, by its socket
    redis+cluster://[user:password@]host[:6379],…      a cluster, by some of its nodes, which are asked in
                                                       turn for the others; or redis://…?cluster=1

Parameters after a `?`: `prefix` of all keys ("rag"); `timeout_s` for connecting and for each reply (10);
`connections`, the maximum per server (50); `wait`, the number of replicas that must have a write before a
call returns (0), which is awaited for at most `wait_s` (5); and `ca`, a file of trusted certificates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rag.errors import SettingsError

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")
_LIMITS: dict[str, tuple[type, float]] = {
    "timeout_s": (float, 0.001),
    "connections": (int, 1),
    "wait": (int, 0),
    "wait_s": (float, 0.001),
    "db": (int, 0),
    "cluster": (int, 0),
}


@dataclass(frozen=True, slots=True)
class Address:
    """The address and the connection options of a server; its `str` contains no secret."""

    scheme: str
    host: str
    port: int
    db: int = 0
    cluster: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    prefix: str = "rag"
    timeout_s: float = 10.0
    connections: int = 50
    wait: int = 0
    wait_s: float = 5.0
    ca: str = ""
    others: tuple[tuple[str, int], ...] = ()

    @property
    def seeds(self) -> list[tuple[str, int]]:
        """Return the hosts and ports that the address names."""
        return [(self.host, self.port), *self.others]

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}" + (f"?db={self.db}" if self.db else "")
        named = ((f"[{host}]" if ":" in host else host, port) for host, port in self.seeds)
        hosts = ",".join(f"{host}:{port}" for host, port in named)
        cluster = "+cluster" if self.cluster else ""
        return f"{self.scheme}{cluster}://{hosts}" + (f"/{self.db}" if self.db else "")


def read_url(url: str) -> Address:
    """Parse a URL.

    Raises:
        SettingsError: the URL is invalid; the message contains neither user nor password.
    """
    try:
        return _read(urlsplit(url))
    except ValueError as error:
        raise SettingsError(
            f"the address of the Redis memory cannot be used: {error}; use redis://HOST:6379/0, "
            "redis+cluster://HOST:6379 or unix:///PATH"
        ) from None  # the parsed text may contain the password


def _read(parts: SplitResult) -> Address:
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in SCHEMES or kind not in ("", "cluster"):
        raise ValueError(f"its scheme must be one of {', '.join(SCHEMES)}, with or without +cluster")
    given: dict[str, Any] = {
        name: _parameter(name, text) for name, text in parse_qsl(parts.query, keep_blank_values=True)
    }
    given["cluster"] = bool(kind or given.get("cluster"))
    seeds = [(unquote(parts.path), 6379)] if scheme == "unix" else _seeds(parts.netloc)
    if not all(host for host, _ in seeds):
        raise ValueError("it has no socket path" if scheme == "unix" else "it has no host")
    if len(seeds) > 1 and not given["cluster"]:
        raise ValueError("only a cluster has several hosts")
    if scheme != "unix" and parts.path.strip("/"):
        if not parts.path.strip("/").isdecimal():
            raise ValueError("the host must be followed by the number of a database")
        given["db"] = int(parts.path.strip("/"))
    if given["cluster"] and (given.get("db") or scheme == "unix"):
        raise ValueError("a cluster only has hosts and ports, and the database 0")
    if given.get("wait") and given.get("wait_s", 5.0) >= given.get("timeout_s", 10.0):
        raise ValueError("wait_s= must be less than timeout_s=")
    for name, text in (("user", parts.username), ("password", parts.password)):
        given[name] = unquote(text) if text else None
    return Address(scheme, *seeds[0], **given, others=tuple(seeds[1:]))


def _seeds(netloc: str) -> list[tuple[str, int]]:
    """Return the hosts, "" where one is missing, and their ports."""
    named = [urlsplit(f"//{host}") for host in netloc.rpartition("@")[2].split(",")]
    try:
        return [(each.hostname or "", each.port or 6379) for each in named]
    except ValueError:
        raise ValueError("its port is not a number up to 65535") from None


def _parameter(name: str, text: str) -> Any:
    if name == "prefix":
        if not text or set(text) & set("{}*?[]"):
            raise ValueError("prefix= must be a word without braces, brackets or wildcards")
        return text
    if name == "ca":
        return text
    if name == "cluster" and text in ("true", "false"):
        return text == "true"
    if name not in _LIMITS:
        what = "the part after the `?`" if "@" in name else repr(name)  # a password may contain a `?`
        raise ValueError(f"{what} is not a parameter; they are prefix, ca, {', '.join(_LIMITS)}")
    kind, least = _LIMITS[name]
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not least <= number < 1e9:
        raise ValueError(f"{name}= must be a number of at least {least:g}, not {text!r}")
    return number
