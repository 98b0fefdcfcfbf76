"""`rag serve`: the HTTP server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from rag.cli.offered import Served, ServedRepositories, report_renamed
from rag.cli.settings_options import field_texts, option_parameter, settings_from, with_parameters
from rag.cli.terminal import refuse_json, say
from rag.errors import BackendMissing, ConfigError
from rag.serve.settings import ENVIRONMENT, ServerSettings

_SWITCH_S = 0.001
"""The thread switch interval. The waiting thread is often the event loop, which all requests need."""


OPTIONS = {
    "allow_urls": ("--allow-urls", "HOST"),
    "refs": ("--refs", "PATTERN"),
    "models": ("--models", "NAME"),
    "deepwiki": ("--deepwiki", None),
    "host": ("--host", "ADDRESS"),
    "port": ("--port", "N"),
    "public_hosts": ("--public-host", "HOST"),
    "origins": ("--origin", "URL"),
    "root_path": ("--root-path", "PATH"),
    "identity_header": ("--identity-header", "NAME"),
    "trusted_proxies": ("--trusted-proxy", "ADDRESS"),
    "log_format": ("--log-format", "FORMAT"),
    "access_log": ("--access-log", None),
    "rate": ("--rate", "LIMIT"),
    "concurrent": ("--concurrent", "N"),
}
"""The server's settings that are options too: the option of each, and what its value is."""

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read settings from a TOML file. Options take precedence."),
]


def server_parameters(names: Iterable[str] = OPTIONS) -> list[Parameter]:
    """Return options of a server, from the fields of `ServerSettings`."""
    kinds = {each.name: str(each.type) for each in fields(ServerSettings)}
    texts = field_texts(ServerSettings)
    found = []
    for name in names:
        option, metavar = OPTIONS[name]
        text = f"{texts[name].split('. ')[0].removesuffix('.')}."
        text += " Repeatable." if kinds[name].startswith("tuple") else ""
        found.append(option_parameter(name, kinds[name], option, metavar=metavar, help=text))
    return found


def given_settings(
    repositories: Sequence[str], folders: Sequence[Path], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the server's settings from options and environment; None or () for those that are not set."""
    from rag.service import repositories_in
    from rag.service.repositories.named_sources import named_source

    return {
        **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()},
        "repositories": (
            *map(named_source, repositories),
            *(found for folder in folders for found in repositories_in(folder)),
        ),
        "deepwiki_code": os.environ.get(ENVIRONMENT["deepwiki_code"]) or None,
        "keys": tuple(os.environ.get(ENVIRONMENT["keys"], "").split()),
    }


def serve(
    sources: Served = None,
    *,
    repo: ServedRepositories = None,
    repos: Annotated[
        list[Path] | None,
        typer.Option(
            "--repos",
            metavar="FOLDER",
            help="Serve each git repository in this folder under the name of its subfolder. Repeatable.",
        ),
    ] = None,
    config: Config = None,
    **values: Any,
) -> None:
    """Serve repositories over HTTP: a web page, an OpenAI-compatible API, a native API, and MCP.

    rag serve

    rag serve --repo api=../api --repo web=https://example.org/team/web.git

    rag serve --repos ~/repositories

    rag serve --repos ~/repositories --shared postgresql://rag@db.example.org/rag

    The environment variable RAG_SERVER_KEYS sets keys, separated by spaces; RAG_DEEPWIKI_CODE sets the
    authorization code of deepwiki-open's frontend.
    """
    refuse_json("rag serve")
    settings = settings_from()
    given = given_settings([*(sources or []), *(repo or [])], repos or [], values)
    try:
        from rag.serve.config import server_settings, with_shared_memory
        from rag.serve.preflight import check_port
        from rag.serve.run import make_server, with_free_port, write_logs
    except ImportError as error:
        raise BackendMissing(backend="rag serve", missing=str(error.name), extra="server") from error
    wanted = server_settings(with_shared_memory(settings), config, given)
    report_renamed(wanted.repositories)
    check_port(wanted)
    wanted, listening = with_free_port(wanted)
    running = make_server(wanted)
    sys.setswitchinterval(_SWITCH_S)
    write_logs(wanted)
    say(f"rag: serving on http://{wanted.host}:{wanted.port} (Ctrl-C to stop)")
    running.run(listening)
    if not running.started:
        raise ConfigError(f"cannot listen on {wanted.host}:{wanted.port}; is the port in use? Try --port")
    if running.stopped_by is not None:
        signal.raise_signal(running.stopped_by)


with_parameters(serve, server_parameters())
