"""`rag serve`: the HTTP server."""

from __future__ import annotations

import os
import sys
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag.cli import options
from rag.cli.terminal import errors_as_exit_codes, out, say
from rag.errors import BackendMissing, ConfigError, NotFound
from rag.resources import is_folder

if TYPE_CHECKING:
    from rag.ports import SharedState
    from rag.settings import Settings
    from rag.types import Source

_SERVED = "What is served"
_WHO = "Access"
_MUCH = "Limits"

_SWITCH_S = 0.001
"""The thread switch interval. The waiting thread is often the event loop, which all requests need."""


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
            "--public-host", metavar="HOST", help="A host name of this server.", rich_help_panel=_WHO
        ),
    ] = None
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="The origin of a web page that may call the server.",
            rich_help_panel=_WHO,
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

        return {
            "repositories": (
                *(named_source(text) for text in self.repo or ()),
                *(found for folder in self.repos or () for found in repositories_in(folder)),
            ),
            "allow_urls": tuple(self.allow_urls or ()),
            "refs": tuple(self.refs or ()),
            "public_hosts": tuple(self.public_host or ()),
            "origins": tuple(self.origin or ()),
            "host": self.host,
            "port": self.port,
            "rate": self.rate,
            "concurrent": self.concurrent,
            "deepwiki": self.deepwiki or None,
            "deepwiki_code": os.environ.get("RAG_DEEPWIKI_CODE") or None,
            "keys": tuple(os.environ.get("RAG_SERVER_KEYS", "").split()),
        }


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """A new key."""

    add_key: Annotated[
        str | None,
        typer.Option(
            "--add-key", metavar="NAME", help="Create a key, print it once, and exit.", rich_help_panel=_WHO
        ),
    ] = None
    remove_key: Annotated[
        str | None,
        typer.Option(
            "--remove-key", metavar="NAME", help="Remove a shared key, and exit.", rich_help_panel=_WHO
        ),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAME",
            help="The namespace of the new key's conversations. Default: its own.",
            rich_help_panel=_WHO,
        ),
    ] = None
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="NAME", help="A project whose facts the new key reads.", rich_help_panel=_WHO
        ),
    ] = None
    team: Annotated[
        str | None,
        typer.Option(
            "--team", metavar="NAME", help="A team whose facts the new key reads.", rich_help_panel=_WHO
        ),
    ] = None
    writes: Annotated[
        str | None,
        typer.Option(
            "--writes",
            metavar="SCOPE",
            help="Where the new key adds facts: user, project or team. Default: the team, else the project, "
            "else the user.",
            rich_help_panel=_WHO,
        ),
    ] = None

    def created(self, file: Path, state: SharedState | None) -> str:
        """Create the key for all servers of a database, else in a file of keys, and return it.

        Raises:
            ConfigError: the options do not fit together, or the name is taken.
        """
        from rag.serve.access.keys import add_key, add_shared_key, sharing

        try:
            shared = sharing(self.project or "", self.team or "", self.writes)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if state is not None:
            return add_shared_key(state, self.add_key or "", self.namespace, shared)
        return add_key(file, self.add_key or "", self.namespace, shared)

    def require_none(self) -> None:
        """Refuse the options of a new key where none is added. Raises ConfigError."""
        for name, value in vars(self).items():
            if value is not None:
                raise ConfigError(f"--{name} needs --add-key")


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
    shared: options.Shared = None,
    stores: options.Stores = None,
    key: KeyOptions,
    answering: options.ServiceOptions,
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
        settings = answering.settings()
        settings = settings if shared is None else replace(settings, shared=shared)
        settings = settings if stores is None else replace(settings, stores=stores)
        try:
            from rag.serve.config import keys_file, server_settings, with_shared_memory
            from rag.serve.run import log_json, make_server
        except ImportError as error:
            raise BackendMissing(backend="rag serve", missing=str(error.name), extra="server") from error
        if key.add_key is not None or key.remove_key is not None:
            _change_keys(key, settings, keys_file(settings))
            return
        key.require_none()
        wanted = server_settings(with_shared_memory(settings), config, server.flags())
        running = make_server(wanted)
        sys.setswitchinterval(_SWITCH_S)
        log_json()
        say(f"rag: serving on http://{wanted.host}:{wanted.port} (Ctrl-C to stop)")
        running.run()
        if not running.started:
            raise ConfigError(f"cannot listen on {wanted.host}:{wanted.port}; is the port in use? Try --port")


def _change_keys(key: KeyOptions, settings: Settings, file: Path) -> None:
    """Add or remove a key, and notify the servers that share it."""
    from rag.serve.workers.shared_events import KEYS
    from rag.service.jobs import open_shared_state

    state = open_shared_state(settings)
    with nullcontext() if state is None else closing(state):
        if key.remove_key is not None:
            if state is None:
                raise ConfigError(f"--remove-key needs --shared; without it, remove the entry from {file}")
            if not state.remove_key(key.remove_key):
                raise NotFound(f"there is no shared key named {key.remove_key!r}")
            say(f"rag: the key {key.remove_key} is removed")
        else:
            out(key.created(file, state))
            where = file if state is None else "the shared database"
            say(f"rag: only its hash is stored, in {where}; send it as `Authorization: Bearer`")
        if state is not None:
            state.publish(KEYS)


def named_source(text: str | None) -> tuple[str, Source]:
    """Parse `NAME=SOURCE`, or a source without a name. A folder with `=` in its path is a source.

    None is the current folder.
    """
    from rag.service import locate

    name, equals, place = (text or "").partition("=")
    is_name = equals and "://" not in name and not name.startswith((".", "/", "~"))
    if is_name and not is_folder(text or ""):
        return name, locate(place)
    source = locate(text)
    return source.name, source
