"""The address of a Redis or Valkey server, parsed from a URL.

    redis://[user:password@]host[:6379][/db]           one server; rediss:// over TLS; valkey:// is the same
    unix://[user:password@]/path/to/socket[?db=N]      one server, by its socket

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
_NO_CLUSTER = (
    "it names a cluster, which is not supported since rag 0.3: name one server, or Postgres; to move the "
    "turns, run `rag turns backup FILE` with rag 0.2, and `rag turns restore FILE` with this version"
)
_LIMITS: dict[str, tuple[type, float]] = {
    "timeout_s": (float, 0.001),
    "connections": (int, 1),
    "wait": (int, 0),
    "wait_s": (float, 0.001),
    "db": (int, 0),
}


@dataclass(frozen=True, slots=True)
class Address:
    """The address and the connection options of a server; its `str` contains no secret."""

    scheme: str
    host: str
    port: int
    db: int = 0
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    prefix: str = "rag"
    timeout_s: float = 10.0
    connections: int = 50
    wait: int = 0
    wait_s: float = 5.0
    ca: str = ""

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}" + (f"?db={self.db}" if self.db else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}" + (f"/{self.db}" if self.db else "")


def read_url(url: str) -> Address:
    """Parse a URL.

    Raises:
        SettingsError: the URL is invalid; the message contains neither user nor password.
    """
    try:
        return _read(urlsplit(url))
    except ValueError as error:
        raise SettingsError(
            f"the address of the Redis memory cannot be used: {error}; use redis://HOST:6379/0 "
            "or unix:///PATH"
        ) from None  # the parsed text may contain the password


def _read(parts: SplitResult) -> Address:
    scheme, _, kind = parts.scheme.partition("+")
    if kind == "cluster" or "," in parts.netloc.rpartition("@")[2]:
        raise ValueError(_NO_CLUSTER)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"its scheme must be one of {', '.join(SCHEMES)}")
    given: dict[str, Any] = {
        name: _parameter(name, text) for name, text in parse_qsl(parts.query, keep_blank_values=True)
    }
    try:
        host, port = parts.hostname or "", parts.port or 6379
    except ValueError:
        raise ValueError("its port is not a number up to 65535") from None
    if scheme == "unix":
        host = unquote(parts.path)
    if not host:
        raise ValueError("it has no socket path" if scheme == "unix" else "it has no host")
    if scheme != "unix" and parts.path.strip("/"):
        if not parts.path.strip("/").isdecimal():
            raise ValueError("the host must be followed by the number of a database")
        given["db"] = int(parts.path.strip("/"))
    if given.get("wait") and given.get("wait_s", 5.0) >= given.get("timeout_s", 10.0):
        raise ValueError("wait_s= must be less than timeout_s=")
    for name, text in (("user", parts.username), ("password", parts.password)):
        given[name] = unquote(text) if text else None
    return Address(scheme, host, port, **given)


def _parameter(name: str, text: str) -> Any:
    if name == "prefix":
        if not text or set(text) & set("{}*?[]"):
            raise ValueError("prefix= must be a word without braces, brackets or wildcards")
        return text
    if name == "ca":
        return text
    if name == "cluster":
        raise ValueError(_NO_CLUSTER)
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
