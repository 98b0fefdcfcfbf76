"""A Redis or Valkey server, called through scripts.

A call is never sent twice when a connection breaks, as its outcome is unknown and it may not be idempotent
(appending is: a turn whose id is stored is not stored again). A connection that the server has closed is
detected before it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from rag.backends.redis.address import Address
from rag.backends.redis.errors import too_few_replicas, translated
from rag.errors import BackendMissing

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
    """Runs scripts on a server. Pickled as its address.

    Can be used by threads and after a fork: each process has its own connections.

    Raises (every call):
        StoreUnreachable: no server replies in time (the outcome of the call is unknown), or access is denied.
        StoreUnwritable: the server does not accept writes now.
        StoreError: the server returns an error; or it has stored a write, but not the required replicas.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client = _connected(address)
        self._is_closed = False

    def __reduce__(self) -> tuple[type[RedisServer], tuple[Address]]:
        return RedisServer, (self.address,)

    def run(self, script: Script, tag: str, args: Args, *, writes: bool = False) -> Any:
        """Run a script on the keys of a tag, atomically; `writes` waits for the required replicas."""
        wait = self.address.wait if writes else 0
        commands = [_evalsha(script, tag, args)]
        if wait:
            commands.append(_command(["WAIT", wait, int(self.address.wait_s * 1000)]))
        with self._translated() as client:
            found = _replies(client, commands)
            if type(found[0]).__name__ == "NoScriptError":
                client.script_load(script.source)
                found = _replies(client, commands)
            for reply in found:
                if isinstance(reply, Exception):
                    raise reply
        if wait and found[1] < wait:
            raise too_few_replicas(str(self.address), found[1], wait, self.address.wait_s)
        return found[0]

    def command(self, *words: str | int) -> Any:
        """Run a command."""
        with self._translated() as client:
            return client.execute_command(*words)

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._is_closed = True
        self._client.close()
        self._client.connection_pool.disconnect()

    @contextmanager
    def _translated(self) -> Iterator[Any]:
        """Yield the client, and translate its errors."""
        if self._is_closed:
            raise ValueError("the store is closed")
        try:
            yield self._client
        except (_redis().exceptions.RedisError, OSError) as error:
            raise translated(error, str(self.address), self.address.password) from error


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


def _connected(address: Address) -> Any:
    library = _redis()
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    where: dict[str, Any] = {"host": address.host, "port": address.port}
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
