"""Conversion between what is stored on a server and the values of `rag.turns.model`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from rag.backends.redis.server import coded, decoded
from rag.schema import conversation_record
from rag.turns.model import (
    KINDS,
    Cited,
    ConversationRecord,
    Kind,
    StoredItem,
    TurnSpan,
    reads_stored,
    valid_conversation,
    valid_item,
)
from rag.turns.values import conversation_of
from rag.types import Conversation

Reply = list[bytes | None]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LETTERS: dict[Kind, str] = {"turn": "t", "message": "m"}


class Brief(NamedTuple):
    """What is stored of an item in short; `length` is -1 until it is indexed."""

    length: int
    bucket: str
    earlier: int
    id: str

    @classmethod
    def read(cls, stored: bytes) -> Brief:
        """Return a stored one."""
        length, bucket, earlier, id_ = stored.split(b" ", 3)
        return cls(int(length), bucket.decode(), int(earlier), decoded(id_))

    def stored(self) -> str:
        """Return its stored form."""
        return f"{self.length} {self.bucket} {self.earlier} {self.id}"


def micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime:
    """Return the time of these microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def written_out(reply: Reply) -> str | bytes:
    """Return a reply as the scripts compare it: itself or, if it is long, its hash."""
    parts = (b"-" if part is None else b"%d:%b" % (len(part), part) for part in reply)
    text = b"".join(parts)
    return text if len(text) <= 40 else hashlib.sha1(text, usedforsecurity=False).hexdigest()


def stored_conversation(kept: ConversationRecord) -> bytes:
    """Return a conversation as it is stored: number, next order, update, expiry (0 is never) and JSON."""
    record = conversation_record(kept.conversation)
    for name in ("id", "namespace", "turn_count", "message_count", "updated"):
        del record[name]
    record["first"] = kept.first
    record["spans"] = [[span.origin, kept.numbers[span.origin], span.first, span.last] for span in kept.spans]
    return written_conversation(kept, json.dumps(record).encode())


def written_conversation(kept: ConversationRecord, lasting: bytes) -> bytes:
    """Return a stored conversation with the numbers that a write changes, before its JSON."""
    number, expires = kept.numbers[kept.conversation.id], 0 if kept.expires is None else micros(kept.expires)
    times = micros(kept.conversation.updated), expires
    return b"%d %d %d %d %b" % (number, kept.next_order, *times, lasting)


def lasting_part(stored: bytes) -> bytes:
    """Return the JSON of a stored conversation."""
    return stored.split(b" ", 4)[4]


def conversations_of(reply: Reply, namespace: str) -> Iterator[ConversationRecord]:
    """Yield the conversations of a reply."""
    for id_, raw, *totals in zip(*[iter(reply)] * 5, strict=True):
        assert id_ is not None and raw is not None
        yield _conversation(decoded(id_), namespace, raw, totals)


@reads_stored
def _conversation(id_: str, namespace: str, raw: bytes, totals: Reply) -> ConversationRecord:
    _, next_order, updated, expires, lasting = raw.split(b" ", 4)
    conversation, spans, first, numbers = _parsed(id_, namespace, lasting)
    turns, messages, length = (int(total or 0) for total in totals)
    kept = ConversationRecord(
        replace(conversation, updated=moment_of(int(updated))),
        list(spans),
        int(next_order),
        dict(first),
        None if expires == b"0" else moment_of(int(expires)),
        dict(numbers),
        (turns, messages, length),
    )
    return valid_conversation(kept)


@lru_cache(1000)
def _parsed(
    id_: str, namespace: str, lasting: bytes
) -> tuple[Conversation, tuple[TurnSpan, ...], dict[Kind, int], dict[str, int]]:
    """Return the conversation, its spans, its first orders, and the numbers of its origins."""
    record = json.loads(lasting)
    spans, first = record.pop("spans"), record.pop("first")
    given = {"id": id_, "namespace": namespace, "updated": record["created"]}
    given |= {"turn_count": 0, "message_count": 0}
    return (
        conversation_of({**record, **given}),
        tuple(TurnSpan(origin, begin, end) for origin, _, begin, end in spans),
        first,
        {origin: number for origin, number, _, _ in spans},
    )


def coded_key(key: int) -> bytes:
    """Return the key of an item as it is stored."""
    return key.to_bytes(8, "big")


@reads_stored
def item_of(key: bytes, brief: Brief, text: bytes, marks: bytes | None, origin: str) -> StoredItem:
    """Return a stored item."""
    number = int.from_bytes(key, "big")
    held = () if marks is None else tuple(json.loads(marks))
    kind = KINDS[number >> 31 & 1]
    order = number & 0x7FFFFFFF
    return valid_item(StoredItem(number, kind, brief.id, origin, order, brief.length, text.decode(), held))


def stored_marks(marks: Iterable[str]) -> str:
    """Return marks as they are stored."""
    return json.dumps(sorted(marks))


def stored_citations(id_: str, cited: Iterable[Cited]) -> list[bytes]:
    """Return the citations of an item as they are stored."""
    return [b"".join([*map(piece, each), coded(id_)]) for each in sorted(cited)]


def piece(text: str) -> bytes:
    """Return a text after its length."""
    data = coded(text)
    return b"%d:%b" % (len(data), data)


def briefs_of(joined: bytes, count: int) -> list[tuple[str, int]]:
    """Return id and length of each of the briefs in a reply."""
    found, at = [], 0
    for _ in range(count):
        end = at + 4 + int.from_bytes(joined[at : at + 4], "big")
        length, _, _, id_ = joined[at + 4 : end].split(b" ", 3)
        found.append((decoded(id_), int(length)))
        at = end
    return found


def pairs(reply: Sequence[bytes | None], size: int) -> Iterator[tuple[bytes | None, ...]]:
    """Yield the parts of a reply in groups."""
    return zip(*[iter(reply)] * size, strict=True)
