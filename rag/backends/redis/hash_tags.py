"""The hash tags of namespaces and shelves on a server, and a list of the existing ones.

The keys of a namespace's conversations have one hash tag, those of each shelf another. A tag is registered
before its keys are created, so that keys are never scanned.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from rag.backends.redis.server import RedisServer, Script, decoded, key_part

_PLACES = Script.of(
    """
    if ARGV[1] == 'add' then return redis.call('SADD', KEYS[1], ARGV[2]) end
    return redis.call('SMEMBERS', KEYS[1])
    """,
    ("places",),
)


class HashTags:
    """The namespaces and shelves of a server."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self._prefix = server.address.prefix
        self._known: set[str] = set()

    def tag(self, namespace: str, shelf: str | None) -> str:
        """Return the hash tag of a namespace's conversations, or of one of its shelves."""
        return f"{{{self._prefix}:{_place(namespace, shelf)}}}"

    def register(self, namespace: str, shelf: str | None, *, again: bool = False) -> bool:
        """Register a namespace or a shelf; return False if it was registered before."""
        place = _place(namespace, shelf)
        if place in self._known and not again:
            return False
        self.server.run(_PLACES, f"{{{self._prefix}}}", ("add", place), writes=True)
        self._known.add(place)
        return True

    def all(self) -> list[tuple[str, str | None]]:
        """Return the registered namespaces (with None) and shelves, ascending; they may be empty."""
        reply = self.server.run(_PLACES, f"{{{self._prefix}}}", ("list",))
        found = []
        for place in reply:
            namespace, has_shelf, shelf = place.partition(b"/")
            found.append((_text(namespace), _text(shelf) if has_shelf else None))
        return sorted(found, key=lambda place: (place[0], place[1] is not None, place[1] or ""))


def _place(namespace: str, shelf: str | None) -> str:
    return key_part(namespace) if shelf is None else f"{key_part(namespace)}/{key_part(shelf)}"


def _text(part: bytes) -> str:
    return decoded(unquote_to_bytes(part))
