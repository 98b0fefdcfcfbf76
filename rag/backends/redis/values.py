"""Conversion between the arguments and results of a namespace's script and the values of backends."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from rag.backends.redis.server import coded, decoded
from rag.ports import Holder, Matches
from rag.schema import (
    Record,
    conversation_from_record,
    conversation_record,
    message_from_record,
    turn_from_record,
)
from rag.searchable import term_counts
from rag.turns.dump import Line
from rag.turns.model import ConversationRecord, Item, Kind, TurnSpan, cited_in
from rag.types import Conversation, DialogTurn, Message, Source

_Numbers = npt.NDArray[np.int64]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LETTERS: dict[Kind, str] = {"turn": "t", "message": "m"}
FOREVER = 9_000_000_000_000_000
"""Microseconds: later than any time, and still exact as a Lua number."""

_OF_ITS_PLACE = ("namespace", "conversation", "order", "version")
_GIVEN = frozenset((*_OF_ITS_PLACE, "marks"))
_TURN = ord("t")
_NONE = np.zeros((0, 2), np.int64)


def micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime:
    """Return the time of these microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def duration(ttl_s: float | None) -> int:
    """Return a time to live in microseconds; 0 is unlimited."""
    return 0 if ttl_s is None else max(1, int(min(ttl_s * 1e6, FOREVER)))


def listed(value: Any) -> bytes:
    """Return JSON for a script, including invalid Unicode."""
    return coded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


# ---------------------------------------------------------------- conversations


def head(sources: Sequence[Source], ttl_s: float | None) -> str:
    """Return the fields of a conversation that scripts only store."""
    return json.dumps([conversation_record(Conversation("", sources=tuple(sources)))["sources"], ttl_s])


def kept_of(state: Sequence[Any], namespace: str) -> ConversationRecord:
    """Return the conversation of a script's result, with its counts and spans."""
    texts = [decoded(state[n]) for n in (0, 2, 7)]
    created, updated = (moment_of(state[n]).isoformat() for n in (3, 4))
    sources, ttl_s = json.loads(state[1])
    record = {
        "id": texts[0],
        "namespace": namespace,
        "name": texts[1],
        "sources": sources,
        "created": created,
        "updated": updated,
        "turn_count": state[5],
        "message_count": state[6],
        "parent": texts[2] or None,
        "forked_at": None if state[8] < -1 else state[8],
        "keep_last": state[9] or None,
        "ttl_s": ttl_s,
    }
    spans = [
        TurnSpan(decoded(origin), first, None if last < 0 else last) for origin, first, last in state[13]
    ]
    first: dict[Kind, int] = {"turn": state[11], "message": state[12]}
    return ConversationRecord(conversation_from_record(record), spans, state[10], first)


def view_of(kept: ConversationRecord) -> list[Any]:
    """Return a conversation to restore, in the format of the scripts."""
    conversation = kept.conversation
    view = {
        "h": head(conversation.sources, conversation.ttl_s),
        "n": conversation.name,
        "c": micros(conversation.created),
        "u": micros(conversation.updated),
        "t": duration(conversation.ttl_s),
        "k": conversation.keep_last or 0,
        "p": conversation.parent or "",
        "a": -2 if conversation.forked_at is None else conversation.forked_at,
        "o": kept.next_order,
        "ft": kept.first["turn"],
        "fm": kept.first["message"],
        "s": [[span.origin, span.first, -1 if span.last is None else span.last] for span in kept.spans],
    }
    if kept.expires is not None:
        view["e"] = micros(kept.expires)
    return [conversation.id, view]


# ---------------------------------------------------------------- turns and messages


def item_of(value: DialogTurn | Message, namespace: str) -> Item:
    """A turn or message without a place; the script assigns it."""
    return Item.of(replace(value, namespace=namespace, conversation_id="", order=0))


def bodies_of(item: Item) -> list[bytes]:
    """Return the versions of an item in their stored form, without the fields of its place."""
    bodies = []
    for text in item.versions:
        record = json.loads(text)
        bodies.append(json.dumps({k: v for k, v in record.items() if k not in _OF_ITS_PLACE}).encode())
    return bodies


def words_of(item: Item) -> bytes:
    """Return an item's terms with their counts, and its citations."""
    return listed([item.counts, sorted(item.cited)])


def unread(record: Record) -> tuple[bytes, bytes, bytes, bytes]:
    """Return an item to add, by its record: id, marks and citations (empty for none), and its body."""
    marks, cited = record["marks"], cited_in(record) if record.get("citations") else ()
    body = {name: value for name, value in record.items() if name not in _GIVEN}
    return (
        coded(record["id"]),
        listed(marks) if marks else b"",
        listed(sorted(cited)) if cited else b"",
        json.dumps(body).encode(),
    )


