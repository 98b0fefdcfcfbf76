"""The storage of turns in a Postgres database, see `rag.turns.storage`. `schema` describes the tables.

A method is one query, or some that are sent together, so it waits for the server at most once, except where
an item or a conversation has to be found first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rag.backends.postgres import words
from rag.backends.postgres.server import Db, PostgresServer
from rag.backends.postgres.text import array, as_bytes, from_bytes, is_cut, slot, slots_of_prefix
from rag.schema import conversation_record
from rag.turns.model import (
    KINDS,
    ConversationRecord,
    Item,
    Kind,
    Range,
    StoredItem,
    StoredRecord,
    TurnSpan,
    item_key,
    reads_stored,
    valid_conversation,
    valid_item,
)
from rag.turns.storage import Keys, Postings, Scope, Shelf
from rag.turns.values import MAX_ORDER, conversation_of

Query = tuple[str, Any]
"""A query and its values."""

_FIRST_PAGE, _LARGEST_PAGE = 100, 10_000
"""The number of items that a scan without a limit reads at a time: first, and at most."""
_AT_ONCE = 1_000
"""The maximum number of items that one statement adds."""
_SOONEST: Query = (
    "SELECT least((SELECT min(expires) FROM conversation), (SELECT min(expires) FROM record))",
    [],
)
_CONVERSATION = """
    SELECT c.key, c.space, c.record, c.updated, c.expires, c.next_order, c.first_turn, c.first_message,
        c.spans, c.turns, c.messages, c.length FROM conversation c
"""
_SPACE = "(SELECT key FROM space WHERE slot = %b)"
_ITEM = "i.key, i.kind, i.id, i.length, i.record, i.marks"
_ADD = """
    WITH older AS (
        INSERT INTO version SELECT * FROM unnest(%b::bigint[], %b::integer[], %b::text[])
    ), quoted AS (
        INSERT INTO cited SELECT * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[])
    )
    INSERT INTO item SELECT i.key, %s, i.kind, i.id, i.length, i.marks::bytea[], i.record, i.terms::bytea[],
        i.counts::integer[]
    FROM unnest(
        %b::bigint[], %b::smallint[], %b::bytea[], %b::integer[], %b::text[], %b::text[], %b::text[],
        %b::text[]
    ) AS i (key, kind, id, length, marks, record, terms, counts)
"""
_SUM = """
    UPDATE conversation c SET turns = c.turns + s.turns, messages = c.messages + s.messages,
        length = c.length + s.length
    FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[]) AS s (key, turns, messages, length)
    WHERE c.key = s.key
"""
_PUT_RECORDS = """
    INSERT INTO record (space, shelf, key, shelf_name, key_name, value, expires)
    SELECT %s, %b, r.key, %s, r.name, r.value, r.expires
    FROM unnest(%b::bytea[], %b::text[], %b::bytea[], %b::timestamptz[]) AS r (key, name, value, expires)
