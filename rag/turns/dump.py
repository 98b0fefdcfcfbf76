"""Conversion of stored values to the lines of a dump and back; see `MemoryStore`."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rag.schema import conversation_from_record, conversation_record, message_from_record, turn_from_record
from rag.turns.checks import bad_line, check_bounds
from rag.turns.model import MAX_ORDER, ConversationRecord, Item, StoredRecord, TurnSpan
from rag.types import Conversation

Line = dict[str, Any]

_TEXTS = {
    "conversation": ("id", "name", "namespace"),
    "turn": ("id", "conversation", "standalone_question", "model", "prompt_hash"),
    "message": ("id", "conversation", "role", "name", "mime"),
    "citation": ("repository", "repo", "path", "blob", "symbol", "scope", "span_hash", "location"),
    "record": ("shelf", "key"),
    "source": ("location",),
}
_TEXTS_OR_NONE = {
    "conversation": ("parent",),
    "turn": ("question", "answer", "parent", "user_id"),
    "message": ("turn",),
    "citation": ("commit",),
    "source": ("ref",),
}
"""The text fields of each kind of record, and those that may be null."""


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
        record = _checked("message", line["message"])
        _order(record["order"])
        return Item.of(message_from_record({**record, "namespace": namespace}))
    record = _checked("record", line["record"])
    expires = None if record["expires"] is None else _utc(datetime.fromisoformat(record["expires"]))
    return record["shelf"], record["key"], StoredRecord(b64decode(record["value"], validate=True), expires)


def _turn(record: Mapping[str, Any], namespace: str) -> Item:
    _order(_checked("turn", record)["order"])
    for citation in record.get("citations", ()):
        _checked("citation", citation)
    return Item.of(turn_from_record({**record, "namespace": namespace}))


def _kept(line: Mapping[str, Any], namespace: str) -> ConversationRecord:
    record = _checked("conversation", line["conversation"])
    for source in record["sources"]:
        _check_location(_checked("source", source)["location"])
    for count in ("turn_count", "message_count"):
        _order(record.get(count, 0))
    conversation = conversation_from_record({**record, "namespace": namespace})
    conversation = replace(
        conversation, created=_utc(conversation.created), updated=_utc(conversation.updated)
    )
    ttl_s, forked_at = conversation.ttl_s, conversation.forked_at
    check_bounds(ttl_s, conversation.keep_last)
    if forked_at is not None:
        _order(forked_at, least=-1)
    first = {"turn": _order(line["first"]["turn"]), "message": _order(line["first"]["message"])}
    expires = None if ttl_s is None else conversation.updated + timedelta(seconds=ttl_s)
    spans = _spans(line["spans"], conversation.id)
    return ConversationRecord(conversation, spans, _order(line["next_order"]), first, expires)  # type: ignore[arg-type]


def _spans(spans: Iterable[Any], conversation: str) -> list[TurnSpan]:
    """Parse spans that end with the conversation's own. Raises ValueError for others."""
    found = [TurnSpan(origin, _order(first), last) for origin, first, last in spans]
    ends = [span.last if span.last is None else _order(span.last) for span in found]
    own = bool(found) and found[-1].origin == conversation and ends.pop() is None
    if not own or None in ends or not all(isinstance(span.origin, str) for span in found):
        raise ValueError("the last span must be the conversation's own, and the only one with no end")
    return found


def _checked(kind: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record. Raises TypeError if a text field is not text."""
    for names, types in ((_TEXTS[kind], str), (_TEXTS_OR_NONE.get(kind, ()), str | None)):
        for name in names:
            if name in record and not isinstance(record[name], types):
                raise TypeError(f"{name} of a {kind} is {record[name]!r}, not text")
    return record


def _check_location(location: str) -> None:
    """Raise ValueError for a location that can be no path."""
    if b"\0" in os.fsencode(location):
        raise ValueError(f"{location!r} is no location of a repository")


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


def _order(number: Any, least: int = 0) -> int:
    """Return the order. Raises ValueError for an invalid one."""
    if type(number) is not int or not least <= number < MAX_ORDER:
        raise ValueError(f"an order must be a whole number of at least {least}, not {number!r}")
    return number
