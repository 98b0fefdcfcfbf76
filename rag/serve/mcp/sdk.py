"""What the server and its tools take from the Model Context Protocol's SDK, in versions 1.x and 2.x."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rag.errors import BackendMissing, RagError
from rag.request_context import CURRENT
from rag.serve.access.keys import Caller
from rag.serve.mcp.toolbox import Progress, ToolReply
from rag.serve.service import Service

try:  # 2.x
    from mcp.server import MCPServer as SdkServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError

    IS_V2 = True
except ImportError:
    try:
        from mcp.server.fastmcp import Context
        from mcp.server.fastmcp import FastMCP as SdkServer
        from mcp.server.fastmcp.exceptions import ResourceError, ToolError

        IS_V2 = False
    except ImportError as error:
        raise BackendMissing(backend="MCP", missing=str(error.name), extra="mcp") from error

from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations

__all__ = [
    "IS_V2",
    "CallToolResult",
    "Context",
    "ResourceError",
    "SdkServer",
    "ToolAnnotations",
    "ToolError",
    "TransportSecuritySettings",
    "caller_in",
    "caller_of",
    "progress_of",
    "result_of",
    "session_of",
]


async def result_of(service: Service, work: Awaitable[ToolReply]) -> CallToolResult:
    """Return a tool's reply in the SDK's format: the text, and the values as structured content.

    Raises:
        ToolError: the tool failed; with its message.
    """
    try:
        reply = await work
    except RagError as error:
        raise ToolError(service.public_message(error, "mcp")) from error
    except ValueError as error:
        raise ToolError(str(error)) from error
    return CallToolResult.model_validate(
        {
            "content": [TextContent(type="text", text=reply.result)],
            "structuredContent": reply.model_dump(),
        }
    )


def caller_in(ctx: Any, service: Service) -> Caller:
    """Return the caller: over HTTP as set by the middleware, over stdio, without keys, the local user.

    The HTTP request becomes the current one.
    """
    return caller_of(getattr(ctx.request_context, "request", None), service)


def caller_of(request: Any, service: Service) -> Caller:
    """Return the caller of an HTTP request, which becomes the current one; of None the local user."""
    if request is None:
        return service.keyring.anonymous
    # The SDK runs all calls of a session in the context of the request that began it.
    CURRENT.set(request.state.request_context)
    caller: Caller = request.state.caller
    return caller


def session_of(ctx: Any) -> str:
    """Return the id of the MCP session: of stdio, which has only one, "stdio"; "" if there is none."""
    request = getattr(ctx.request_context, "request", None)
    return "stdio" if request is None else str(request.headers.get("mcp-session-id", ""))


def progress_of(ctx: Any) -> Progress:
    """Return the function that reports the progress of a call to its client."""
    report: Callable[[float, float | None, str], Awaitable[None]] = ctx.report_progress
    return report
