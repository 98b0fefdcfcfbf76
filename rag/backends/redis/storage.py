"""The storage of turns on a Redis or Valkey server, see `rag.turns.storage`; `script` describes the data.

A transaction that writes takes one round trip to read, if its scope says what, and one to end. What the last
one on a conversation has left is expected to be still so: then adding to it only takes the second one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rag.backends.redis import index
from rag.backends.redis.hash_tags import HashTags
from rag.backends.redis.packing import packed
from rag.backends.redis.script import FORMAT, NAMESPACE, SHELF
from rag.backends.redis.server import RedisServer, decoded
from rag.backends.redis.transaction import Call, RedisTransaction
from rag.backends.redis.values import LETTERS, Reply, micros, pairs, written_out
from rag.errors import StoreCorrupt, StoreError, StoreTooNew
from rag.ports import Clock
from rag.turns.storage import Conflict, Scope

_ANOTHER_PREFIX = "choose another prefix= in its address"
_MAX_EXPECTED = 1_000
"""The maximum number of conversations whose last state is remembered."""


class RedisStorage:
    """The storage on one server."""

    is_swept = False

    def __init__(self, server: RedisServer, clock: Clock) -> None:
        self.server, self.clock = server, clock
        self.places = HashTags(server)
        self._expected: dict[tuple[str, Call], Reply] = {}  # by hash tag
        self._lock = threading.Lock()
        self._here = threading.local()  # after a conflict: the scope, and what was found

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[RedisTransaction]:
        """Run a transaction that reads."""
        with self._running(scope, self._read_ahead(scope), is_read=True) as tx:
            yield tx

    @contextmanager
    def writing(self, scope: Scope) -> Iterator[RedisTransaction]:
        """Run a transaction that writes."""
        known = self._found_before(scope) or self._expectations(scope)
        is_read = known is None
        with self._running(scope, known or self._read_ahead(scope, writes=True), is_read=is_read) as tx:
            yield tx

    def close(self) -> None:
        """Close the connections."""
        self.server.close()

    # ---- what transactions ask

    def ask(self, scope: Scope, calls: Sequence[Call]) -> dict[Call, Reply]:
        """Read, all at once."""
        return dict(zip(calls, self.run(scope, asked=calls)[2], strict=True))

    def commit(self, tx: RedisTransaction) -> None:
        """End a transaction that writes, and begin it again."""
        self._end(tx, is_read=False)
        tx.begin(self._read_ahead(tx.scope, writes=True))

    def all_shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the keys of each shelf of a namespace, by shelf and key."""
        found = []
        for place, shelf in self.places.all():
            if place == namespace and shelf is not None:
                reply = self.run(Scope(namespace, shelf), asked=[("keys",)])[2][0]
                found.append((shelf, [decoded(key or b"") for key in reply]))
        return found

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a living conversation or record, ascending."""
        living = ("living", str(micros(self.clock())))
        return sorted(
            {
                namespace
                for namespace, shelf in self.places.all()
                if self.run(Scope(namespace, shelf), asked=[living])[2][0] != [b"0"]
            }
        )

    def run(
        self,
        scope: Scope,
        checks: Sequence[tuple[Call, Reply]] = (),
        writes: Sequence[Any] = (),
        asked: Sequence[Call] = (),
    ) -> tuple[bool, int, list[Reply]]:
        """Run a script (see `script`): whether the checks hold, what it says of the rest, and the replies."""
        now = str(micros(self.clock()))
        given = packed(
            [now, [[call, written_out(reply)] for call, reply in checks], list(writes), list(asked)]
        )
        tag = self.places.tag(scope.namespace, scope.shelf)
        script = NAMESPACE if scope.shelf is None else SHELF
        state, rest, *replies = self.server.run(script, tag, [given], writes=bool(writes))
        if state == b"foreign":
            raise _foreign(str(self.server.address), int(rest))
        return state == b"ok", int(rest), replies[0]

    # ---- internal

    @contextmanager
    def _running(
        self, scope: Scope, known: dict[Call, Reply], *, is_read: bool
    ) -> Iterator[RedisTransaction]:
        """Run a transaction; `is_read` if all that is known was read at once, after the call began."""
        tx = RedisTransaction(self, scope, known)
        try:
            yield tx
        except (Conflict, StoreError):
            raise
        except Exception as error:
            tx.drop_writes()
            self._end(tx, is_read=is_read)  # it may be an error because of what was expected
            if isinstance(error, json.JSONDecodeError):
                where = str(self.server.address)
                raise StoreCorrupt(path=where, why=str(error), fix=_ANOTHER_PREFIX) from error
            raise
        self._end(tx, is_read=is_read)

    def _end(self, tx: RedisTransaction, *, is_read: bool) -> None:
        """Store the changes of a transaction, or check what it has read in several steps."""
        scope, writes = tx.scope, tx.all_writes()
        if not writes and not tx.shelf_writes and (scope.is_loose or (is_read and not tx.trips)):
            return
        was_known = False
        if writes and (tx.is_new or scope.shelf is not None):
            was_known = not self.places.register(scope.namespace, scope.shelf, again=tx.is_new)
        then = [call for call in self._worth_expecting(scope) if writes and call not in tx.after]
        checks = list(tx.used.items())
        is_same, rest, replies = self.run(scope, checks, writes, then)
        if not is_same:
            self._here.found = scope, dict(zip((call for call, _ in checks), replies, strict=True))
            self._expect(scope, self._here.found[1])
            raise Conflict(str(self.server.address))
        self._expect(scope, {**tx.after, **dict(zip(then, replies, strict=True))})
        if scope.shelf is not None and was_known and rest:  # the shelf was empty
            self.places.register(scope.namespace, scope.shelf, again=True)
        for (namespace, shelf), changes in tx.shelf_writes.items():
            self.places.register(namespace, shelf, again=True)
            self.run(Scope(namespace, shelf), writes=changes)
        while scope.shelf is None and writes and rest > index.MAX_UNREAD:
            rest = self._index_some(scope, "+inf")[1]

    def _worth_expecting(self, scope: Scope) -> list[Call]:
        is_of_one = scope.conversation and scope.shelf is None
        return [("soonest",), *([("conversation", scope.conversation)] if is_of_one else [])]

    def _expect(self, scope: Scope, replies: dict[Call, Reply]) -> None:
        tag = self.places.tag(scope.namespace, scope.shelf)
        with self._lock:
            for call in self._worth_expecting(scope):
                if call in replies:
                    self._expected.pop((tag, call), None)
                    self._expected[tag, call] = replies[call]
            while len(self._expected) > _MAX_EXPECTED:
                del self._expected[next(iter(self._expected))]

    def _expectations(self, scope: Scope) -> dict[Call, Reply] | None:
        """Return what to expect of a transaction that only adds; None if that is unknown."""
        if (scope.ids and scope.shelf is not None) or (
            scope.shelf is None and not (scope.ids and scope.conversation)
        ):
            return None
        tag = self.places.tag(scope.namespace, scope.shelf)
        with self._lock:
            replies = [self._expected.get((tag, call)) for call in self._worth_expecting(scope)]
        if None in replies:
            return None
        known = {
            call: reply
            for call, reply in zip(self._worth_expecting(scope), replies, strict=True)
            if reply is not None
        }
        if scope.shelf is None:
            known["items", LETTERS[scope.kind], tuple(dict.fromkeys(scope.ids))] = []
        return known

    def _found_before(self, scope: Scope) -> dict[Call, Reply] | None:
        """Return what the conflict found that ended this call before, if it did."""
        before, self._here.found = getattr(self._here, "found", None), None
        return before[1] if before is not None and before[0] == scope else None

    def _read_ahead(self, scope: Scope, *, writes: bool = False) -> dict[Call, Reply]:
        """Return what the transaction will read first; before a search, index what was added before."""
        calls = _foreseen(scope, writes)
        known = self.ask(scope, calls)
        waiting, last = known.get(("unread",), [b"0", b"0"])
        if waiting != b"0":
            while self._index_some(scope, (last or b"0").decode())[0]:
                pass
            known = self.ask(scope, calls)
        return known

    def _index_some(self, scope: Scope, last: str) -> tuple[bool, int]:
        """Index the oldest unread items up to a number; whether there were any, and how many are left."""
        place = Scope(scope.namespace)
        (items,) = self.run(place, asked=[("waiting", str(index.READ_AT_ONCE), last)])[2]
        if not items:
            return False, 0
        keys = tuple(key for key, *_ in pairs(items, 4))
        _, rest, _ = self.run(place, [(("these", keys), items)], [index.indexing(items)])
        return True, rest


def _foreign(path: str, found: int) -> StoreError:
    """Return the error for a namespace in another format."""
    if found > FORMAT:
        fix = "or choose another prefix= in the address"
        return StoreTooNew(path=path, found=found, supported=FORMAT, fix=fix)
    return StoreError(
        f"the store {path} has format {found}, which is not read since rag 0.3; run `rag turns backup FILE` "
        "with rag 0.2, and with this version `rag turns restore FILE` into an address with another prefix="
    )


def _foreseen(scope: Scope, writes: bool) -> list[Call]:
    """Return what a transaction reads first."""
    calls: list[Call] = [("soonest",)]
    if scope.shelf is not None:
        return [*calls, *([("get", scope.ids)] if scope.ids else [])]
    if scope.terms is not None:
        calls += [("unread",), ("totals",), ("match", scope.terms)]
    if scope.conversation:
        calls.append(("conversation" if scope.terms is None else "long", scope.conversation))
        if writes and not scope.ids:
            calls.append(("numbers", (scope.conversation,)))
    if scope.name:
        calls.append(("named", scope.name))
    if scope.ids:
        calls.append(("items", LETTERS[scope.kind], tuple(dict.fromkeys(scope.ids))))
    if scope.last:
        calls.append(("newest", scope.conversation, LETTERS[scope.kind], str(scope.last)))
    return calls
