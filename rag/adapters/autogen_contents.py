"""Converts AutoGen's contents (text, bytes, JSON, images) to messages and back; a stored list of them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, MutableSequence
from typing import Any, overload

from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType

from rag.adapters.conversation import StoredConversation
from rag.schema import message_from_record, message_record
from rag.types import Message

_MIMES = {mime.value: mime for mime in MemoryMimeType}


def message_of(content: MemoryContent) -> Message:
    """Convert a content to a message with a new id. `metadata` includes its original type."""
    value, mime = content.content, content.mime_type
    is_image, is_member = isinstance(value, Image), isinstance(mime, MemoryMimeType)
    return Message(
        b64decode(value.to_base64()) if is_image else value,
        role="memory",
        mime=mime.value if is_member else mime,
        metadata={"given": content.metadata, "is_image": is_image, "is_member": is_member},
    )


def content_of(message: Message, score: float | None = None) -> MemoryContent:
    """Convert a message back to its content; `score` is added to the metadata."""
    about = message.metadata or {}
    value = message.content
    metadata = about.get("given")
    return MemoryContent(
        content=Image.from_base64(b64encode(value).decode()) if about.get("is_image") else value,
        mime_type=_MIMES[message.mime] if about.get("is_member") else message.mime,
        metadata=metadata if score is None else {**(metadata or {}), "score": score},
    )


def record_of(message: Message) -> dict[str, Any]:
    """Return the form of a content in a component's config: JSON values, with bytes as base64."""
    record = message_record(message)
    return {name: record[name] for name in ("role", "mime", "encoding", "content", "metadata")}


def from_record(record: Mapping[str, Any]) -> MemoryContent:
    """Return the content of a `record_of`, or of AutoGen's own format."""
    if "role" in record:
        return content_of(message_from_record({"id": "", **record}))
    return MemoryContent.model_validate(record)


class Contents(MutableSequence[MemoryContent]):
    """The contents of a memory as a list in its store."""

    def __init__(self, stored: StoredConversation) -> None:
        self._stored = stored

    def __len__(self) -> int:
        return self._stored.current().size()

    @overload
    def __getitem__(self, index: int) -> MemoryContent: ...
    @overload
    def __getitem__(self, index: slice) -> list[MemoryContent]: ...
    def __getitem__(self, index: int | slice) -> MemoryContent | list[MemoryContent]:
        return [content_of(message) for message in self._stored.messages()][index]

    def __setitem__(self, index: Any, value: Any) -> None:
        contents = list(self)
        contents[index] = value
        self._stored.get_or_create().set_messages([message_of(content) for content in contents])

    def __delitem__(self, index: int | slice) -> None:
        chosen = self._stored.messages()[index]
        gone = [chosen] if isinstance(chosen, Message) else chosen
        self._stored.current().delete([message.id for message in gone])

    def insert(self, index: int, value: MemoryContent) -> None:
        """Insert a content before the one at `index`, or append it."""
        if index >= len(self):
            self._stored.get_or_create().add(message_of(value))
        else:
            self[index:index] = [value]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, tuple, Contents)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
