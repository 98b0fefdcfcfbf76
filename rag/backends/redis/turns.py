"""Turns, messages and records in Redis or Valkey, a server or a cluster; `address` parses the URL.

Every call on a namespace is one script: atomic, in one round trip, and on one node of a cluster. Appending
trims to `keep_last` and renews the time to live in the same script. A namespace is on one node; namespaces,
and the shelves of records, are spread over the nodes. A server runs one script at a time: an `extend` of some
hundreds of turns is split, so that others are served in between. Expired conversations are removed by the
first call after their expiry; a namespace in which everything has expired is also deleted by the server
itself.

What an acknowledged turn survives depends on the server:

- This process dies: it is stored. Nothing is buffered here.
- The server dies: with `appendfsync always` it is stored; with `everysec` (the default with the append-only
  file) up to about a second is lost; with snapshots alone (the default without it), everything after the last
  one. `rag memory persistence` shows and sets this.
- The machine of a primary is lost and a replica is promoted: replication is asynchronous, so writes that had
  not arrived are lost. `wait=N` in the URL makes every write wait for N replicas: much less is lost, though a
  loss is possible, since the promoted replica may not be one of those N. `make bench ONLY=failover` measures
  it.

New items are found like others: the next search adds them to the index. That takes about 0.1 ms per turn, for
at most some thousand turns (see `lazy_index`). So a search may take several scripts, and needs a server that
accepts writes.

After an error while writing (StoreUnreachable), the outcome is unknown. Appending the same turn again is
safe, as an existing id is not stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rag.backends.redis import values
from rag.backends.redis.conversations import SCRIPT, RedisConversations
from rag.backends.redis.persistence import RedisPersistence
from rag.backends.redis.records import SHELF, RedisRecords
from rag.backends.redis.server import coded, decoded
from rag.backends.redis.values import listed, micros
from rag.ports import Marks, Matches
from rag.schema import Record, message_from_record, message_record, turn_from_record, turn_record
from rag.searchable import searchable
from rag.turns import checks as check
from rag.turns.dump import Line, Restored, conversation_line, record_line, restored
from rag.turns.model import ConversationRecord, Item
from rag.types import DialogTurn, Message

_MAX_MOVED_ITEMS = 200
"""The maximum number of turns and messages per call of a dump or restore, which limits waiting of others."""
READ_AT_ONCE = 512
"""The maximum number of items that are indexed by one call."""
_EVERY = 2**53
"""Above it, Lua numbers are not exact."""
MAX_UNREAD = 4_000
"""The maximum number of unread items in a namespace; beyond it, an addition indexes as many as it adds."""


class RedisTurnStore(RedisConversations, RedisRecords, RedisPersistence):
    """A `MemoryStore` on a server. Pickled as its address; safe for threads, processes and forks."""

    # ---- turns

    def append(self, turn: DialogTurn, *, conversation: str, namespace: str = "") -> DialogTurn:
        """Add a turn at the end of a conversation, see `TurnStore`."""
        return self.extend([turn], conversation=conversation, namespace=namespace)[0]

    def extend(
        self, turns: Sequence[DialogTurn], *, conversation: str, namespace: str = ""
    ) -> list[DialogTurn]:
        """Store turns at the end, all or none, in one round trip, see `TurnStore`."""
        for turn in turns:
            searchable(turn)  # reject values that are not text here, not in a later search
        added = self._add("t", list(map(turn_record, turns)), conversation, namespace)
        return [turn_from_record(record) for record, _ in added]

    def turns(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        before: int | None = None,
        after: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[DialogTurn]:
        """Return the turns of a conversation, oldest first, see `TurnStore`."""
        bounds = ("" if after is None else after, "" if before is None else before)
        reply = self._shown("t", conversation, namespace, bounds, last, mark, exclude_mark)
        return [values.turn_of(entry, namespace) for entry in reply]

    def turn(self, turn_id: str, *, namespace: str = "") -> DialogTurn:
        """Return one turn. Raises NotFound."""
        return values.turn_of(self._whole(turn_id, namespace)[0], namespace)

    def turns_by_id(self, ids: Sequence[str], *, namespace: str = "") -> dict[str, DialogTurn]:
        """The turns of these ids that are there, in the order asked, see `TurnStore`."""
        wanted, found = list(dict.fromkeys(ids)), dict[str, DialogTurn]()
        for n in range(0, len(wanted), _MAX_MOVED_ITEMS):
            reply = self._call(namespace, "some", "t", listed(wanted[n : n + _MAX_MOVED_ITEMS]))[1]
            turns = (values.turn_of(entry, namespace) for entry in reply or ())
            found.update((turn.id, turn) for turn in turns)
        return found

    def edit_turn(self, turn: DialogTurn, *, namespace: str = "") -> DialogTurn:
        """Store a new version of the turn with this id, see `TurnStore`."""
        item = values.item_of(turn, namespace)
        given = (coded(turn.id), item.length, values.words_of(item), values.bodies_of(item)[0])
        word, reply = self._call(namespace, "edit", *given, writes=True)
        if word == "gone":
            raise check.no_turn(turn.id)
        return values.turn_of(reply, namespace)

    def versions(self, turn_id: str, *, namespace: str = "") -> list[DialogTurn]:
        """Return all versions of a turn, oldest first. Raises NotFound."""
        entry, bodies = self._whole(turn_id, namespace)
        return [*values.earlier_turns(entry, bodies, namespace), values.turn_of(entry, namespace)]

    def delete_turn(self, turn_id: str, *, namespace: str = "") -> bool:
        """Delete a turn with its versions; return False if there was none. Other orders do not change."""
        return bool(self._call(namespace, "delete", "t", listed([turn_id]), listed([]), writes=True)[1])

    def citing(
        self, *, namespace: str = "", location: str | None = None, path: str | None = None, blob: str = ""
    ) -> list[str]:
        """Return the ids of turns that cite this file in any of their versions, ascending."""
        asked = {"location": location, "path": path, "blob": blob or None}
        given = {name: wanted for name, wanted in asked.items() if wanted is not None}
        return sorted(decoded(one) for one in self._call(namespace, "citing", listed(given))[1])

    # ---- messages

    def add_messages(
        self, messages: Sequence[Message], *, conversation: str, namespace: str = ""
    ) -> list[Message]:
        """Add messages at the end, all or none; return those that were stored."""
        added = self._add("m", list(map(message_record, messages)), conversation, namespace)
        return [message_from_record(record) for record, is_new in added if is_new]

    def messages(
        self,
        conversation: str,
        *,
        namespace: str = "",
        last: int | None = None,
        mark: Marks | None = None,
        exclude_mark: Marks | None = None,
    ) -> list[Message]:
        """Return the messages of a conversation, oldest first, see `TurnStore`."""
        reply = self._shown("m", conversation, namespace, ("", ""), last, mark, exclude_mark)
        return [values.message_of(entry, namespace) for entry in reply]

    def delete_messages(self, ids: Sequence[str], *, conversation: str, namespace: str = "") -> int:
        """Delete messages that the conversation shows; return how many."""
        given = ("m", listed(list(ids)), listed([conversation]))
        word, reply = self._call(namespace, "delete", *given, writes=True)
        if word == "gone":
            raise check.no_conversation(conversation)
        return int(reply)

    # ---- marks

    def update_marks(
        self,
        conversation: str,
        new: str | None,
        *,
        old: str | None = None,
        ids: Sequence[str] | None = None,
        namespace: str = "",
    ) -> int:
        """Add, replace or remove a mark; return how many turns and messages changed."""
        check.check_update(new, old)
        asked = {"new": new, "old": old, "ids": None if ids is None else list(ids)}
        given = listed({name: wanted for name, wanted in asked.items() if wanted is not None})
        return int(self._of(conversation, namespace, "mark", given, writes=True))

    def delete_by_mark(self, conversation: str, mark: Marks, *, namespace: str = "") -> int:
        """Delete turns and messages with one of these marks; return how many."""
        given = listed(check.marks_sought(mark))
        return int(self._of(conversation, namespace, "unmarked", given, writes=True))

    # ---- search

    def matching(
        self, terms: Sequence[str], *, namespace: str = "", conversation: str | None = None, limit: int = 1000
    ) -> Matches:
        """Return the turns and messages that contain one of the terms, see `TurnStore`."""
        check.check_limit(limit)
        place = [] if conversation is None else [conversation]
        match = ("match", listed(place), listed(list(terms)), limit, READ_AT_ONCE)
        word, reply = self._call(namespace, *match)
        while word == "unread":
            waiting, ends = reply
            known = listed([[decoded(origin), end] for origin, end in ends])
            calls = [("read", *values.reading(waiting)), (*match, known)]
            word, reply = self._calls(namespace, calls)[1]
        if word == "gone":
            raise check.no_conversation(str(conversation))
        return values.matches_of(reply, len(terms))

    # ---- dump and restore

    def namespaces(self) -> list[str]:
        """Return all namespaces that hold a conversation or a record, ascending."""
        places, now = self._places(), micros(self._clock())
        calls = [
            (SCRIPT, self._tag(namespace), ("size", now))
            if shelf is None
            else (SHELF, self._tag(namespace, shelf), ("count", now))
            for namespace, shelf in places
        ]
        sizes = self._server.run_each(calls) if calls else []
        there = {
            namespace
            for (namespace, shelf), reply in zip(places, sizes, strict=True)
            if reply[1 if shelf is None else 0]
        }
        return sorted(there)

    def dump(
        self, *, namespace: str = "", conversations: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield everything in a namespace as JSON values, see `MemoryStore`."""
        chosen = self._views(namespace)
        if conversations is not None:
            there = {kept.conversation.id for kept in chosen}
            for one in conversations:
                if one not in there:
                    raise check.no_conversation(one)
            chosen = [kept for kept in chosen if kept.conversation.id in conversations]
        return self._lines(namespace, chosen, with_records=conversations is None)

    def restore(self, lines: Iterable[Mapping[str, Any]], *, namespace: str = "") -> int:
        """Store what `dump` gave into this namespace, see `MemoryStore`.

        A large export is stored in several steps, the conversations last; after an interruption, restore it
        again.
        """
        found, now = restored(lines, namespace), self._clock()
        living = [kept for kept in found.kept if kept.expires is None or kept.expires > now]
        names = listed([[kept.conversation.id, kept.conversation.name] for kept in living])
        word, reply = self._call(namespace, "there", names)
        there = set() if word == "taken" else set(map(decoded, reply))
        fresh = [kept for kept in living if kept.conversation.id not in there]
        if word == "taken":
            self._made(word, reply, namespace, fresh[0].conversation.sources)
        self._put_down(namespace, again=True)
        shown = [item for item in found.items if any(kept.shows(item) for kept in fresh)]
        total = self._restore(fresh, shown, namespace)
        self._restore_records(found, namespace)
        return total

    # ---- internal

    def _add(
        self, kind: str, records: list[Record], conversation: str, namespace: str
    ) -> list[tuple[Record, bool]]:
        """Return the stored record of each item, and whether it is new."""
        parts = [part for record in records for part in values.unread(record)]
        first, known, unread = self._of(conversation, namespace, "add", kind, *parts, writes=True)
        there = {n: values.record_of(entry, namespace) for n, entry in known}
        added, order = [], first
        for n, record in enumerate(records):
            if (stored := there.get(n)) is None:
                place = {"namespace": namespace, "conversation": conversation, "order": order, "version": 1}
                stored = {**record, **place}
                order += 1
            added.append((stored, n not in there))
        while unread > MAX_UNREAD:
            waiting = self._call(namespace, "unread", READ_AT_ONCE)[1]
            self._call(namespace, "read", *values.reading(waiting))
            unread -= sum(len(items) for _, _, items in waiting) or unread
        return added

    def _shown(
        self,
        kind: str,
        conversation: str,
        namespace: str,
        bounds: tuple[int | str, int | str],
        last: int | None,
        mark: Marks | None,
        exclude_mark: Marks | None,
    ) -> list[Any]:
        """Return the entries of what a conversation shows, oldest first."""
        check.check_last(last)
        sought = [check.marks_sought(each) for each in (mark, exclude_mark)]
        given = [b"" if each is None else listed(each) for each in sought]
        limit = "" if last is None else min(last, _EVERY)
        reply = self._of(conversation, namespace, "list", kind, *bounds, limit, *given)
        return list(reversed(reply))

    def _whole(self, turn_id: str, namespace: str) -> Any:
        word, reply = self._call(namespace, "get", "t", coded(turn_id))
        if word == "gone":
            raise check.no_turn(turn_id)
        return reply

    def _lines(
        self, namespace: str, chosen: list[ConversationRecord], *, with_records: bool
    ) -> Iterator[Line]:
        for kept in chosen:
            yield conversation_line(kept.conversation, kept)
        seen: set[tuple[bytes, bytes]] = set()
        for kept in chosen:
            index = self._call(namespace, "index", coded(kept.conversation.id))[1] or []
            wanted = [(kind, one) for _, kind, one in sorted(index) if (kind, one) not in seen]
            seen.update(wanted)
            for n in range(0, len(wanted), _MAX_MOVED_ITEMS):
                ids = [[kind.decode(), decoded(one)] for kind, one in wanted[n : n + _MAX_MOVED_ITEMS]]
                for reply in self._call(namespace, "fetch", listed(ids))[1]:
                    if reply is not None:
                        entry, earlier = reply
                        yield values.line_of(entry, earlier, namespace)
        for place, shelf in self._places() if with_records else ():
            if place == namespace and shelf is not None:
                for key, record in self._stored(shelf, namespace):
                    yield record_line(shelf, key, record)

    def _restore(self, fresh: list[ConversationRecord], items: list[Item], namespace: str) -> int:
        """Store the items, and the conversations with the last of them; return the number of new ones."""
        names = listed([[kept.conversation.id, kept.conversation.name] for kept in fresh])
        total = 0
        for n in range(0, max(len(items), 1), _MAX_MOVED_ITEMS):
            some = items[n : n + _MAX_MOVED_ITEMS]
            parts = [part for item in some for part in (values.words_of(item), *values.bodies_of(item))]
            views = list(map(values.view_of, fresh)) if n + _MAX_MOVED_ITEMS >= len(items) else []
            given = (names, listed(list(map(values.loaded, some))), listed(views), *parts)
            word, reply = self._call(namespace, "restore", *given, writes=True)
            if word == "taken":
                self._made(word, reply, namespace, fresh[0].conversation.sources)
            total += reply
        return total

    def _restore_records(self, found: Restored, namespace: str) -> None:
        now = self._clock()
        shelves: dict[str, list[tuple[str, bytes, int]]] = {}
        for shelf, key, record in found.records:
            if record.expires is None or record.expires > now:
                expires = 0 if record.expires is None else micros(record.expires)
                shelves.setdefault(shelf, []).append((key, record.value, expires))
        for shelf, records in shelves.items():
            self._put(records, shelf, namespace)
