"""What a client of the MCP server can choose from: a list of conversations, and completions of arguments.

Each caller sees the conversations of its own namespace only.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from typing import Any

from mcp.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ListResourcesRequest,
    ListResourcesResult,
    PaginatedRequestParams,
    Resource,
)

from rag.errors import RagError
from rag.serve.access.keys import Caller
from rag.serve.service import Service
from rag.types import Conversation

PAGE = 50
"""The conversations of one page of the list, and the values of a completion."""
_MAX_LISTED = 1_000
"""The latest conversations that are listed and completed."""

CallerOfRequest = Callable[[Any], Caller]


class ClientChoices:
    """Lists conversations and completes arguments.

    Args:
        service: the running service.
        caller_of: returns the caller of an HTTP request; of None, the local user.
    """

    def __init__(self, service: Service, caller_of: CallerOfRequest) -> None:
        self._service, self._caller_of = service, caller_of

    async def resources(self, request: Any, cursor: str | None) -> ListResourcesResult:
        """Return a page of the caller's conversations, the latest first; the first for an invalid cursor."""
        begin = int(cursor) if cursor and cursor.isascii() and cursor.isdecimal() and len(cursor) < 7 else 0
        found = await self._conversations(self._caller_of(request))
        listed = [
            Resource.model_validate(
                {
                    "uri": f"turns://conversations/{one.id}",
                    "name": one.name or one.id,
                    "description": f"Answers about {', '.join(source.name for source in one.sources)}",
                    "mimeType": "application/json",
                }
            )
            for one in found[begin : begin + PAGE]
        ]
        end = begin + PAGE
        following = str(end) if end < len(found) else None
        return ListResourcesResult.model_validate({"resources": listed, "nextCursor": following})

    async def complete(self, request: Any, params: CompleteRequestParams) -> CompleteResult:
        """Return the names that begin with what was typed, of an argument that has a known set of them."""
        caller, typed = self._caller_of(request), params.argument.value
        names: list[str] = []
        if params.argument.name == "repo":
            names = sorted(one.name for one in self._service.registry.visible_to(caller) if one.is_usable)
        elif params.argument.name == "conversation":
            found = await self._conversations(caller)
            names = [*(one.name for one in found if one.name), *(one.id for one in found)]
        fitting = [name for name in dict.fromkeys(names) if name.startswith(typed)]
        values = {"values": fitting[:PAGE], "total": len(fitting), "hasMore": len(fitting) > PAGE}
        return CompleteResult(completion=Completion.model_validate(values))

    async def _conversations(self, caller: Caller) -> list[Conversation]:
        """Return the latest conversations of a caller about served repositories.

        Raises:
            ValueError: the turn store failed, with its message.
        """
        engine = self._service.engine_for(caller)
        try:
            async with self._service.limiter.slot():
                found = await to_thread(engine.turns.conversations, namespace=engine.settings.namespace)
        except RagError as error:
            raise ValueError(self._service.public_message(error, "mcp")) from error
        return self._service.registry.about_served(found)[:_MAX_LISTED]


def add_choices(server: Any, choices: ClientChoices, *, is_v2: bool) -> None:
    """Answer `resources/list` and `completion/complete`.

    The SDK's own lists of resources are the same for every caller, and its completions do not know the
    request, so the handlers are those of its lower level.
    """
    if is_v2:

        async def list_page(ctx: Any, params: PaginatedRequestParams | None) -> ListResourcesResult:
            return await choices.resources(ctx.request, params.cursor if params else None)

        async def completed(ctx: Any, params: CompleteRequestParams) -> CompleteResult:
            return await choices.complete(ctx.request, params)

        handle = server._lowlevel_server.add_request_handler
        handle("resources/list", PaginatedRequestParams, list_page)
        handle("completion/complete", CompleteRequestParams, completed)
        return
    low = server._mcp_server

    @low.list_resources()  # type: ignore[untyped-decorator]
    async def list_page_v1(asked: ListResourcesRequest) -> ListResourcesResult:
        cursor = asked.params.cursor if asked.params else None
        return await choices.resources(low.request_context.request, cursor)

    @low.completion()  # type: ignore[untyped-decorator]
    async def completed_v1(ref: Any, argument: Any, context: Any) -> Completion:
        params = CompleteRequestParams(ref=ref, argument=argument, context=context)
        return (await choices.complete(low.request_context.request, params)).completion
