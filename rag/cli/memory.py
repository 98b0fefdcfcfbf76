"""`rag memory`: maintain the turn store."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from rag.cli import options
from rag.cli.terminal import (
    counted,
    errors_as_exit_codes,
    opened_engine,
    out,
    out_json,
    say,
    settings_from,
    table,
)
from rag.errors import ConfigError
from rag.ports import Persistence, PersistenceKind, PersistentStore

app = typer.Typer(
    help="Maintain the turn store.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    """Maintain the turn store."""
    if context.invoked_subcommand is None:
        out(context.get_help())


@app.command()
def sweep(json: options.Json = False, memory: options.Memory = None) -> None:
    """Remove stored files, prompts and cached answers whose turns no longer exist.

    This happens automatically when turns are deleted or expire. The command checks all of them, and so also
    finds what a killed process left behind.

    rag memory sweep
    """
    from rag.service.retention import KeptFiles

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        gone = KeptFiles(engine.turns, engine.settings.namespace).sweep()
        out_json({"removed": gone}) if json else out(f"removed {counted(gone, 'stored file')}")


@app.command()
def persistence(
    show: Annotated[
        bool, typer.Option("--show", help="Show the settings of each server (the default).")
    ] = False,
    kind: Annotated[
        str | None,
        typer.Option("--set", metavar="KIND", help=f"One of {', '.join(get_args(PersistenceKind))}."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Write a snapshot now. The server blocks until it is done.")
    ] = False,
    bgsave: Annotated[bool, typer.Option("--bgsave", help="Write a snapshot in the background.")] = False,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Show or set the persistence of a Redis or Valkey server, on every node of a cluster.

    Kinds: `rdb` writes periodic snapshots; `aof` logs every write and syncs once a second; `aof-always` syncs
    before a write is acknowledged, so that a crash loses nothing; `rdb+aof` and `rdb+aof-always` do both;
    `none` writes nothing to disk.

    rag memory persistence --memory redis://127.0.0.1:6379

    rag memory persistence --set aof-always --save --memory redis://127.0.0.1:6379
    """
    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        store = engine.turns
        if not isinstance(store, PersistentStore):
            raise ConfigError(
                "this turn store has no persistence settings: SQLite and Postgres keep every turn, "
                "memory: keeps none; name a Redis or Valkey server with --memory"
            )
        if kind is not None:
            _set(store, kind)
        if save or bgsave:
            store.save(background=bgsave and not save)
        if show or json or not (kind or save or bgsave):
            _show(store.persistence(), json=json)


def _set(store: PersistentStore, kind: str) -> None:
    for known in get_args(PersistenceKind):
        if kind == known:
            for node in store.set_persistence(known):
                say(f"rag: {node} cannot write its settings file: the change is lost when it stops")
            return
    raise ConfigError(f"--set is one of {', '.join(get_args(PersistenceKind))}, not {kind!r}")


def _show(nodes: list[Persistence], *, json: bool) -> None:
    if json:
        out_json([{**node._asdict(), "saved": node.saved.isoformat()} for node in nodes])
        return
    rows = [(node.node, _snapshots(node.snapshots), node.log or "none", _since(node)) for node in nodes]
    table("", ("server", "snapshot after", "log synced", "last snapshot"), rows)
    for node in nodes:
        if node.failed:
            out(f"{node.node}: the last write failed; check its log and its free disk space")


def _snapshots(setting: str) -> str:
    words = setting.split()
    pairs = zip(words[::2], words[1::2], strict=False)
    return ", ".join(f"{seconds} s with {writes} writes" for seconds, writes in pairs) or "never"


def _since(node: Persistence) -> str:
    busy = ", writing" if node.busy else ""
    return f"{node.saved.astimezone():%Y-%m-%d %H:%M:%S}, {node.unsaved} writes ago{busy}"
