"""The Model Context Protocol server: tools for agents and editors, over HTTP at /mcp and over stdio.

DeepWiki's four tools keep their names, arguments and texts, so that its clients work unchanged. Both versions
of the official SDK are supported, 1.x and 2.x, which differ in some names.
"""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from importlib.metadata import version
from typing import Any, TextIO

from pydantic import ValidationError

from rag.errors import RagError
from rag.schema import to_json
from rag.serve.api.rendering import sent
from rag.serve.mcp.arguments import checked, compact, invalid
from rag.serve.mcp.completion import ClientChoices, add_choices
from rag.serve.mcp.prompts import add_prompts
from rag.serve.mcp.sdk import (
    IS_V2,
    Context,
    ResourceError,
    SdkServer,
    ToolError,
    TransportSecuritySettings,
    caller_in,
    caller_of,
)
from rag.serve.mcp.tools import add_tools
from rag.serve.middleware import App
from rag.serve.service import Service
from rag.serve.telemetry import FORMATTERS

_INSTRUCTIONS = """\
Find and understand code, and know what was answered before.
- explore: start here. The places for a question, within a token budget; ask it again for more.
- read_span: read lines around a place. search_code: every line with a string; filters.
- find_symbol, who_calls: definitions and callers of one name.
- ask_question: an answer with sources; pass its conversation to ask a follow-up ("and who calls it?").
- review: what a change makes false. read_wiki_structure, read_wiki_contents: the structure of a repository.
- recall_turns, check_turns, turns_about: earlier answers, and whether they are still true.
- facts, remember, forget: what is known about a repository.
For one known file or one rare word, plain reading or grep is cheaper."""

_MAX_LOGGED_CHARS = 1_000
"""The limit for an error's text, which may repeat what the client sent."""


_TOOLS: dict[str, Any] = {}
"""The tools without their functions, by name. Their schemas, which take long to build, do not depend on the
service."""


class _StrictServer(SdkServer):  # type: ignore[misc]
    """The SDK's server, which ignores unknown arguments and shows pydantic's messages: this one does not."""

    def add_tool(self, fn: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Add a tool; its schemas are built once in a process, and have no more than clients need."""
        name = fn.__name__
        if name not in _TOOLS:
            super().add_tool(fn, *arguments, **options)
            tool = self._tool_manager.get_tool(name)
            tool.parameters = compact(tool.parameters)
            tool.description = " ".join(tool.description.split())
            _TOOLS[name] = tool.model_copy(update={"fn": None})
        self._tool_manager._tools[name] = _TOOLS[name].model_copy(update={"fn": fn})

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        """Call a tool. Raises ToolError: it failed, or its arguments are invalid, in our own words.

        The SDK puts "Error executing tool NAME: " before each message, which a model reads first.
        """
        tool = self._tool_manager.get_tool(name)
        try:
            if tool is not None:
                arguments = checked(name, arguments, tool.parameters)
            return await super().call_tool(name, arguments, *context)
        except RagError as error:
            raise ToolError(str(error)) from error
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(invalid(name, error.__cause__)) from error
            if isinstance(error.__cause__, ToolError):
                raise ToolError(str(error.__cause__)) from error
            raise


def http_endpoint(service: Service) -> tuple[App, Any]:
    """Return the endpoint for streamable HTTP, and the SDK's manager of its sessions, which is to be run."""
    # The middleware checks Host, Origin and the body, as for all routes.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if IS_V2:
        server = make_mcp(service)
        inner = server.streamable_http_app(transport_security=security)
    else:
        server = make_mcp(service, transport_security=security)
        inner = server.streamable_http_app()
    (route,) = inner.routes
    return route.app, server.session_manager


def make_mcp(service: Service, **settings: Any) -> Any:
    """Create the SDK's server with all tools and resources, for a running service."""
    if IS_V2:
        settings["version"] = version("rag-turns")
    instructions = f"{_INSTRUCTIONS}\nRepositories: {service.registry.listed_names()}."
    with _logged(service.settings.log_format):
        server = _StrictServer("rag", instructions=instructions, log_level="WARNING", **settings)
    if not IS_V2:
        server._mcp_server.version = version("rag-turns")
    add_tools(server, service, _base(service))
    _add_resources(server, service)
    add_prompts(server)
    add_choices(server, ClientChoices(service, lambda request: caller_of(request, service)), is_v2=IS_V2)
    return server


class _SdkHandler(logging.StreamHandler[TextIO]):
    """Writes the SDK's log records. It reports client errors as ValueError, which needs no traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as it is written."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ValueError):
            record = copy(record)
            record.msg = f"{record.getMessage()}: {str(error)[:_MAX_LOGGED_CHARS]}"
            record.args = record.exc_info = None
        return super().format(record)


@contextmanager
def _logged(log_format: str) -> Iterator[None]:
    """Write the SDK's log lines to stderr like ours.

    By default, the SDK renders tracebacks in a frame, which takes a second, and does so for all loggers.
    """
    root, sdk = logging.getLogger(), logging.getLogger("mcp")
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    handler = _SdkHandler()
    handler.setFormatter(FORMATTERS[log_format]())
    sdk.handlers, sdk.propagate = [handler], False
    sdk.setLevel(logging.WARNING)


def _base(service: Service) -> str:
    """Return the base URL of links: a public name, or the host to listen on, or 127.0.0.1 for a wildcard."""
    settings = service.settings
    host = next(iter(settings.public_hosts), settings.host)
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{host}:{settings.port}" if settings.port else ""


def _add_resources(server: Any, service: Service) -> None:
    @server.resource("turns://conversations/{conversation}", mime_type="application/json")
    async def turns_of_a_conversation(conversation: str, ctx: Context) -> str:
        """Return the turns of a conversation as JSON, oldest first, with the sources of each answer."""
        engine = service.engine_for(caller_in(ctx, service))
        try:
            async with service.limiter.slot():
                found = await to_thread(engine.find_conversation, conversation)
                turns = await to_thread(engine.turns.turns, found.id, namespace=engine.settings.namespace)
        except RagError as error:
            raise ResourceError(service.public_message(error, "mcp")) from error
        return json.dumps([sent(service, to_json(turn)) for turn in turns], ensure_ascii=False)
