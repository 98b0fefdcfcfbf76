"""`rag serve`: one engine behind HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag.cli import options
from rag.cli.terminal import errors_as_exit_codes, out, say, settings_from
from rag.errors import BackendMissing, ConfigError
from rag.resources import is_folder

if TYPE_CHECKING:
    from rag.types import Source

_SERVED = "What is served"
_WHO = "To whom"
_MUCH = "How much"

_SWITCH_S = 0.001
"""How long a thread may go on while another waits: often that is the event loop, which all wait for."""


def serve(
    repo: Annotated[
        list[str] | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="[NAME=]SOURCE",
            help="A repository to serve, a path or git URL, by its own or this name. Repeatable; the current "
            "directory when left out.",
            rich_help_panel=_SERVED,
        ),
    ] = None,
    repos: Annotated[
        list[Path] | None,
        typer.Option(
            "--repos",
            metavar="FOLDER",
            help="Serve each git repository in this folder, by the name of its subfolder. Repeatable.",
            rich_help_panel=_SERVED,
        ),
    ] = None,
    allow_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-urls",
            metavar="HOST",
            help="Serve any https URL on this host too. Repeatable.",
            rich_help_panel=_SERVED,
        ),
    ] = None,
    refs: Annotated[
        list[str] | None,
        typer.Option(
            "--refs",
            metavar="PATTERN",
            help="What NAME@REF may name: refs/heads, refs/tags/v*, … and the commits these reach; * is all. "
            "Repeatable; branches and tags when left out.",
            rich_help_panel=_SERVED,
        ),
    ] = None,
    deepwiki: Annotated[
        bool,
        typer.Option(
            "--deepwiki",
            help="Add the routes of deepwiki-open's backend, for its frontend; on port 8001.",
            rich_help_panel=_SERVED,
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Read settings from a TOML file; flags win over it."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="Where to listen, 127.0.0.1 unless told otherwise; elsewhere than here needs a key.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", min=0, max=65535, help="8000 unless told otherwise.")
    ] = None,
    add_key: Annotated[
        str | None,
        typer.Option(
            "--add-key", metavar="NAME", help="Make a key, print it once, and end.", rich_help_panel=_WHO
        ),
    ] = None,
    key_namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAME",
            help="Whose conversations the new key sees; its own when left out.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    public_host: Annotated[
        list[str] | None,
        typer.Option("--public-host", metavar="HOST", help="A name it is called by.", rich_help_panel=_WHO),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option("--origin", metavar="URL", help="A web page that may call it.", rich_help_panel=_WHO),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", help="Requests of one caller, such as 60/minute.", rich_help_panel=_MUCH),
    ] = None,
    concurrent: Annotated[
        int | None,
        typer.Option(
            "--concurrent", min=1, help="Questions at once, 256 unless told otherwise.", rich_help_panel=_MUCH
        ),
    ] = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    client: options.Client = None,
    memory: options.Memory = None,
    embedder: options.Embedder = None,
) -> None:
    """Serve repositories over HTTP: OpenAI-compatible, native, and more, on 127.0.0.1 unless told otherwise.

    rag serve

    rag serve --repo api=../api --repo web=https://example.org/team/web.git

    rag serve --repos ~/repositories

    Keys also come from RAG_SERVER_KEYS, separated by spaces; the code that deepwiki-open's frontend asks
    for from RAG_DEEPWIKI_CODE.
    """
    with errors_as_exit_codes():
        settings = settings_from(
            model=model, base_url=base_url, client=client, memory=memory, embedder=embedder
        )
        try:
            from rag.serve.access.keys import add_key as new_key
            from rag.serve.config import keys_file, server_settings
            from rag.serve.run import log_json, make_server
        except ImportError as error:
            raise BackendMissing(backend="rag serve", missing=str(error.name), extra="server") from error
        from rag.service import repositories_in

        if add_key is not None:
            out(new_key(keys_file(settings), add_key, key_namespace))
            say(f"rag: only its hash is kept, in {keys_file(settings)}; send it as `Authorization: Bearer`")
            return
        if key_namespace is not None:
            raise ConfigError("--namespace goes with --add-key")
        flags = {
            "repositories": (
                *(named_source(text) for text in repo or ()),
                *(found for folder in repos or () for found in repositories_in(folder)),
            ),
            "allow_urls": tuple(allow_urls or ()),
            "refs": tuple(refs or ()),
            "public_hosts": tuple(public_host or ()),
            "origins": tuple(origin or ()),
            "host": host,
            "port": port,
            "rate": rate,
            "concurrent": concurrent,
            "deepwiki": deepwiki or None,
            "deepwiki_code": os.environ.get("RAG_DEEPWIKI_CODE") or None,
            "keys": tuple(os.environ.get("RAG_SERVER_KEYS", "").split()),
        }
        wanted = server_settings(settings, config, flags)
        server = make_server(wanted)
        sys.setswitchinterval(_SWITCH_S)
        log_json()
        say(f"rag: serving on http://{wanted.host}:{wanted.port} (Ctrl-C to stop)")
        server.run()
        if not server.started:
            raise ConfigError(
                f"the server could not listen on {wanted.host}:{wanted.port}; is the port taken? Try --port"
            )


def named_source(text: str | None) -> tuple[str, Source]:
    """`NAME=SOURCE`, or a source under its own name. A folder that has `=` in its path is itself.

    None is the current folder.
    """
    from rag.service import locate

    name, equals, place = (text or "").partition("=")
    is_name = equals and "://" not in name and not name.startswith((".", "/", "~"))
    if is_name and not is_folder(text or ""):
        return name, locate(place)
    source = locate(text)
    return source.name, source
