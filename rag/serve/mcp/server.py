"""The Model Context Protocol server: tools for agents and editors, over HTTP at /mcp and over stdio.

DeepWiki's four tools keep their names, arguments and texts, so that its clients work unchanged. Both versions
of the official SDK are supported, 1.x and 2.x, which differ in some names.
"""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from importlib.metadata import version
from typing import Annotated, Any, TextIO

from pydantic import Field, ValidationError

from rag.errors import BackendMissing, RagError
from rag.memory.facts import FactState
from rag.request_context import CURRENT
from rag.schema import to_json
from rag.serve.access.keys import Caller
from rag.serve.api.pagination import MAX_LIMIT
from rag.serve.api.rendering import sent
from rag.serve.mcp.arguments import checked, compact, invalid
from rag.serve.mcp.completion import ClientChoices, add_choices
from rag.serve.mcp.memory_tools import FactsFound, MemoryTools, OneFact, TurnsChecked
from rag.serve.mcp.prompts import add_prompts
from rag.serve.mcp.tools import (
    AskResult,
    CodeFound,
    Explored,
    Places,
    Progress,
    ReviewResult,
    Toolbox,
    ToolReply,
    WikiContents,
)
from rag.serve.middleware import App
from rag.serve.service import Service
from rag.serve.telemetry import FORMATTERS
from rag.service.explore import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS
from rag.service.review import MAX_RANGE_CHARS
from rag.service.search import SearchQuery
from rag.settings import MAX_STEPS, FactScope
from rag.types import Kind, SearchFilter, SearchMode

try:  # 2.x
    from mcp.server import MCPServer as _Server
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ResourceError, ToolError

    _IS_V2 = True
except ImportError:
    try:
        from mcp.server.fastmcp import Context
        from mcp.server.fastmcp import FastMCP as _Server
        from mcp.server.fastmcp.exceptions import ResourceError, ToolError

        _IS_V2 = False
    except ImportError as error:
        raise BackendMissing(backend="MCP", missing=str(error.name), extra="mcp") from error

from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations

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

OnlyRepo = str | None
"""The name of a repository; may be omitted if only one is served."""
RepoNames = Annotated[str | list[str] | None, Field(description="One or several; @all: those it is about.")]
Ref = Annotated[str | None, Field(description="Branch, tag or commit.")]
Conversation = Annotated[str | None, Field(description="That of an earlier answer.")]
About = Annotated[str | None, Field(max_length=500, description='What "it" means: a definition or file.')]
Steps = Annotated[int | None, Field(ge=0, le=MAX_STEPS, description="How often the model may look again.")]
Limit = Annotated[int, Field(ge=1, le=50)]
Line = Annotated[int, Field(ge=1)]
LastLine = Annotated[int | None, Field(ge=1)]
FactsOf = Annotated[FactScope | None, Field(description="Whose facts.")]

_MAX_LOGGED_CHARS = 1_000
"""The limit for an error's text, which may repeat what the client sent."""