"""
_REPLACED = (
    " ON CONFLICT (space, shelf, key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
)
_SHELF = f"space = {_SPACE} AND shelf = %b"


class PostgresStorage:
    """The storage in a schema of a database."""

    is_swept = False

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[PostgresTransaction]:
        """Run a transaction that reads."""
        with self.server.reading(lambda db: PostgresTransaction(db, "", scope)) as (_, tx):
            yield tx

    @contextmanager
    def writing(self, scope: Scope) -> Iterator[PostgresTransaction]:
        """Run a transaction that writes."""
        with self.server.writing(lambda db: PostgresTransaction(db, "FOR UPDATE OF", scope)) as (_, tx):
            yield tx

    def close(self) -> None:
        """Close the connections."""
        self.server.close()


class PostgresTransaction:
    """A transaction of the database. What a writing one reads by its id is locked until the end.

    The queries that its scope announces are sent when it is created, and their rows are used once.
    """

    def __init__(self, db: Db, lock: str, scope: Scope) -> None:
        self._db = db
        self._lock = lock
        self._spaces: dict[str, int] = {}  # those read so far
        self._missing: set[tuple[Shelf, str]] = set()  # records that were read but do not exist
        self._scope = scope
        self._asked = [(query, db.execute(*query, binary=True)) for query in self._expected(scope)]

    def settle(self) -> None:
        """Make changes visible to later reads: nothing that was read before them is used."""
        self._asked.clear()

    # ---- conversations

    def conversation(self, conversation: str) -> ConversationRecord | None:
        """Return a conversation by its id."""
        return next(iter(self._kept(self._by_id(conversation))), None)

    def named(self, namespace: str, name: str) -> ConversationRecord | None:
        """Return the conversation of this name, which is not ""."""
        return next(iter(self._kept(_by_name(namespace, name))), None)

    def conversations(self, namespace: str) -> list[ConversationRecord]:
        """Return the conversations of a namespace, the most recently written last."""
        found = f"{_CONVERSATION} WHERE c.space = {_SPACE} AND c.written IS NOT NULL ORDER BY c.written"
        return self._kept((found, [slot(namespace)]))

    def viewers(self, number: int) -> list[ConversationRecord]:
        """Return the conversations that have a span of this origin."""
        self._hold([number])
        found = f"{_CONVERSATION} WHERE c.key IN (SELECT conversation FROM viewer WHERE origin = %s)"
        return self._kept((found, [number]))

    def put_conversation(self, kept: ConversationRecord) -> None:
        """Store a conversation; a new one is the most recently written."""
        made, first = kept.conversation, kept.first
        self._hold(kept.numbers.values())
        own = kept.numbers.get(made.id)
        kept.numbers = self._numbers(kept, self._made_space(made.namespace))
        written = "coalesce(written, nextval('write_number'))" if own is None else "written"
        spans = [[span.origin, kept.numbers[span.origin], span.first, span.last] for span in kept.spans]
        values = [slot(made.name), json.dumps(conversation_record(made)), _moment(made.updated), kept.expires]
        key = kept.numbers[made.id]
        self._db.execute(
            f"""
            UPDATE conversation SET name = %b, record = %s, updated = %s, expires = %s, next_order = %s,
                first_turn = %s, first_message = %s, spans = %s, written = {written} WHERE key = %s
            """,
            [*values, kept.next_order, first["turn"], first["message"], json.dumps(spans), key],
        )
        self._db.execute("DELETE FROM viewer WHERE conversation = %s", [key])
        viewers = "INSERT INTO viewer SELECT unnest(%b::bigint[]), %s"
        self._db.execute(viewers, [list(kept.numbers.values()), key])

    def delete_conversation(self, kept: ConversationRecord) -> None:
        """Delete a conversation; it remains an origin while it has items."""
        self._hold(kept.numbers.values())
        key = kept.numbers[kept.conversation.id]
        gone = "UPDATE conversation SET written = NULL, expires = NULL, name = '', record = '' WHERE key = %s"
        self._db.execute(gone, [key])
        self._db.execute("DELETE FROM viewer WHERE conversation = %s", [key])
        self._forget_origins(kept.numbers.values())

    def has_expired(self, now: datetime) -> bool:
        """Whether a conversation or record has expired."""
        ((soonest,),) = self._rows(_SOONEST)
        return soonest is not None and bool(soonest <= now)

    def expired(self, now: datetime) -> list[ConversationRecord]:
        """Return the conversations that have expired."""
        found = f"{_CONVERSATION} WHERE c.expires <= %s ORDER BY c.key DESC {self._locked('c')}"
        return self._kept((found, [now]))

    # ---- items

    def items(self, kind: Kind, ids: Iterable[str], namespace: str) -> dict[str, StoredItem]:
        """Return the items with these ids, by id, in their order."""
        wanted = list(ids)
        rows = self._rows(self._by_ids(kind, wanted, namespace))
        self._spaces.update((namespace, row[-2]) for row in rows)
        by_id = {item.id: item for item in (_item(row[:-2], json.loads(row[-1])) for row in rows)}
        return {each: by_id[each] for each in wanted if each in by_id}

    def scan(
        self, range_: Range, *, newest_first: bool = False, limit: int = -1, marked: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the items in a range; at most `limit` (-1: all), or only those with a mark."""
        if newest_first and not marked and (newest := self._newest(range_, limit)) is not None:
            yield from newest
            return
        if not newest_first:  # they may be changed
            self._hold([range_.number])
        found = f"""
            SELECT {_ITEM} FROM item i WHERE i.key BETWEEN %s AND %s
            {"AND i.marks IS NOT NULL" if marked else ""}
            ORDER BY i.key {"DESC" if newest_first else ""} LIMIT %s
        """
        (first, last), page = range_.keys, _FIRST_PAGE if limit < 0 else limit
        while rows := self._rows((found, [first, last, page])):
            yield from (_item(row, range_.origin) for row in rows)
            if limit >= 0 or len(rows) < page:
                return
            first, last = (first, rows[-1][0] - 1) if newest_first else (rows[-1][0] + 1, last)
            page = min(page * 4, _LARGEST_PAGE)

    def count(self, range_: Range) -> tuple[int, int]:
        """Return the number of items in a range, and of their terms."""
        summed = "SELECT count(*), coalesce(sum(length), 0) FROM item WHERE key BETWEEN %s AND %s"
        ((count, length),) = self._rows((summed, range_.keys))
        return count, length

    def append(self, kept: ConversationRecord, items: Sequence[Item]) -> None:
        """Add items to a conversation, which becomes the most recently written."""
        number = kept.numbers[kept.conversation.id]
        turns = sum(item.kind == "turn" for item in items)
        counted = """
            UPDATE conversation SET turns = turns + %s, messages = messages + %s, length = length + %s,
            next_order = %s, updated = %s, expires = %s, written = nextval('write_number') WHERE key = %s
        """
        sums = turns, len(items) - turns, sum(item.length for item in items)
        times = _moment(kept.conversation.updated), kept.expires
        self._db.execute(counted, [*sums, kept.next_order, *times, number])
        self._insert(items, {kept.conversation.id: number})

    def add(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Add items to origins with these numbers."""
        self._sum((numbers[item.origin], item.kind, 1, item.length) for item in items)
        later = """
            UPDATE conversation c SET next_order = greatest(c.next_order, i.next_order)
            FROM (SELECT key, max(number) + 1 AS next_order FROM unnest(%b::bigint[], %b::bigint[])
                AS i (key, number) GROUP BY key) AS i WHERE c.key = i.key
        """
        self._db.execute(later, [[numbers[item.origin] for item in items], [item.order for item in items]])
        self._insert(items, numbers)

    def edit(self, item: StoredItem, edited: Item) -> None:
        """Add a version to an item."""
        space = self._space(edited.namespace)
        self._sum([(item.key >> 32, item.kind, 0, edited.length - item.length)])
        old = "INSERT INTO version SELECT %s, coalesce(max(number), 0) + 1, %s FROM version WHERE item = %s"
        self._db.execute(old, [item.key, item.text, item.key])
        words.unpost(self._db, space, [item.key])
        changed = """
            UPDATE item SET record = %s, length = %s, terms = %b::bytea[], counts = %b::integer[]
            WHERE key = %s
        """
        terms = list(map(slot, edited.counts)), list(edited.counts.values())
        self._db.execute(changed, [edited.versions[-1], edited.length, *terms, item.key])
        words.post(self._db, space, {item.key: len(edited.counts)})
        cited = "INSERT INTO cited SELECT %s, * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[])"
        places = _columns([tuple(map(slot, each)) for each in edited.cited], 3)
        self._db.execute(f"{cited} ON CONFLICT DO NOTHING", [item.key, *places])

    def mark(self, items: Iterable[StoredItem]) -> None:
        """Store the marks of these items."""
        rows = [(item.key, _marks(item.marks)) for item in items]
        marked = "UPDATE item i SET marks = m.marks::bytea[] FROM unnest(%b::bigint[], %b::text[])"
        self._db.execute(f"{marked} AS m (key, marks) WHERE i.key = m.key", _columns(rows, 2))

    def delete(self, items: Sequence[StoredItem]) -> None:
        """Delete items with all their versions, citations and terms."""
        if not items:
            return
        keys = [item.key for item in items]
        origins = {key >> 32 for key in keys}
        self._hold(origins)
        ((space,),) = self._rows(("SELECT space FROM item WHERE key = %s", keys[:1]))
        words.unpost(self._db, space, keys)
        for table, column in (("item", "key"), ("version", "item"), ("cited", "item")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ANY(%b::bigint[])", [keys])
        self._sum((item.key >> 32, item.kind, -1, -item.length) for item in items)
        self._forget_origins(origins)

    def versions(self, item: StoredItem) -> list[str]:
        """Return the texts of the earlier versions of an item, oldest first."""
        old = "SELECT record FROM version WHERE item = %s ORDER BY number"
        return [record for (record,) in self._rows((old, [item.key]))]

    def citing(self, namespace: str, path: str | None, location: str | None, blob: str | None) -> list[str]:
        """Return the ids of the turns that cite a file, ascending; None matches everything."""
        where = {"path": path, "location": location, "blob": blob}
        sought = {name: slot(value) for name, value in where.items() if value is not None}
        conditions = " AND ".join([f"i.space = {_SPACE}", *(f"c.{name} = %b" for name in sought)])
        found = f"SELECT DISTINCT i.key FROM cited c JOIN item i ON i.key = c.item WHERE {conditions}"
        keys = [key for (key,) in self._rows((found, [slot(namespace), *sought.values()]))]
        return sorted(self.ids(keys))

    # ---- search

    def totals(self, namespace: str) -> tuple[int, int]:
        """Return the number of items of a namespace, and of their terms."""
        summed = f"""
            SELECT coalesce(sum(turns + messages), 0)::bigint, coalesce(sum(length), 0)::bigint
            FROM conversation WHERE space = {_SPACE}
        """
        ((items, length),) = self._rows((summed, [slot(namespace)]))
        return items, length

    def match(self, namespace: str, terms: Sequence[str]) -> list[Postings]:
        """Return the postings of each term in a namespace."""
        return words.unpacked(self._rows(words.matching(namespace, terms)), terms)

    def ids(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of the items with these keys."""
        named = "SELECT key, id FROM item WHERE key = ANY(%b::bigint[])"
        found = dict(self._rows((named, [list(keys)])))
        ids = {key: from_bytes(id_) for key, id_ in found.items() if not is_cut(id_)}
        if cut := [key for key in found if key not in ids]:
            whole = self._rows(("SELECT key, record FROM item WHERE key = ANY(%b::bigint[])", [cut]))
            ids.update((key, json.loads(record)["id"]) for key, record in whole)
        return [ids[key] for key in keys]

    def lengths(self, keys: Sequence[int]) -> Keys:
        """Return the number of terms of the items with these keys, shape (keys,)."""
        # One value for thousands of items, as a row for each of them takes several times as long.
        counted = """
            SELECT string_agg(int4send(i.length), '' ORDER BY k.place)
            FROM unnest(%b::bigint[]) WITH ORDINALITY AS k (key, place) JOIN item i ON i.key = k.key
        """
        ((lengths,),) = self._rows((counted, [list(keys)]))
        return np.frombuffer(lengths or b"", ">i4").astype(np.int64)

    def origins(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the ids of the origins with these numbers."""
        found = "SELECT key, id FROM conversation WHERE key = ANY(%b::bigint[])"
        return {key: json.loads(id_) for key, id_ in self._rows((found, [list(numbers)]))}

    # ---- records

    def records(self, shelf: Shelf, keys: Sequence[str]) -> dict[str, StoredRecord]:
        """Return the records with these keys, in their order."""
        rows = self._rows(self._by_keys(shelf, keys))
        there = {key: StoredRecord(*record) for key, *record in rows}
        self._missing.update((shelf, key) for key in keys if slot(key) not in there)
        return {key: there[slot(key)] for key in keys if slot(key) in there}

    def record_keys(self, shelf: Shelf, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a record."""
        found = f"SELECT key FROM record WHERE {_SHELF} AND key = ANY(%b::bytea[])"
        there = {key for (key,) in self._rows((found, [*map(slot, shelf), list(map(slot, keys))]))}
        return {key for key in keys if slot(key) in there}

    def scan_records(self, shelf: Shelf, prefix: str) -> list[tuple[str, bytes]]:
        """Return the records whose key starts with a prefix, by key."""
        found = f"SELECT key_name, value FROM record WHERE {_SHELF} AND key BETWEEN %b AND %b"
        rows = self._rows((found, [*map(slot, shelf), *slots_of_prefix(prefix)]))
        named = ((json.loads(name), value) for name, value in rows)
        return sorted((key, value) for key, value in named if key.startswith(prefix))

    def count_records(self, shelf: Shelf) -> int:
        """Return the number of records on a shelf."""
        counted = f"SELECT count(*) FROM record WHERE {_SHELF}"
        ((count,),) = self._rows((counted, [*map(slot, shelf)]))
        return int(count)

    def put_records(self, shelf: Shelf, records: Mapping[str, StoredRecord]) -> None:
        """Store records."""
        rows = sorted(  # in the same order by all writers, who wait for each other
            (slot(key), json.dumps(key), record.value, record.expires) for key, record in records.items()
        )
        # If another transaction stores a record first that this one has read as missing, this one is undone.
        replaced = "" if self._missing.intersection((shelf, key) for key in records) else _REPLACED
        place = [self._made_space(shelf[0]), slot(shelf[1]), json.dumps(shelf[1])]
        self._db.execute(_PUT_RECORDS + replaced, [*place, *_columns(rows, 4)])

    def delete_records(self, shelf: Shelf, keys: Sequence[str] | None) -> int:
        """Delete these records, or all for None; return how many existed."""
        chosen = "" if keys is None else " AND key = ANY(%b::bytea[])"
        sought = [] if keys is None else [list(map(slot, keys))]
        gone = self._db.execute(
            f"DELETE FROM record WHERE {_SHELF}{chosen} RETURNING 1", [*map(slot, shelf), *sought]
        )
        return len(gone.fetchall())

    def expire_records(self, now: datetime) -> None:
        """Delete the records that have expired."""
        self._db.execute("DELETE FROM record WHERE expires <= %s", [now])

    def shelves(self, namespace: str) -> list[tuple[str, list[str]]]:
        """Return the shelves of a namespace and the keys of their records, both ascending."""
        held = f"SELECT shelf_name, key_name FROM record WHERE space = {_SPACE}"
        found: dict[str, list[str]] = {}
        for shelf, key in self._rows((held, [slot(namespace)])):
            found.setdefault(json.loads(shelf), []).append(json.loads(key))
        return sorted((shelf, sorted(keys)) for shelf, keys in found.items())

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a conversation or a record, ascending."""
        held = """
            SELECT n.namespace FROM space n
            WHERE EXISTS (SELECT 1 FROM conversation c WHERE c.space = n.key AND c.written IS NOT NULL)
            OR EXISTS (SELECT 1 FROM record r WHERE r.space = n.key)
        """
        return sorted(json.loads(namespace) for (namespace,) in self._rows((held, [])))

    # ---- internal

    def _rows(self, query: Query) -> list[Any]:
        """Return the rows of a query, which may have been sent already."""
        for n, (asked, cursor) in enumerate(self._asked):
            if asked == query:
                del self._asked[n]
                return cursor.fetchall()
        return self._db.execute(*query, binary=True).fetchall()

    def _expected(self, scope: Scope) -> Iterator[Query]:
        """Yield the queries that a transaction of this scope begins with."""
        yield _SOONEST
        if self._lock and (scope.name or scope.shelf is not None):
            yield _space_of(scope.namespace)
        if scope.shelf is not None:
            if scope.ids:
                yield self._by_keys((scope.namespace, scope.shelf), scope.ids)
            return
        if scope.conversation:
            yield self._by_id(scope.conversation)
        if scope.name:
            yield _by_name(scope.namespace, scope.name)
        if scope.ids:
            yield self._by_ids(scope.kind, scope.ids, scope.namespace)
        if scope.last > 0:
            yield _newest_of(scope)
        if scope.terms is not None:
            yield words.matching(scope.namespace, scope.terms)

    def _newest(self, range_: Range, limit: int) -> list[StoredItem] | None:
        """Return the newest items of a range if they were read at the beginning."""
        last, query = self._scope.last, _newest_of(self._scope)
        is_asked = any(asked == query for asked, _ in self._asked)
        if range_.origin != self._scope.conversation or not 0 <= limit <= last or not is_asked:
            return None
        rows = self._rows(query)
        first, end = range_.keys
        found = [_item(row, range_.origin) for row in rows if first <= row[0] <= end][:limit]
        return found if len(found) == limit or len(rows) < last else None

    def _locked(self, *tables: str) -> str:
        return f"{self._lock} {', '.join(tables)}" if self._lock else ""

    def _by_id(self, conversation: str) -> Query:
        where = f"WHERE c.slot = %b AND c.written IS NOT NULL {self._locked('c')}"
        return f"{_CONVERSATION} {where}", [slot(conversation)]

    def _by_ids(self, kind: Kind, ids: Sequence[str], namespace: str) -> Query:
        found = f"""
            SELECT {_ITEM}, i.space, c.id FROM item i JOIN conversation c ON c.key = i.key >> 32
            WHERE i.space = {_SPACE} AND i.kind = %s AND i.id = ANY(%b::bytea[])
            ORDER BY i.key DESC {self._locked("c", "i")}
        """
        return found, [slot(namespace), KINDS.index(kind), list(map(slot, ids))]

    def _by_keys(self, shelf: Shelf, keys: Sequence[str]) -> Query:
        found = f"SELECT key, value, expires FROM record WHERE {_SHELF} AND key = ANY(%b::bytea[])"
        return f"{found} {self._locked('record')}", [*map(slot, shelf), list(map(slot, keys))]

    def _kept(self, query: Query) -> list[ConversationRecord]:
        rows = self._rows(query)
        found = [_kept(row) for row in rows]
        namespaces = (kept.conversation.namespace for kept in found)
        self._spaces.update(zip(namespaces, (row[1] for row in rows), strict=True))
        return found

    def _hold(self, numbers: Iterable[int]) -> None:
        """Lock origins, the newest first, against changes of who shows their items, and of their totals."""
        if self._lock and (sought := list(numbers)):
            held = "SELECT 1 FROM conversation WHERE key = ANY(%b::bigint[]) ORDER BY key DESC FOR UPDATE"
            self._db.execute(held, [sought])

    def _space(self, namespace: str) -> int:
        """Return the number of a namespace, -1 for a new one."""
        if namespace not in self._spaces:
            found = self._rows(_space_of(namespace))
            if not found:
                return -1
            ((self._spaces[namespace],),) = found
        return self._spaces[namespace]

    def _made_space(self, namespace: str) -> int:
        if self._space(namespace) < 0:
            made = "INSERT INTO space (slot, namespace) VALUES (%b, %s) RETURNING key"
            found = self._rows((made, [slot(namespace), json.dumps(namespace)]))
            ((self._spaces[namespace],),) = found
        return self._spaces[namespace]

    def _numbers(self, kept: ConversationRecord, space: int) -> dict[str, int]:
        """Return the numbers of the origins of a conversation; those that do not exist are created."""
        origins = list(dict.fromkeys(span.origin for span in kept.spans))
        if not kept.numbers.keys() >= set(origins):
            made = """
                WITH known AS (SELECT slot, key FROM conversation WHERE slot = ANY(%b::bytea[])), made AS (
                    INSERT INTO conversation (slot, id, space)
                    SELECT n.slot, n.id, %s FROM unnest(%b::bytea[], %b::text[]) AS n (slot, id)
                    WHERE n.slot NOT IN (SELECT slot FROM known) RETURNING slot, key
                ) TABLE known UNION ALL TABLE made
            """
            slots = list(map(slot, origins))
            keys = dict(self._rows((made, [slots, space, slots, list(map(json.dumps, origins))])))
            return {origin: keys[slot(origin)] for origin in origins}
        return {origin: kept.numbers[origin] for origin in origins}

    def _forget_origins(self, numbers: Iterable[int]) -> None:
        """Remove origins of deleted conversations that have no items and are in no span."""
        unused = """
            DELETE FROM conversation c WHERE c.key = ANY(%b::bigint[]) AND c.written IS NULL
            AND c.turns = 0 AND c.messages = 0
            AND NOT EXISTS (SELECT 1 FROM viewer v WHERE v.origin = c.key)
        """
        self._db.execute(unused, [list(numbers)])

    def _insert(self, items: Sequence[Item], numbers: Mapping[str, int]) -> None:
        """Insert items of one namespace with their versions, citations and terms."""
        for n in range(0, len(items), _AT_ONCE):
            some = items[n : n + _AT_ONCE]
            space = self._made_space(some[0].namespace)
            keyed = [(item_key(numbers[it.origin], it.kind, it.order), it) for it in some]
            older = [(key, n, text) for key, it in keyed for n, text in enumerate(it.versions[:-1], 1)]
            cited = [(key, *map(slot, place)) for key, it in keyed for place in it.cited]
            rows = [
                (
                    key,
                    KINDS.index(it.kind),
                    slot(it.id),
                    it.length,
                    _marks(sorted(it.marks)),
                    it.versions[-1],
                    array(map(slot, it.counts)),
                    "{" + ",".join(map(str, it.counts.values())) + "}",
                )
                for key, it in keyed
            ]
            self._db.execute(_ADD, [*_columns(older, 3), *_columns(cited, 4), space, *_columns(rows, 8)])
            words.post(self._db, space, {key: len(it.counts) for key, it in keyed})

    def _sum(self, changes: Iterable[tuple[int, Kind, int, int]]) -> None:
        """Add numbers of items and of their terms to the totals of origins."""
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for number, kind, items, length in changes:
            sums[number][KINDS.index(kind)] += items
            sums[number][2] += length
        self._db.execute(_SUM, _columns([(number, *sums[number]) for number in sorted(sums)], 4))


def _by_name(namespace: str, name: str) -> Query:
    where = f"WHERE c.space = {_SPACE} AND c.name = %b AND c.name <> ''"
    return f"{_CONVERSATION} {where}", [slot(namespace), slot(name)]


def _newest_of(scope: Scope) -> Query:
    """Return a query for the newest items that were added to the conversation of a scope."""
    place = "SELECT (c.key << 32) | %s FROM conversation c WHERE c.slot = %b"
    within = f"i.key BETWEEN ({place}) AND ({place})"
    found = f"SELECT {_ITEM} FROM item i WHERE {within} ORDER BY i.key DESC LIMIT %s"
    first, own = KINDS.index(scope.kind) * MAX_ORDER, slot(scope.conversation)
    return found, [first, own, first + MAX_ORDER - 1, own, scope.last]


def _space_of(namespace: str) -> Query:
    return "SELECT key FROM space WHERE slot = %b", [slot(namespace)]


@reads_stored
def _kept(row: Sequence[Any]) -> ConversationRecord:
    record, updated, expires, next_order, turn, message, spans = row[2:9]
    read = json.loads(spans)
    kept = ConversationRecord(
        conversation_of({**json.loads(record), "updated": updated}),
        [TurnSpan(origin, first, last) for origin, _, first, last in read],
        next_order,
        {"turn": turn, "message": message},
        expires,
        {origin: number for origin, number, _, _ in read},
        (row[9], row[10], row[11]),
    )
    return valid_conversation(kept)


@reads_stored
def _item(row: Sequence[Any], origin: str) -> StoredItem:
    key, kind, id_, length, record, marks = row
    whole_id = json.loads(record)["id"] if is_cut(id_) else from_bytes(id_)
    held = tuple(map(from_bytes, marks or ()))
    order = key & 0x7FFFFFFF
    return valid_item(StoredItem(key, KINDS[kind], whole_id, origin, order, length, record, held))


def _marks(marks: Sequence[str]) -> str | None:
    return array(map(as_bytes, marks)) if marks else None


def _moment(time: datetime) -> str:
    """Return a time in its stored form."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return rows as columns, even if there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
