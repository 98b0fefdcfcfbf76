"""Turns and conversations as plain JSON values, and back.

One shape for every backend and for export: what a record cannot hold, no store can hold, so all stores
accept and give back the same. Keys that are missing take the default of the field, so records written by
an older version still load. Times are ISO 8601 in UTC with microseconds; a time without a zone is taken
as local time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from rag.types import (
    AssistantResponse,
    Citation,
    Conversation,
    DialogTurn,
    Filters,
    Source,
    Usage,
    UserQuery,
)

Record = dict[str, Any]


def turn_record(turn: DialogTurn) -> Record:
    """The turn as JSON values. `question` and `answer` are None where the turn has none.

    Raises:
        ValueError: the turn has no id, or a number that JSON does not know (NaN, infinity).
        TypeError: the metadata holds something that is not JSON: only dicts with text keys, lists, text,
            numbers, booleans and None are kept.
    """
    if not turn.id:
        raise ValueError("a turn is stored by its id, and this one has none")
    asked, answered = turn.user_query, turn.assistant_response
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
        **{name: _json(f"usage.{name}", value) for name, value in asdict(turn.usage).items()},
        "asked": _moment(turn.user_query_timestamp),
        "answered": _moment(turn.assistant_response_timestamp),
        "user_id": turn.user_id,
        "metadata": _json("metadata", turn.metadata),
        "citations": [_citation(citation) for citation in turn.citations],
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
        usage=Usage(**_known(Usage, record)),
        user_query_timestamp=_from_moment(record.get("asked")),
        assistant_response_timestamp=_from_moment(record.get("answered")),
        user_id=record.get("user_id"),
        metadata=record.get("metadata"),
        citations=tuple(Citation(**_known(Citation, item)) for item in record.get("citations", ())),
    )


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
    )


def _source(source: Source) -> Record:
    filters = {name: list(globs) for name, globs in asdict(source.filters).items()}
    return {"location": source.location, "ref": source.ref, **filters}


def _from_source(record: Mapping[str, Any]) -> Source:
    filters = Filters(tuple(record.get("include", ())), tuple(record.get("exclude", ())))
    return Source(record["location"], record.get("ref"), filters)


def _citation(citation: Citation) -> Record:
    # Lines and scores often come out of arrays, whose numbers are not Python's own.
    lines = {name: int(getattr(citation, name)) for name in ("n", "start", "end")}
    return {**asdict(citation), **lines, "score": _json("citation.score", float(citation.score))}


def _known(kind: type[Usage] | type[Citation], record: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: record[field.name] for field in fields(kind) if field.name in record}


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
