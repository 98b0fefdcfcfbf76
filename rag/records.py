"""Turns, messages and conversations as plain JSON values, and back; and what of them is searched.

One shape for every backend and for export: what a record cannot hold, no store can hold, so all stores
accept and give back the same. Keys that are missing take the default of the field, so records written by
an older version still load. Times are ISO 8601 in UTC with microseconds; a time without a zone is taken
as local time. Marks are ascending, each once.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Any

from rag.analysis import terms
from rag.types import (
    AssistantResponse,
    Citation,
    Conversation,
    DialogTurn,
    Filters,
    Message,
    Source,
    Usage,
    UserQuery,
)

Record = dict[str, Any]

_NOT_WORDS = frozenset(
    """type id data mime_type media_type signature tool_use_id tool_call_id call_id role encoding""".split()
)
"""Keys of content blocks whose values are no text that anybody said."""


def turn_record(turn: DialogTurn) -> Record:
    """The turn as JSON values. `question` and `answer` are None where the turn has none.

    Raises:
        ValueError: the turn has no id, or a number that JSON does not know (NaN, infinity).
        TypeError: id, question or answer are no text, or the metadata holds something that is not JSON: only
            dicts with text keys, lists, text, numbers, booleans and None are kept.
    """
    if not turn.id:
        raise ValueError("a turn is stored by its id, and this one has none")
    asked, answered = turn.user_query, turn.assistant_response
    _texts_only(id=turn.id, question=turn.question, answer=turn.answer, standalone=turn.standalone_question)
    return {
        "id": turn.id,
        "namespace": turn.namespace,
        "conversation": turn.conversation_id,
        "order": turn.order,
        "parent": turn.parent_id,
        "question": None if asked is None else asked.query_str,
        "question_metadata": _json("user_query.metadata", asked and asked.metadata),
        "standalone_question": turn.standalone_question,
        "answer": None if answered is None else answered.response_str,
        "answer_metadata": _json("assistant_response.metadata", answered and answered.metadata),
        "complete": turn.complete,
        "model": turn.model,
        "prompt_hash": turn.prompt_hash,
        "prompt_tokens": turn.usage.prompt_tokens,
        "answer_tokens": turn.usage.answer_tokens,
        "estimated": turn.usage.estimated,
        "cost_usd": _json("usage.cost_usd", turn.usage.cost_usd),
        "asked": _moment(turn.user_query_timestamp),
        "answered": _moment(turn.assistant_response_timestamp),
        "user_id": turn.user_id,
        "metadata": _json("metadata", turn.metadata),
        "citations": [_citation(citation) for citation in turn.citations],
        "marks": marks_in(turn.marks),
        "version": turn.version,
    }


def turn_from_record(record: Mapping[str, Any]) -> DialogTurn:
    """The turn that `turn_record` was given. Raises KeyError when the record has no id."""
    question, answer = record.get("question"), record.get("answer")
    return DialogTurn(
        id=record["id"],
        namespace=record.get("namespace", ""),
        conversation_id=record.get("conversation"),
        order=record.get("order"),
        parent_id=record.get("parent"),
        user_query=None if question is None else UserQuery(question, record.get("question_metadata")),
        assistant_response=(
            None if answer is None else AssistantResponse(answer, record.get("answer_metadata"))
        ),
        standalone_question=record.get("standalone_question", ""),
        complete=bool(record.get("complete", True)),
        model=record.get("model", ""),
        prompt_hash=record.get("prompt_hash", ""),
        usage=_usage_from(record),
        user_query_timestamp=_from_moment(record.get("asked")),
        assistant_response_timestamp=_from_moment(record.get("answered")),
        user_id=record.get("user_id"),
        metadata=record.get("metadata"),
        citations=tuple(map(_citation_from, record.get("citations", ()))),
        marks=tuple(record.get("marks", ())),
        version=record.get("version", 1),
    )


def message_record(message: Message) -> Record:
    """The message as JSON values. Bytes are base64 in `content`, with `encoding` "base64" beside it.

    Raises:
        ValueError: the message has no id, or a number that JSON does not know (NaN, infinity).
        TypeError: id, role, name or mime are no text, or content or metadata hold something that is neither
            bytes nor JSON.
    """
    if not message.id:
        raise ValueError("a message is stored by its id, and this one has none")
    _texts_only(id=message.id, role=message.role, name=message.name, mime=message.mime)
    content, binary = message.content, isinstance(message.content, (bytes, bytearray, memoryview))
    return {
        "id": message.id,
        "namespace": message.namespace,
        "conversation": message.conversation_id,
        "order": message.order,
        "turn": message.turn_id,
        "role": message.role,
        "name": message.name,
        "mime": message.mime,
        "encoding": "base64" if binary else "json",
        "content": b64encode(content).decode("ascii") if binary else _json("content", content),
        "metadata": _json("metadata", message.metadata),
        "created": _moment(message.created),
        "marks": marks_in(message.marks),
    }


def message_from_record(record: Mapping[str, Any]) -> Message:
    """The message that `message_record` was given. Raises KeyError when the record has no id or content."""
    content = record["content"]
    return Message(
        content=b64decode(content) if record.get("encoding") == "base64" else content,
        id=record["id"],
        namespace=record.get("namespace", ""),
        conversation_id=record.get("conversation"),
        order=record.get("order"),
        turn_id=record.get("turn"),
        role=record.get("role", "user"),
        name=record.get("name", ""),
        mime=record.get("mime", "text/plain"),
        metadata=record.get("metadata"),
        marks=tuple(record.get("marks", ())),
        **({"created": datetime.fromisoformat(record["created"])} if record.get("created") else {}),
    )


def marks_in(marks: Any) -> list[str]:
    """Marks as they are stored: ascending, each once.

    Raises:
        TypeError: text instead of a sequence of texts, which would fall apart into its letters.
    """
    if isinstance(marks, str) or not all(isinstance(mark, str) for mark in marks):
        raise TypeError(f"marks are a sequence of texts, for example ('HINT',), not {marks!r}")
    return sorted(set(marks))


def searchable(item: DialogTurn | Message) -> str:
    """The text by which a turn or message is found.

    Of a turn: question, standalone question and answer. Of a message: its text; in JSON all texts but
    those of keys such as `type` and `id`; bytes only where the mime type says text.
    """
    if isinstance(item, DialogTurn):
        standalone = "" if item.standalone_question == item.question else item.standalone_question
        return "\n".join((item.question, standalone, item.answer))
    if isinstance(item.content, bytes):
        return item.content.decode("utf-8", "replace") if item.mime.startswith("text/") else ""
    return "\n".join(_texts(item.content))


def term_counts(item: DialogTurn | Message) -> dict[str, int]:
    """How often each term stands in what is searched; the item's length is the sum."""
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