_READS = ToolAnnotations.model_validate({"readOnlyHint": True, "openWorldHint": False})
_ASKS = ToolAnnotations.model_validate(
    {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
)

_WRITES = _ASKS
_DELETES = ToolAnnotations.model_validate(
    {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
)


_TOOLS: dict[str, Any] = {}
"""The tools without their functions, by name. Their schemas, which take long to build, do not depend on the
service."""


class _StrictServer(_Server):  # type: ignore[misc]
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
        """Call a tool. Raises ToolError: unknown or invalid arguments, in our own words."""
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
            raise


def http_endpoint(service: Service) -> tuple[App, Any]:
    """Return the endpoint for streamable HTTP, and the SDK's manager of its sessions, which is to be run."""
    # The middleware checks Host, Origin and the body, as for all routes.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if _IS_V2:
        server = make_mcp(service)
        inner = server.streamable_http_app(transport_security=security)
    else:
        server = make_mcp(service, transport_security=security)
        inner = server.streamable_http_app()
    (route,) = inner.routes
    return route.app, server.session_manager


def make_mcp(service: Service, **settings: Any) -> Any:
    """Create the SDK's server with all tools and resources, for a running service."""
    if _IS_V2:
        settings["version"] = version("rag-turns")
    instructions = f"{_INSTRUCTIONS}\nRepositories: {service.registry.listed_names()}."
    with _logged(service.settings.log_format):
        server = _StrictServer("rag", instructions=instructions, log_level="WARNING", **settings)
    if not _IS_V2:
        server._mcp_server.version = version("rag-turns")
    toolbox = Toolbox(service, base=_base(service))
    for add in (_add_explore, _add_wiki, _add_questions, _add_code, _add_review):
        add(server, service, toolbox)
    memory = MemoryTools(service, base=_base(service))
    _add_facts(server, service, memory)
    _add_checks(server, service, memory)
    _add_resources(server, service)
    add_prompts(server)
    add_choices(server, ClientChoices(service, lambda request: _caller_of(request, service)), is_v2=_IS_V2)
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


def _add_wiki(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_READS)
    async def list_available_repos(
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = MAX_LIMIT,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Annotated[CallToolResult, ToolReply]:
        """List the available repositories, to pass one as `repoName`."""
        return await _result(service, tools.list_available_repos(_caller(ctx, service), limit, offset))

    @server.tool(annotations=_READS)
    async def read_wiki_structure(
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, ToolReply]:
        """Get a list of documentation topics for a repository. Use it for an overview."""
        caller = _caller(ctx, service)
        return await _result(service, tools.read_wiki_structure(caller, repoName, ref, _progress(ctx)))

    @server.tool(annotations=_READS)
    async def read_wiki_contents(
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
        page: Annotated[int | None, Field(ge=1, description="The first page.")] = None,
        maxChars: Annotated[  # noqa: N803
            int | None,
            Field(ge=1, description="Default: 20,000."),
        ] = None,
    ) -> Annotated[CallToolResult, WikiContents]:
        """View documentation about a repository, from a page on; the reply names the next page. Use it for
        whole topics."""
        caller = _caller(ctx, service)
        return await _result(
            service, tools.read_wiki_contents(caller, repoName, ref, page, maxChars, _progress(ctx))
        )


def _add_questions(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_ASKS)
    async def ask_question(
        question: str,
        ctx: Context,
        repoName: RepoNames = None,  # noqa: N803
        conversation: Conversation = None,
        ref: Ref = None,
        about: About = None,
        steps: Steps = None,
    ) -> Annotated[CallToolResult, AskResult]:
        """Ask any question about a repository; the answer in prose cites its lines. Use it for how and why;
        `explore` is faster. Pass the `conversation` of an answer to ask a follow-up."""
        caller = _caller(ctx, service)
        return await _result(
            service,
            tools.ask_question(caller, repoName, question, conversation, ref, about, steps, _progress(ctx)),
        )

    @server.tool(annotations=_READS)
    async def recall_turns(
        ctx: Context,
        query: Annotated[str, Field(description="Words to find.")] = "",
        conversation: Conversation = None,
        limit: Limit = 5,
        turn: Annotated[
            str | None,
            Field(max_length=200, description="Instead: the id of a turn, to read it whole."),
        ] = None,
    ) -> Annotated[CallToolResult, ToolReply]:
        """Search earlier questions and the beginnings of their answers. Use it before asking again."""
        caller = _caller(ctx, service)
        return await _result(service, tools.recall_turns(caller, query, conversation, limit, turn))


def _add_explore(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_READS)
    async def explore(
        question: Annotated[str, Field(description="Also of several parts; an identifier; a pasted error.")],
        ctx: Context,
        budget: Annotated[
            int, Field(ge=MIN_TOKENS, le=MAX_TOKENS, description="Tokens of the reply.")
        ] = DEFAULT_TOKENS,
        seen: Annotated[
            list[str] | None,
            Field(max_length=2000, description="Places you have (`path:12-40`)."),
        ] = None,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Explored]:
        """Find all places in the code for a question: files, each with its lines that matter, numbered.

        Use it first, and for: where something is done, who calls something, all members of a list, settings,
        the source of an error. It combines exact search, code graph and ranked search. Lines are not sent
        twice: the same question again returns the next places. For one known file read it; for one rare
        word grep is cheaper.
        """
        caller = _caller(ctx, service)
        work = tools.explore(
            caller, _session(ctx), repoName, question, budget, seen or (), ref, _progress(ctx)
        )
        return await _result(service, work)


def _add_code(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_READS)
    async def search_code(
        query: str,
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        limit: Limit = 10,
        ref: Ref = None,
        mode: SearchMode = "question",
        ignore_case: bool = False,
        path: Annotated[str | None, Field(description="Glob.")] = None,
        language: str | None = None,
        kind: Kind | None = None,
    ) -> Annotated[CallToolResult, CodeFound]:
        """Find whole functions, classes and sections for a question, or every line with a string (`exact`) or
        RE2 expression (`regex`). Use it for all matches, or in some files; else `explore` is shorter."""
        caller = _caller(ctx, service)
        only = SearchFilter(
            paths=(path,) if path else (),
            languages=(language,) if language else (),
            kinds=(kind,) if kind else (),
        )
        asked = SearchQuery(query, mode, ignore_case, limit, only)
        return await _result(service, tools.search_code(caller, repoName, asked, ref, _progress(ctx)))

    @server.tool(annotations=_READS)
    async def read_span(
        path: Annotated[str, Field(description="Or `path:start-end`.")],
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        start_line: Line = 1,
        end_line: LastLine = None,
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Places]:
        """Read numbered lines of a file, at most 2,000. Use it around a place found, not for whole files."""
        caller = _caller(ctx, service)
        return await _result(
            service, tools.read_span(caller, repoName, path, start_line, end_line, ref, _progress(ctx))
        )

    @server.tool(annotations=_READS)
    async def find_symbol(
        name: Annotated[str, Field(description="`name` or `Outer.name`.")],
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Places]:
        """Find where a function, class or method is defined. Use it for a known name."""
        caller = _caller(ctx, service)
        return await _result(service, tools.find_symbol(caller, repoName, name, ref, _progress(ctx)))

    @server.tool(annotations=_READS)
    async def who_calls(
        symbol: str,
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Places]:
        """Find the callers of a symbol by its name, else what mentions it. Use it before you change one."""
        caller = _caller(ctx, service)
        return await _result(service, tools.who_calls(caller, repoName, symbol, ref, _progress(ctx)))


def _add_facts(server: Any, service: Service, tools: MemoryTools) -> None:
    @server.tool(annotations=_WRITES)
    async def remember(
        ctx: Context,
        text: Annotated[str | None, Field(min_length=1, max_length=2000, description="A sentence.")] = None,
        repoName: OnlyRepo = None,  # noqa: N803
        turn: Annotated[
            str | None,
            Field(max_length=200, description="The turn that states it, with its lines."),
        ] = None,
        fact: Annotated[
            str | None, Field(max_length=200, description="Instead: a proposed fact to confirm.")
        ] = None,
        supersedes: Annotated[
            list[str] | None, Field(max_length=20, description="Ids of facts it replaces.")
        ] = None,
        scope: FactsOf = None,
    ) -> Annotated[CallToolResult, OneFact]:
        """Remember a decision, convention, constraint or definition for later answers. Use it when the user
        states one. The reply names facts on the same subject, which it may replace."""
        work = tools.remember(
            _caller(ctx, service),
            text=text,
            fact=fact,
            repo=repoName,
            turn=turn,
            scope=scope,
            supersedes=supersedes or (),
        )
        return await _result(service, work)

    @server.tool(annotations=_DELETES)
    async def forget(
        fact: Annotated[str, Field(min_length=1, max_length=200, description="Its id.")],
        ctx: Context,
        scope: FactsOf = None,
    ) -> Annotated[CallToolResult, OneFact]:
        """Forget a fact that is wrong, or reject a proposed one. Facts that it replaced hold again."""
        return await _result(service, tools.forget(_caller(ctx, service), fact, scope))

    @server.tool(annotations=_READS)
    async def facts(
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        state: FactState = "confirmed",
        at: Annotated[
            str | None,
            Field(max_length=200, description="What held at this branch, tag or commit."),
        ] = None,
        scope: FactsOf = None,
        check: Annotated[bool, Field(description="Compare their lines with the code.")] = True,
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> Annotated[CallToolResult, FactsFound]:
        """List what is known about the repositories, with its lines. Use it before you decide."""
        work = tools.facts(
            _caller(ctx, service),
            repo=repoName,
            state=state,
            at=at,
            scope=scope,
            check=check,
            limit=limit,
        )
        return await _result(service, work)


def _add_checks(server: Any, service: Service, tools: MemoryTools) -> None:
    @server.tool(annotations=_READS)
    async def check_turns(
        ctx: Context,
        conversation: Annotated[
            str | None, Field(max_length=200, description="Id or name. Default: the last.")
        ] = None,
        ref: Ref = None,
    ) -> Annotated[CallToolResult, TurnsChecked]:
        """Check which answers of a conversation are still true. Use it when the code has changed."""
        return await _result(service, tools.check_turns(_caller(ctx, service), conversation, ref))

    @server.tool(annotations=_READS)
    async def turns_about(
        ctx: Context,
        path: Annotated[str | None, Field(min_length=1, max_length=1000)] = None,
        line: Annotated[int | None, Field(ge=1)] = None,
        symbol: Annotated[
            str | None, Field(min_length=1, max_length=200, description="Instead of `path`.")
        ] = None,
        repoName: OnlyRepo = None,  # noqa: N803
        limit: Limit = 10,
    ) -> Annotated[CallToolResult, TurnsChecked]:
        """List earlier answers about a file, a line or a definition, and whether they are still true. Use it
        before you change it."""
        work = tools.turns_about(
            _caller(ctx, service), repo=repoName, path=path, line=line, symbol=symbol, limit=limit
        )
        return await _result(service, work)


def _add_review(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_READS)
    async def review(
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        range: Annotated[
            str | None,
            Field(
                max_length=MAX_RANGE_CHARS,
                description="BASE..HEAD; BASE...HEAD: from their last common commit; BASE: to the work tree. "
                "Default: HEAD to the work tree.",
            ),
        ] = None,
    ) -> Annotated[CallToolResult, ReviewResult]:
        """Find what a change makes false: lines that use what is gone, callers, tests to run, earlier
        answers. Use it before a commit."""
        return await _result(service, tools.review(_caller(ctx, service), repoName, range))


def _add_resources(server: Any, service: Service) -> None:
    @server.resource("turns://conversations/{conversation}", mime_type="application/json")
    async def turns_of_a_conversation(conversation: str, ctx: Context) -> str:
        """Return the turns of a conversation as JSON, oldest first, with the sources of each answer."""
        engine = service.engine_for(_caller(ctx, service))
        try:
            async with service.limiter.slot():
                found = await to_thread(engine.find_conversation, conversation)
                turns = await to_thread(engine.turns.turns, found.id, namespace=engine.settings.namespace)
        except RagError as error:
            raise ResourceError(service.public_message(error)) from error
        return json.dumps([sent(service, to_json(turn), "mcp") for turn in turns], ensure_ascii=False)


async def _result(service: Service, work: Awaitable[ToolReply]) -> CallToolResult:
    """Return a tool's reply in the SDK's format: the text, and the values as structured content.

    Raises:
        ToolError: the tool failed; with its message.
    """
    try:
        reply = await work
    except RagError as error:
        raise ToolError(service.public_message(error)) from error
    except ValueError as error:
        raise ToolError(str(error)) from error
    return CallToolResult.model_validate(
        {
            "content": [TextContent(type="text", text=reply.result)],
            "structuredContent": reply.model_dump(),
        }
    )


def _caller(ctx: Any, service: Service) -> Caller:
    """Return the caller: over HTTP as set by the middleware, over stdio, without keys, the local user.

    The HTTP request becomes the current one.
    """
    return _caller_of(getattr(ctx.request_context, "request", None), service)


def _caller_of(request: Any, service: Service) -> Caller:
    if request is None:
        return service.keyring.anonymous
    # The SDK runs all calls of a session in the context of the request that began it.
    CURRENT.set(request.state.request_context)
    caller: Caller = request.state.caller
    return caller


def _session(ctx: Any) -> str:
    """Return the id of the MCP session: of stdio, which has only one, "stdio"; "" if there is none."""
    request = getattr(ctx.request_context, "request", None)
    return "stdio" if request is None else str(request.headers.get("mcp-session-id", ""))


def _progress(ctx: Any) -> Progress:
    report: Callable[[float, float | None, str], Awaitable[None]] = ctx.report_progress
    return report
