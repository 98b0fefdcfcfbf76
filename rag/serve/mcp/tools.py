"""The tools for agents, as the Model Context Protocol lists them: names, descriptions, arguments.

DeepWiki's four tools keep their names, arguments and texts, so that its clients work unchanged. What a tool
does is in `toolbox.py`, for the memory in `memory_tools.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rag.memory.facts import FactState
from rag.serve.api.pagination import MAX_LIMIT
from rag.serve.mcp.memory_tools import FactsFound, MemoryTools, OneFact, TurnsChecked
from rag.serve.mcp.sdk import (
    CallToolResult,
    Context,
    ToolAnnotations,
    caller_in,
    progress_of,
    result_of,
    session_of,
)
from rag.serve.mcp.toolbox import (
    MAX_RESULTS,
    AskResult,
    CodeFound,
    Explored,
    Places,
    ReviewResult,
    Toolbox,
    ToolReply,
    WikiContents,
)
from rag.serve.service import Service
from rag.service.explore import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS
from rag.service.review import MAX_RANGE_CHARS
from rag.service.search import SearchQuery
from rag.settings import MAX_STEPS, FactScope
from rag.types import Kind, SearchFilter, SearchMode

OnlyRepo = str | None
"""The name of a repository; may be omitted if only one is served."""
RepoNames = Annotated[str | list[str] | None, Field(description="One or several; @all: those it is about.")]
Ref = Annotated[str | None, Field(description="Branch, tag or commit.")]
Conversation = Annotated[str | None, Field(description="That of an earlier answer.")]
About = Annotated[str | None, Field(max_length=500, description='What "it" means: a definition or file.')]
Steps = Annotated[int | None, Field(ge=0, le=MAX_STEPS, description="How often the model may look again.")]
Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS)]
Line = Annotated[int, Field(ge=1)]
LastLine = Annotated[int | None, Field(ge=1)]
FactsOf = Annotated[FactScope | None, Field(description="Whose facts.")]

_READS = ToolAnnotations.model_validate({"readOnlyHint": True, "openWorldHint": False})
_ASKS = ToolAnnotations.model_validate(
    {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
)

_WRITES = _ASKS
_DELETES = ToolAnnotations.model_validate(
    {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
)


def add_tools(server: Any, service: Service, base: str) -> None:
    """Add all tools to the SDK's server; links in their replies begin with `base`."""
    toolbox = Toolbox(service, base=base)
    for add in (_add_explore, _add_wiki, _add_questions, _add_code, _add_review):
        add(server, service, toolbox)
    memory = MemoryTools(service, base=base)
    _add_facts(server, service, memory)
    _add_checks(server, service, memory)


def _add_wiki(server: Any, service: Service, tools: Toolbox) -> None:
    @server.tool(annotations=_READS)
    async def list_available_repos(
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = MAX_LIMIT,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Annotated[CallToolResult, ToolReply]:
        """List the available repositories, to pass one as `repoName`."""
        return await result_of(service, tools.list_available_repos(caller_in(ctx, service), limit, offset))

    @server.tool(annotations=_READS)
    async def read_wiki_structure(
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, ToolReply]:
        """Get a list of documentation topics for a repository. Use it for an overview."""
        caller = caller_in(ctx, service)
        return await result_of(service, tools.read_wiki_structure(caller, repoName, ref, progress_of(ctx)))

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
        caller = caller_in(ctx, service)
        return await result_of(
            service, tools.read_wiki_contents(caller, repoName, ref, page, maxChars, progress_of(ctx))
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
        caller = caller_in(ctx, service)
        return await result_of(
            service,
            tools.ask_question(caller, repoName, question, conversation, ref, about, steps, progress_of(ctx)),
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
        caller = caller_in(ctx, service)
        return await result_of(service, tools.recall_turns(caller, query, conversation, limit, turn))


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
        caller = caller_in(ctx, service)
        work = tools.explore(
            caller, session_of(ctx), repoName, question, budget, seen or (), ref, progress_of(ctx)
        )
        return await result_of(service, work)


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
        caller = caller_in(ctx, service)
        only = SearchFilter(
            paths=(path,) if path else (),
            languages=(language,) if language else (),
            kinds=(kind,) if kind else (),
        )
        asked = SearchQuery(query, mode, ignore_case, limit, only)
        return await result_of(service, tools.search_code(caller, repoName, asked, ref, progress_of(ctx)))

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
        caller = caller_in(ctx, service)
        return await result_of(
            service, tools.read_span(caller, repoName, path, start_line, end_line, ref, progress_of(ctx))
        )

    @server.tool(annotations=_READS)
    async def find_symbol(
        name: Annotated[str, Field(description="`name` or `Outer.name`.")],
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Places]:
        """Find where a function, class or method is defined. Use it for a known name."""
        caller = caller_in(ctx, service)
        return await result_of(service, tools.find_symbol(caller, repoName, name, ref, progress_of(ctx)))

    @server.tool(annotations=_READS)
    async def who_calls(
        symbol: str,
        ctx: Context,
        repoName: OnlyRepo = None,  # noqa: N803
        ref: Ref = None,
    ) -> Annotated[CallToolResult, Places]:
        """Find the callers of a symbol by its name, else what mentions it. Use it before you change one."""
        caller = caller_in(ctx, service)
        return await result_of(service, tools.who_calls(caller, repoName, symbol, ref, progress_of(ctx)))


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
            caller_in(ctx, service),
            text=text,
            fact=fact,
            repo=repoName,
            turn=turn,
            scope=scope,
            supersedes=supersedes or (),
        )
        return await result_of(service, work)

    @server.tool(annotations=_DELETES)
    async def forget(
        fact: Annotated[str, Field(min_length=1, max_length=200, description="Its id.")],
        ctx: Context,
        scope: FactsOf = None,
    ) -> Annotated[CallToolResult, OneFact]:
        """Forget a fact that is wrong, or reject a proposed one. Facts that it replaced hold again."""
        return await result_of(service, tools.forget(caller_in(ctx, service), fact, scope))

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
            caller_in(ctx, service),
            repo=repoName,
            state=state,
            at=at,
            scope=scope,
            check=check,
            limit=limit,
        )
        return await result_of(service, work)


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
        return await result_of(service, tools.check_turns(caller_in(ctx, service), conversation, ref))

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
            caller_in(ctx, service), repo=repoName, path=path, line=line, symbol=symbol, limit=limit
        )
        return await result_of(service, work)


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
        return await result_of(service, tools.review(caller_in(ctx, service), repoName, range))
