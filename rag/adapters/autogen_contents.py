"""AutoGen's contents (text, bytes, JSON, images) as our messages and back; a list of them in a store."""

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
    """A content as a message under a new id. `metadata` says beside the given ones what it was."""
    said, mime = content.content, content.mime_type
    is_image, is_member = isinstance(said, Image), isinstance(mime, MemoryMimeType)
    return Message(
        b64decode(said.to_base64()) if is_image else said,
        role="memory",
        mime=mime.value if is_member else mime,
        metadata={"given": content.metadata, "is_image": is_image, "is_member": is_member},
    )


def content_of(message: Message, score: float | None = None) -> MemoryContent:
    """The content that a message was made of; `score` comes among its metadata."""
    about = message.metadata or {}
    said = message.content
    metadata = about.get("given")
    return MemoryContent(
        content=Image.from_base64(b64encode(said).decode()) if about.get("is_image") else said,
        mime_type=_MIMES[message.mime] if about.get("is_member") else message.mime,
        metadata=metadata if score is None else {**(metadata or {}), "score": score},
    )


def record_of(message: Message) -> dict[str, Any]:
    """A content as it stands in a component's config: JSON values, bytes as base64."""
    record = message_record(message)
    return {name: record[name] for name in ("role", "mime", "encoding", "content", "metadata")}


def from_record(record: Mapping[str, Any]) -> MemoryContent:
    """The content that `record_of` was given, or one in AutoGen's own form."""
    if "role" in record:
        return content_of(message_from_record({"id": "", **record}))
    return MemoryContent.model_validate(record)


class Contents(MutableSequence[MemoryContent]):
    """The contents of a memory as a list that lives in its store."""

    def __init__(self, stored: StoredConversation) -> None:
        self._stored = stored

    def __len__(self) -> int:
        return self._stored.at_present().size()

    @overload
    def __getitem__(self, index: int) -> MemoryContent: ...
    @overload
    def __getitem__(self, index: slice) -> list[MemoryContent]: ...
    def __getitem__(self, index: int | slice) -> MemoryContent | list[MemoryContent]:
        return [content_of(message) for message in self._stored.messages()][index]

    def __setitem__(self, index: Any, value: Any) -> None:
        contents = list(self)
        contents[index] = value
        self._stored.begun().set_messages([message_of(content) for content in contents])

    def __delitem__(self, index: int | slice) -> None:
        chosen = self._stored.messages()[index]
        gone = [chosen] if isinstance(chosen, Message) else chosen
        self._stored.at_present().delete([message.id for message in gone])

    def insert(self, index: int, value: MemoryContent) -> None:
        """Put a content before the one at `index`; at the end it is added."""
        if index >= len(self):
            self._stored.begun().add(message_of(value))
        else:
            self[index:index] = [value]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, tuple, Contents)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
