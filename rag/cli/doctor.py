"""`rag doctor`: check the configuration, and name the fix for each problem."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from rag.cli.offered import ServedRepositories
from rag.cli.serve import Config, given_settings, server_parameters
from rag.cli.settings_options import settings_from, with_parameters
from rag.cli.terminal import listing
from rag.errors import ConfigError


def doctor(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Contact no server.")] = False,
    server: Annotated[bool, typer.Option("--server", help="Also check what `rag serve` needs.")] = False,
    config: Config = None,
    repo: ServedRepositories = None,
    **values: Any,
) -> None:
    """Check what is configured, reachable and missing, and how to fix it.

    rag doctor

    rag doctor --server --config server.toml
    """
    from rag.diagnosis import diagnose

    settings = settings_from()
    if server:
        from rag.serve.config import with_shared_memory

        settings = with_shared_memory(settings)
    findings = list(diagnose(settings, ask_servers=not quick))
    if not server and any(value is not None for value in (config, repo, *values.values())):
        raise ConfigError("--config, --repo, --host, --port and --deepwiki need --server")
    if server:
        from rag.serve.preflight import diagnose_server

        given = given_settings(repo or (), (), values)
        findings += diagnose_server(settings, config, given, ask_servers=not quick)
    marks = {"ok": "ok", "off": "–", "bad": "BAD"}
    rows = [(marks[f.state], f.name, f.detail, f.fix) for f in findings]
    listing([asdict(finding) for finding in findings], ("", "what", "state", "fix"), rows)
    if any(finding.state == "bad" for finding in findings):
        sys.stdout.flush()
        raise typer.Exit(2)


with_parameters(doctor, server_parameters(("host", "port", "deepwiki")))
