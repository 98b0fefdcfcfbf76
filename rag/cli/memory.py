"""`rag memory`: maintain the turn store."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from rag.cli import options
from rag.cli.terminal import (
    confirm,
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
from rag.parsing import parse_age
from rag.ports import Persistence, PersistenceKind, PersistentStore
from rag.types import now_utc

if TYPE_CHECKING:
    from rag.service.namespaces import Holdings

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
def namespaces(json: options.Json = False, memory: options.Memory = None) -> None:
    """List the namespaces of the turn store, and what each holds.

    rag memory namespaces
    """
    from rag.service.namespaces import holdings

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        found = [holdings(engine.turns, name) for name in engine.turns.namespaces()]
        if json:
            out_json([asdict(one) for one in found])
        elif not found:
            say("rag: the turn store is empty")
        else:
            columns = ("conversations", "turns", "facts", "preferences", "cached_answers", "files")
            rows = [
                (one.namespace or "(default)", *(f"{getattr(one, c):,}" for c in columns)) for one in found
            ]
            table("", ("namespace", *(column.replace("_", " ") for column in columns)), rows)


@app.command()
def delete(
    namespace: Annotated[str, typer.Argument(help='The namespace; "" is the default one.')],
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Delete only conversations that were last written before, such as 90d. Facts and "
            "preferences stay.",
        ),
    ] = None,
    yes: options.Yes = False,
    json: options.Json = False,
    memory: options.Memory = None,
) -> None:
    """Delete everything in a namespace: turns, facts, preferences, cached answers and stored files.

    rag memory delete ci

    rag memory delete ci --older-than 90d --yes
    """
    from rag.service.namespaces import delete_namespace, holdings

    with errors_as_exit_codes(), opened_engine(settings_from(memory=memory)) as engine:
        before = None if older_than is None else now_utc() - _age(older_than)
        named = f"the namespace {namespace}" if namespace else "the default namespace"
        if before is None:
            say(f"rag: {named} holds {_held(holdings(engine.turns, namespace))}")
            question = f"delete all of {named}?"
        else:
            old = [one for one in engine.turns.conversations(namespace=namespace) if one.updated < before]
            question = (
                f"delete {counted(len(old), 'conversation')} of {named}, last written before {before:%F}?"
            )
        confirm(question, yes=yes, always_ask=True)
        gone = delete_namespace(engine.turns, namespace, before=before)
        if json:
            out_json(asdict(gone))
        else:
            out(f"deleted {_held(gone)}")


def _age(text: str) -> timedelta:
    try:
        return parse_age(text)
    except ValueError as error:
        raise ConfigError(f"--older-than {error}") from error


def _held(one: Holdings) -> str:
    """Return what a namespace holds in words, without what it does not hold."""
    counts = [(name.replace("_", " "), count) for name, count in asdict(one).items() if name != "namespace"]
    parts = [counted(count, name.removesuffix("s")) for name, count in counts if count]
    return ", ".join(parts) or "nothing"


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
