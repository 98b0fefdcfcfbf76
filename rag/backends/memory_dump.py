"""What the in-process store keeps as the lines of a dump, and back; see `MemoryStore`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rag.backends.memory_kept import Item, Items, Kept, Span
from rag.backends.memory_records import Record, Shelf
from rag.backends.turn_errors import bad_line
from rag.records import conversation_from_record, conversation_record, message_from_record, turn_from_record
from rag.types import Conversation

Line = dict[str, Any]


@dataclass(slots=True)
class Restored:
    """What lines say, not stored yet."""

    kept: list[Kept] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    records: list[tuple[str, str, Record]] = field(default_factory=list)  # shelf, key, record


def dumped(
    conversations: Sequence[tuple[Conversation, Kept]], items: Items, shelves: Mapping[str, Shelf]
) -> list[Line]:
    """The lines of these conversations, of what they show, and of these shelves."""
    shown = dict.fromkeys(item for _, kept in conversations for item in items.shown(kept))
    return [
        *({"conversation": conversation_record(counted), **kept.line()} for counted, kept in conversations),
        *map(_item_line, shown),
        *(
            _record_line(name, key, record)
            for name, shelf in sorted(shelves.items())
            for key, record in sorted(shelf.records.items())
        ),
    ]


def restored(lines: Iterable[Mapping[str, Any]], namespace: str) -> Restored:
    """What lines say. Raises ValueError for one that no dump holds."""
    found = Restored()
    for line in lines:
        try:
            _read(line, namespace, found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise bad_line(line) from error
    return found


def _item_line(item: Item) -> Line:
    if item.kind == "message":
        return {"message": item.record()}
    return {"turn": item.record(), "versions": [item.record(n) for n in range(len(item.versions) - 1)]}


def _record_line(shelf: str, key: str, record: Record) -> Line:
    expires = record.expires and record.expires.astimezone(UTC).isoformat(timespec="microseconds")
    value = b64encode(record.value).decode("ascii")
    return {"record": {"shelf": shelf, "key": key, "value": value, "expires": expires}}


def _read(line: Mapping[str, Any], namespace: str, found: Restored) -> None:
    if "conversation" in line:
        found.kept.append(_kept(line, namespace))
    elif "turn" in line:
        said = turn_from_record({**line["turn"], "namespace": namespace})
        item = Item.of(said)
        item.versions[:0] = [_version(record, namespace) for record in line.get("versions", ())]
        found.items.append(item)
    elif "message" in line:
        found.items.append(Item.of(message_from_record({**line["message"], "namespace": namespace})))
    else:
        record = line["record"]
        expires = record["expires"] and datetime.fromisoformat(record["expires"])
        kept = Record(b64decode(record["value"], validate=True), expires)
        found.records.append((record["shelf"], record["key"], kept))


def _version(record: Mapping[str, Any], namespace: str) -> str:
    return Item.of(turn_from_record({**record, "namespace": namespace})).versions[0]


def _kept(line: Mapping[str, Any], namespace: str) -> Kept:
    conversation = conversation_from_record({**line["conversation"], "namespace": namespace})
    spans = [Span(origin, int(first), last) for origin, first, last in line["spans"]]
    first = {"turn": int(line["first"]["turn"]), "message": int(line["first"]["message"])}
    ttl_s = conversation.ttl_s
    expires = None if ttl_s is None else conversation.updated + timedelta(seconds=ttl_s)
    return Kept(conversation, spans, int(line["next_order"]), first, expires)  # type: ignore[arg-type]
