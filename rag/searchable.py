"""The searchable part of a turn or message, as text and as counted terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rag.analysis import terms
from rag.types import DialogTurn, Message

_NOT_WORDS = frozenset(
    """type id data mime_type media_type signature tool_use_id tool_call_id call_id role encoding""".split()
)
"""Keys of content blocks whose values are not prose."""


def searchable(item: DialogTurn | Message) -> str:
    """Return the text by which a turn or message is found.

    Of a turn: question, standalone question and answer. Of a message: its text; in JSON all texts except
    those of keys such as `type` and `id`; bytes only if the mime type is text.
    """
    if isinstance(item, DialogTurn):
        standalone = "" if item.standalone_question == item.question else item.standalone_question
        return "\n".join((item.question, standalone, item.answer))
    if isinstance(item.content, bytes):
        return item.content.decode("utf-8", "replace") if item.mime.startswith("text/") else ""
    return "\n".join(_texts(item.content))


def term_counts(item: DialogTurn | Message) -> dict[str, int]:
    """Return how often each term occurs in the searchable text; the item's length is the sum."""
    return Counter(terms(searchable(item)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NOT_WORDS:
                yield from _texts(item)
