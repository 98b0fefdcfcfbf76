"""`/api/conversations/…/export` and `/api/conversations/import`: conversations as files, each caller's own.

The files are those of `rag turns export` and `rag turns import`, but for two things.

    places    to callers from elsewhere a repository's folder is its name; a name that is served here
              becomes its folder again
    ids       a file may say anything, also that it goes on from a conversation whose id somebody else has.
              So a conversation that the caller does not have comes under another id, the same each time
"""

from __future__ import annotations

import json
import uuid
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from rag.parsing import parse_json
from rag.serve.access.auth import CallerOf
from rag.serve.access.json_limits import check_json
from rag.serve.api import responses
from rag.serve.api.turns import ConversationId, Desk
from rag.serve.errors import BadRequest, TooLarge
from rag.serve.service import Service

Line = dict[str, Any]

_FILE = "application/x-ndjson"
_SENT = {
    "requestBody": {
        "description": "A file that an export wrote: a JSON object a line.",
        "required": True,
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("/{conversation}/export", response_class=Response)
    async def export(caller: CallerOf, conversation: ConversationId) -> Response:
        """The conversation as JSON lines, as `rag turns export` writes and `rag turns import` reads them."""
        desk = Desk(service, caller)
        one = await desk.conversation(conversation)
        async with service.limiter.long_seat():
            lines = await desk.call(desk.store.dump, conversations=[one.id])
            text = await to_thread(_written, lines, service.place)
        name = {"Content-Disposition": f'attachment; filename="{one.id}.jsonl"'}
        return Response(text, media_type=_FILE, headers=name)

    @router.post("/import", openapi_extra=_SENT)
    async def import_(request: Request, caller: CallerOf) -> responses.Imported:
        """Read conversations from JSON lines; all of them are stored, or none."""
        desk, sent = Desk(service, caller), await request.body()
        locations = [shelf.source.location for shelf in service.library.seen_by(caller)]
        served = {service.place(location): location for location in locations}
        async with service.limiter.long_seat():
            most = service.settings.max_json_values
            return responses.Imported(conversations=await to_thread(_restored, desk, sent, served, most))

    app.include_router(router)


def _written(lines: Iterable[Line], place: Callable[[str], str]) -> str:
    return "".join(f"{json.dumps(_placed(line, place))}\n" for line in lines)


def _restored(desk: Desk, sent: bytes, served: Mapping[str, str], most: int) -> int:
    """Store what the lines say; there are at most so many, each with at most so many values.

    Raises:
        BadRequest: they say nothing that could be stored.
        TooLarge: there are too many, or one has too many values.
    """
    written: list[bytes] = []
    for line in BytesIO(sent):  # one after another: nobody waits for a million of them
        if line.strip():
            check_json(line, max_values=most)
            written.append(line)
            if len(written) > most:
                raise TooLarge(f"the file has more than {most:,} lines; send its conversations in parts")
    try:
        lines = [parse_json(line.decode()) for line in written]
        if not lines:
            raise ValueError("it is empty")
        if any("record" in line for line in lines):
            raise ValueError("it holds what is kept beside conversations, which `rag turns import` reads")
        lines = [_placed(line, lambda told: served.get(told, told)) for line in lines]
        return desk.store.restore(_own(desk, lines), namespace=desk.namespace)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise BadRequest(f"the file cannot be read: {error}; nothing was stored") from error


def _placed(line: Line, place: Callable[[str], str]) -> Line:
    """The line with the locations of its repositories in other words."""

    def placed(record: Mapping[str, Any], *lists: str) -> dict[str, Any]:
        changed = {
            name: [{**one, "location": place(one["location"])} for one in record[name]]
            for name in lists
            if name in record
        }
        return {**record, **changed}

    line = dict(line)
    if "conversation" in line:
        line["conversation"] = placed(line["conversation"], "sources")
    if "turn" in line:
        line["turn"] = placed(line["turn"], "citations")
        line["versions"] = [placed(version, "citations") for version in line.get("versions", ())]
    return line


def _own(desk: Desk, lines: list[Line]) -> list[Line]:
    """The lines with each conversation under an id that is the caller's, wherever it is named."""
    mine = {one.id for one in desk.store.conversations(namespace=desk.namespace)}
    turns = [line["turn"]["id"] for line in lines if "turn" in line]
    # A conversation may be gone whose turns a fork still shows.
    shown = desk.store.turns_by_id(turns, namespace=desk.namespace)
    mine |= {turn.conversation_id or "" for turn in shown.values()}

    def own(conversation: str) -> str:
        if conversation in mine:
            return conversation
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{desk.namespace}\0{conversation}"))

    for line in lines:
        if "conversation" in line:
            record = line["conversation"]
            parent = record.get("parent")
            record |= {"id": own(record["id"]), "parent": parent if parent is None else own(parent)}
            line["spans"] = [[own(origin), *rest] for origin, *rest in line["spans"]]
        for said in (line.get("turn"), line.get("message"), *line.get("versions", ())):
            if said is not None:
                said["conversation"] = own(said["conversation"])
    return lines
