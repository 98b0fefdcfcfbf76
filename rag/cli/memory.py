"""`rag memory`: maintain the turn store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from rag.cli import options
from rag.cli.settings_options import settings_from
from rag.cli.terminal import confirm, listing, opened_engine, out, result, say, wants_json
from rag.errors import ConfigError
from rag.parsing import age_text
from rag.ports import Persistence, PersistenceKind, PersistentStore
from rag.quoting import counted
from rag.types import now_utc

if TYPE_CHECKING:
    from rag.service.upkeep.namespace_retention import RetentionPolicy
    from rag.service.upkeep.namespaces import Holdings

app = options.group("Maintain the turn store.")


@app.command()
def sweep() -> None:
    """Remove stored files, prompts and cached answers whose turns no longer exist.

    This happens automatically when turns are deleted or expire. The command checks all of them, and so also
    finds what a killed process left behind.

    rag memory sweep
    """
    from rag.service.upkeep.retention import KeptFiles

    with opened_engine() as engine:
        gone = KeptFiles(engine.turns, engine.settings.namespace).sweep()
        result({"removed": gone}, f"removed {counted(gone, 'stored file')}")


@app.command()
def namespaces() -> None:
    """List the namespaces of the turn store, and what each holds.

    rag memory namespaces
    """
    from rag.service.upkeep.namespaces import holdings

    with opened_engine() as engine:
        found = [holdings(engine.turns, name) for name in engine.turns.namespaces()]
        columns = ("conversations", "turns", "facts", "preferences", "cached_answers", "files")
        rows = [(one.namespace or "(default)", *(f"{getattr(one, c):,}" for c in columns)) for one in found]
        titles = ("namespace", *(column.replace("_", " ") for column in columns))
        listing([asdict(one) for one in found], titles, rows, "the turn store is empty")


@app.command()
def delete(
    namespace: Annotated[str, typer.Argument(help='The namespace; "" is the default one.')],
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Delete only conversations that have not changed for this long, such as 90d. Facts and "
            "preferences stay.",
        ),
    ] = None,
) -> None:
    """Delete everything in a namespace: turns, facts, preferences, cached answers and stored files.

    rag memory delete ci

    rag memory delete ci --older-than 90d --yes
    """
    from rag.service.upkeep.namespaces import delete_namespace, holdings

    with opened_engine(settings_from(namespace=namespace)) as engine:
        before = None if older_than is None else now_utc() - options.age(older_than, "--older-than")
        named = _named(namespace)
        if before is None:
            say(f"rag: {named} holds {_held(holdings(engine.turns, namespace))}")
            question = f"delete all of {named}?"
        else:
            old = [one for one in engine.turns.conversations(namespace=namespace) if one.updated < before]
            question = (
                f"delete {counted(len(old), 'conversation')} of {named}, last written before {before:%F}?"
            )
        confirm(question, always_ask=True)
        gone = delete_namespace(engine.turns, namespace, before=before)
        result(asdict(gone), f"deleted {_held(gone)}")


@app.command()
def retention(
    namespace: Annotated[
        str | None, typer.Argument(help='The namespace; "" is the default one. Default: show all policies.')
    ] = None,
    age: Annotated[
        str | None,
        typer.Argument(
            metavar="[AGE]",
            help="How long to keep turns, facts and cached answers, such as 90d; `off`: for ever.",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Delete now what has expired.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what expires.")] = False,
) -> None:
    """Show or set for how long a namespace keeps turns, facts and cached answers.

    Servers and workers that use the turn store delete what has expired, once an hour. Without them, use
    --apply.

    rag memory retention

    rag memory retention ci 90d --dry-run

    rag memory retention ci 90d

    rag memory retention ci off

    rag memory retention --apply
    """
    from rag.service.upkeep.namespace_retention import (
        RetentionPolicy,
        expire,
        policies,
        policy_of,
        set_policy,
    )

    with opened_engine(settings_from(namespace=namespace)) as engine:
        store = engine.turns
        if namespace is None:
            chosen = policies(store)
        elif age is None:
            chosen = [one for one in [policy_of(store, namespace)] if one is not None]
        else:
            chosen = [] if age == "off" else [RetentionPolicy(namespace, options.age(age, "AGE"))]
        now = now_utc()
        expired = [expire(store, one.namespace, now - one.age, dry_run=True) for one in chosen]
        if namespace is not None and age is not None and not dry_run:
            for gone in expired:
                if (held := _held(gone)) != "nothing":
                    confirm(f"let {held} of {_named(namespace)} expire?", always_ask=True)
            set_policy(store, namespace, chosen[0].age if chosen else None)
        if apply and not dry_run:
            for one in chosen:
                expire(store, one.namespace, now - one.age)
        _show_retention(chosen, expired, deleted=apply and not dry_run)


def _show_retention(chosen: Sequence[RetentionPolicy], expired: Sequence[Holdings], *, deleted: bool) -> None:
    what = "deleted" if deleted else "expired"
    each = list(zip(chosen, expired, strict=True))
    values = [
        {"namespace": one.namespace, "age_s": one.age.total_seconds(), what: asdict(gone)}
        for one, gone in each
    ]
    rows = [
        (one.namespace or "(default)", age_text(one.age), last_applied(one), _held(gone))
        for one, gone in each
    ]
    columns = ("namespace", "keeps", "last applied", what)
    listing(values, columns, rows, "no retention is set; everything is kept")


def last_applied(policy: RetentionPolicy) -> str:
    """Return when a policy was applied last."""
    return "never" if policy.applied is None else f"{policy.applied.astimezone():%F %H:%M}"


def _named(namespace: str) -> str:
    return f"the namespace {namespace}" if namespace else "the default namespace"


def _held(one: Holdings) -> str:
    """Return what a namespace holds in words, without what it does not hold."""
    counts = [(name.replace("_", " "), count) for name, count in asdict(one).items() if name != "namespace"]
    parts = [counted(count, name.removesuffix("s")) for name, count in counts if count]
    return ", ".join(parts) or "nothing"


@app.command()
def persistence(
    kind: Annotated[
        PersistenceKind | None,
        typer.Option("--set", metavar="KIND", help=f"One of {', '.join(get_args(PersistenceKind))}."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Write a snapshot now. The server blocks until it is done.")
    ] = False,
    bgsave: Annotated[bool, typer.Option("--bgsave", help="Write a snapshot in the background.")] = False,
) -> None:
    """Show or set the persistence of a Redis or Valkey server.

    Kinds: `rdb` writes periodic snapshots; `aof` logs every write and syncs once a second; `aof-always` syncs
    before a write is acknowledged, so that a crash loses nothing; `rdb+aof` and `rdb+aof-always` do both;
    `none` writes nothing to disk.

    rag memory persistence --memory redis://127.0.0.1:6379

    rag memory persistence --set aof-always --save --memory redis://127.0.0.1:6379
    """
    with opened_engine() as engine:
        store = engine.turns
        if not isinstance(store, PersistentStore):
            raise ConfigError(
                "this turn store has no persistence settings: SQLite and Postgres keep every turn, "
                "memory: keeps none; name a Redis or Valkey server with --memory"
            )
        if kind is not None and not store.set_persistence(kind):
            say("rag: the server cannot write its settings file: the change is lost when it stops")
        if save or bgsave:
            store.save(background=not save)
        if wants_json() or not (kind or save or bgsave):
            _show(store.persistence())


def _show(found: Persistence) -> None:
    row = (found.server, _snapshots(found.snapshots), found.log or "none", _since(found))
    values = {**found._asdict(), "saved": found.saved.isoformat()}
    listing(values, ("server", "snapshot after", "log synced", "last snapshot"), [row])
    if found.failed and not wants_json():
        out(f"{found.server}: the last write failed; check its log and its free disk space")


def _snapshots(setting: str) -> str:
    words = setting.split()
    pairs = zip(words[::2], words[1::2], strict=False)
    return ", ".join(f"{seconds} s with {writes} writes" for seconds, writes in pairs) or "never"


def _since(found: Persistence) -> str:
    busy = ", writing" if found.busy else ""
    return f"{found.saved.astimezone():%Y-%m-%d %H:%M:%S}, {found.unsaved} writes ago{busy}"
