"""Read records, of a memory or of a dump, and check their values: others may have written them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rag.schema import conversation_from_record, message_from_record, to_json, turn_from_record
from rag.turns.checks import check_bounds
from rag.types import Conversation, DialogTurn, Message

MAX_ORDER = 2**31
"""Orders are below this number."""

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


def turn_of(record: Mapping[str, Any]) -> DialogTurn:
    """Return the turn of a record. Raises ValueError, TypeError and others for invalid values."""
    for citation in with_texts("turn", record).get("citations", ()):
        with_texts("citation", citation)
    turn = turn_from_record(record)
    valid_order(turn.version)
    to_json(turn.usage)
    return turn


def message_of(record: Mapping[str, Any]) -> Message:
    """Return the message of a record; raises as `turn_of`."""
    return message_from_record(with_texts("message", record))


def conversation_of(record: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a record; raises as `turn_of`."""
    for source in with_texts("conversation", record)["sources"]:
        _check_location(with_texts("source", source)["location"])
    found = conversation_from_record(record)
    check_bounds(found.ttl_s, found.keep_last)
    if found.forked_at is not None:
        valid_order(found.forked_at, least=-1)
    return found


def with_texts(kind: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record. Raises TypeError if a text field is not text."""
    for names, types in ((_TEXTS[kind], str), (_TEXTS_OR_NONE.get(kind, ()), str | None)):
        for name in names:
            if name in record and not isinstance(record[name], types):
                raise TypeError(f"{name} of a {kind} is {record[name]!r}, not text")
    return record


def valid_order(number: Any, least: int = 0) -> int:
    """Return the order. Raises ValueError for an invalid one."""
    if type(number) is not int or not least <= number < MAX_ORDER:
        raise ValueError(f"an order must be a whole number of at least {least}, not {number!r}")
    return number


def _check_location(location: str) -> None:
    """Raise ValueError for a location that can be no path."""
    if b"\0" in os.fsencode(location):
        raise ValueError(f"{location!r} is no location of a repository")
