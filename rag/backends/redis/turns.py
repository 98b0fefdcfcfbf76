"""Turns, messages and records in Redis or Valkey; `address` parses the URL.

Every call is atomic, and safe from threads and processes: see `script`. What a restore writes to shelves
follows its conversations, shelf by shelf. Expired conversations are removed by the first call after their
expiry; a namespace in which everything has expired is also deleted by the server itself.

What an acknowledged turn survives depends on the server:

- This process dies: it is stored. Nothing is buffered here.
- The server dies: with `appendfsync always` it is stored; with `everysec` (the default with the append-only
  file) up to about a second is lost; with snapshots alone (the default without it), everything after the last
  one. `rag memory persistence` shows and sets this.
- The machine of a primary is lost and a replica is promoted: replication is asynchronous, so writes that had
  not arrived are lost. `wait=N` in the URL makes every write wait for N replicas: much less is lost, though a
  loss is possible, since the promoted replica may not be one of those N. `make bench ONLY=failover` measures
  it.

New items are found like others: the next search adds them to the index (see `index`). So a search may take
several scripts, and needs a server that accepts writes.

After an error while writing (StoreUnreachable), the outcome is unknown. Appending the same turn again is
safe, as an existing id is not stored twice.
"""

from __future__ import annotations

from rag.backends.redis.address import read_url
from rag.backends.redis.persistence import RedisPersistence
from rag.backends.redis.server import RedisServer
from rag.backends.redis.storage import RedisStorage
from rag.ports import Clock
from rag.turns.store import StoredTurns
from rag.types import now_utc


class RedisTurnStore(StoredTurns, RedisPersistence):
    """A `MemoryStore` on a server. Pickled as its address; safe for threads, processes and forks.

    Args:
        url: the address of the server, see `address`.
        clock: the source of times and expiries.

    Raises:
        SettingsError: the URL is invalid.
        BackendMissing: the client library is not installed.
        StoreUnreachable, StoreUnwritable, StoreError: see `RedisServer`; from every method, but not from
        here.
        StoreBusy: others have written what a call reads for too long; from methods that write.
    """

    def __init__(self, url: str, *, clock: Clock = now_utc) -> None:
        self._open(RedisServer(read_url(url)), clock)

    def _open(self, server: RedisServer, clock: Clock) -> None:
        self._server = server
        super().__init__(RedisStorage(server, clock), clock)

    def __getstate__(self) -> tuple[RedisServer, Clock]:
        return self._server, self._clock

    def __setstate__(self, state: tuple[RedisServer, Clock]) -> None:
        self._open(*state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._server.address)!r})"
