"""`rag doctor`: what is configured, reachable, missing, and the exact line that mends it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from rag.cli import options
from rag.cli.terminal import errors_as_exit_codes, out_json, settings_from, table


def doctor(
    json: options.Json = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    client: options.Client = None,
    embedder: options.Embedder = None,
    memory: options.Memory = None,
    quick: Annotated[bool, typer.Option("--quick", help="Ask no server.")] = False,
) -> None:
    """Say what is configured, what answers, what is missing, and how to mend it.

    rag doctor
    """
    with errors_as_exit_codes():
        from rag.diagnosis import diagnose

        settings = settings_from(
            model=model, base_url=base_url, client=client, embedder=embedder, memory=memory
        )
        findings = list(diagnose(settings, ask_servers=not quick))
        if json:
            out_json([asdict(finding) for finding in findings])
        else:
            marks = {"ok": "ok", "off": "–", "bad": "BAD"}
            rows = [(marks[f.state], f.what, f.said, f.mend) for f in findings]
            table("", ("", "what", "state", "to mend it"), rows)
    if any(finding.state == "bad" for finding in findings):
        sys.stdout.flush()
        raise typer.Exit(2)
