"""What is kept as the lines of a dump, and back; see `MemoryStore`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rag.backends.turn_errors import bad_line
from rag.backends.turn_items import Item, Kept, Span, StoredRecord
from rag.records import conversation_from_record, conversation_record, message_from_record, turn_from_record
from rag.types import Conversation

Line = dict[str, Any]


@dataclass(slots=True)
class Restored:
    """What lines say, not stored yet."""

    kept: list[Kept] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    records: list[tuple[str, str, StoredRecord]] = field(default_factory=list)  # shelf, key, record


def conversation_line(conversation: Conversation, kept: Kept) -> Line:
    """The line of a conversation, with its counts."""
    return {"conversation": conversation_record(conversation), **kept.line()}


def item_line(item: Item) -> Line:
    """The line of a turn or message."""
    if item.kind == "message":
        return {"message": item.record()}
    return {"turn": item.record(), "versions": [item.record(n) for n in range(len(item.versions) - 1)]}


def record_line(shelf: str, key: str, record: StoredRecord) -> Line:
    """The line of a record."""
    expires = record.expires and record.expires.astimezone(UTC).isoformat(timespec="microseconds")
    value = b64encode(record.value).decode("ascii")
    return {"record": {"shelf": shelf, "key": key, "value": value, "expires": expires}}


def restored(lines: Iterable[Mapping[str, Any]], namespace: str) -> Restored:
    """What lines say. Raises ValueError for one that no dump holds."""
    found = Restored()
    for line in lines:
        try:
            _read(line, namespace, found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise bad_line(line) from error
    return found


def _read(line: Mapping[str, Any], namespace: str, found: Restored) -> None:
    if "conversation" in line:
        found.kept.append(_kept(line, namespace))
    elif "turn" in line:
        said = turn_from_record({**line["turn"], "namespace": namespace})
        item = Item.of(said)
        for n, record in enumerate(line.get("versions", ())):
            earlier = Item.of(turn_from_record({**record, "namespace": namespace}))
            item.versions.insert(n, earlier.versions[0])
            item.cited |= earlier.cited
        found.items.append(item)
    elif "message" in line:
        found.items.append(Item.of(message_from_record({**line["message"], "namespace": namespace})))
    else:
        record = line["record"]
        expires = record["expires"] and datetime.fromisoformat(record["expires"])
        kept = StoredRecord(b64decode(record["value"], validate=True), expires)
        found.records.append((record["shelf"], record["key"], kept))


def _kept(line: Mapping[str, Any], namespace: str) -> Kept:
    conversation = conversation_from_record({**line["conversation"], "namespace": namespace})
    spans = [Span(origin, int(first), last) for origin, first, last in line["spans"]]
    first = {"turn": int(line["first"]["turn"]), "message": int(line["first"]["message"])}
    ttl_s = conversation.ttl_s
    expires = None if ttl_s is None else conversation.updated + timedelta(seconds=ttl_s)
    return Kept(conversation, spans, int(line["next_order"]), first, expires)  # type: ignore[arg-type]
