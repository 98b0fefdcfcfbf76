"""Redis or Valkey, one server or a cluster, spoken to through scripts that each touch one hash tag.

What a cluster turned away since keys are being moved, or could not be sent since a node is gone that will be
replaced, is tried again for `timeout_s`. Nothing is sent twice when a connection breaks: whether the call was
carried out cannot be known, and it may not be one that can be repeated (appending is: a turn whose id is
stored is not stored again). A connection that the server has closed meanwhile is noticed before it is used.
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
    """A script, the names of its keys, and the hash by which a server that has it knows it."""

    source: str
    keys: tuple[str, ...]
    sha: str

    @classmethod
    def of(cls, source: str, keys: tuple[str, ...]) -> Script:
        """The script with its hash."""
        return cls(source, keys, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


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
        """Close the connections. Closing twice is allowed."""
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
        """The same, in a moment, when the cluster may have made up its mind."""
        self._slots = []
        time.sleep(_A_MOMENT_S)
        return again

    def _sent(
        self, node: tuple[str, int], calls: Sequence[tuple[Script, str, Args]], writes: bool
    ) -> list[Any]:
        """The results of calls on a node; that it is gone, where the cluster will replace it."""
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
        """Run on a node that is about to get the keys, which takes it only after ASKING."""
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
        first = (self.address.host, self.address.port)
        problem: Exception | None = None
        for node in dict.fromkeys([*self._seen, first]):
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


def _replies(client: Any, commands: Sequence[bytes]) -> list[Any]:
    """What a server replies to commands that are sent at once, an error for one that it refused.

    The client's own way, through its pipelines, takes as long again as everything else.
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
