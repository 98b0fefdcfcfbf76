"""`rag serve`: the HTTP server."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.offered import report_renamed
from rag.cli.settings_options import settings_from
from rag.cli.terminal import errors_as_exit_codes, say
from rag.errors import BackendMissing, ConfigError

if TYPE_CHECKING:
    pass

_SERVED = "What is served"
_WHO = "Access"
_MUCH = "Limits"
_LOG = "Log"

_SWITCH_S = 0.001
"""The thread switch interval. The waiting thread is often the event loop, which all requests need."""


class LogFormat(StrEnum):
    """The form of log lines."""

    json = "json"
    text = "text"


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What is served, to whom, and the limits."""

    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="[NAME=]SOURCE",
            help="A repository to serve: a path or a git URL, with an optional name. Repeatable. Default: "
            "the current directory.",
            rich_help_panel=_SERVED,
        ),
    ] = None
    repos: Annotated[
        list[Path] | None,
        typer.Option(
            "--repos",
            metavar="FOLDER",
            help="Serve each git repository in this folder under the name of its subfolder. Repeatable.",
            rich_help_panel=_SERVED,
        ),
    ] = None
    allow_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-urls",
            metavar="HOST",
            help="Also serve every https URL of this host. Repeatable.",
            rich_help_panel=_SERVED,
        ),
    ] = None
    refs: Annotated[
        list[str] | None,
        typer.Option(
            "--refs",
            metavar="PATTERN",
            help="The refs that NAME@REF may use, such as refs/heads or refs/tags/v*, and their commits; "
            "* allows all. Repeatable. Default: branches and tags.",
            rich_help_panel=_SERVED,
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            metavar="NAME",
            help="Another model that a question may choose, of the same server as `--model`. Repeatable.",
            rich_help_panel=_SERVED,
        ),
    ] = None
    deepwiki: Annotated[
        bool,
        typer.Option(
            "--deepwiki",
            help="Add the routes of deepwiki-open's backend for its frontend; the default port is then 8001.",
            rich_help_panel=_SERVED,
        ),
    ] = False
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="The address to listen on. Default: 127.0.0.1. Other addresses need a key.",
        ),
    ] = None
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="The port. Default: 8000.")
    ] = None
    public_host: Annotated[
        list[str] | None,
        typer.Option(
            "--public-host",
            metavar="HOST",
            help="A host name of this server. Repeatable.",
            rich_help_panel=_WHO,
        ),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="The origin of a web page that may call the server. Repeatable.",
            rich_help_panel=_WHO,
        ),
    ] = None
    root_path: Annotated[
        str | None,
        typer.Option(
            "--root-path",
            metavar="PATH",
            help="The path under which a proxy publishes the server, such as /rag.",
            rich_help_panel=_WHO,
        ),
    ] = None
    identity_header: Annotated[
        str | None,
        typer.Option(
            "--identity-header",
            metavar="NAME",
            help="The header in which a trusted proxy names the user, such as X-Forwarded-User.",
            rich_help_panel=_WHO,
        ),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="The address or network of a proxy whose X-Forwarded-For and identity header are trusted. "
            "Repeatable.",
            rich_help_panel=_WHO,
        ),
    ] = None
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="The form of log lines. Default: json.", rich_help_panel=_LOG),
    ] = None
    access_log: Annotated[
        bool | None,
        typer.Option(
            "--access-log/--no-access-log",
            help="Log one line for each request. Default: yes.",
            rich_help_panel=_LOG,
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", help="The request limit of each client, such as 60/minute.", rich_help_panel=_MUCH
        ),
    ] = None
    concurrent: Annotated[
        int | None,
        typer.Option(
            "--concurrent",
            min=1,
            help="The number of concurrent questions. Default: 256.",
            rich_help_panel=_MUCH,
        ),
    ] = None

    def flags(self) -> dict[str, Any]:
        """Return the server settings from flags and environment; None for those that are not set."""
        from rag.service import repositories_in
        from rag.service.named_sources import named_source

        return {
            "repositories": (
                *(named_source(text) for text in self.repo or ()),
                *(found for folder in self.repos or () for found in repositories_in(folder)),
            ),
            "allow_urls": tuple(self.allow_urls or ()),
            "refs": tuple(self.refs or ()),
            "models": tuple(self.models or ()),
            "public_hosts": tuple(self.public_host or ()),
            "origins": tuple(self.origin or ()),
            "host": self.host,
            "port": self.port,
            "root_path": self.root_path,
            "identity_header": self.identity_header,
            "trusted_proxies": tuple(self.trusted_proxy or ()),
            "log_format": self.log_format and self.log_format.value,
            "access_log": self.access_log,
            "rate": self.rate,
            "concurrent": self.concurrent,
            "deepwiki": self.deepwiki or None,
            "deepwiki_code": os.environ.get("RAG_DEEPWIKI_CODE") or None,
            "keys": tuple(os.environ.get("RAG_SERVER_KEYS", "").split()),
        }


@options.grouped
def serve(
    *,
    server: ServerOptions,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Read settings from a TOML file. Flags take precedence."
        ),
    ] = None,
) -> None:
    """Serve repositories over HTTP: a web page, an OpenAI-compatible API, a native API, and MCP.

    rag serve

    rag serve --repo api=../api --repo web=https://example.org/team/web.git

    rag serve --repos ~/repositories

    rag serve --repos ~/repositories --shared postgresql://rag@db.example.org/rag

    The environment variable RAG_SERVER_KEYS sets keys, separated by spaces; RAG_DEEPWIKI_CODE sets the
    authorization code of deepwiki-open's frontend.
    """
    with errors_as_exit_codes():
        settings = settings_from()
        try:
            from rag.serve.config import server_settings, with_shared_memory
            from rag.serve.preflight import check_port
            from rag.serve.run import make_server, write_logs
        except ImportError as error:
            raise BackendMissing(backend="rag serve", missing=str(error.name), extra="server") from error
        wanted = server_settings(with_shared_memory(settings), config, server.flags())
        report_renamed(wanted.repositories)
        check_port(wanted)
        running = make_server(wanted)
        sys.setswitchinterval(_SWITCH_S)
        write_logs(wanted)
        say(f"rag: serving on http://{wanted.host}:{wanted.port} (Ctrl-C to stop)")
        running.run()
        if not running.started:
            raise ConfigError(f"cannot listen on {wanted.host}:{wanted.port}; is the port in use? Try --port")