def conversation_record(conversation: Conversation) -> Record:
    """The conversation as JSON values; its turns are records of their own."""
    return {
        "id": conversation.id,
        "namespace": conversation.namespace,
        "name": conversation.name,
        "sources": [_source(source) for source in conversation.sources],
        "created": _moment(conversation.created),
        "updated": _moment(conversation.updated),
        "turn_count": conversation.turn_count,
        "message_count": conversation.message_count,
        "ttl_s": conversation.ttl_s,
        "keep_last": conversation.keep_last,
        "parent": conversation.parent,
        "forked_at": conversation.forked_at,
    }


def conversation_from_record(record: Mapping[str, Any]) -> Conversation:
    """The conversation that `conversation_record` was given."""
    return Conversation(
        id=record["id"],
        namespace=record["namespace"],
        name=record["name"],
        sources=tuple(map(_from_source, record["sources"])),
        created=datetime.fromisoformat(record["created"]),
        updated=datetime.fromisoformat(record["updated"]),
        turn_count=record["turn_count"],
        message_count=record.get("message_count", 0),
        ttl_s=record.get("ttl_s"),
        keep_last=record.get("keep_last"),
        parent=record.get("parent"),
        forked_at=record.get("forked_at"),
    )


def _source(source: Source) -> Record:
    filters = {name: list(globs) for name, globs in asdict(source.filters).items()}
    return {"location": source.location, "ref": source.ref, **filters}


def _from_source(record: Mapping[str, Any]) -> Source:
    filters = Filters(tuple(record.get("include", ())), tuple(record.get("exclude", ())))
    return Source(record["location"], record.get("ref"), filters)


_CITED = tuple(field.name for field in fields(Citation))
_USED = tuple(field.name for field in fields(Usage))
# Dozens of citations are read for each question: their fields are taken all at once.
_all_of = attrgetter(*_CITED)
_all_cited = itemgetter(*_CITED)
_all_used = itemgetter(*_USED)


def _citation(citation: Citation) -> Record:
    # Lines and scores often come out of arrays, whose numbers are not Python's own.
    record: Record = dict(zip(_CITED, _all_of(citation), strict=True))
    for name in ("n", "start", "end"):
        record[name] = int(record[name])
    record["score"] = _json("citation.score", float(citation.score))
    return record


def _citation_from(record: Mapping[str, Any]) -> Citation:
    try:
        return Citation(*_all_cited(record))
    except KeyError:  # an older version knew fewer fields
        return Citation(**_known(_CITED, record))


def _usage_from(record: Mapping[str, Any]) -> Usage:
    try:
        return Usage(*_all_used(record))
    except KeyError:
        return Usage(**_known(_USED, record))


def _known(names: tuple[str, ...], record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}


def _texts_only(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, which is no text")


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def _from_moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _json(place: str, value: Any) -> Any:
    """A copy of a JSON value; what JSON would bend (tuples, keys that are numbers) is refused."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{place} has the key {key!r}; JSON keys are text")
        return {key: _json(f"{place}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(f"{place}[{n}]", item) for n, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, which JSON does not know")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(
        f"{place} is a {type(value).__name__}, which is not JSON; give text, numbers, lists or dicts"
    )
