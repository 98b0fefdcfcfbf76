"""`rag mcp`: the MCP server on stdin and stdout, for editors and agents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from rag.cli import options
from rag.cli.serve import named_source, report_renamed
from rag.cli.settings_options import settings_from
from rag.cli.terminal import errors_as_exit_codes
from rag.errors import BackendMissing


@options.grouped
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
    allow_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-urls",
            metavar="HOST",
            help="Also serve every https URL of this host. Repeatable.",
        ),
    ] = None,
) -> None:
    """Serve the Model Context Protocol on stdin and stdout.

    rag mcp --repo .
    """
    with errors_as_exit_codes():
        settings = replace(settings_from(), shared="")  # it indexes by itself, like `rag ask`
        try:
            from rag.serve.mcp.server import make_mcp
            from rag.serve.service import Service
            from rag.serve.settings import ServerSettings, with_safe_names
        except ImportError as error:
            raise BackendMissing(backend="rag mcp", missing=str(error.name), extra="mcp") from error
        named: list[str | None] = [*(repo or ())] or ([] if allow_urls else [None])
        repositories = with_safe_names([named_source(text) for text in named])
        report_renamed(repositories)
        service = Service(
            ServerSettings(
                engine=settings,
                repositories=repositories,
                allow_urls=tuple(allow_urls or ()),
                port=0,
            )
        )

        async def run() -> None:
            async with service.running():
                await make_mcp(service).run_stdio_async()

        asyncio.run(run())