def reading(waiting: Sequence[Any]) -> list[bytes]:
    """Return the arguments that index unread items, from a script's result."""
    groups, parts = [], []
    for origin, last, items in waiting:
        placed, blocks = [], defaultdict[int, dict[str, list[bytes]]](lambda: defaultdict(list))
        for kind, item, order, body in items:
            record = json.loads(body)
            cited = sorted(cited_in(record))
            record.pop("citations", None)  # they are not searched
            value = turn_from_record(record) if kind == b"t" else message_from_record(record)
            counts, by_term, head = term_counts(value), blocks[order // 256], bytes([order % 256]) + kind
            for term, times in counts.items():
                by_term[term].append(head + _PACKED[times])
            placed.append([kind.decode(), decoded(item), order, sum(counts.values())])
            parts.append(listed([counts, cited]))
        for by_term in blocks.values():
            for term, entries in by_term.items():
                parts += (coded(term), b"".join(entries))
        sizes = [[block, len(by_term)] for block, by_term in blocks.items()]
        groups.append([decoded(origin), last, placed, sizes])
    return [listed(groups), *parts]


class _Packed(dict[int, bytes]):
    """The end of an entry for each count."""

    def __missing__(self, times: int) -> bytes:
        return times.to_bytes(4, "big")


_PACKED = _Packed((times, times.to_bytes(4, "big")) for times in range(256))
_ENTRY = np.dtype([("order", "u1"), ("kind", "u1"), ("times", ">u4")])


def matches_of(reply: Sequence[Any], terms: int) -> Matches:
    """The matches of a script's result: items by block, and the entries of each term."""
    items, length, totals, blocks = reply
    counts = _counts(blocks, terms).tolist()
    found, at = [], 0
    for origin, first, heads, lengths, names, _ in blocks:
        said_in, base = decoded(origin), int(first)
        for n, (name, held) in enumerate(zip(names, np.frombuffer(lengths, ">u4").tolist(), strict=True)):
            kind: Kind = "turn" if heads[2 * n + 1] == _TURN else "message"
            item = (decoded(name), kind, said_in, base + heads[2 * n], held, tuple(counts[at]))
            found.append(Holder(*item))
            at += 1
    found.sort(key=itemgetter(2, 3))
    return Matches(items, length, tuple(totals), tuple(found))


def _counts(blocks: Sequence[Any], terms: int) -> _Numbers:
    """Return the counts of each term in the items, shape (found, terms). Most entries are of other items."""
    heads = [np.frombuffer(block[2], "u1").reshape(-1, 2).astype(np.int64) for block in blocks]
    found = _keys(
        np.repeat(np.arange(len(blocks)), list(map(len, heads))), *np.concatenate([_NONE, *heads]).T
    )
    order = np.argsort(found)
    counts = np.zeros((len(found), terms), np.int64)
    for term in range(terms):
        values = [block[5][term] for block in blocks]
        entries = np.frombuffer(b"".join(values), _ENTRY)
        of = np.repeat(np.arange(len(blocks)), [len(value) // 6 for value in values])
        keys = _keys(of, entries["order"].astype(np.int64), entries["kind"].astype(np.int64))
        at = np.searchsorted(found, keys, sorter=order)
        at[at == len(found)] = 0
        is_found = found[order[at]] == keys
        counts[order[at[is_found]], term] = entries["times"][is_found]
    return counts


def _keys(block: _Numbers, order: _Numbers, kind: _Numbers) -> _Numbers:
    return (block * 256 + order) * 256 + kind


def loaded(item: Item) -> list[Any]:
    """Return an item to restore, with its place."""
    place = [item.origin, item.order, item.length, len(item.versions), sorted(item.marks)]
    return [LETTERS[item.kind], item.id, place]


def turn_of(entry: Sequence[Any], namespace: str) -> DialogTurn:
    """Return the turn of a script's result."""
    return turn_from_record(record_of(entry, namespace))


def message_of(entry: Sequence[Any], namespace: str) -> Message:
    """Return the message of a script's result."""
    return message_from_record(record_of(entry, namespace))


def earlier_turns(entry: Sequence[Any], bodies: Sequence[bytes], namespace: str) -> list[DialogTurn]:
    """Return the earlier versions of a turn of a script's result, oldest first."""
    return [turn_from_record(record) for record in _earlier(entry, bodies, namespace)]


def line_of(entry: Sequence[Any], bodies: Sequence[bytes], namespace: str) -> Line:
    """Return the dump line of a turn or message."""
    record = record_of(entry, namespace)
    if entry[0] == b"m":
        return {"message": record}
    return {"turn": record, "versions": _earlier(entry, bodies, namespace)}


def record_of(entry: Sequence[Any], namespace: str) -> Record:
    """Return the record of the turn or message of a script's result."""
    _, _, origin, order, version, marks, body = entry
    return {
        **json.loads(body),
        "namespace": namespace,
        "conversation": decoded(origin),
        "order": order,
        "marks": sorted(map(decoded, marks)),
        "version": version,
    }


def _earlier(entry: Sequence[Any], bodies: Sequence[bytes], namespace: str) -> list[Record]:
    *place, _ = entry
    return [{**record_of([*place, body], namespace), "version": n} for n, body in enumerate(bodies, 1)]
