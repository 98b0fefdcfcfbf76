"""`rag doctor`: check the configuration, and name the fix for each problem."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import errors_as_exit_codes, out_json, table
from rag.errors import ConfigError

if TYPE_CHECKING:
    pass

_SERVER = "Server"


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """The options for the checked server."""

    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The server's settings file.", rich_help_panel=_SERVER),
    ] = None
    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="[NAME=]SOURCE",
            help="A repository to serve. Repeatable.",
            rich_help_panel=_SERVER,
        ),
    ] = None
    host: Annotated[
        str | None, typer.Option("--host", help="The address to listen on.", rich_help_panel=_SERVER)
    ] = None
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="The port.", rich_help_panel=_SERVER)
    ] = None
    deepwiki: Annotated[
        bool,
        typer.Option(
            "--deepwiki", help="Include the routes of deepwiki-open's backend.", rich_help_panel=_SERVER
        ),
    ] = False

    def flags(self) -> dict[str, Any]:
        """Return the server settings; None for those that are not set."""
        from rag.service.named_sources import named_source

        return {
            "repositories": tuple(named_source(text) for text in self.repo or ()),
            "host": self.host,
            "port": self.port,
            "deepwiki": self.deepwiki or None,
            "keys": tuple(os.environ.get("RAG_SERVER_KEYS", "").split()),
        }


@options.grouped
def doctor(
    *,
    json: options.Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Contact no server.")] = False,
    server: Annotated[
        bool, typer.Option("--server", help="Also check what `rag serve` needs.", rich_help_panel=_SERVER)
    ] = False,
    served: ServedOptions,
) -> None:
    """Check what is configured, reachable and missing, and how to fix it.

    rag doctor

    rag doctor --server --config server.toml
    """
    with errors_as_exit_codes():
        from rag.diagnosis import diagnose

        settings = settings_from()
        if server:
            from rag.serve.config import with_shared_memory

            settings = with_shared_memory(settings)
        findings = list(diagnose(settings, ask_servers=not quick))
        if not server and served != ServedOptions():
            raise ConfigError("--config, --repo, --host, --port and --deepwiki need --server")
        if server:
            from rag.serve.preflight import diagnose_server

            findings += diagnose_server(settings, served.config, served.flags(), ask_servers=not quick)
        if json:
            out_json([asdict(finding) for finding in findings])
        else:
            marks = {"ok": "ok", "off": "–", "bad": "BAD"}
            rows = [(marks[f.state], f.name, f.detail, f.fix) for f in findings]
            table("", ("", "what", "state", "fix"), rows)
    if any(finding.state == "bad" for finding in findings):
        sys.stdout.flush()
        raise typer.Exit(2)
