"""A Redis or Valkey server or cluster, called through scripts that each use one hash tag.

A call that a cluster rejects because keys are being moved, or that cannot be sent because a node is down and
will be replaced, is retried for `timeout_s`. A call is never sent twice when a connection breaks, as its
outcome is unknown and it may not be idempotent (appending is: a turn whose id is stored is not stored again).
A connection that the server has closed is detected before it is used.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from rag.backends.redis.address import Address
from rag.backends.redis.errors import is_not_there, too_few_replicas, translated, turned_away
from rag.errors import BackendMissing

_A_MOMENT_S = 0.02
Args = Sequence[str | bytes | int]


class Script(NamedTuple):
    """A script, the names of its keys, and the hash by which the server caches it."""

    source: str
    keys: tuple[str, ...]
    sha: str

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        """Return the script with its hash."""
        return cls(source, keys, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


def coded(text: str) -> bytes:
    """Encode text, including invalid Unicode."""
    return text.encode("utf-8", "surrogatepass")


def decoded(sent: bytes) -> str:
    """Decode text."""
    return sent.decode("utf-8", "surrogatepass")


def key_part(text: str) -> str:
    """Encode text as a part of a key, without special characters."""
    return quote(coded(text), safe="")


class RedisServer:
    """Runs scripts on a server, or on the node of a cluster that has their keys. Pickled as its address.

    Can be used by threads and after a fork: each process has its own connections.

    Raises (every call):
        StoreUnreachable: no server replies in time (the outcome of the call is unknown), or access is denied.
        StoreUnwritable: the server does not accept writes now.
        StoreError: the server returns an error; or it has stored a write, but not the required replicas.
    """

    def __init__(self, address: Address) -> None:
        _redis()
        self.address = address
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._nodes: dict[tuple[str, int], Any] = {}  # clients
        self._slots: list[tuple[str, int]] = []
        self._seen: dict[tuple[str, int], None] = {}  # nodes of the cluster, including replicas
        self._closed = False

    def __reduce__(self) -> tuple[type[RedisServer], tuple[Address]]:
        return RedisServer, (self.address,)

    def run(self, script: Script, tag: str, args: Args, *, writes: bool = False) -> Any:
        """Run a script on the keys of a tag; `writes` waits for the required replicas."""
        return self.run_each([(script, tag, args)], writes=writes)[0]

    def run_each(self, calls: Sequence[tuple[Script, str, Args]], *, writes: bool = False) -> list[Any]:
        """Run scripts, each atomic, in one round trip to each node; return their results in order."""
        results: list[Any] = [None] * len(calls)
        left, deadline = list(range(len(calls))), time.monotonic() + self.address.timeout_s
        with self._translated():
            while left := self._try_each(calls, left, results, writes):
                if time.monotonic() > deadline:
                    raise next(results[n] for n in left)
            return results

    def command(self, *words: str | int, node: tuple[str, int] | None = None) -> Any:
        """Run a command on a node, or on the server of the address."""
        with self._translated():
            return self._client(node or (self.address.host, self.address.port)).execute_command(*words)

    def nodes(self) -> list[tuple[str, int]]:
        """Return all servers, including the replicas of a cluster."""
        if not self.address.cluster:
            return [(self.address.host, self.address.port)]
        with self._translated():
            self._slots = []
            self._slot_map()
            return sorted(self._seen)

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        with self._lock:
            self._closed = True
            nodes, self._nodes = list(self._nodes.values()), {}
        for node in nodes:
            node.close()
            node.connection_pool.disconnect()

    # ---- internal

    def _try_each(
        self, calls: Sequence[tuple[Script, str, Args]], left: list[int], results: list[Any], writes: bool
    ) -> list[int]:
        """Run the calls that are left; return those to be retried, which were not executed."""
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
            for n, result in zip(mine, self._sent(node, [calls[n] for n in mine], writes), strict=True):
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
        """Return them after a pause, in which the state of the cluster may change."""
        self._slots = []
        time.sleep(_A_MOMENT_S)
        return again

    def _sent(
        self, node: tuple[str, int], calls: Sequence[tuple[Script, str, Args]], writes: bool
    ) -> list[Any]:
        """Return the results of calls on a node; or that it is gone, if the cluster will replace it."""
        import redis.exceptions as known

        try:
            return self._on_node(node, calls, writes)
        except known.ConnectionError as error:
            if not (self.address.cluster and is_not_there(error)):
                raise
            return [error] * len(calls)

    def _on_node(
        self, node: tuple[str, int], calls: Sequence[tuple[Script, str, Args]], writes: bool
    ) -> list[Any]:
        wait = self.address.wait if writes else 0
        commands = [_evalsha(*call) for call in calls]
        if wait:
            commands.append(_command(["WAIT", wait, int(self.address.wait_s * 1000)]))
        found = _replies(self._client(node), commands)
        if wait:
            have = found.pop()
            if isinstance(have, Exception):
                raise have
            if have < wait and not any(isinstance(one, Exception) for one in found):
                raise too_few_replicas(str(self.address), have, wait, self.address.wait_s)
        return found

    def _asked(self, node: tuple[str, int], call: tuple[Script, str, Args]) -> Any:
        """Run on a node that is importing the keys, which requires ASKING."""
        client = self._client(node)
        client.script_load(call[0].source)
        return _replies(client, [_command(["ASKING"]), _evalsha(*call)])[1]

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
        problem: Exception | None = None
        for node in dict.fromkeys([*self._seen, *self.address.seeds]):
            try:
                ranges = self._client(node).execute_command("CLUSTER", "SLOTS")
            except (known.ConnectionError, known.TimeoutError) as error:
                problem = error
                continue
            slots, seen = [("", 0)] * 16384, dict[tuple[str, int], None]()
            for low, high, *serving in ranges:  # the one that takes writes first
                places = [_place(each, node) for each in serving]
                slots[low : high + 1] = [places[0]] * (high + 1 - low)
                seen.update(dict.fromkeys(places))
            self._seen = seen or self._seen
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
        """Translate errors of the client library."""
        library = _redis()
        try:
            yield
        except (library.exceptions.RedisError, OSError) as error:
            self._slots = []  # a node may have been replaced
            raise translated(error, str(self.address), self.address.password) from error


def _place(reply: Sequence[Any], by: tuple[str, int]) -> tuple[str, int]:
    """Return host and port of a node from a reply; without a host, that of the replying node."""
    host = reply[0].decode() if isinstance(reply[0], bytes) else reply[0]
    return (host or by[0], int(reply[1]))


def _replies(client: Any, commands: Sequence[bytes]) -> list[Any]:
    """Return a server's replies to commands that are sent at once, with an error for each that failed.

    The client's own pipelines would take as long as everything else together.
    """
    import redis.exceptions as known

    replies: list[Any] = []
    connection = client.connection_pool.get_connection()
    try:
        connection.send_packed_command(commands)
        for _ in commands:
            try:
                replies.append(connection.read_response())
            except known.ResponseError as error:
                replies.append(error)
        return replies
    finally:
        client.connection_pool.release(connection)


def _evalsha(script: Script, tag: str, args: Args) -> bytes:
    count = b"*%d\r\n" % (3 + len(script.keys) + len(args))
    return b"".join([count, _beginning(script.sha, script.keys, tag), *_bulks(args)])


@lru_cache(1000)
def _beginning(sha: str, keys: tuple[str, ...], tag: str) -> bytes:
    return b"".join(_bulks(["EVALSHA", sha, len(keys), *(f"{tag}:{name}" for name in keys)]))


def _command(words: Args) -> bytes:
    return b"".join([b"*%d\r\n" % len(words), *_bulks(words)])


def _bulks(args: Args) -> Iterator[bytes]:
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        yield b"$%d\r\n%b\r\n" % (len(data), data)


def _connected(address: Address, node: tuple[str, int]) -> Any:
    library = _redis()
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    where: dict[str, Any] = {"host": node[0], "port": node[1]}
    if address.scheme == "unix":
        where = {"path": address.host, "connection_class": library.UnixDomainSocketConnection}
    elif address.scheme in ("rediss", "valkeys"):
        secure = {"ssl_ca_certs": address.ca or None, "ssl_check_hostname": True}
        where |= {"connection_class": library.SSLConnection, **secure}
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
