"""Redis or Valkey, one server or a cluster, spoken to through scripts that each touch one hash tag.

    redis://[user:password@]host[:6379][/db]           one server; rediss:// over TLS; valkey:// is the same
    unix://[user:password@]/path/to/socket[?db=N]      one server, by its socket
    redis+cluster://[user:password@]host[:6379]        a cluster, by any of its nodes; or redis://…?cluster=1

Parameters, behind a `?`: `prefix` of all keys ("rag"), `timeout_s` of connecting and of each answer (10),
`connections` at most to a server (50), `wait`, how many replicas must have what was written before a call
returns (0), each call waiting `wait_s` for them at most (5), and `ca`, a file of certificates to trust.

What a cluster turned away since keys are being moved, or a node is being replaced, is tried again for
`timeout_s`. Nothing is sent twice when a connection breaks: whether the call was carried out cannot be known,
and it may not be one that can be repeated (appending is: a turn whose id is stored is not stored again). A
connection that the server has closed meanwhile is noticed before it is used.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from rag.backends.redis_errors import too_few_replicas, translated, turned_away
from rag.errors import BackendMissing, SettingsError

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")
_A_MOMENT_S = 0.02
_LIMITS: dict[str, tuple[type, float]] = {
    "timeout_s": (float, 0.001),
    "connections": (int, 1),
    "wait": (int, 0),
    "wait_s": (float, 0.001),
    "db": (int, 0),
    "cluster": (int, 0),
}

Args = Sequence[str | bytes | int]


class Script(NamedTuple):
    """A script, the names of its keys, and the hash by which a server that has it knows it."""

    source: str
    keys: tuple[str, ...]
    sha: str

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        """The script with its hash."""
        return cls(source, keys, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is and how it is spoken to; `str` of it has no secret."""

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

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}" + (f"?db={self.db}" if self.db else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        cluster = "+cluster" if self.cluster else ""
        return f"{self.scheme}{cluster}://{host}:{self.port}" + (f"/{self.db}" if self.db else "")


def read_url(url: str) -> Address:
    """What a URL says.

    Raises:
        SettingsError: it is no such URL; the message has neither user nor password.
    """
    try:
        return _read(urlsplit(url))
    except ValueError as error:
        raise SettingsError(
            f"the address of the Redis memory cannot be used: {error}; it is redis://HOST:6379/0, "
            "redis+cluster://HOST:6379 or unix:///PATH"
        ) from None  # what was parsed may hold the password


def _read(parts: SplitResult) -> Address:
    scheme, _, kind = parts.scheme.partition("+")
    if scheme not in SCHEMES or kind not in ("", "cluster"):
        raise ValueError(f"its scheme is none of {', '.join(SCHEMES)}, with or without +cluster")
    given: dict[str, Any] = {
        name: _parameter(name, text) for name, text in parse_qsl(parts.query, keep_blank_values=True)
    }
    given["cluster"] = bool(kind or given.get("cluster"))
    host = unquote(parts.path) if scheme == "unix" else parts.hostname
    if not host:
        raise ValueError("it names no socket" if scheme == "unix" else "it names no host")
    if scheme != "unix" and parts.path.strip("/"):
        if not parts.path.strip("/").isdecimal():
            raise ValueError("behind the host stands the number of a database")
        given["db"] = int(parts.path.strip("/"))
    if given["cluster"] and (given.get("db") or scheme == "unix"):
        raise ValueError("a cluster has hosts and ports, and no database but 0")
    try:
        port = parts.port or 6379
    except ValueError:
        raise ValueError("its port is no number up to 65535") from None
    for name, text in (("user", parts.username), ("password", parts.password)):
        given[name] = unquote(text) if text else None
    return Address(scheme, host, port, **given)


def _parameter(name: str, text: str) -> Any:
    if name == "prefix":
        if not text or set(text) & set("{}*?[]"):
            raise ValueError("prefix= is a word without braces, brackets or wildcards")
        return text
    if name == "ca":
        return text
    if name not in _LIMITS:
        raise ValueError(f"{name!r} is no parameter; they are prefix, ca, {', '.join(_LIMITS)}")
    kind, least = _LIMITS[name]
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not least <= number < 1e9:
        raise ValueError(f"{name}= is a number of at least {least:g}, not {text!r}")
    return number


def coded(text: str) -> bytes:
    """Text as it is sent; also what is no Unicode."""
    return text.encode("utf-8", "surrogatepass")


