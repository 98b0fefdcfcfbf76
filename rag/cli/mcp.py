"""`rag mcp`: the MCP server on stdin and stdout, for editors and agents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli.settings_options import settings_from
from rag.cli.terminal import errors_as_exit_codes, say

if TYPE_CHECKING:
    from rag.mcp.host import Host


def mcp(
    *,
    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="[NAME=]SOURCE",
            help="A repository to serve. Repeatable. Default: the current directory.",
        ),
    ] = None,
) -> None:
    """Serve the Model Context Protocol on stdin and stdout.

    rag mcp --repo .
    """
    from rag.cli.offered import report_renamed
    from rag.mcp.stdio import serve
    from rag.service.named_sources import named_source, with_safe_names

    with errors_as_exit_codes():
        settings = replace(settings_from(), shared="")  # it indexes by itself, like `rag ask`
        named: list[str | None] = [*(repo or ())] or [None]
        repositories = with_safe_names([named_source(text) for text in named])
        report_renamed(repositories)

        def make_host() -> Host:
            from rag.mcp.local import LocalHost
            from rag.service import Engine

            return LocalHost(Engine(settings, notice=lambda text: say(f"rag: {text}")), repositories)

        serve(make_host, ", ".join(name for name, _ in repositories))
