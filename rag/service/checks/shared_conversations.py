"""The form of a conversation that a team shares: its turns and messages, without the place of the repository.

What others have pushed is untrusted: only the lines of one conversation about this repository are read, so a
file cannot write into anything else that is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

from rag.corpus.secrets import find_secret
from rag.corpus.shared_files import MAX_FILE_BYTES
from rag.errors import ConfigError, ConversationMismatch, StoreTooNew
from rag.parsing import parse_json
from rag.quoting import visible
from rag.service.repositories.engine import Engine
from rag.types import Conversation, Source

_ID = re.compile(r"[\w-][\w.@+-]{0,199}")
_MAX_NAME_CHARS = 200
_PERSONAL = {"namespace", "user_id"}
_OF_ITEMS = {"turn", "message", "versions"}


def shared_conversation(engine: Engine, conversation: Conversation, source: Source) -> tuple[str, bytes]:
    """Return the name and the content of the file of a conversation.

    Raises:
        ConfigError: it must not be shared: it is about other repositories, too large, or holds a secret.
    """
    shown = visible(conversation.name or conversation.id)
    if any(one.location != source.location for one in conversation.sources) or not _ID.fullmatch(
        conversation.id
    ):
        raise ConfigError(f"the conversation {shown} is not only about {source.location}; it was not shared")
    dumped = engine.turns.dump(namespace=conversation.namespace, conversations=[conversation.id])
    lines = [
        _moved(line, {source.location: ""}, {source.name: ""}) for line in dumped if "record" not in line
    ]
    if not _is_one(lines, conversation.id):
        raise ConfigError(f"the conversation {shown} continues another one; it was not shared")
    text = "".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines)
    if found := find_secret(text):
        raise ConfigError(
            f"the conversation {shown} holds what is likely a secret ({found}); it was not shared"
        )
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"the conversation {shown} has over {MAX_FILE_BYTES >> 20} MB; it was not shared")
    return f"{conversation.id}.jsonl", text.encode()


def take_conversation(engine: Engine, source: Source, name: str, content: bytes) -> bool:
    """Store a shared conversation that is not stored yet; return False if the file is invalid.

    If another one has its name, it gets the next free number: `login 2`.
    """
    try:
        lines = [parse_json(line) for line in content.decode("utf-8").splitlines()]
        if not _is_one(lines, name.removesuffix(".jsonl")):
            return False
        moved = [_moved(line, {"": source.location}, {"": source.name}) for line in lines]
        moved[0]["conversation"]["name"] = _free_name(engine, moved[0]["conversation"]["name"])
        return engine.turns.restore(moved, namespace=engine.settings.namespace) > 0
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        ConversationMismatch,
        StoreTooNew,
    ):
        return False


def _free_name(engine: Engine, name: str) -> str:
    """Return a name for a conversation that was taken, and notify the user if it is another one."""
    if not name or len(name) > _MAX_NAME_CHARS:
        return ""
    used = {one.name for one in engine.turns.conversations(namespace=engine.settings.namespace)}
    names = chain([name], (f"{name} {number}" for number in count(2)))
    free = next(one for one in names if one not in used)
    if free != name:
        engine.notice(
            f"another conversation is called {visible(name)}: the one of others is {visible(free)} here"
        )
    return free


def _is_one(lines: Sequence[Mapping[str, Any]], own: str) -> bool:
    """Whether lines are a conversation with this id, and what belongs to it alone, about this repository."""
    first, *rest = lines
    kept = first["conversation"]
    items = [line.get("turn") or line["message"] for line in rest if line.keys() <= _OF_ITEMS]
    versions = [one for line in rest for one in line.get("versions", ())]
    return (
        len(items) == len(rest)
        and _ID.fullmatch(own) is not None
        and kept["id"] == own
        and not kept["parent"]
        and all(span[0] == own for span in first["spans"])
        and all(one["conversation"] == own for one in (*items, *versions))
        and {place for line in lines for place in _locations(line)} <= {""}
    )


def _locations(value: Any) -> list[Any]:
    """Return every location that a parsed line names."""
    if isinstance(value, dict):
        return [
            place
            for name, one in value.items()
            for place in ([one] if name == "location" else _locations(one))
        ]
    return [place for one in value for place in _locations(one)] if isinstance(value, list) else []


def _moved(value: Any, locations: Mapping[str, str], names: Mapping[str, str]) -> Any:
    """Return a parsed line with other locations and names of repositories."""
    if isinstance(value, list):
        return [_moved(one, locations, names) for one in value]
    if not isinstance(value, dict):
        return value
    new = {"location": locations, "repository": names}
    return {
        name: new[name].get(one, one)
        if name in new and isinstance(one, str)
        else ""
        if name in _PERSONAL
        else _moved(one, locations, names)
        for name, one in value.items()
    }
