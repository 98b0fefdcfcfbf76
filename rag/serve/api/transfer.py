"""`/api/conversations/…/export` and `/api/conversations/import`: a caller's conversations as files.

The files are those of `rag turns export` and `rag turns import`, with two differences:

    locations  for remote callers a repository's folder is replaced by its name, and the name of a served
               repository by its folder
    ids        a file may contain any id, even that of another caller's conversation. So a conversation that
               the caller does not have gets another id, which is the same for each import
"""

from __future__ import annotations

import json
import uuid
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from rag.decoding import decoded_lines
from rag.parsing import parse_json
from rag.serve.access.auth import CallerOf
from rag.serve.access.json_limits import check_json
from rag.serve.api import responses
from rag.serve.api.turns import CallerContext, ConversationId
from rag.serve.errors import BadRequest, TooLarge
from rag.serve.service import Service

Line = dict[str, Any]

_FILE = "application/x-ndjson"
_REQUEST_BODY = {
    "requestBody": {
        "description": "A file that an export has written: one JSON object per line.",
        "required": True,
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    router = APIRouter(prefix="/api/conversations", tags=["conversations"])

    @router.get("/{conversation}/export", response_class=Response)
    async def export(caller: CallerOf, conversation: ConversationId) -> Response:
        """Return the conversation as JSON lines, in the format of `rag turns export`."""
        ctx = CallerContext(service, caller)
        one = await ctx.conversation(conversation)
        async with service.limiter.long_slot():
            lines = await ctx.call(ctx.store.dump, conversations=[one.id])
            text = await to_thread(_written, lines, service.shown_location)
        name = {"Content-Disposition": f'attachment; filename="{one.id}.jsonl"'}
        return Response(text, media_type=_FILE, headers=name)

    @router.post("/import", openapi_extra=_REQUEST_BODY)
    async def import_(request: Request, caller: CallerOf) -> responses.Imported:
        """Store conversations from JSON lines: all of them, or none."""
        ctx, sent = CallerContext(service, caller), await request.body()
        locations = [entry.source.location for entry in service.registry.visible_to(caller)]
        served = {service.shown_location(location): location for location in locations}
        async with service.limiter.long_slot():
            limit = service.settings.max_json_values
            return responses.Imported(conversations=await to_thread(_restored, ctx, sent, served, limit))

    app.include_router(router)


def _written(lines: Iterable[Line], shown: Callable[[str], str]) -> str:
    return "".join(f"{json.dumps(_relocated(line, shown))}\n" for line in lines)


def _restored(ctx: CallerContext, sent: bytes, served: Mapping[str, str], limit: int) -> int:
    """Store the conversations of the lines; `limit` applies to the lines, and to the values in each.

    Raises:
        BadRequest: the lines cannot be stored.
        TooLarge: there are too many lines, or one has too many values.
    """
    try:
        written: list[str] = []
        # Not split at once, so that too many lines are refused early.
        for line in decoded_lines(BytesIO(sent)):
            if line.strip():
                check_json(line.encode("utf-8", "surrogatepass"), max_values=limit)
                written.append(line)
                if len(written) > limit:
                    raise TooLarge(f"the file has more than {limit:,} lines; send its conversations in parts")
        lines = [parse_json(line) for line in written]
        if not lines:
            raise ValueError("it is empty")
        if any("record" in line for line in lines):
            raise ValueError("it has records other than conversations, which only `rag turns import` reads")
        lines = [_relocated(line, lambda location: served.get(location, location)) for line in lines]
        return ctx.store.restore(_own(ctx, lines), namespace=ctx.namespace)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise BadRequest(f"the file is invalid: {error}; nothing was stored") from error


def _relocated(line: Line, relocate: Callable[[str], str]) -> Line:
    """Return a line with the locations of its repositories replaced."""

    def relocated(record: Mapping[str, Any], *lists: str) -> dict[str, Any]:
        changed = {
            name: [{**one, "location": relocate(one["location"])} for one in record[name]]
            for name in lists
            if name in record
        }
        return {**record, **changed}

    line = dict(line)
    if "conversation" in line:
        line["conversation"] = relocated(line["conversation"], "sources")
    if "turn" in line:
        line["turn"] = relocated(line["turn"], "citations")
        line["versions"] = [relocated(version, "citations") for version in line.get("versions", ())]
    return line


def _own(ctx: CallerContext, lines: list[Line]) -> list[Line]:
    """Return the lines with ids of conversations that belong to the caller."""
    mine = {one.id for one in ctx.store.conversations(namespace=ctx.namespace)}
    turns = [line["turn"]["id"] for line in lines if "turn" in line]
    # A deleted conversation's turns may still be visible in a fork.
    shown = ctx.store.turns_by_id(turns, namespace=ctx.namespace)
    mine |= {turn.conversation_id or "" for turn in shown.values()}

    def own(conversation: str) -> str:
        if conversation in mine:
            return conversation
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{ctx.namespace}\0{conversation}"))

    for line in lines:
        if "conversation" in line:
            record = line["conversation"]
            parent = record.get("parent")
            record |= {"id": own(record["id"]), "parent": parent if parent is None else own(parent)}
            line["spans"] = [[own(origin), *rest] for origin, *rest in line["spans"]]
        for item in (line.get("turn"), line.get("message"), *line.get("versions", ())):
            if item is not None:
                item["conversation"] = own(item["conversation"])
    return lines
