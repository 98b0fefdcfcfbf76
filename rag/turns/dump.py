"""Conversion of stored values to the lines of a dump and back; see `MemoryStore`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rag.schema import conversation_record
from rag.turns.checks import bad_line
from rag.turns.conversations import expiry
from rag.turns.model import KINDS, ConversationRecord, Item, Kind, StoredRecord, TurnSpan
from rag.turns.values import conversation_of, message_of, turn_of, valid_order
from rag.types import Conversation

Line = dict[str, Any]

RecordLine = tuple[str, str, StoredRecord]
"""A record with its shelf and key."""


def conversation_line(conversation: Conversation, kept: ConversationRecord) -> Line:
    """Return the line of a conversation, with its counts."""
    return {"conversation": conversation_record(conversation), **kept.line()}


def record_line(shelf: str, key: str, record: StoredRecord) -> Line:
    """Return the line of a record."""
    expires = record.expires and _utc(record.expires).isoformat(timespec="microseconds")
    value = b64encode(record.value).decode("ascii")
    return {"record": {"shelf": shelf, "key": key, "value": value, "expires": expires}}


def parsed(line: Mapping[str, Any], namespace: str) -> ConversationRecord | Item | RecordLine:
    """Parse a line. Raises ValueError if it is not in the format of a dump."""
    try:
        return _parsed(line, namespace)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise bad_line(line) from error


def _parsed(line: Mapping[str, Any], namespace: str) -> ConversationRecord | Item | RecordLine:
    if "conversation" in line:
        return _kept(line, namespace)
    if "turn" in line:
        item = _turn(line["turn"], namespace)
        for n, record in enumerate(line.get("versions", ())):
            earlier = _turn(record, namespace)
            item.versions.insert(n, earlier.versions[0])
            item.cited |= earlier.cited
        return item
    if "message" in line:
        valid_order(line["message"]["order"])
        return Item.of(message_of({**line["message"], "namespace": namespace}))
    record = line["record"]
    if not all(isinstance(record[name], str) for name in ("shelf", "key")):
        raise TypeError("the shelf and the key of a record are text")
    expires = None if record["expires"] is None else _utc(datetime.fromisoformat(record["expires"]))
    return record["shelf"], record["key"], StoredRecord(b64decode(record["value"], validate=True), expires)


def _turn(record: Mapping[str, Any], namespace: str) -> Item:
    valid_order(record["order"])
    return Item.of(turn_of({**record, "namespace": namespace}))


def _kept(line: Mapping[str, Any], namespace: str) -> ConversationRecord:
    record = line["conversation"]
    for count in ("turn_count", "message_count"):
        valid_order(record.get(count, 0))
    conversation = conversation_of({**record, "namespace": namespace})
    first: dict[Kind, int] = {kind: valid_order(line["first"][kind]) for kind in KINDS}
    expires = expiry(conversation.updated, conversation.ttl_s)
    spans = _spans(line["spans"], conversation.id)
    return ConversationRecord(conversation, spans, valid_order(line["next_order"]), first, expires)


def _spans(spans: Iterable[Any], conversation: str) -> list[TurnSpan]:
    """Parse spans that end with the conversation's own. Raises ValueError for others."""
    found = [TurnSpan(origin, valid_order(first), last) for origin, first, last in spans]
    ends = [span.last if span.last is None else valid_order(span.last) for span in found]
    own = bool(found) and found[-1].origin == conversation and ends.pop() is None
    if not own or None in ends or not all(isinstance(span.origin, str) for span in found):
        raise ValueError("the last span must be the conversation's own, and the only one with no end")
    return found


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)
