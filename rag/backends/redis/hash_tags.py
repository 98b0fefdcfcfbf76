"""The hash tags of namespaces and shelves on a server, and a list of the existing ones."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from rag.backends.redis.address import read_url
from rag.backends.redis.server import RedisServer, Script, decoded, key_part
from rag.ports import Clock
from rag.types import now_utc

_PLACES = Script.of(
    """
    if ARGV[1] == 'add' then return redis.call('SADD', KEYS[1], ARGV[2]) end
    return redis.call('SMEMBERS', KEYS[1])
    """,
    ("places",),
)


class RedisPlaces:
    """A server with namespaces and shelves.

    The keys of a namespace's conversations have one hash tag, those of each shelf another; keys with the same
    tag are on the same node. A tag is registered before its keys are created, so that keys are never scanned.
    """

    def __init__(self, url: str, *, clock: Clock = now_utc) -> None:
        self._open(RedisServer(read_url(url)), clock)

    def _open(self, server: RedisServer, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._prefix = server.address.prefix
        self._placed: set[str] = set()

    def __getstate__(self) -> tuple[RedisServer, Clock]:
        return self._server, self._clock

    def __setstate__(self, state: tuple[RedisServer, Clock]) -> None:
        self._open(*state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._server.address)!r})"

    @property
    def server(self) -> RedisServer:
        """The server."""
        return self._server

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._server.close()

    def _tag(self, namespace: str, shelf: str | None = None) -> str:
        """Return the hash tag of a namespace's conversations, or of one of its shelves."""
        return f"{{{self._prefix}:{_place(namespace, shelf)}}}"

    def _put_down(self, namespace: str, shelf: str | None = None, *, again: bool = False) -> bool:
        """Register a namespace or a shelf; return False if it was registered before."""
        place = _place(namespace, shelf)
        if place in self._placed and not again:
            return False
        self._server.run(_PLACES, f"{{{self._prefix}}}", ("add", place), writes=True)
        self._placed.add(place)
        return True

    def _places(self) -> list[tuple[str, str | None]]:
        """Return the registered namespaces (with None) and shelves, ascending; they may be empty."""
        reply = self._server.run(_PLACES, f"{{{self._prefix}}}", ("list",))
        found = []
        for place in reply:
            namespace, has_shelf, shelf = place.partition(b"/")
            found.append((_text(namespace), _text(shelf) if has_shelf else None))
        return sorted(found, key=lambda place: (place[0], place[1] is not None, place[1] or ""))


def _place(namespace: str, shelf: str | None) -> str:
    return key_part(namespace) if shelf is None else f"{key_part(namespace)}/{key_part(shelf)}"


def _text(part: bytes) -> str:
    return decoded(unquote_to_bytes(part))
