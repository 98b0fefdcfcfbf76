"""`rag mcp`: the MCP server on stdin and stdout, for editors and agents."""

from __future__ import annotations

import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.offered import Served, ServedRepositories, report_renamed
from rag.cli.settings_options import settings_from
from rag.cli.terminal import INTERRUPTED, refuse_json, say
from rag.processes import exit_at_once
from rag.settings import ToolSet

if TYPE_CHECKING:
    from rag.mcp.host import Host


def mcp(
    sources: Served = None,
    *,
    repo: ServedRepositories = None,
    tools: Annotated[
        ToolSet,
        typer.Option(
            metavar="basic|all", help="The tools that are listed: those for finding and asking, or all."
        ),
    ] = "basic",
) -> None:
    """Serve the Model Context Protocol on stdin and stdout.

    rag mcp .
    """
    from rag.mcp.stdio import StdioServer
    from rag.service.repositories.named_sources import named_source, with_safe_names

    refuse_json("rag mcp")
    with ExitStack() as opened:
        settings = replace(settings_from(), shared="")  # it indexes by itself, like `rag ask`
        named: list[str | None] = [*(sources or ()), *(repo or ())] or [None]
        repositories = with_safe_names([named_source(text) for text in named])
        report_renamed(repositories)

        def make_host() -> Host:
            from rag.mcp.local import LocalHost
            from rag.service import Engine

            engine = Engine(settings, notice=lambda text: say(f"rag: {text}"))
            opened.callback(engine.close)
            return LocalHost(engine, repositories)

        names = ", ".join(name for name, _ in repositories)
        server, code = StdioServer(make_host, names, tools), 0
        try:
            with redirect_stdout(sys.stderr):  # the client takes every line of stdout for a message
                server.run()
        except KeyboardInterrupt:
            code = INTERRUPTED
        except SystemExit as stopped:  # a signal
            code = int(stopped.code or 0)
        if not server.close():
            exit_at_once(
                code
            )  # without waiting for a thread that indexes: an index is replaced when it is whole
        raise typer.Exit(code)
