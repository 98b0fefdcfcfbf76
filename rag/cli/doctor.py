"""`rag doctor`: what is configured, reachable, missing, and the exact line that mends it."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rag.cli import options
from rag.cli.terminal import errors_as_exit_codes, out_json, settings_from, table
from rag.errors import ConfigError

_SERVER = "Of a server"


def doctor(
    json: options.Json = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    client: options.Client = None,
    embedder: options.Embedder = None,
    memory: options.Memory = None,
    quick: Annotated[bool, typer.Option("--quick", help="Ask no server.")] = False,
    server: Annotated[
        bool, typer.Option("--server", help="Look at what `rag serve` needs too.", rich_help_panel=_SERVER)
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Its settings file.", rich_help_panel=_SERVER),
    ] = None,
    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="[NAME=]SOURCE",
            help="A repository it serves. Repeatable.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Where it listens.", rich_help_panel=_SERVER)
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="Its port.", rich_help_panel=_SERVER)
    ] = None,
    deepwiki: Annotated[
        bool,
        typer.Option(
            "--deepwiki", help="With the routes of deepwiki-open's backend.", rich_help_panel=_SERVER
        ),
    ] = False,
) -> None:
    """Say what is configured, what answers, what is missing, and how to mend it.

    rag doctor

    rag doctor --server --config server.toml
    """
    with errors_as_exit_codes():
        from rag.diagnosis import diagnose

        settings = settings_from(
            model=model, base_url=base_url, client=client, embedder=embedder, memory=memory
        )
        findings = list(diagnose(settings, ask_servers=not quick))
        given = (config, repo, host, port, deepwiki or None)
        if not server and any(value is not None for value in given):
            raise ConfigError("--config, --repo, --host, --port and --deepwiki go with --server")
        if server:
            from rag.cli.serve import named_source
            from rag.serve.preflight import diagnose_server

            flags = {
                "repositories": tuple(named_source(text) for text in repo or ()),
                "host": host,
                "port": port,
                "deepwiki": deepwiki or None,
                "keys": tuple(os.environ.get("RAG_SERVER_KEYS", "").split()),
            }
            findings += diagnose_server(settings, config, flags, ask_servers=not quick)
        if json:
            out_json([asdict(finding) for finding in findings])
        else:
            marks = {"ok": "ok", "off": "–", "bad": "BAD"}
            rows = [(marks[f.state], f.what, f.said, f.mend) for f in findings]
            table("", ("", "what", "state", "to mend it"), rows)
    if any(finding.state == "bad" for finding in findings):
        sys.stdout.flush()
        raise typer.Exit(2)