def decoded(sent: bytes) -> str:
    """Text as it was."""
    return sent.decode("utf-8", "surrogatepass")


def key_part(text: str) -> str:
    """Text as a part of a key: whatever it holds, it means nothing there."""
    return quote(coded(text), safe="")


class RedisServer:
    """Scripts run on a server, or on the node of a cluster that has their keys. Pickles as its address.

    May be used by threads and after a fork: a process has connections of its own.

    Raises (every call):
        StoreUnreachable: no server answers in time (whether the call was carried out is not known), or it
            lets nobody in.
        StoreUnwritable: the server takes no writes now.
        StoreError: the server answers, and will not; or it did, and the replicas asked for do not have it.
    """

    def __init__(self, address: Address) -> None:
        _redis()
        self.address = address
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._nodes: dict[tuple[str, int], Any] = {}  # clients
        self._slots: list[tuple[str, int]] = []
        self._seen: dict[tuple[str, int], None] = {}  # nodes of the cluster, also replicas
        self._closed = False

    def __reduce__(self) -> tuple[type[RedisServer], tuple[Address]]:
        return RedisServer, (self.address,)

    def run(self, script: Script, tag: str, args: Args, *, writes: bool = False) -> Any:
        """Run a script on the keys of a tag; with `writes` the replicas asked for have it, too."""
        return self.run_each([(script, tag, args)], writes=writes)[0]

    def run_each(self, calls: Sequence[tuple[Script, str, Args]], *, writes: bool = False) -> list[Any]:
        """Run scripts, each atomic by itself, in one round trip to each node; their results in order."""
        results: list[Any] = [None] * len(calls)
        left, deadline = list(range(len(calls))), time.monotonic() + self.address.timeout_s
        with self._translated():
            while left := self._try_each(calls, left, results, writes):
                if time.monotonic() > deadline:
                    raise next(results[n] for n in left)
            return results

    def command(self, *words: str | int, node: tuple[str, int] | None = None) -> Any:
        """Run a command on a node, or on the server that the address names."""
        with self._translated():
            return self._client(node or (self.address.host, self.address.port)).execute_command(*words)

    def nodes(self) -> list[tuple[str, int]]:
        """All servers, with the replicas of a cluster."""
        if not self.address.cluster:
            return [(self.address.host, self.address.port)]
        with self._translated():
            self._slots = []
            self._slot_map()
            return sorted(self._seen)

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        with self._lock:
            self._closed = True
            nodes, self._nodes = list(self._nodes.values()), {}
        for node in nodes:
            node.close()
            node.connection_pool.disconnect()

    # ---- inside

    def _try_each(
        self, calls: Sequence[tuple[Script, str, Args]], left: list[int], results: list[Any], writes: bool
    ) -> list[int]:
        """Run what is left; return what must be run again: it was not, and may be elsewhere or later."""
        import redis.exceptions as known

        nodes: dict[tuple[str, int], list[int]] = {}
        try:
            for n in left:
                nodes.setdefault(self._node_of(calls[n][1]), []).append(n)
        except known.ClusterDownError as error:
            results[left[0]] = error
            return self._later(left)
        again: dict[int, str] = {}
        for node, mine in nodes.items():
            for n, result in zip(mine, self._on_node(node, [calls[n] for n in mine], writes), strict=True):
                results[n] = result
                word, asked = turned_away(result)
                if word == "ASK":
                    results[n] = result = self._asked(asked, calls[n])
                    word, _ = turned_away(result)
                if word == "NOSCRIPT":
                    self._client(node).script_load(calls[n][0].source)
                if word:
                    again[n] = word
                elif isinstance(result, Exception):
                    raise result
        if "MOVED" in again.values():
            self._slots = []
        return sorted(again) if {*again.values()} <= {"MOVED", "NOSCRIPT"} else self._later(sorted(again))

    def _later(self, again: list[int]) -> list[int]:
        """The same, in a moment, when the cluster may have made up its mind."""
        self._slots = []
        time.sleep(_A_MOMENT_S)
        return again

    def _on_node(
        self, node: tuple[str, int], calls: Sequence[tuple[Script, str, Args]], writes: bool
    ) -> list[Any]:
        client, wait = self._client(node), self.address.wait if writes else 0
        if len(calls) == 1 and not wait:
            import redis.exceptions as known

            try:
                return [client.execute_command(*_evalsha(*calls[0]))]
            except known.ResponseError as error:
                return [error]
        pipe = client.pipeline(transaction=False)
        for call in calls:
            pipe.execute_command(*_evalsha(*call))
        if wait:
            pipe.execute_command("WAIT", wait, int(self.address.wait_s * 1000))
        found = list(pipe.execute(raise_on_error=False))
        if wait:
            have = found.pop()
            if isinstance(have, Exception):
                raise have
            if have < wait and not any(isinstance(one, Exception) for one in found):
                raise too_few_replicas(str(self.address), have, wait, self.address.wait_s)
        return found

    def _asked(self, node: tuple[str, int], call: tuple[Script, str, Args]) -> Any:
        """Run on a node that is about to get the keys, which takes it only after ASKING."""
        client = self._client(node)
        client.script_load(call[0].source)
        pipe = client.pipeline(transaction=False)
        pipe.execute_command("ASKING")
        pipe.execute_command(*_evalsha(*call))
        return pipe.execute(raise_on_error=False)[1]

    def _node_of(self, tag: str) -> tuple[str, int]:
        if not self.address.cluster:
            return (self.address.host, self.address.port)
        from redis.crc import key_slot

        return self._slot_map()[key_slot(tag.encode())]

    def _slot_map(self) -> list[tuple[str, int]]:
        import redis.exceptions as known

        slots = self._slots
        if slots:
            return slots
        first = (self.address.host, self.address.port)
        problem: Exception | None = None
        for node in dict.fromkeys([*self._seen, first]):
            try:
                ranges = self._client(node).execute_command("CLUSTER", "SLOTS")
            except (known.ConnectionError, known.TimeoutError) as error:
                problem = error
                continue
            slots, self._seen = [("", 0)] * 16384, {}
            for low, high, *serving in ranges:  # the one that takes writes first
                places = [_place(each, node) for each in serving]
                slots[low : high + 1] = [places[0]] * (high + 1 - low)
                self._seen.update(dict.fromkeys(places))
            if ("", 0) in slots:
                raise known.ClusterDownError("CLUSTERDOWN not all slots are served")
            self._slots = slots
            return slots
        assert problem is not None
        raise problem

    def _client(self, node: tuple[str, int]) -> Any:
        if self._pid != os.getpid():  # after a fork; what was inherited belongs to the parent
            self._pid, self._lock, self._nodes = os.getpid(), threading.Lock(), {}
        with self._lock:
            if self._closed:
                raise ValueError("the store is closed")
            if node not in self._nodes:
                self._nodes[node] = _connected(self.address, node)
            return self._nodes[node]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the client library raises, as errors of ours."""
        library = _redis()
        try:
            yield
        except (library.exceptions.RedisError, OSError) as error:
            self._slots = []  # a node may be gone, and another in its place
            raise translated(error, str(self.address), self.address.password) from error


def _place(told: Sequence[Any], by: tuple[str, int]) -> tuple[str, int]:
    """Host and port of a node as a node told; without a host it is where that one is."""
    host = told[0].decode() if isinstance(told[0], bytes) else told[0]
    return (host or by[0], int(told[1]))


def _evalsha(script: Script, tag: str, args: Args) -> list[str | bytes | int]:
    keys = [f"{tag}:{name}" for name in script.keys]
    return ["EVALSHA", script.sha, len(keys), *keys, *args]


def _connected(address: Address, node: tuple[str, int]) -> Any:
    library = _redis()
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    where: dict[str, Any] = {"host": node[0], "port": node[1]}
    if address.scheme == "unix":
        where = {"path": address.host, "connection_class": library.UnixDomainSocketConnection}
    elif address.scheme in ("rediss", "valkeys"):
        where |= {"connection_class": library.SSLConnection, "ssl_ca_certs": address.ca or None}
    pool = library.BlockingConnectionPool(
        db=address.db,
        username=address.user,
        password=address.password,
        max_connections=address.connections,
        timeout=address.timeout_s,
        socket_timeout=address.timeout_s,
        socket_connect_timeout=address.timeout_s,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        **where,
    )
    return library.Redis(connection_pool=pool)


def _redis() -> Any:
    try:
        import redis
    except ModuleNotFoundError as error:
        raise BackendMissing(
            backend="the memory in Redis or Valkey", missing="redis", extra="redis"
        ) from error
    return redis
