"""`/api/conversations/…/export`: a conversation as a file, in the form of `rag turns export`.

For remote callers the folder of a repository is replaced by its name.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, FastAPI, Response

from rag.serve.access.auth import CallerOf
from rag.serve.api.turns import CallerContext, ConversationId
from rag.serve.service import Service

Line = dict[str, Any]

_FILE = "application/x-ndjson"


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

    app.include_router(router)


def _written(lines: Iterable[Line], shown: Callable[[str], str]) -> str:
    return "".join(f"{json.dumps(_relocated(line, shown))}\n" for line in lines)


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
